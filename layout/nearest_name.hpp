// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <string_view>
#include <vector>

// "Did you mean …?" for keys, flags, commands and types.

namespace relay::layout {

// How many bytes must be inserted, removed, replaced or swapped with their neighbour to turn one name
// into the other. Quadratic: callers pass names, not texts.
[[nodiscard]] inline std::size_t edit_distance(std::string_view from, std::string_view to) {
    std::vector<std::size_t> before(to.size() + 1);
    std::vector<std::size_t> above(to.size() + 1);
    std::vector<std::size_t> row(to.size() + 1);
    std::iota(above.begin(), above.end(), std::size_t{0});
    for (std::size_t i = 1; i <= from.size(); ++i) {
        row[0] = i;
        for (std::size_t j = 1; j <= to.size(); ++j) {
            const std::size_t replaced = above[j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1);
            row[j] = std::min({above[j] + 1, row[j - 1] + 1, replaced});
            if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1]) {
                row[j] = std::min(row[j], before[j - 2] + 1);
            }
        }
        before.swap(above);
        above.swap(row);
    }
    return above[to.size()];
}

// The first of the names nearest to `wrong`, or empty when none is within `distance_max` edits, or so
// few of its letters would stay that the guess would be no help.
[[nodiscard]] inline std::string_view nearest_name(
    std::string_view wrong, std::span<const std::string_view> names, std::size_t distance_max) {
    constexpr std::size_t name_bytes_max = 64;  // no name of ours is longer; bounds the work
    std::string_view nearest;
    std::size_t least = distance_max + 1;
    for (const std::string_view name : names) {
        if (wrong.size() > name_bytes_max) {
            break;
        }
        const std::size_t distance = edit_distance(wrong, name);
        if (distance < least && distance < name.size() / 2 + 1) {
            nearest = name;
            least = distance;
        }
    }
    return nearest;
}

}  // namespace relay::layout
