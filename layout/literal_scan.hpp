// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace relay::layout {

// Finds a set of literals in one pass over the bytes. Three bytes at a time are looked up in a table that stays in the nearest cache;
// what is there is compared in full. Immutable once made; any number of threads.
class LiteralScan {
public:
    // Each of at least three bytes.
    explicit LiteralScan(std::span<const std::string_view> literals);

    // Calls found(literal's index, offset of its first byte) for every occurrence, in the order of the offsets, longer ones first.
    template<typename Found>
    void scan(std::string_view bytes, Found&& found) const {
        if (bytes.size() < key_bytes) {
            return;
        }
        const char* const begin = bytes.data();
        const std::size_t last = bytes.size() - key_bytes;
        for (std::size_t at = 0; at < last; ++at) {
            std::uint32_t four = 0;
            std::memcpy(&four, begin + at, sizeof four);
            const std::uint32_t key = four & key_mask;
            if (may_begin_[slot_of(key)]) {
                compare(key, bytes, at, found);
            }
        }
        compare(key_of(bytes.substr(last)), bytes, last, found);
    }

private:
    static constexpr std::size_t key_bytes = 3;
    static constexpr std::uint32_t key_mask = 0xffffff;
    static constexpr unsigned slot_bits = 13;

    [[nodiscard]] static std::uint32_t key_of(std::string_view bytes) {
        std::uint32_t key = 0;
        std::memcpy(&key, bytes.data(), key_bytes);
        return key;
    }
    [[nodiscard]] static std::size_t slot_of(std::uint32_t key) {
        return (key * 0x9E3779B1U) >> (32 - slot_bits);
    }

    template<typename Found>
    void compare(std::uint32_t key, std::string_view bytes, std::size_t at, Found& found) const {
        const auto entry = by_key_.find(key);
        if (entry == by_key_.end()) {
            return;
        }
        for (const std::uint16_t index : entry->second) {
            if (bytes.substr(at).starts_with(literals_[index])) {
                found(index, at);
            }
        }
    }

    std::vector<std::string> literals_;
    std::array<bool, std::size_t{1} << slot_bits> may_begin_{};
    std::unordered_map<std::uint32_t, std::vector<std::uint16_t>> by_key_;  // longer ones first
};

}  // namespace relay::layout
