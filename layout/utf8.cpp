// SPDX-License-Identifier: Apache-2.0
#include "layout/utf8.hpp"

#include <simdjson.h>

#include <algorithm>
#include <cstdint>

namespace relay::layout {

namespace {

constexpr std::string_view replacement = "\xef\xbf\xbd";

struct Character {
    char32_t code = 0;
    std::size_t size = 1;
    bool valid = false;
};

// What may follow a lead byte: how many bytes, and the range of the first of them. The range keeps
// out overlong forms, surrogates and everything above U+10FFFF.
struct Lead {
    std::size_t size = 0;
    std::uint8_t second_min = 0x80;
    std::uint8_t second_max = 0xbf;
};

constexpr Lead lead_of(std::uint8_t byte) {
    if (byte < 0x80) {
        return {.size = 1};
    }
    if (byte >= 0xc2 && byte <= 0xdf) {
        return {.size = 2};
    }
    if (byte >= 0xe0 && byte <= 0xef) {
        const std::uint8_t second_min = byte == 0xe0 ? 0xa0 : 0x80;
        const std::uint8_t second_max = byte == 0xed ? 0x9f : 0xbf;
        return {.size = 3, .second_min = second_min, .second_max = second_max};
    }
    if (byte >= 0xf0 && byte <= 0xf4) {
        const std::uint8_t second_min = byte == 0xf0 ? 0x90 : 0x80;
        const std::uint8_t second_max = byte == 0xf4 ? 0x8f : 0xbf;
        return {.size = 4, .second_min = second_min, .second_max = second_max};
    }
    return {};
}

// The character at `at`. An invalid one covers the bytes that could still have become a character,
// at least one: the unit that is replaced by one U+FFFD.
Character character_at(std::string_view text, std::size_t at) {
    const auto first = static_cast<std::uint8_t>(text[at]);
    const Lead lead = lead_of(first);
    if (lead.size <= 1) {
        return {.code = first, .size = 1, .valid = lead.size == 1};
    }
    char32_t code = first & (0xffU >> (lead.size + 1));
    for (std::size_t i = 1; i < lead.size; ++i) {
        const std::uint8_t min = i == 1 ? lead.second_min : 0x80;
        const std::uint8_t max = i == 1 ? lead.second_max : 0xbf;
        const bool ends = at + i == text.size();
        const auto byte = ends ? std::uint8_t{0} : static_cast<std::uint8_t>(text[at + i]);
        if (byte < min || byte > max) {
            return {.code = 0, .size = i, .valid = false};
        }
        code = code << 6 | (byte & 0x3fU);
    }
    return {.code = code, .size = lead.size, .valid = true};
}

struct Span {
    std::size_t begin = 0;
    std::size_t end = 0;
};

// The valid character that has bytes on both sides of `cut`; empty at `cut` when there is none.
Span character_across(std::string_view text, std::size_t cut) {
    const std::size_t back_max = std::min<std::size_t>(cut, 3);
    for (std::size_t back = 1; back <= back_max; ++back) {
        const std::size_t begin = cut - back;
        const Character found = character_at(text, begin);
        if (found.valid && begin + found.size > cut) {
            return {begin, begin + found.size};
        }
    }
    return {cut, cut};
}

bool is_blank(char32_t code) {
    return code <= 0x20 || (code >= 0x7f && code <= 0xa0) || code == 0x1680
           || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029
           || code == 0x202f || code == 0x205f || code == 0x3000;
}

}  // namespace

bool is_utf8(std::string_view bytes) {
    // The library chooses its kernel by an indirect call, which short keys and names need not pay.
    if (bytes.size() <= 16) {
        bool ascii = true;
        for (const char byte : bytes) {
            ascii &= static_cast<std::uint8_t>(byte) < 0x80;
        }
        if (ascii) {
            return true;
        }
    }
    return simdjson::validate_utf8(bytes.data(), bytes.size());
}

std::string_view utf8_prefix(std::string_view text, std::size_t bytes_max) {
    if (text.size() <= bytes_max) {
        return text;
    }
    return text.substr(0, character_across(text, bytes_max).begin);
}

std::string_view utf8_suffix(std::string_view text, std::size_t bytes_max) {
    if (text.size() <= bytes_max) {
        return text;
    }
    return text.substr(character_across(text, text.size() - bytes_max).end);
}

std::string one_line(std::string_view text, std::size_t characters_max) {
    std::string line;
    std::size_t characters = 0;
    bool gap = false;
    for (std::size_t at = 0; at < text.size();) {
        const Character next = character_at(text, at);
        const std::string_view bytes = next.valid ? text.substr(at, next.size) : replacement;
        at += next.size;
        if (next.valid && is_blank(next.code)) {
            gap = !line.empty();
            continue;
        }
        const std::size_t needed = gap ? 2 : 1;
        if (characters_max - characters < needed) {
            break;
        }
        if (gap) {
            line += ' ';
        }
        line += bytes;
        characters += needed;
        gap = false;
    }
    return line;
}

std::string to_utf8(std::string_view bytes) {
    if (is_utf8(bytes)) {
        return std::string{bytes};
    }
    std::string text;
    text.reserve(bytes.size() + 16);
    std::size_t copied = 0;
    for (std::size_t at = 0; at < bytes.size();) {
        const Character next = character_at(bytes, at);
        if (!next.valid) {
            text += bytes.substr(copied, at - copied);
            text += replacement;
            copied = at + next.size;
        }
        at += next.size;
    }
    text += bytes.substr(copied);
    return text;
}

}  // namespace relay::layout
