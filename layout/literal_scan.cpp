// SPDX-License-Identifier: Apache-2.0
#include "layout/literal_scan.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

namespace relay::layout {

// Keys are the first bytes as they lie in memory; both ways of reading them agree where the first byte is the least.
static_assert(std::endian::native == std::endian::little);

LiteralScan::LiteralScan(std::span<const std::string_view> literals)
    : literals_(literals.begin(), literals.end()) {
    for (std::size_t index = 0; index < literals_.size(); ++index) {
        assert(literals_[index].size() >= key_bytes);
        const std::uint32_t key = key_of(literals_[index]);
        may_begin_[slot_of(key)] = true;
        by_key_[key].push_back(static_cast<std::uint16_t>(index));
    }
    for (auto& [key, indices] : by_key_) {
        std::stable_sort(
            indices.begin(), indices.end(), [this](std::uint16_t left, std::uint16_t right) {
                return literals_[left].size() > literals_[right].size();
            });
    }
}

}  // namespace relay::layout
