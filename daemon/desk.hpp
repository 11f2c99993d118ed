// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daemon/config.hpp"
#include "daemon/connection.hpp"
#include "daemon/followers.hpp"
#include "daemon/log.hpp"
#include "daemon/memory_budget.hpp"
#include "daemon/owner_watch.hpp"
#include "layout/answer.hpp"
#include "layout/event.hpp"
#include "recorder/catalog.hpp"
#include "recorder/pipeline.hpp"
#include "recorder/recorder.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace relay::daemon {

// Where requests are taken and answers given: decodes lines, lets the recorder decide, fetches from disk
// what it lacks, and keeps every connection's account of unanswered bytes. Belongs to the io thread.
class Desk : public Connection::Events {
public:
    struct Parts {
        boost::asio::io_context& io;
        recorder::Pipeline& pipeline;
        recorder::Recorder& recorder;
        recorder::Catalog& catalog;
        const Log& log;
        Followers::Background background;
        std::function<void()> volumes_changed;  // a session may have come with a new volume
        std::function<void()> work_pending;     // the recorder's tick may be due sooner than known
    };

    Desk(Parts parts, const Config& config);
    void configure(const Config& config);

    void accepted(int fd, std::int64_t peer_pid);

    // From the pipeline, on the io thread.
    void settled(const std::vector<recorder::Outcome>& outcomes);
    void noticed(const recorder::Notice& notice);
    void answer_flushes();
    // Once a second while it returns true.
    bool check_followers();
    [[nodiscard]] bool watches_followers() const { return !followers_.empty(); }

    // An orderly stop: nothing more is read, what was read is finished.
    void stop_reading();
    void close_all();

    [[nodiscard]] std::size_t connections() const { return connections_.size(); }
    void watch_owner(const layout::Ulid& session);

    // Connection::Events
    void line_arrived(Connection& connection, std::string_view line) override;
    void line_too_long(Connection& connection) override;
    void flushed(Connection& connection) override;
    void drained(Connection& connection) override;
    void closed(Connection& connection) override;

private:
    struct FlushWaiter {
        std::uint64_t connection = 0;
        std::string id;
        std::uint64_t after_changes = 0;  // all of these were accepted before the flush
        std::uint64_t ticket = 0;  // of the checkpoint that covers them; 0: not asked for yet
    };

    void take_line(Connection& connection, std::string_view line);
    void route(Connection& connection, const layout::Event& event, std::int64_t event_bytes);
    void start_session(Connection& connection, layout::Event event, std::int64_t event_bytes);
    void planned(
        const std::shared_ptr<Connection>& connection,
        const layout::Event& event,
        layout::Result<recorder::SessionPlan> plan,
        std::int64_t event_bytes);
    void record(Connection& connection, const layout::Event& event, std::int64_t event_bytes);
    void hand_over(Connection& connection, const layout::Event& event, std::int64_t event_bytes);
    void reply(
        Connection& connection,
        const layout::Event& event,
        const recorder::Reply& answer,
        std::int64_t event_bytes);
    void look_up(Connection& connection, layout::Event event, std::int64_t event_bytes);
    void found(
        const std::shared_ptr<Connection>& connection,
        const layout::Event& event,
        layout::Result<recorder::FoundSession> found,
        std::int64_t event_bytes);
    void answer_from_disk(
        Connection& connection,
        const layout::Event& event,
        std::function<layout::Result<std::string>()> work);
    void follow(Connection& connection, const layout::Event& event);
    [[nodiscard]] layout::Result<recorder::TimelineCursor>
    place_to_follow(recorder::TimelineCursor cursor, bool from_now) const;
    void begin_following(
        const std::shared_ptr<Connection>& connection,
        std::string_view id,
        recorder::TimelineCursor cursor);
    void flush(Connection& connection, const layout::Event& event);
    void status(Connection& connection, const layout::Event& event);
    void hello(Connection& connection, const layout::Event& event);
    [[nodiscard]] std::string status_fields() const;

    void ack(Connection& connection, std::string_view id, std::string_view fields);
    void refuse(Connection& connection, const layout::Refusal& refusal);
    void charge(Connection& connection, std::int64_t bytes);
    void discharge(Connection& connection, std::int64_t bytes);
    void relieve();
    void forget_owner_if_dropped(const layout::Ulid& session);
    void owner_died(std::int64_t pid, const std::vector<layout::Ulid>& sessions);
    void report_volumes();
    void read_back(const recorder::Notice& notice);
    [[nodiscard]] std::shared_ptr<Connection> find(std::uint64_t number) const;

    Parts parts_;
    layout::EventDecoder decoder_;
    MemoryBudget budget_;
    SocketWatch sockets_;
    Followers followers_;
    OwnerWatch owners_;
    std::unordered_map<std::uint64_t, std::shared_ptr<Connection>> connections_;
    std::uint64_t next_connection_ = 1;
    std::vector<FlushWaiter> flushes_;
    // Sessions whose owner is dead, until its connection is drained.
    std::unordered_map<std::uint64_t, std::vector<std::pair<layout::Ulid, std::int64_t>>> dying_;
    std::unordered_set<std::uint64_t> over_budget_;
    std::int64_t event_bytes_max_ = 0;
    std::size_t connections_max_ = 0;
    bool stopping_ = false;
    std::unordered_set<std::string> sick_volumes_;  // as last logged
    std::uint64_t acks_ = 0;
    std::uint64_t refused_ = 0;
    std::uint64_t refused_connections_ = 0;
    const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

}  // namespace relay::daemon
