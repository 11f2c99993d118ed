// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/event.hpp"
#include "layout/redactor.hpp"
#include "layout/ulid.hpp"
#include "recorder/clock.hpp"
#include "recorder/pipeline.hpp"
#include "recorder/recovery.hpp"
#include "recorder/session.hpp"
#include "recorder/work.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace relay::recorder {

// Who speaks: a connection, and the process whose death means that nobody will speak on it any more.
struct Speaker {
    std::uint64_t connection = 0;
    std::int64_t pid = 0;
};

// What a new session needs to know of the disk; found out by Catalog, on a thread that may wait.
struct SessionPlan {
    layout::Ulid id;
    layout::Claim claim;
    std::string volume;  // Pipeline::volume_name()
    layout::Meta meta;   // everything but what the event itself says
    std::vector<std::string> lineage;
};

// What became of a request at once.
struct Reply {
    enum class Kind {
        pending,  // recorded in memory; the outcome will come back from the pipeline
        ack,      // nothing had to be recorded: `waiter` is answered now
        refused,  // nothing was recorded
        absent,   // the session is not in the table: look on disk, adopt() it, ask again
    };
    Kind kind = Kind::refused;
    Waiter waiter;
    layout::Refusal refusal;
};

// The session table: who owns which session, and what each event becomes. Belongs to the io thread and
// touches no disk: changes go to the pipeline, and everything that needs a disk to answer comes in as
// a value.
class Recorder {
public:
    Recorder(Pipeline& pipeline, const Clock& clock) : pipeline_(pipeline), clock_(clock) {}

    void set_orphan_grace(std::int64_t grace_ms) { orphan_grace_ms_ = grace_ms; }

    // Hides secrets before anything reaches the journal; null: nothing is hidden. A piece of a stream that ends inside what may be a
    // secret waits, unrecorded and unanswered, for the next piece, for anything else that happens to its session, or for 150 ms.
    void set_redactor(std::shared_ptr<const layout::Redactor> redactor) {
        redactor_ = std::move(redactor);
    }

    // Sessions that recovery brought back. Those whose owner is dead are sealed now; the others wait
    // for their owner to come back.
    void adopt_recovered(RecoveredSession recovered);

    // A session that exists on disk and is not in the table.
    void adopt(SessionState state, const std::string& volume);

    // One that is at rest in the table was read from disk again. If its timeline has gone on there, by
    // `agent-relay scrub`, what was read counts.
    void refresh(SessionState state);

    // The same, once its disk has come back: treated as recovery would have treated it.
    void adopt_returned(SessionState state, const std::string& volume);
    // Sessions that cannot be read back yet, because their disk is away; until noticed() says that it is
    // back, whoever asks for them is told to wait.
    void await_disks(const std::vector<layout::Ulid>& sessions);
    [[nodiscard]] bool awaits_disk(const layout::Ulid& session) const {
        return waiting_.contains(session);
    }

    [[nodiscard]] bool knows(const layout::Ulid& session) const { return table_.contains(session); }

    // `inflight_bytes` is what the connection's account gets back with the outcome.
    [[nodiscard]] Reply start(
        const layout::Event& event,
        SessionPlan plan,
        const Speaker& speaker,
        std::int64_t inflight_bytes);
    [[nodiscard]] Reply
    handle(const layout::Event& event, const Speaker& speaker, std::int64_t inflight_bytes);

    // The connection is closed and everything it sent has been handled.
    void connection_closed(std::uint64_t connection);
    // The process that owns this session is dead and what it sent has been handled.
    void owner_died(const layout::Ulid& session, std::int64_t pid);
    // Sessions owned through this connection.
    [[nodiscard]] std::vector<layout::Ulid> owned_by(std::uint64_t connection) const;

    // From the pipeline, on the io thread.
    void settled(const Outcome& outcome);
    void noticed(const Notice& notice);

    // Does what is due: lagging timelines and meta.json, sessions whose grace is over. Returns in how
    // many milliseconds to come again; none when nothing is pending.
    [[nodiscard]] std::optional<std::int64_t> tick();

    // Brings every timeline and meta.json up to date, for an orderly stop.
    void catch_up_all();

