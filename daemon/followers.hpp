// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/ulid.hpp"
#include "recorder/timeline_tail.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace relay::daemon {

class Connection;

// Connections that want to hear what happens in sessions. Each has a cursor a session into the plain
// files and is fed from them, so a slow one lags behind on disk and not in memory; one that does not read
// at all is cut off with a last line that says where to come back. Belongs to the io thread.
class Followers {
public:
    // Runs the first function where it may wait for a disk, then the second on the io thread.
    using Background = std::function<void(std::function<void()> work, std::function<void()> then)>;

    explicit Followers(Background background) : background_(std::move(background)) {}

    // One session, from the place of the cursor on.
    void follow(const std::shared_ptr<Connection>& connection, recorder::TimelineCursor cursor);
    // Every session, from now on.
    void follow_all(const std::shared_ptr<Connection>& connection);

    // Something of this session has become visible. `last_seq` is its newest timeline number.
    void touch(const layout::Ulid& session, const std::string& directory, std::int64_t last_seq);
    [[nodiscard]] bool empty() const { return followers_.empty(); }
    [[nodiscard]] std::size_t size() const { return followers_.size(); }

    // This connection has taken what it was sent.
    void feed_more(std::uint64_t connection);
    void forget(std::uint64_t connection);

    // Cuts off who has not read for too long. True while somebody might have to be.
    bool check_patience(std::chrono::steady_clock::time_point now);

private:
    struct Cursor {
        recorder::TimelineCursor at;
        bool changed = false;  // there is something to read
    };
    struct Follower {
        std::shared_ptr<Connection> connection;
        bool all = false;
        bool reading = false;
        std::unordered_map<layout::Ulid, Cursor> cursors;
    };

    void feed(const std::shared_ptr<Follower>& follower);
    void cut_off(Follower& follower);

    Background background_;
    std::vector<std::shared_ptr<Follower>> followers_;
};

}  // namespace relay::daemon
