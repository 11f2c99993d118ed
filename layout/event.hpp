// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/documents.hpp"
#include "layout/json_writer.hpp"
#include "layout/result.hpp"
#include "layout/ulid.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

// The requests of docs/protocol.md as values. One struct a wire type; Event is the closed set of them.

namespace relay::layout {

struct Hello {
    std::optional<std::int64_t> protocol;
    std::string client;
};

struct SessionStart {
    std::string agent;
    std::string cwd;
    std::vector<std::string> command;
    std::optional<std::string> name;
    std::optional<std::string> model;
    std::optional<std::string> user;
    std::vector<std::string> labels;
    std::optional<Parent> parent;
    std::optional<std::string> store;  // "user", "repo" or "auto"
    std::optional<std::int64_t> pid;
    bool ephemeral = false;
    RawJson extra;
};

struct SessionAttach {
    bool reopen = false;
    std::optional<std::int64_t>
        pid;  // the process whose death ends the ownership; default: the peer
};

struct TurnStart {
    std::string_view prompt;
    std::optional<std::string> model;
};

enum class Stream { output, stderr_log };
enum class Channel { text, reasoning, tool };
[[nodiscard]] std::string_view name_of(Channel channel);

struct TurnBytes {
    Stream stream = Stream::output;
    Channel channel = Channel::text;
    std::string_view bytes;  // `text`, or `data` decoded
};

struct TurnTool {
    std::string tool_id;
    std::string name;
    std::string status;  // started, ok, error
    std::optional<std::string> summary;
    RawJson input;
    RawJson output;
};

struct TurnNote {
    std::string kind;
    RawJson payload;
};

struct TurnEnd {
    std::optional<std::string> status;  // completed, interrupted, failed
    std::optional<std::string> stop_reason;
    std::optional<Tokens> tokens;
    std::optional<double> cost_usd;
    RawJson files;       // array of objects
    RawJson validation;  // object
    std::optional<std::string_view> diff;
    std::optional<bool> dirty;  // the git work tree
    std::optional<std::string> next_task;
    RawJson limit;  // object
    std::optional<std::int64_t> exit_code;
    std::optional<std::string> error;
    RawJson extra;  // object
};

// A field that is absent stays as it is; one that is null is cleared.
template<typename Value>
using Patch = std::optional<std::optional<Value>>;

struct SessionUpdate {
    Patch<std::string> name;
    Patch<std::string> model;
    Patch<std::string> stage;
    std::optional<std::vector<std::string>> labels;
    std::optional<bool> flagged;
    std::optional<bool> archived;
    std::optional<bool> unread;
    std::optional<RawJson> extra;  // replaces the whole object
};

struct SessionAttachment {
    std::string name;        // as sent; attachment_name() in session_paths.hpp judges it
    std::string_view bytes;  // `data` decoded
};

struct SessionCheckpoint {
    std::string reason;
    RawJson decisions;         // array of objects
    RawJson blockers;          // array of objects
    RawJson validation_state;  // object
    std::optional<std::string> next_task;
    RawJson limit;  // object
    bool force = false;
};

struct SessionEnd {
    std::optional<std::int64_t> exit_code;
    std::optional<std::string> error;
};

struct SessionList {
    std::optional<std::string> status;
    std::optional<std::string> agent;
    std::optional<std::string> label;
    std::optional<std::string> cwd;  // only the store that a session with this cwd would use
    std::int64_t limit = 100;        // 1 … 1000, newest first
};
struct SessionGet {};
struct Follow {
    std::optional<std::int64_t> from_seq;
};
struct Flush {};
struct StatusQuery {};

using EventBody = std::variant<
    Hello,
    SessionStart,
    SessionAttach,
    TurnStart,
    TurnBytes,
    TurnTool,
    TurnNote,
    TurnEnd,
    SessionUpdate,
    SessionAttachment,
    SessionCheckpoint,
    SessionEnd,
    SessionList,
    SessionGet,
    Follow,
    Flush,
    StatusQuery>;

struct Event {
    std::string id;  // the `id` as JSON text, to be echoed; empty when the line had none
    std::optional<Ulid> session;
    std::optional<std::int64_t> seq;
    EventBody body;
};

// The codes of docs/protocol.md; the wire spells them like the enumerators.
enum class WireError {
    bad_json,
    too_large,
    unknown_type,
    bad_field,
    unknown_session,
    not_owner,
    no_open_turn,
    ended,
    seq_gap,
    no_space,
    session_gone,
    shutting_down,
    overloaded,
    internal,
};
[[nodiscard]] std::string_view name_of(WireError code);

// Why a line or an event was refused. Everything a client needs to mend it stands in `message`.
struct Refusal {
    WireError code = WireError::internal;
    std::string message;
    std::string id;  // the line's id where it could still be read
};

// Turns lines into events. Keeps its buffers, so a line costs no allocation in the common case. The
// string_views of an Event point into them and are good until the next decode() or trim(). One thread at a time.
class EventDecoder {
public:
    EventDecoder();
    ~EventDecoder();
    EventDecoder(const EventDecoder&) = delete;
    EventDecoder& operator=(const EventDecoder&) = delete;

    // `line` has no newline. Checks everything that can be checked without knowing a session: JSON,
    // UTF-8, types, required fields, bounds of single fields.
    [[nodiscard]] std::variant<Event, Refusal> decode(std::string_view line);

    // Gives back what a huge line needed, which may be several times its length.
    void trim();

private:
    struct Buffers;
    std::unique_ptr<Buffers> buffers_;
};

}  // namespace relay::layout