    [[nodiscard]] const Session* find(const layout::Ulid& session) const;
    // In the table, ended, and its files say all that it knows.
    [[nodiscard]] bool is_at_rest(const layout::Ulid& session) const;
    [[nodiscard]] std::size_t active_sessions() const;
    [[nodiscard]] std::size_t sessions() const { return table_.size(); }
    [[nodiscard]] std::vector<layout::Ulid> ids() const;
    [[nodiscard]] std::uint64_t events() const { return events_; }
    [[nodiscard]] std::uint64_t redactions() const { return redactions_; }
    // The process whose death ends the ownership, and the connection that owns; 0 when there is none.
    [[nodiscard]] Speaker owner_of(const layout::Ulid& session) const;
    // Changes whose outcome has not come back yet, of all sessions together.
    [[nodiscard]] std::int64_t outstanding() const { return outstanding_; }
    // Changes handed to the pipeline since the start; Pipeline::changes() catches up with it.
    [[nodiscard]] std::uint64_t submitted() const { return submitted_; }

    // The answer to an outcome: an ack, or the refusal it turned into.
    [[nodiscard]] static std::optional<layout::Refusal> refusal_of(const Outcome& outcome);

private:
    // A piece of a stream that waits for what follows it.
    struct HeldPiece {
        layout::Event event;  // its body's view is set when it is recorded
        std::string bytes;
        Speaker speaker;
        std::int64_t inflight_bytes = 0;
    };

    struct Entry {
        Entry(Session begun, std::shared_ptr<SessionFiles> opened)
            : session(std::move(begun)), files(std::move(opened)) {}

        Session session;
        std::shared_ptr<SessionFiles> files;
        std::uint64_t owner = 0;  // connection; 0: nobody
        std::int64_t owner_pid = 0;
        std::optional<std::int64_t> orphaned_until_ms;
        std::string orphan_reason;
        std::int64_t outstanding = 0;  // changes whose outcome has not come back
        bool deferred = false;         // its files lag behind the journal
        bool gone = false;
        std::vector<HeldPiece> held;  // all of one stream, in the order they came
        std::int64_t held_since_ms = 0;
        std::optional<std::int64_t> timeline_lags_since_ms;
        std::optional<std::int64_t> meta_lags_since_ms;
    };

    void submit(Entry& entry, Step step, Waiter waiter);
    void submit_own(Entry& entry, Step step);  // nobody waits
    void watch_lag(Entry& entry);
    void orphan(Entry& entry, std::string_view reason, std::int64_t grace_ms);
    void await_owner(Entry& entry);
    void abandon(Entry& entry);
    void drop_if_done(const layout::Ulid& session);
    // Hides what is secret in it, and records it.
    [[nodiscard]] Reply hide_and_record(
        Entry& entry,
        const layout::Event& event,
        const Speaker& speaker,
        std::int64_t inflight_bytes);
    [[nodiscard]] Reply take_piece(
        Entry& entry,
        const layout::Event& event,
        const Speaker& speaker,
        std::int64_t inflight_bytes);
    [[nodiscard]] Reply record(
        Entry& entry,
        const layout::Event& event,
        std::int64_t redactions,
        const Speaker& speaker,
        std::int64_t inflight_bytes);
    // Records the held pieces as far as they are decided: all of them unless the rest is unknown.
    void settle_held(Entry& entry, layout::Redactor::Rest rest);
    [[nodiscard]] Reply finish(
        Entry& entry,
        StepResult result,
        const layout::Event& event,
        const Speaker& speaker,
        std::int64_t inflight_bytes);
    [[nodiscard]] Reply attach(
        Entry& entry,
        const layout::Event& event,
        const layout::SessionAttach& attach,
        const Speaker& speaker,
        std::int64_t inflight_bytes);
    [[nodiscard]] std::optional<layout::Refusal>
    may_speak(const Entry& entry, const layout::Event& event, const Speaker& speaker) const;
    // Nobody owns what has ended: who owned it may still be connected, and anybody may reopen it.
    [[nodiscard]] static bool has_owner(const Entry& entry) {
        return entry.owner != 0 && entry.session.active();
    }

    Pipeline& pipeline_;
    const Clock& clock_;
    std::shared_ptr<const layout::Redactor> redactor_;
    std::int64_t orphan_grace_ms_ = 30'000;
    std::unordered_map<layout::Ulid, Entry> table_;
    std::unordered_set<layout::Ulid> waiting_;
    std::vector<layout::Ulid> lagging_;
    std::vector<layout::Ulid> orphans_;
    std::vector<layout::Ulid> holding_;  // have held pieces, or had
    std::uint64_t events_ = 0;
    std::uint64_t redactions_ = 0;
    std::int64_t outstanding_ = 0;
    std::uint64_t submitted_ = 0;
};

}  // namespace relay::recorder
