// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/timestamp.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// Numbers and times as people read and write them.

namespace relay::cli {

// "now", "45s", "12m", "3h", "5d", "8w", "2y": never more than three characters in a lifetime.
[[nodiscard]] std::string age_text(layout::Timestamp then, layout::Timestamp now);

// "350ms", "12s", "3m05s", "2h04m", "3d02h".
[[nodiscard]] std::string duration_text(std::int64_t milliseconds);

// "987", "1.2k", "34k", "5.6M".
[[nodiscard]] std::string count_text(std::int64_t count);

// "$0.25", "$0.0042", "$1234.50".
[[nodiscard]] std::string cost_text(double usd);

// "1 turn", "2 turns".
[[nodiscard]] std::string counted(std::int64_t count, std::string_view noun);

// "exit 3"; empty when the sentence `error` names the status itself.
[[nodiscard]] std::string exit_text(std::int64_t status, std::string_view error);

// "2026-11-16 11:38:00", in local time.
[[nodiscard]] std::string clock_text(layout::Timestamp at);
// "2026-11-16", in local time.
[[nodiscard]] std::string day_text(layout::Timestamp at);

// A moment as flags take it: "90s", "15m", "2h", "3d", "2w" before `now`; "today", "yesterday"; a date
// "2026-11-16", optionally with a time, "2026-11-16T11:38" or "…T11:38:00", all in local time; or the time
// of a document, "2026-11-16T11:38:00.123Z".
[[nodiscard]] std::optional<layout::Timestamp>
parse_moment(std::string_view text, layout::Timestamp now);

[[nodiscard]] layout::Timestamp now();

// Columns of a terminal that valid UTF-8 without control characters takes: two for wide characters, none
// for those that combine with the one before.
[[nodiscard]] std::size_t columns_of(std::string_view text);

// At most `columns` of it, with "…" at the end when something was cut off.
[[nodiscard]] std::string cut_to_columns(std::string_view text, std::size_t columns);

}  // namespace relay::cli
