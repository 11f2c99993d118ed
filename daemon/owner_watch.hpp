// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/ulid.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

namespace boost::asio {
class io_context;
}  // namespace boost::asio

namespace relay::daemon {

// Notices the death of the processes that own sessions, by pidfd: a socket alone does not tell, because a
// grandchild may hold it open. Belongs to the io thread.
class OwnerWatch {
public:
    // Called once a process is dead, with the sessions watched for it.
    using Died = std::function<void(std::int64_t pid, const std::vector<layout::Ulid>& sessions)>;

    OwnerWatch(boost::asio::io_context& io, Died died);
    ~OwnerWatch();
    OwnerWatch(const OwnerWatch&) = delete;
    OwnerWatch& operator=(const OwnerWatch&) = delete;

    // A process that is dead already is reported from the event loop, not from here.
    void watch(const layout::Ulid& session, std::int64_t pid);
    void forget(const layout::Ulid& session);

private:
    struct Watched;
    void report(std::int64_t pid);

    boost::asio::io_context& io_;
    Died died_;
    std::unordered_map<std::int64_t, std::shared_ptr<Watched>> watched_;
    std::unordered_map<layout::Ulid, std::int64_t> pids_;
};

}  // namespace relay::daemon
