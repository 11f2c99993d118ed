// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/documents.hpp"
#include "layout/event.hpp"
#include "layout/journal_change.hpp"
#include "layout/sha256.hpp"
#include "layout/timeline.hpp"
#include "layout/timestamp.hpp"
#include "layout/ulid.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace relay::recorder {

struct Declared;  // what a checkpoint says; notes.hpp

// What one event leads to: the change that the journal takes, and what its ack will say.
struct Step {
    std::string change;  // one encoded layout change; empty when there is nothing to record
    std::int64_t turn = 0;
    std::optional<std::int64_t> seq;
    bool duplicate = false;
    std::string fields;  // further members of the ack
};
using StepResult = std::variant<Step, layout::Refusal>;

// A growing file of the open turn: how long it is, and the hash of all of it.
struct GrowingFile {
    std::int64_t bytes = 0;
    layout::Sha256 hash;
    std::string tail;  // the last bytes, a little more than output_tail_bytes_max

    // Counts and hashes what is appended to the file.
    void grow(std::string_view more);
    void keep_tail(std::string_view more);
};
inline constexpr std::size_t output_tail_bytes_max = 2048;

// The turn that is running.
struct OpenTurn {
    std::int64_t number = 0;
    layout::Timestamp started_at;
    std::optional<std::string> model;
    layout::FileSeal prompt;
    GrowingFile output;
    GrowingFile stderr_log;
    std::vector<layout::ToolCall> tools;
    // Notes of the known kinds in the order they came: compact JSON, decisions and blockers already with
    // their source and turn.
    std::vector<layout::RawJson> decisions;
    std::vector<layout::RawJson> blockers;
    std::vector<layout::RawJson> files;
    std::map<std::string, layout::RawJson> validation;  // name -> value
    std::optional<std::string> next_task;
    // What tools and notes take of the seal. Beyond turn_detail_bytes_max the timeline alone has them.
    std::size_t detail_bytes = 0;
};
inline constexpr std::size_t turn_tools_max = 10'000;
inline constexpr std::size_t turn_detail_bytes_max = std::size_t{4} * 1024 * 1024;

// A decision or blocker: its JSON object, and the id in it. A newer one with the same id replaces it.
struct KnownItem {
    std::string id;
    layout::RawJson json;
};

// What the handoff packet is built from, carried over the turns. Bounded.
struct Knowledge {
    std::vector<KnownItem> decisions;                  // newest last, at most max_decisions
    std::vector<KnownItem> blockers;                   // newest last, at most max_decisions
    std::map<std::string, std::string> touched_files;  // path -> status, at most 4096
    std::optional<bool> dirty;                         // the work tree, by the last turn that told
    std::map<std::string, layout::RawJson> validation;  // name -> {"value":…,"source":…,"turn":…}
    std::optional<std::string> next_task;               // stays until another one is said
    layout::RawJson limit;                              // of the last turn or of the checkpoint
    std::optional<layout::ResumePacket::LastTurn> last_turn;  // the last sealed one
    // The greatest n of the ids "d<n>" and "b<n>" seen so far.
    std::int64_t decision_number = 0;
    std::int64_t blocker_number = 0;
};

// Everything a Session is made of: what a new one starts with and what the loader reads back.
struct SessionState {
    layout::Meta meta;
    layout::Claim claim;
    std::int64_t client_seq = 0;      // last one recorded; 0 when the client numbers nothing
    std::int64_t event_seq = 0;       // number of the last line in the timeline
    std::int64_t timeline_bytes = 0;  // length of events.jsonl
    std::optional<OpenTurn> turn;
    Knowledge knowledge;
    std::set<std::string> attachments;  // names in use under attachments/
    std::vector<std::string> lineage;   // ids from the root to the parent
    // Bytes of the open turn's streams that a crash kept out of the timeline; the next step names them.
    std::vector<layout::StreamRun> uncovered;
};

inline constexpr std::size_t max_decisions = 12;

// One session's state machine: checks what an event may do now, numbers turns and events, assigns
// offsets, writes the documents. Pure: no disk, no clock, no socket; who may speak for the session is
// decided by the caller. The state moves on as soon as a Step is returned, so every Step must reach the
// journal in order. One thread at a time.
class Session {
public:
    // Why session.start may not carry this seq: the first event of a session has number 1 or none.
    [[nodiscard]] static std::optional<layout::Refusal>
    refuse_first_seq(std::optional<std::int64_t> seq);

    // A new session. The first change claims its place, and makes directory, meta.json, timeline and
    // the store's `latest` link (not for an ephemeral one). Sets the times and the status; everything
    // else of meta and claim is the caller's. The ack's fields are slug and path.
    static Session
    begin(SessionState state, std::optional<std::int64_t> seq, layout::Timestamp now, Step& first);

    // One that exists on disk.
    explicit Session(SessionState state);

    // turn.*, session.update, session.attachment, session.checkpoint and session.end. A Refusal changes
    // nothing and uses up no seq. A duplicate has an empty change; its first record may still be on the
    // way to the journal, so its ack has to wait for what was stepped before.
    [[nodiscard]] StepResult handle(const layout::Event& event, layout::Timestamp now);

    // Whether handle() would record it now: neither refused nor a duplicate.
    [[nodiscard]] bool accepts(const layout::Event& event) const;

