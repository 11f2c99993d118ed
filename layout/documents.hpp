// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/json_writer.hpp"
#include "layout/result.hpp"
#include "layout/timestamp.hpp"
#include "layout/ulid.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The three JSON documents of a session, as docs/format.md names their fields. Pure: text in, text
// out. Every document is written with its members on lines of their own, in the order declared here.

namespace relay::layout {

inline constexpr int format_version = 1;

struct Tokens {
    std::optional<std::int64_t> input;
    std::optional<std::int64_t> output;
    std::optional<std::int64_t> cache_read;
    std::optional<std::int64_t> cache_write;
    std::optional<std::int64_t> reasoning;
    std::optional<std::int64_t> total;

    bool operator==(const Tokens&) const = default;
    // Adds what `other` knows; what neither knows stays unknown. Saturates instead of overflowing.
    void add(const Tokens& other);
};

// The tokens as a compact JSON object with all six members, null where unknown.
void append_tokens(std::string& out, const Tokens& tokens);

struct Repo {
    std::string root;
    std::optional<std::string> branch;  // none when HEAD is detached
    std::optional<std::string> head;    // commit id; none before the first commit
    bool operator==(const Repo&) const = default;
};

enum class SessionStatus { active, checkpointed, completed };
[[nodiscard]] std::string_view name_of(SessionStatus status);

struct Parent {
    std::string session;
    std::optional<std::int64_t> turn;
    std::string relation;  // resume, fork, clone or subagent
    bool operator==(const Parent&) const = default;
};

// A live file that the user changed under the recorder's hands: their version stays, ours goes on
// under recovered/.
struct CaptureConflict {
    std::string file;  // "turns/001-output.md"
    std::string kept;  // "recovered/001-output.md"
    Timestamp at;
    bool operator==(const CaptureConflict&) const = default;
};

// A time in which the session's own disk refused writes and the journal kept the events instead.
struct CaptureDeferral {
    Timestamp from;
    Timestamp until;
    std::string reason;
    bool operator==(const CaptureDeferral&) const = default;
};

// Health of the record itself.
struct Capture {
    std::optional<Timestamp> last_event_at;
    std::int64_t last_seq = 0;  // the client's own numbering; 0 when it uses none
    std::int64_t redactions = 0;
    std::int64_t dropped = 0;
    std::int64_t gaps = 0;
    std::vector<CaptureConflict> conflicts;   // written only when there are any
    std::optional<CaptureDeferral> deferred;  // the latest one; written only when there was one
    bool operator==(const Capture&) const = default;
};

struct Meta {
    Ulid id;
    std::string slug;
    std::optional<std::string> name;
    SessionStatus status = SessionStatus::active;
    std::string agent;
    std::optional<std::string> model;
    std::vector<std::string> command;
    std::string cwd;
    std::optional<Repo> repo;
    std::optional<std::string> worktree;  // the linked worktree, when the store is the main one's
    std::optional<std::string> user;
    std::optional<std::string> host;
    std::optional<std::int64_t> pid;
    Timestamp started_at;
    std::optional<Timestamp> ended_at;
    Timestamp updated_at;
    std::optional<std::int64_t> exit_code;
    std::optional<std::string> error;
    std::int64_t turn_count = 0;
    std::optional<std::int64_t> current_turn;
    std::optional<std::string> objective;  // first prompt, at most 2 KiB
    std::optional<std::string> preview;    // its first 120 characters on one line
    Tokens tokens;
    std::optional<double> cost_usd;
    std::vector<std::string> labels;
    bool flagged = false;
    bool archived = false;
    bool unread = false;
    std::optional<std::string> stage;
    std::optional<Parent> parent;
    std::optional<std::string> checkpoint_reason;
    bool ephemeral = false;  // written only when true
    Capture capture;
    std::optional<std::string> chain;
    RawJson extra;  // an object
    // Members this version does not know, kept and written after ours: `"key":value` pairs.
    std::vector<std::pair<std::string, RawJson>> unknown;
};

[[nodiscard]] std::string encode_meta(const Meta& meta);

// Errc::corrupt when it is no meta.json; Errc::invalid when its "v" is newer than this program, with a
// sentence that says so.
[[nodiscard]] Result<Meta> decode_meta(std::string_view text);

// Bytes and hash of one of a turn's files, as its seal states them.
struct FileSeal {
    std::int64_t bytes = 0;
    std::string sha256;
    bool operator==(const FileSeal&) const = default;
};

struct ToolCall {
    std::string id;
    std::string name;
    std::string status;  // started, ok, error
    Timestamp started_at;
    std::optional<std::int64_t> duration_ms;
    std::optional<std::string> summary;
    bool operator==(const ToolCall&) const = default;
};

struct TurnState {
    std::int64_t turn = 0;
    std::string status;  // completed, interrupted, failed
    Timestamp started_at;
    Timestamp ended_at;
    std::int64_t duration_ms = 0;
    std::optional<std::string> stop_reason;
    std::optional<std::string> model;
    std::optional<Tokens> tokens;
    std::optional<double> cost_usd;
    std::vector<ToolCall> tools;
    RawJson files;              // [{path, status, added, removed}]
    std::optional<bool> dirty;  // the git work tree at the turn's end; written only when told
    RawJson validation;         // {tests, lint, …}
    RawJson decisions;          // [{id, summary, why, source, turn}]
    RawJson blockers;           // [{id, summary, evidence, source, turn}]
    std::optional<std::string> next_task;
    std::optional<std::int64_t> exit_code;
    std::optional<std::string> error;
    RawJson limit;  // {kind, resets_at, evidence}
    FileSeal prompt;
    FileSeal output;
    std::optional<FileSeal> stderr_log;
    std::optional<FileSeal> diff;
    RawJson extra;
};

// The value of "chain" for a state document: SHA-256 in hex over `previous_chain`, a newline, and the
// document without its chain line. `previous_chain` of the first turn is chain_origin.
//
//     { echo "$previous_chain"; sed '/^  "chain": "/d' 002-state.json; } | sha256sum
inline constexpr std::string_view chain_origin =
    "0000000000000000000000000000000000000000000000000000000000000000";

struct SealedState {
    std::string text;   // the whole NNN-state.json; "chain" is its last member
    std::string chain;  // the chain value in it
};
[[nodiscard]] SealedState
encode_turn_state(const TurnState& state, std::string_view previous_chain);
[[nodiscard]] Result<TurnState> decode_turn_state(std::string_view text);

// The chain value that stands in a state document, and the one that its bytes call for.
struct ChainCheck {
    std::string stated;
    std::string computed;
};
[[nodiscard]] Result<ChainCheck>
check_chain(std::string_view state_text, std::string_view previous_chain);

// One item of resume.json's decisions, blockers and validation_state: the client's own fields plus
// where the item comes from.
struct ResumePacket {
    std::string session_id;
    std::string previous_agent;
    std::string checkpoint_reason;
    std::int64_t turn_count = 0;
    RawJson decisions;                     // array of objects, each with source and turn
    RawJson blockers;                      // array of objects, each with source and turn
    RawJson touched_files;                 // array of {path, status}
    RawJson validation_state;              // object: name -> {value, source, turn}
    std::optional<std::string> next_task;  // left out when nobody said one
    Timestamp created_at;
    std::optional<std::string> objective;
    std::optional<Repo> working_tree;
    std::optional<bool> dirty;  // of working_tree
    struct LastTurn {
        std::int64_t turn = 0;
        std::string status;
        std::string prompt_file;
        std::string output_file;
        std::string output_tail;  // at most 2 KiB
    };
    std::optional<LastTurn> last_turn;
    Tokens tokens;
    std::optional<double> cost_usd;
    RawJson limit;
    std::vector<std::string> lineage;  // ids from the root to this session
};

[[nodiscard]] std::string encode_resume(const ResumePacket& packet);

}  // namespace relay::layout
