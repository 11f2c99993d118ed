// SPDX-License-Identifier: Apache-2.0
#include "cli/emit_fields.hpp"

#include "layout/base64.hpp"
#include "layout/utf8.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstddef>

namespace relay::cli {

namespace {

using layout::Done;
using layout::Errc;
using layout::Error;
using layout::Result;
using layout::Status;

// The daemon refuses deeper ones, and nlohmann's printer recurses.
constexpr int depth_max = 256;

constexpr std::array<std::string_view, 6> types_without_session{
    "hello", "session.start", "session.list", "follow", "flush", "status"};
constexpr std::array<std::string_view, 7> types_of_owner{
    "turn.start",
    "turn.output",
    "turn.stderr",
    "turn.tool",
    "turn.end",
    "session.end",
    "session.checkpoint"};

Error invalid(std::string sentence) {
    return Error{Errc::invalid, 0, std::move(sentence)};
}

bool contains(std::span<const std::string_view> names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_too_deep(std::string_view json) {
    int depth = 0;
    bool in_string = false;
    for (std::size_t at = 0; at < json.size(); ++at) {
        const char character = json[at];
        if (in_string && character == '\\') {
            ++at;
        } else if (character == '"') {
            in_string = !in_string;
        } else if (!in_string && (character == '[' || character == '{')) {
            if (++depth > depth_max) {
                return true;
            }
        } else if (!in_string && (character == ']' || character == '}')) {
            --depth;
        }
    }
    return false;
}

Result<Fields> parse_json(std::string_view text, const std::string& what) {
    if (is_too_deep(text)) {
        return invalid(what + " is nested deeper than " + std::to_string(depth_max) + " levels");
    }
    try {
        return Fields::parse(text);
    } catch (const Fields::exception& failure) {
        // nlohmann begins with "[json.exception.parse_error.101] ", which helps nobody.
        const std::string_view reason = failure.what();
        const std::size_t bracket = reason.find("] ");
        return invalid(
            what + " is no JSON: "
            + std::string(bracket == std::string_view::npos ? reason : reason.substr(bracket + 2)));
    }
}

struct Argument {
    std::string key;
    std::string value;
    bool json = false;
    bool from_file = false;
};

Result<Argument> split(std::string_view argument, PlainValues plain) {
    const std::size_t equals = argument.find('=');
    Argument parts;
    parts.key = argument.substr(0, equals);
    parts.json = plain == PlainValues::json;
    if (parts.key.ends_with(':')) {
        parts.key.pop_back();
        parts.json = true;
    }
    if (equals == std::string_view::npos || parts.key.empty()) {
        return invalid(
            "\"" + std::string(argument)
            + "\" is no field; write key=value, key:=json or key=@file");
    }
    parts.value = argument.substr(equals + 1);
    if (parts.value.starts_with('@')) {
        parts.value.erase(0, 1);
        parts.from_file = true;
    }
    return parts;
}

bool is_true(const Fields& fields, const char* key) {
    const auto found = fields.find(key);
    return found != fields.end() && found->is_boolean() && found->get<bool>();
}

std::string type_of(const Fields& fields) {
    const auto found = fields.find("type");
    return found != fields.end() && found->is_string() ? found->get<std::string>() : std::string();
}

void add_if_absent(Fields& fields, const char* key, const Fields& value) {
    if (!fields.contains(key)) {
        fields[key] = value;
    }
}

}  // namespace

Status
add_field(Fields& fields, std::string_view argument, PlainValues plain, const ReadFile& read_file) {
    Result<Argument> split_argument = split(argument, plain);
    if (!split_argument.ok()) {
        return split_argument.error();
    }
    Argument& parts = split_argument.value();
    if (parts.from_file) {
        Result<std::string> content = read_file(parts.value);
        if (!content.ok()) {
            return invalid("field \"" + parts.key + "\": " + content.error().context);
        }
        const bool as_bytes = parts.key == "data" && !parts.json;
        parts.value =
            as_bytes ? layout::encode_base64(content.value()) : std::move(content.value());
    }
    if (!parts.json) {
        if (!layout::is_utf8(parts.value)) {
            return invalid(
                "field \"" + parts.key + "\" is no UTF-8 text; bytes go into data=@file");
        }
        fields[parts.key] = std::move(parts.value);
        return Done{};
    }
    Result<Fields> value = parse_json(parts.value, "field \"" + parts.key + "\"");
    if (!value.ok()) {
        return value.error();
    }
    fields[parts.key] = std::move(value.value());
    return Done{};
}

Result<Fields> parse_object(std::string_view text) {
    if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
        return Fields::object();
    }
    Result<Fields> parsed = parse_json(text, "the input");
    if (parsed.ok() && !parsed.value().is_object()) {
        return invalid("the input must be one JSON object, such as {\"type\":\"turn.end\"}");
    }
    return parsed;
}

Status add_defaults(Fields& fields, const Caller& caller) {
    const std::string type = type_of(fields);
    if (type.empty()) {
        return invalid("the event needs a type, such as turn.note");
    }
    const bool needs_session = !contains(types_without_session, type);
    if (needs_session && !fields.contains("session")) {
        if (!caller.session.has_value() || caller.session->empty()) {
            return invalid(type + " needs a session; give session=<id> or set AGENT_RELAY_SESSION");
        }
        fields["session"] = *caller.session;
    }
    if (type == "session.start") {
        add_if_absent(fields, "agent", "custom");
        add_if_absent(fields, "cwd", caller.cwd);
    }
    if (type == "session.start" || type == "session.attach") {
        add_if_absent(fields, "pid", caller.pid);
    }
    add_if_absent(fields, "id", 2);
    return Done{};
}

bool needs_ownership(const Fields& fields) {
    const std::string type = type_of(fields);
    const bool forced = type == "session.checkpoint" && is_true(fields, "force");
    return contains(types_of_owner, type) && !forced;
}

Fields attach_request(const Fields& fields, const Caller& caller, bool reopen) {
    Fields attach{
        {"type", "session.attach"},
        {"session", fields.at("session")},
        {"pid", caller.pid},
    };
    if (reopen) {
        attach["reopen"] = true;
    }
    attach["id"] = Fields::parse(attach_id);
    return attach;
}

Result<std::string> to_line(const Fields& fields) {
    try {
        return fields.dump();
    } catch (const Fields::exception&) {
        return invalid("the event holds text that is no UTF-8; bytes go into data=@file");
    }
}

ExitCode exit_code_of(std::string_view answer) {
    const Fields parsed = Fields::parse(answer, nullptr, /*allow_exceptions=*/false);
    if (!parsed.is_object() || type_of(parsed) != "ack") {
        const bool unknown =
            parsed.is_object() && parsed.contains("code") && parsed.at("code") == "unknown_session";
        return unknown ? ExitCode::no_such_session : ExitCode::failed;
    }
    return ExitCode::ok;
}

}  // namespace relay::cli