    // The end of what the open turn has of this stream, a few hundred bytes; empty without one.
    [[nodiscard]] std::string_view written_end(layout::Stream stream) const;

    // Placeholders in what was just stepped. meta.json lags behind by them.
    void count_redactions(std::int64_t count);

    // A new owner. Refused with `ended` when the session is not active and `reopen` is not asked for.
    [[nodiscard]] StepResult attach(
        const layout::SessionAttach& attach,
        std::string owner,
        std::optional<std::int64_t> pid,
        layout::Timestamp now);

    // The owner is lost: seals the open turn as interrupted and checkpoints with this reason. Nothing
    // to do (an empty change) when the session is not active.
    [[nodiscard]] Step abandon(std::string_view reason, layout::Timestamp now);

    // The timeline lags behind the streams by what was coalesced; meta.json by what a running turn
    // changed. The caller asks for both in time.
    [[nodiscard]] bool timeline_lags() const {
        return pending_.has_value() || !state_.uncovered.empty();
    }
    [[nodiscard]] bool meta_lags() const { return meta_lags_; }
    [[nodiscard]] Step catch_up_timeline(layout::Timestamp now);
    [[nodiscard]] Step catch_up_meta(layout::Timestamp now);  // catches up the timeline too

    // What the applier met. Recorded in meta.json's capture and in the timeline.
    [[nodiscard]] Step
    note_conflict(std::string_view file, std::string_view kept, layout::Timestamp now);
    [[nodiscard]] Step
    note_deferral(const layout::CaptureDeferral& deferral, layout::Timestamp now);
    [[nodiscard]] Step note_gap(layout::Timestamp now);

    [[nodiscard]] const layout::Ulid& id() const { return state_.meta.id; }
    [[nodiscard]] const layout::Meta& meta() const { return state_.meta; }
    [[nodiscard]] const layout::Claim& claim() const { return state_.claim; }
    [[nodiscard]] bool active() const {
        return state_.meta.status == layout::SessionStatus::active;
    }
    [[nodiscard]] std::int64_t last_client_seq() const { return state_.client_seq; }
    [[nodiscard]] std::int64_t last_event_seq() const { return state_.event_seq; }
    [[nodiscard]] std::int64_t open_turn() const { return state_.turn ? state_.turn->number : 0; }
    [[nodiscard]] std::string directory() const { return state_.claim.session_directory(id()); }

private:
    // The client's number of an event, and when it came.
    struct Arrival {
        std::optional<std::int64_t> seq;
        layout::Timestamp now;
    };

    [[nodiscard]] std::optional<layout::Refusal> refuse(const layout::Event& event) const;
    [[nodiscard]] layout::Refusal refuse_ended(std::string_view type) const;

    StepResult take(const layout::TurnStart& body, const Arrival& arrival);
    StepResult take(const layout::TurnBytes& body, const Arrival& arrival);
    StepResult take(const layout::TurnTool& body, const Arrival& arrival);
    StepResult take(const layout::TurnNote& body, const Arrival& arrival);
    StepResult take(const layout::TurnEnd& body, const Arrival& arrival);
    StepResult take(const layout::SessionUpdate& body, const Arrival& arrival);
    StepResult take(const layout::SessionAttachment& body, const Arrival& arrival);
    StepResult take(const layout::SessionCheckpoint& body, const Arrival& arrival);
    StepResult take(const layout::SessionEnd& body, const Arrival& arrival);

    // The number of the next line; one of the client's events or one of our own.
    std::int64_t number(const Arrival& arrival);
    std::int64_t number_own(layout::Timestamp now);
    [[nodiscard]] Step step(const Arrival& arrival, std::int64_t turn) const;
    [[nodiscard]] layout::ChangeHeader header(const Arrival& arrival) const;
    [[nodiscard]] std::int64_t current_or_last_turn() const;

    void append_pending(std::string& lines);
    void write_timeline(layout::ChangeWriter& writer, std::string_view lines);
    void write_meta(layout::ChangeWriter& writer);
    void write_resume(layout::ChangeWriter& writer, layout::Timestamp now) const;

    void append_end_line(
        std::string& lines,
        const layout::TurnEnd& end,
        std::int64_t seq,
        const Arrival& arrival) const;
    void open(const layout::TurnStart& body, layout::FileSeal prompt, layout::Timestamp now);
    void seal(layout::ChangeWriter& writer, const layout::TurnEnd& end, layout::Timestamp now);
    void
    write_seal(layout::ChangeWriter& writer, const layout::TurnState& state, std::string_view diff);
    void name_streams();
    [[nodiscard]] std::string free_attachment_name(std::string_view name) const;
    // What session.checkpoint and a lost owner have in common.
    Step checkpoint(
        std::string_view reason, const Declared& declared, const Arrival& arrival, bool by_client);
    // A line of our own, already in `lines`, and meta.json.
    Step write_own(std::string_view lines, layout::Timestamp now);

    SessionState state_;
    std::optional<layout::StreamRun> pending_;  // not named by the timeline yet
    bool meta_lags_ = false;
    // The open turn's files, so that a chunk costs no name.
    std::string output_name_;
    std::string stderr_name_;
};

}  // namespace relay::recorder
