// SPDX-License-Identifier: Apache-2.0
#include "layout/timestamp.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <string>

using relay::layout::format_slug_date;
using relay::layout::format_timestamp;
using relay::layout::parse_timestamp;
using relay::layout::Timestamp;

TEST_CASE("a timestamp is written in UTC with exactly three decimals") {
    CHECK(format_timestamp({0}) == "1970-01-01T00:00:00.000Z");
    CHECK(format_timestamp({1}) == "1970-01-01T00:00:00.001Z");
    CHECK(format_timestamp({-1}) == "1969-12-31T23:59:59.999Z");
    CHECK(format_timestamp({1'794'829'080'123}) == "2026-11-16T11:38:00.123Z");
    CHECK(format_timestamp({951'827'696'789}) == "2000-02-29T12:34:56.789Z");
}

TEST_CASE("a timestamp outside four-digit years is held at the nearest one inside") {
    CHECK(
        format_timestamp({std::numeric_limits<std::int64_t>::max()}) == "9999-12-31T23:59:59.999Z");
    CHECK(
        format_timestamp({std::numeric_limits<std::int64_t>::min()}) == "0000-01-01T00:00:00.000Z");
}

TEST_CASE("every written timestamp reads back as the same moment") {
    std::mt19937_64 random{1};
    std::uniform_int_distribution<std::int64_t> any{-62'167'219'200'000, 253'402'300'799'999};
    for (int i = 0; i < 20'000; ++i) {
        const Timestamp at{any(random)};
        CAPTURE(at.ms);
        REQUIRE(parse_timestamp(format_timestamp(at)) == at);
    }
    CHECK(parse_timestamp("0000-01-01T00:00:00.000Z") == Timestamp{-62'167'219'200'000});
    CHECK(parse_timestamp("9999-12-31T23:59:59.999Z") == Timestamp{253'402'300'799'999});
}

TEST_CASE("text order of timestamps is time order") {
    std::mt19937_64 random{2};
    std::uniform_int_distribution<std::int64_t> any{-62'167'219'200'000, 253'402'300'799'999};
    for (int i = 0; i < 5'000; ++i) {
        const Timestamp one{any(random)};
        const Timestamp other{any(random)};
        REQUIRE((one < other) == (format_timestamp(one) < format_timestamp(other)));
    }
}

TEST_CASE("only the one written form is read as a timestamp") {
    for (const char* text : {
             "",
             "2026-11-16",
             "2026-11-16T11:38:00Z",
             "2026-11-16T11:38:00.12Z",
             "2026-11-16T11:38:00.1234Z",
             "2026-11-16T11:38:00.123z",
             "2026-11-16t11:38:00.123Z",
             "2026-11-16 11:38:00.123Z",
             "2026-11-16T11:38:00,123Z",
             "2026-11-16T11:38:00.123+",
             "2026-11-16T11:38:00.123Z ",
             " 2026-11-16T11:38:00.123",
             "2026-1x-16T11:38:00.123Z",
             "+026-11-16T11:38:00.123Z",
             "2026-00-16T11:38:00.123Z",
             "2026-13-16T11:38:00.123Z",
             "2026-11-00T11:38:00.123Z",
             "2026-11-31T11:38:00.123Z",
             "2026-02-29T11:38:00.123Z",
             "2026-11-16T24:00:00.000Z",
             "2026-11-16T11:60:00.123Z",
             "2026-11-16T11:38:60.123Z",
         }) {
        CAPTURE(text);
        CHECK_FALSE(parse_timestamp(text).has_value());
    }
    CHECK(parse_timestamp("2024-02-29T23:59:59.999Z").has_value());
}

TEST_CASE("the date of a slug is the UTC date in six digits") {
    CHECK(format_slug_date({1'794'829'080'123}) == "261116");
    CHECK(format_slug_date({0}) == "700101");
    CHECK(format_slug_date({-1}) == "691231");
    CHECK(format_slug_date({951'827'696'789}) == "000229");
}
