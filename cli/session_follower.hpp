// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/result.hpp"
#include "layout/timestamp.hpp"
#include "layout/turn_input.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace relay::cli {

// One thing that happened in a session: a line of its timeline, with the bytes that it points at.
struct Moment {
    std::int64_t seq = 0;
    layout::Timestamp at;
    std::string type;                  // "turn.output"
    std::optional<std::int64_t> turn;  // none: of the session
    std::string text;                  // of turn.start the prompt, of a stream its bytes
    std::int64_t offset = 0;           // of `text` in its stream
    std::string channel;               // of turn.output; empty: text
    std::string said;  // what the rest of the line tells a person, in one line: "bash ok: make"
    std::string line;  // as it stands in events.jsonl
};

// Reads the timeline of one session from its plain files, whole lines only, and goes on where it stopped.
// Where the user has changed a file under the recorder's hands it reads on in recovered/. Holds no file open between calls. One
// thread at a time.
class SessionFollower {
public:
    explicit SessionFollower(std::string session_directory);

    // Turns before this one, and what was said of the session before it, are passed over from now on.
    void begin_at(std::int64_t turn) { first_turn_ = turn; }

    // Hands over what has been added since the last call, in order; a long run of a stream in pieces. An
    // events.jsonl that is not there yet holds nothing. Errc::io when it cannot be read.
    using See = std::function<void(const Moment& moment)>;
    [[nodiscard]] layout::Status read(const See& see);

    // The last thing that happened ended or checkpointed the session.
    [[nodiscard]] bool at_rest() const { return at_rest_; }
    // The last turn that began; 0 before the first.
    [[nodiscard]] std::int64_t last_turn() const { return last_turn_; }
    // Lines that are no JSON, which were passed over.
    [[nodiscard]] std::int64_t damaged_lines() const { return damaged_lines_; }
    [[nodiscard]] const std::string& directory() const { return directory_; }

private:
    void see_line(std::string_view text, const See& see);
    [[nodiscard]] layout::Status read_timeline(const See& see);
    void see_stream(Moment moment, const std::string& file, std::int64_t bytes, const See& see);
    [[nodiscard]] std::string place_of(const std::string& file) const;
    [[nodiscard]] bool wanted(const Moment& moment);

    std::string directory_;
    std::int64_t first_turn_ = 0;
    bool begun_ = false;
    std::int64_t offset_ = 0;                  // of what was read of it
    std::string rest_;                         // a line without its end
    std::map<std::string, std::string> kept_;  // of recorder.conflict: file to where ours goes on
    // Open within one read(), by type of event: a compressed file is read once from its beginning to its end.
    struct OpenStream {
        std::string path;
        std::unique_ptr<layout::TurnInput> input;
    };
    std::map<std::string, OpenStream> streams_;
    std::int64_t last_turn_ = 0;
    std::int64_t damaged_lines_ = 0;
    bool at_rest_ = false;
};

// An event on its way to the daemon, `members` as in PendingEvent: what it says, and of turn.start the prompt. Neither
// its place in the timeline nor its time is known yet.
[[nodiscard]] Moment moment_of_event(std::string_view members);

// The line of --json: the timeline's own members, with `session`, and with `text` where there is one.
[[nodiscard]] std::string moment_json(const Moment& moment, std::string_view session);

}  // namespace relay::cli
