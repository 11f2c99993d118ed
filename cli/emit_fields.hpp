// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command_line.hpp"
#include "layout/result.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

// The pure half of `agent-relay emit`: from words of a shell to a line of the protocol.

namespace relay::cli {

// The members of one request, in the order given. Always an object.
using Fields = nlohmann::ordered_json;

// Reads the file that a field names with '@'; injected so that tests need none.
using ReadFile = std::function<layout::Result<std::string>(const std::string& path)>;

enum class PlainValues { strings, json };

// Adds one argument to `fields`; a later one of the same key wins:
//
//     key=value      a string, or JSON with PlainValues::json
//     key:=json      JSON
//     key=@file      the file's text; of `data` the file's bytes in base64, as the protocol wants them
//     key:=@file     JSON from the file
//
// Errc::invalid with a sentence that names the argument.
[[nodiscard]] layout::Status
add_field(Fields& fields, std::string_view argument, PlainValues plain, const ReadFile& read_file);

// A whole request. White space alone is an empty one.
[[nodiscard]] layout::Result<Fields> parse_object(std::string_view text);

// Who is behind this command. emit itself is gone at once, so the owner is the shell that called it.
struct Caller {
    std::string cwd;
    std::int64_t pid = 0;
    std::optional<std::string> session;  // $AGENT_RELAY_SESSION
};

// Adds what `fields` lacks: id, and by type session, pid, cwd, agent. Errc::invalid when there is no type,
// or the type needs a session and nothing names one.
[[nodiscard]] layout::Status add_defaults(Fields& fields, const Caller& caller);

// Only the session's owner may send it, so that emit attaches first.
[[nodiscard]] bool needs_ownership(const Fields& fields);

// The session.attach that goes before `fields`. Its id is `attach_id`.
inline constexpr std::string_view attach_id = "1";
[[nodiscard]] Fields attach_request(const Fields& fields, const Caller& caller, bool reopen);

// One line without a newline. Errc::invalid when a string in it is no UTF-8.
[[nodiscard]] layout::Result<std::string> to_line(const Fields& fields);

// ok for an ack, no_such_session or failed for an error.
[[nodiscard]] ExitCode exit_code_of(std::string_view answer);

}  // namespace relay::cli
