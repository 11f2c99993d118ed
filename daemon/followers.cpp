// SPDX-License-Identifier: Apache-2.0
#include "daemon/followers.hpp"

#include "daemon/connection.hpp"
#include "layout/json_writer.hpp"

#include <algorithm>
#include <utility>

namespace relay::daemon {

namespace {

// Read from disk at a time, and the most that waits unsent for one follower.
constexpr std::int64_t feed_bytes = std::int64_t{256} * 1024;
constexpr std::chrono::seconds patience{5};

}  // namespace

void Followers::follow(
    const std::shared_ptr<Connection>& connection, recorder::TimelineCursor cursor) {
    auto follower = std::make_shared<Follower>();
    follower->connection = connection;
    const layout::Ulid session = cursor.session;
    follower->cursors[session] = {std::move(cursor), true};
    followers_.push_back(follower);
    feed(follower);
}

void Followers::follow_all(const std::shared_ptr<Connection>& connection) {
    auto follower = std::make_shared<Follower>();
    follower->connection = connection;
    follower->all = true;
    followers_.push_back(std::move(follower));
}

void Followers::touch(
    const layout::Ulid& session, const std::string& directory, std::int64_t last_seq) {
    for (const auto& follower : followers_) {
        auto known = follower->cursors.find(session);
        if (known == follower->cursors.end()) {
            if (!follower->all) {
                continue;
            }
            recorder::TimelineCursor cursor;
            cursor.session = session;
            cursor.directory = directory;
            cursor.from_seq = last_seq;
            cursor.next_seq = last_seq;
            known = follower->cursors.emplace(session, Cursor{std::move(cursor), true}).first;
        }
        known->second.changed = true;
        feed(follower);
    }
}

void Followers::feed(const std::shared_ptr<Follower>& follower) {
    const bool busy = follower->reading || follower->connection->unsent_bytes() > 0;
    if (busy || !follower->connection->is_open()) {
        return;
    }
    const auto next =
        std::find_if(follower->cursors.begin(), follower->cursors.end(), [](const auto& item) {
            return item.second.changed;
        });
    if (next == follower->cursors.end()) {
        return;
    }
    follower->reading = true;
    next->second.changed = false;
    const layout::Ulid session = next->first;
    auto cursor = std::make_shared<recorder::TimelineCursor>(next->second.at);
    auto lines = std::make_shared<std::string>();
    background_(
        [cursor, lines] {
            // A session deleted while it is followed has nothing more to say.
            if (auto read = recorder::read_timeline(*cursor, feed_bytes); read.ok()) {
                *lines = std::move(read.value());
            }
        },
        [this, follower, session, cursor, lines] {
            follower->reading = false;
            Cursor& place = follower->cursors[session];
            const bool moved = cursor->offset != place.at.offset;
            place.at = *cursor;
            place.changed = place.changed || moved;  // there may be more behind it
            follower->connection->outgoing() += *lines;
            follower->connection->flush();
            feed(follower);
        });
}

void Followers::feed_more(std::uint64_t connection) {
    // Feeding answers in the background, so the list does not change meanwhile.
    for (const auto& follower : followers_) {
        if (follower->connection->number() == connection) {
            feed(follower);
        }
    }
}

void Followers::forget(std::uint64_t connection) {
    std::erase_if(followers_, [connection](const auto& follower) {
        return follower->connection->number() == connection;
    });
}

void Followers::cut_off(Follower& follower) {
    std::string& out = follower.connection->outgoing();
    for (const auto& [session, cursor] : follower.cursors) {
        if (!cursor.changed) {
            continue;
        }
        const std::string seq = std::to_string(cursor.at.next_seq);
        layout::JsonObject line(out, layout::JsonObject::Form::compact);
        line.string("type", "error");
        line.string("code", "overloaded");
        line.string("session", session.text());
        line.integer("seq", cursor.at.next_seq);
        line.string(
            "message",
            "this follower has not read for " + std::to_string(patience.count())
                + " s and is cut off; come back with follow and from_seq " + seq);
        line.finish();
        out += '\n';
    }
    follower.connection->close_after_flush();
}

bool Followers::check_patience(std::chrono::steady_clock::time_point now) {
    bool somebody_waits = false;
    // Cutting off may end a connection, and that changes the list.
    const std::vector<std::shared_ptr<Follower>> followers = followers_;
    for (const auto& follower : followers) {
        const bool wants_more =
            std::any_of(follower->cursors.begin(), follower->cursors.end(), [](const auto& item) {
                return item.second.changed;
            });
        if (!wants_more) {
            continue;
        }
        if (follower->connection->unsent_bytes() == 0) {
            feed(follower);
            somebody_waits = true;
            continue;
        }
        if (now - follower->connection->blocked_since() >= patience) {
            cut_off(*follower);
            forget(follower->connection->number());
            continue;
        }
        somebody_waits = true;
    }
    return somebody_waits;
}

}  // namespace relay::daemon
