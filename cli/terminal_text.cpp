// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal_text.hpp"

#include "layout/utf8.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace relay::cli {

namespace {

void append_hex(std::string& out, std::uint32_t value, int digits) {
    constexpr std::string_view alphabet = "0123456789abcdef";
    for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) {
        out += alphabet[(value >> shift) & 15];
    }
}

// The character that begins at `at`, when it is one that a terminal would obey: a control character or
// one that turns the direction of writing. Sets `bytes` to its length.
std::uint32_t obeyed_at(std::string_view text, std::size_t at, std::size_t& bytes) {
    const auto byte = [text](std::size_t index) {
        return index < text.size() ? static_cast<unsigned char>(text[index]) : 0U;
    };
    bytes = 1;
    if (byte(at) < 0x20 || byte(at) == 0x7f) {
        return byte(at);
    }
    if (byte(at) == 0xc2 && byte(at + 1) < 0xa0) {
        bytes = 2;
        return byte(at + 1);
    }
    if (byte(at) == 0xe2 && (byte(at + 1) == 0x80 || byte(at + 1) == 0x81)) {
        const std::uint32_t character =
            0x2000U + ((byte(at + 1) & 0x3fU) << 6) + (byte(at + 2) & 0x3fU);
        const bool turns = (character >= 0x202a && character <= 0x202e)
                           || (character >= 0x2066 && character <= 0x2069);
        bytes = 3;
        return turns ? character : UINT32_MAX;
    }
    return UINT32_MAX;
}

void append_visible(std::string& out, std::uint32_t character) {
    if (character == '\n') {
        out += "\\n";
    } else if (character > 0xff) {
        out += "\\u";
        append_hex(out, character, 4);
    } else {
        out += "\\x";
        append_hex(out, character, 2);
    }
}

// Most text is; it needs no second look.
bool is_plain(std::string_view text) {
    return std::all_of(
        text.begin(), text.end(), [](char byte) { return byte >= ' ' && byte < 0x7f; });
}

template<typename Append>
std::string replace_obeyed(std::string_view unchecked, Append append) {
    if (is_plain(unchecked)) {
        return std::string(unchecked);
    }
    const std::string text = layout::to_utf8(unchecked);
    std::string out;
    out.reserve(text.size());
    std::size_t at = 0;
    while (at < text.size()) {
        std::size_t bytes = 1;
        const std::uint32_t character = obeyed_at(text, at, bytes);
        if (character == UINT32_MAX) {
            out.append(text, at, bytes);
        } else {
            append(out, character);
        }
        at += bytes;
    }
    return out;
}

}  // namespace

std::string harmless(std::string_view text) {
    return replace_obeyed(text, append_visible);
}

std::string harmless_lines(std::string_view text) {
    // A line's end in the manner of Windows moves the cursor no further than ours does.
    std::string lines;
    lines.reserve(text.size());
    for (std::size_t at = 0; at < text.size(); ++at) {
        const bool at_end = text[at] == '\r' && text.substr(at + 1).starts_with('\n');
        if (!at_end) {
            lines += text[at];
        }
    }
    return replace_obeyed(lines, [](std::string& out, std::uint32_t character) {
        if (character == '\n' || character == '\t') {
            out += static_cast<char>(character);
        } else {
            append_visible(out, character);
        }
    });
}

std::string harmless_json(std::string_view json) {
    return replace_obeyed(json, [](std::string& out, std::uint32_t character) {
        if (character == '\t' || character == '\r' || character == '\n') {
            out += ' ';  // inside a string JSON has them escaped already: this is white space
        } else {
            out += "\\u";
            append_hex(out, character, 4);
        }
    });
}

}  // namespace relay::cli
