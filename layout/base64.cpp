// SPDX-License-Identifier: Apache-2.0
#include "layout/base64.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace relay::layout {

namespace {

constexpr std::string_view alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint32_t no_value = 0xff;

constexpr std::array<std::uint8_t, 256> make_values() {
    std::array<std::uint8_t, 256> values{};
    values.fill(no_value);
    for (std::size_t i = 0; i < alphabet.size(); ++i) {
        values[static_cast<std::uint8_t>(alphabet[i])] = static_cast<std::uint8_t>(i);
    }
    return values;
}
constexpr std::array<std::uint8_t, 256> values = make_values();

std::uint32_t byte_at(std::string_view bytes, std::size_t at) {
    return static_cast<std::uint8_t>(bytes[at]);
}

std::uint32_t value_at(std::string_view text, std::size_t at) {
    return values[static_cast<std::uint8_t>(text[at])];
}

// Takes the padding off. False when it is there in part or longer than it can be.
bool strip_padding(std::string_view& text) {
    if (!text.ends_with('=')) {
        return text.size() % 4 != 1;
    }
    if (text.size() % 4 != 0) {
        return false;
    }
    text.remove_suffix(text.ends_with("==") ? 2 : 1);
    return true;
}

// The two or three characters after the last whole group. The bits they do not need must be zero, so
// that one content has one text.
bool decode_rest(std::string_view rest, char* into) {
    const std::uint32_t first = value_at(rest, 0);
    const std::uint32_t second = value_at(rest, 1);
    const std::uint32_t third = rest.size() == 3 ? value_at(rest, 2) : 0;
    if (first == no_value || second == no_value || third == no_value) {
        return false;
    }
    const std::uint32_t bits = first << 18 | second << 12 | third << 6;
    into[0] = static_cast<char>(bits >> 16);
    if (rest.size() == 2) {
        return (bits & 0xffff) == 0;
    }
    into[1] = static_cast<char>(bits >> 8);
    return (bits & 0xff) == 0;
}

}  // namespace

std::string encode_base64(std::string_view bytes) {
    std::string text((bytes.size() + 2) / 3 * 4, '=');
    char* into = text.data();
    std::size_t at = 0;
    for (; bytes.size() - at >= 3; at += 3, into += 4) {
        const std::uint32_t bits =
            byte_at(bytes, at) << 16 | byte_at(bytes, at + 1) << 8 | byte_at(bytes, at + 2);
        into[0] = alphabet[bits >> 18];
        into[1] = alphabet[bits >> 12 & 63];
        into[2] = alphabet[bits >> 6 & 63];
        into[3] = alphabet[bits & 63];
    }
    const std::size_t left = bytes.size() - at;
    if (left > 0) {
        const std::uint32_t bits =
            byte_at(bytes, at) << 16 | (left == 2 ? byte_at(bytes, at + 1) << 8 : 0);
        into[0] = alphabet[bits >> 18];
        into[1] = alphabet[bits >> 12 & 63];
        if (left == 2) {
            into[2] = alphabet[bits >> 6 & 63];
        }
    }
    return text;
}

bool decode_base64(std::string_view text, std::string& into) {
    if (!strip_padding(text)) {
        return false;
    }
    const std::size_t left = text.size() % 4;
    const std::size_t whole = text.size() - left;
    into.resize(whole / 4 * 3 + (left == 0 ? 0 : left - 1));
    char* out = into.data();
    for (std::size_t at = 0; at < whole; at += 4, out += 3) {
        const std::uint32_t first = value_at(text, at);
        const std::uint32_t second = value_at(text, at + 1);
        const std::uint32_t third = value_at(text, at + 2);
        const std::uint32_t fourth = value_at(text, at + 3);
        // No value has the top bit of a byte set except the one that is none.
        if (((first | second | third | fourth) & 0x80) != 0) {
            return false;
        }
        const std::uint32_t bits = first << 18 | second << 12 | third << 6 | fourth;
        out[0] = static_cast<char>(bits >> 16);
        out[1] = static_cast<char>(bits >> 8);
        out[2] = static_cast<char>(bits);
    }
    return left == 0 || decode_rest(text.substr(whole), out);
}

}  // namespace relay::layout
