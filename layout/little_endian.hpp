// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

// Integers in the journal's bytes: little-endian, unaligned, whatever the machine.

namespace relay::layout {

template<std::unsigned_integral Integer>
void put_le(char* at, Integer value) {
    for (std::size_t byte = 0; byte < sizeof(Integer); ++byte) {
        at[byte] = static_cast<char>(static_cast<std::uint8_t>(value >> (8 * byte)));
    }
}

template<std::unsigned_integral Integer>
void append_le(std::string& out, Integer value) {
    std::array<char, sizeof(Integer)> bytes;
    put_le(bytes.data(), value);
    out.append(bytes.data(), bytes.size());
}

// The caller has checked that `offset + sizeof(Integer)` bytes are there.
template<std::unsigned_integral Integer>
[[nodiscard]] Integer get_le(std::string_view bytes, std::size_t offset) {
    assert(offset + sizeof(Integer) <= bytes.size());
    const char* const at = bytes.data() + offset;  // checked once, so that this is one load
    std::uint64_t value = 0;
    for (std::size_t byte = 0; byte < sizeof(Integer); ++byte) {
        value |= static_cast<std::uint64_t>(static_cast<std::uint8_t>(at[byte])) << (8 * byte);
    }
    return static_cast<Integer>(value);
}

}  // namespace relay::layout
