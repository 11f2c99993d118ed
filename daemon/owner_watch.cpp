// SPDX-License-Identifier: Apache-2.0
#include "daemon/owner_watch.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace relay::daemon {

namespace asio = boost::asio;

struct OwnerWatch::Watched {
    explicit Watched(asio::io_context& io) : descriptor(io) {}
    asio::posix::stream_descriptor descriptor;
    std::vector<layout::Ulid> sessions;
};

OwnerWatch::OwnerWatch(asio::io_context& io, Died died) : io_(io), died_(std::move(died)) {
}

OwnerWatch::~OwnerWatch() = default;

void OwnerWatch::watch(const layout::Ulid& session, std::int64_t pid) {
    forget(session);
    if (pid <= 0) {
        return;
    }
    pids_[session] = pid;
    auto& watched = watched_[pid];
    if (watched) {
        watched->sessions.push_back(session);
        return;
    }
    watched = std::make_shared<Watched>(io_);
    watched->sessions.push_back(session);
    const auto report_watched = [this, pid, weak = std::weak_ptr(watched)] {
        if (!weak.expired()) {
            report(pid);
        }
    };
    const long fd = ::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0);
    if (fd < 0) {
        if (errno == ESRCH) {
            asio::post(io_, report_watched);
        }
        return;  // no descriptor left: the end of the connection still tells
    }
    watched->descriptor.assign(static_cast<int>(fd));
    watched->descriptor.async_wait(
        asio::posix::stream_descriptor::wait_read,
        [report_watched](const boost::system::error_code& error) {
            if (!error) {
                report_watched();
            }
        });
}

void OwnerWatch::forget(const layout::Ulid& session) {
    const auto known = pids_.find(session);
    if (known == pids_.end()) {
        return;
    }
    const auto watched = watched_.find(known->second);
    pids_.erase(known);
    if (watched == watched_.end()) {
        return;
    }
    std::erase(watched->second->sessions, session);
    if (watched->second->sessions.empty()) {
        watched_.erase(watched);
    }
}

void OwnerWatch::report(std::int64_t pid) {
    const auto found = watched_.find(pid);
    if (found == watched_.end()) {
        return;
    }
    const std::vector<layout::Ulid> sessions = std::move(found->second->sessions);
    watched_.erase(found);
    for (const layout::Ulid& session : sessions) {
        pids_.erase(session);
    }
    died_(pid, sessions);
}

}  // namespace relay::daemon
