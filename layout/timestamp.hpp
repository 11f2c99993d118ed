// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace relay::layout {

// A moment of the wall clock in milliseconds since 1970, UTC. Pure: reads no clock.
struct Timestamp {
    std::int64_t ms = 0;
    auto operator<=>(const Timestamp&) const = default;
};

// "2026-11-16T11:38:00.123Z": RFC 3339, UTC, always three decimals, so text order is time order.
[[nodiscard]] std::string format_timestamp(Timestamp at);

// Exactly the form above; nothing else.
[[nodiscard]] std::optional<Timestamp> parse_timestamp(std::string_view text);

// "261116", the UTC date that begins a slug.
[[nodiscard]] std::string format_slug_date(Timestamp at);

}  // namespace relay::layout
