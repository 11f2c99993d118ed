// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "delivery/descriptor.hpp"
#include "delivery/pending_event.hpp"
#include "delivery/spool_file.hpp"
#include "layout/result.hpp"

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace relay::delivery {

// Where events of a session go. Any thread; never waits for the daemon.
class EventSink {
public:
    EventSink() = default;
    EventSink(const EventSink&) = delete;
    EventSink& operator=(const EventSink&) = delete;
    virtual ~EventSink() = default;

    // `members` as in PendingEvent.
    virtual void event(std::string members) = 0;
    virtual void bytes(AgentStream stream, std::string_view bytes) = 0;
};

// The name of a session that begins now.
[[nodiscard]] std::string new_session_id();

// The line of events between an agent, who must never wait, and the daemon, who may be slow, dead or absent.
// Small lines are kept in memory; a line that grows beyond `memory_bytes_max`, or that nobody takes, moves to a
// spool file and back when all of it is acknowledged. Events get their numbers here: 1, 2, 3 …
//
// event() and bytes() are called by the threads that read from the agent, the rest by one other thread.
class Outbox final : public EventSink {
public:
    static constexpr std::size_t memory_bytes_max = 4 << 20;
    static constexpr std::size_t stream_event_bytes_max = 64 << 10;

    // `spool_directory` is made only when it is needed.
    Outbox(std::string session, std::string spool_directory);
    // What another process left behind.
    explicit Outbox(SpoolFile left);

    void event(std::string members) override;
    // Added to the last event when that is one of the same stream and not taken yet.
    void bytes(AgentStream stream, std::string_view bytes) override;

    [[nodiscard]] const std::string& session() const { return session_; }

    // Readable when there may be something to take.
    [[nodiscard]] int wake_descriptor() const { return wake_.get(); }
    void wake() const;
    void clear_wake() const;

    struct Numbered {
        std::int64_t seq = 0;
        PendingEvent event;
    };
    // The next event that was not taken.
    [[nodiscard]] std::optional<Numbered> take();

    // The daemon has everything up to `seq`.
    void acknowledge(std::int64_t seq);

    // After a lost connection: the daemon has everything up to `last_seq`, and the next take() begins behind
    // it. False when events between what is kept and `last_seq` are missing here or there.
    [[nodiscard]] bool rewind(std::int64_t last_seq);

    // Puts events before the next one to take; everything behind them gets a greater number. Only after
    // rewind() and before take().
    void put_before(std::vector<PendingEvent> inserted);
    // Puts another event in the place of the next one to take. Likewise.
    void replace_next(PendingEvent event);
    // The next one to take, without taking it.
    [[nodiscard]] std::optional<PendingEvent> peek();

    // Writes what waits to the spool file, so that it outlives this process.
    void spill();
    // Forgets everything, and whatever comes from now on.
    void abandon();

    [[nodiscard]] bool is_empty() const;
    // True once everything so far is acknowledged; false when that takes longer, or was abandoned. Any thread.
    [[nodiscard]] bool wait_empty(std::chrono::milliseconds most) const;
    // Number of the last event while they go to the spool file; 0 while they do not.
    [[nodiscard]] std::int64_t spooled_events() const;
    [[nodiscard]] std::int64_t acknowledged() const;

    // Nothing more will come and nobody delivers any more. True when everything was acknowledged: then the spool
    // file is gone. Otherwise what is left lies in it, synced, for the next call; the path, or why it could
    // not be written.
    [[nodiscard]] bool close(layout::Result<std::string>& left_in);

private:
    // The spool file while it is in use: everything that is not acknowledged is in it, nothing in memory.
    struct Spooled {
        SpoolFile file;
        off_t acknowledged_at;   // where the first record that is not acknowledged begins
        off_t next_at;           // where the next one to take begins
        std::deque<off_t> ends;  // of the records that were taken and not acknowledged
        std::int64_t records;    // not acknowledged
    };

    void add(PendingEvent event);
    void add_bytes(AgentStream stream, std::string_view part);
    [[nodiscard]] bool join_last(AgentStream stream, std::string_view part);
    [[nodiscard]] layout::Status move_to_spool();
    void keep_in_memory(PendingEvent event);
    [[nodiscard]] std::int64_t waiting() const;

    const std::string session_;
    const std::string spool_directory_;
    Descriptor wake_;
    mutable std::mutex mutex_;
    mutable std::condition_variable emptied_;
    std::deque<PendingEvent> events_;  // not acknowledged; empty while spooled_
    std::size_t memory_bytes_ = 0;
    std::optional<Spooled> spooled_;
    std::optional<SpoolFile> idle_file_;  // made before and empty now
    std::int64_t acknowledged_ = 0;
    std::int64_t taken_ = 0;  // seq of the last one taken
    std::uint64_t dropped_bytes_ = 0;
    bool abandoned_ = false;
};

}  // namespace relay::delivery
