// SPDX-License-Identifier: Apache-2.0
#include "layout/json_writer.hpp"

#include "layout/utf8.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <utility>

namespace relay::layout {

namespace {

constexpr std::uint64_t repeat(std::uint8_t byte) {
    return 0x0101010101010101U * byte;
}

// The top bit of some byte is set when one of the eight is a control character, '"' or '\\'.
constexpr std::uint64_t flags_of(std::uint64_t word) {
    const std::uint64_t quote = word ^ repeat('"');
    const std::uint64_t backslash = word ^ repeat('\\');
    const std::uint64_t found = ((word - repeat(0x20)) & ~word) | ((quote - repeat(1)) & ~quote)
                                | ((backslash - repeat(1)) & ~backslash);
    return found & repeat(0x80);
}

bool needs_escape(char character) {
    return static_cast<std::uint8_t>(character) < 0x20 || character == '"' || character == '\\';
}

// How many bytes from `at` on can be copied as they are.
std::size_t plain_run(std::string_view text, std::size_t at) {
    const std::size_t begin = at;
    while (text.size() - at >= sizeof(std::uint64_t)) {
        std::uint64_t word = 0;
        std::memcpy(&word, text.data() + at, sizeof word);
        if (flags_of(word) != 0) {
            break;
        }
        at += sizeof word;
    }
    while (at < text.size() && !needs_escape(text[at])) {
        ++at;
    }
    return at - begin;
}

void append_escape(std::string& out, char character) {
    switch (character) {
    case '"':
        out += "\\\"";
        return;
    case '\\':
        out += "\\\\";
        return;
    case '\b':
        out += "\\b";
        return;
    case '\f':
        out += "\\f";
        return;
    case '\n':
        out += "\\n";
        return;
    case '\r':
        out += "\\r";
        return;
    case '\t':
        out += "\\t";
        return;
    default:
        break;
    }
    constexpr std::string_view digits = "0123456789abcdef";
    const auto code = static_cast<std::uint8_t>(character);
    out += "\\u00";
    out += digits[code >> 4];
    out += digits[code & 15];
}

void append_escaped(std::string& out, std::string_view text) {
    out += '"';
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t run = plain_run(text, at);
        out.append(text, at, run);
        at += run;
        // Line feeds and quotes often stand together; the run is looked for again only after them.
        for (; at < text.size() && needs_escape(text[at]); ++at) {
            append_escape(out, text[at]);
        }
    }
    out += '"';
}

void append_integer(std::string& out, std::int64_t value) {
    std::array<char, 24> digits{};
    const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
    static_cast<void>(error);  // 24 characters hold every 64-bit number
    out.append(digits.data(), end);
}

void append_timestamp(std::string& out, Timestamp at) {
    out += '"';
    out += format_timestamp(at);
    out += '"';
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
    if (is_utf8(text)) {
        append_escaped(out, text);
    } else {
        append_escaped(out, to_utf8(text));
    }
}

void append_json_number(std::string& out, double number) {
    if (!std::isfinite(number)) {
        out += "null";
        return;
    }
    std::array<char, 32> digits{};
    const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), number);
    static_cast<void>(error);  // the longest shortest form has 24 characters
    out.append(digits.data(), end);
}

JsonObject::JsonObject(std::string& out, Form form) : out_(out), form_(form) {
    out_ += '{';
}

void JsonObject::string(std::string_view key, std::string_view value) {
    this->key(key);
    append_json_string(out_, value);
}

void JsonObject::integer(std::string_view key, std::int64_t value) {
    this->key(key);
    append_integer(out_, value);
}

void JsonObject::number(std::string_view key, double value) {
    this->key(key);
    append_json_number(out_, value);
}

void JsonObject::boolean(std::string_view key, bool value) {
    this->key(key);
    out_ += value ? "true" : "false";
}

void JsonObject::null(std::string_view key) {
    this->key(key);
    out_ += "null";
}

void JsonObject::timestamp(std::string_view key, Timestamp at) {
    this->key(key);
    append_timestamp(out_, at);
}

void JsonObject::strings(std::string_view key, const std::vector<std::string>& values) {
    this->key(key);
    out_ += '[';
    bool first = true;
    for (const std::string& value : values) {
        if (!first) {
            out_ += ',';
        }
        first = false;
        append_json_string(out_, value);
    }
    out_ += ']';
}

void JsonObject::raw(std::string_view key, std::string_view json) {
    this->key(key);
    out_ += json;
}

void JsonObject::string_or_null(std::string_view key, const std::optional<std::string>& value) {
    value ? string(key, *value) : null(key);
}

void JsonObject::integer_or_null(std::string_view key, const std::optional<std::int64_t>& value) {
    value ? integer(key, *value) : null(key);
}

void JsonObject::number_or_null(std::string_view key, const std::optional<double>& value) {
    value ? number(key, *value) : null(key);
}

void JsonObject::timestamp_or_null(std::string_view key, const std::optional<Timestamp>& value) {
    value ? timestamp(key, *value) : null(key);
}

void JsonObject::raw_or_null(std::string_view key, const RawJson& value) {
    value.empty() ? null(key) : raw(key, value.text);
}

// Keys are nearly all short words of our own, which need no escapes: they are put together aside, so that
// the text grows once for each.
void JsonObject::key(std::string_view key) {
    constexpr std::size_t word_bytes_max = 48;
    const bool lines = form_ == Form::lines;
    std::string_view before = lines ? ",\n  \"" : ",\"";
    before.remove_prefix(std::exchange(first_, false) ? 1 : 0);
    const std::string_view after = lines ? "\": " : "\":";
    // NOLINTNEXTLINE(*-member-init): filled below, for every key
    std::array<char, word_bytes_max + 16> whole;
    char* to = std::copy(before.begin(), before.end(), whole.data());
    bool plain = key.size() <= word_bytes_max;
    for (std::size_t at = 0; plain && at < key.size(); ++at) {
        plain = (key[at] >= 'a' && key[at] <= 'z') || key[at] == '_';
        *to++ = key[at];
    }
    if (plain) {
        to = std::copy(after.begin(), after.end(), to);
        out_.append(whole.data(), to);
        return;
    }
    out_ += before.substr(0, before.size() - 1);
    append_json_string(out_, key);
    out_ += after.substr(1);
}

void JsonObject::finish() {
    if (form_ == Form::compact) {
        out_ += '}';
        return;
    }
    out_ += first_ ? "}\n" : "\n}\n";
}

}  // namespace relay::layout
