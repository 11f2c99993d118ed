// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/timestamp.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace relay::layout {

// JSON text already known to be valid, on one line. Empty means "absent".
struct RawJson {
    std::string text;
    [[nodiscard]] bool empty() const { return text.empty(); }
    bool operator==(const RawJson&) const = default;
};

// Appends `text` as a JSON string, quoted. Invalid UTF-8 becomes U+FFFD, so the document stays valid.
void append_json_string(std::string& out, std::string_view text);

// Shortest decimal that reads back as the same double; NaN and infinities become null.
void append_json_number(std::string& out, double number);

// Writes one JSON object member by member, in the order of the calls. Nothing is kept but the text.
//
//   lines    every member of the object on a line of its own, indented by two spaces, "key": value,
//            ending in "}\n": the form of meta.json, NNN-state.json and resume.json. Values are compact.
//   compact  no white space at all, no newline at the end: timeline lines, answers, nested objects.
class JsonObject {
public:
    enum class Form { lines, compact };

    JsonObject(std::string& out, Form form);
    JsonObject(const JsonObject&) = delete;
    JsonObject& operator=(const JsonObject&) = delete;
    ~JsonObject() = default;

    void string(std::string_view key, std::string_view value);
    void integer(std::string_view key, std::int64_t value);
    void number(std::string_view key, double value);
    void boolean(std::string_view key, bool value);
    void null(std::string_view key);
    void timestamp(std::string_view key, Timestamp at);
    void strings(std::string_view key, const std::vector<std::string>& values);
    void raw(std::string_view key, std::string_view json);  // must be valid JSON on one line

    void string_or_null(std::string_view key, const std::optional<std::string>& value);
    void integer_or_null(std::string_view key, const std::optional<std::int64_t>& value);
    void number_or_null(std::string_view key, const std::optional<double>& value);
    void timestamp_or_null(std::string_view key, const std::optional<Timestamp>& value);
    void raw_or_null(std::string_view key, const RawJson& value);

    // Writes the key and leaves the value to the caller, who appends it to the same string.
    void key(std::string_view key);

    // Closes the object. Must be called exactly once, last.
    void finish();

private:
    std::string& out_;
    Form form_;
    bool first_ = true;
};

}  // namespace relay::layout
