// SPDX-License-Identifier: Apache-2.0
#include "cli/human_text.hpp"

#include <doctest/doctest.h>

#include <time.h>

#include <cstdint>
#include <optional>
#include <string>

using relay::cli::age_text;
using relay::cli::columns_of;
using relay::cli::cost_text;
using relay::cli::count_text;
using relay::cli::counted;
using relay::cli::cut_to_columns;
using relay::cli::day_text;
using relay::cli::duration_text;
using relay::cli::parse_moment;
using relay::layout::Timestamp;

namespace {

constexpr std::int64_t second = 1000;
constexpr std::int64_t hour = 3600 * second;
constexpr std::int64_t day = 24 * hour;
constexpr Timestamp moment{1'793'491'200'000};  // 2026-11-01T00:00:00Z

}  // namespace

TEST_CASE("an age is told in its largest unit") {
    const auto age = [](std::int64_t ms) {
        return age_text({moment.ms - ms}, moment);
    };
    CHECK(age(-5 * second) == "now");
    CHECK(age(999) == "now");
    CHECK(age(second) == "1s");
    CHECK(age(59 * second) == "59s");
    CHECK(age(60 * second) == "1m");
    CHECK(age(hour - 1) == "59m");
    CHECK(age(23 * hour) == "23h");
    CHECK(age(13 * day) == "13d");
    CHECK(age(14 * day) == "2w");
    CHECK(age(181 * day) == "25w");
    CHECK(age(363 * day) == "51w");
    CHECK(age(364 * day) == "1y");
    CHECK(age(800 * day) == "2y");
}

TEST_CASE("durations and counts and costs are short") {
    CHECK(duration_text(-1) == "0ms");
    CHECK(duration_text(350) == "350ms");
    CHECK(duration_text(12 * second) == "12s");
    CHECK(duration_text(185 * second) == "3m05s");
    CHECK(duration_text(2 * hour + 240 * second) == "2h04m");
    CHECK(duration_text(3 * day + 2 * hour) == "3d02h");
    CHECK(count_text(0) == "0");
    CHECK(count_text(999) == "999");
    CHECK(count_text(1234) == "1.2k");
    CHECK(count_text(9'960) == "10k");
    CHECK(count_text(999'499) == "999k");
    CHECK(count_text(999'600) == "1.0M");
    CHECK(count_text(INT64_MAX) == "9223372T");
    CHECK(cost_text(0) == "$0.00");
    CHECK(cost_text(0.0042) == "$0.0042");
    CHECK(cost_text(0.25) == "$0.25");
    CHECK(cost_text(1234.5) == "$1234.50");
    CHECK(counted(1, "turn") == "1 turn");
    CHECK(counted(0, "turn") == "0 turns");
}

TEST_CASE("a moment is a span before now or a date or the time of a document") {
    CHECK(parse_moment("90s", moment) == Timestamp{moment.ms - 90 * second});
    CHECK(parse_moment("2h", moment) == Timestamp{moment.ms - 2 * hour});
    CHECK(parse_moment("3d", moment) == Timestamp{moment.ms - 3 * day});
    CHECK(parse_moment("2w", moment) == Timestamp{moment.ms - 14 * day});
    CHECK(parse_moment("2026-11-16T11:38:00.123Z", moment) == Timestamp{1'794'829'080'123});
    const std::optional<Timestamp> today = parse_moment("today", moment);
    REQUIRE(today);
    CHECK(today->ms <= moment.ms);
    CHECK(moment.ms - today->ms < 25 * hour);
    CHECK(day_text(*today) == day_text(moment));
    CHECK(day_text(*parse_moment("2026-03-05", moment)) == "2026-03-05");
    CHECK(
        parse_moment("2026-03-05T06:07:08", moment)->ms - parse_moment("2026-03-05", moment)->ms
        == 6 * hour + 428 * second);
    for (const char* const wrong :
         {"",
          "d",
          "3",
          "3x",
          "-3d",
          "3dd",
          "2026-02-30",
          "2026-13-01",
          "2026-03-05T",
          "soon",
          "99999999999999999999d"}) {
        CAPTURE(wrong);
        CHECK_FALSE(parse_moment(wrong, moment).has_value());
    }
}

TEST_CASE("columns are those of a terminal and a cut leaves room for its mark") {
    CHECK(columns_of("") == 0);
    CHECK(columns_of("plain") == 5);
    CHECK(columns_of("näh") == 3);
    CHECK(columns_of("日本") == 4);
    CHECK(columns_of("e\u0301") == 1);
    CHECK(columns_of("\U0001F600") == 2);
    CHECK(cut_to_columns("plain", 5) == "plain");
    CHECK(cut_to_columns("plain", 4) == "pla…");
    CHECK(cut_to_columns("plain", 1) == "…");
    CHECK(cut_to_columns("plain", 0).empty());
    CHECK(cut_to_columns("日本語", 5) == "日本…");
    CHECK(cut_to_columns("日本語", 4) == "日…");
    CHECK(cut_to_columns("e\u0301e\u0301", 1) == "…");
}

TEST_CASE("an exit status is told once whoever tells it") {
    CHECK(relay::cli::exit_text(3, "") == "exit 3");
    CHECK(relay::cli::exit_text(3, "it ran out of memory") == "exit 3");
    CHECK(relay::cli::exit_text(3, "the agent ended with exit status 3").empty());
    CHECK(relay::cli::exit_text(3, "the agent ended with exit status 13") == "exit 3");
}
