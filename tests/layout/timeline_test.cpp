// SPDX-License-Identifier: Apache-2.0
#include "layout/timeline.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>

namespace relay::layout {

namespace {

constexpr Timestamp noon{1'794'830'400'123};  // 2026-11-16T12:00:00.123Z

}  // namespace

TEST_CASE("a timeline line begins with seq and time and type and ends with a newline") {
    std::string out = "{}\n";
    TimelineLine line(out, 41, noon, "turn.note");
    line.object().string("kind", "k");
    line.finish();
    CHECK(
        out
        == "{}\n{\"seq\":41,\"at\":\"2026-11-16T12:00:00.123Z\",\"type\":\"turn.note\",\"kind\":"
           "\"k\"}\n");
}

TEST_CASE("the client's seq stands on a timeline line only where it differs") {
    const auto line_with = [](std::int64_t client_seq) {
        std::string out;
        TimelineLine line(out, 5, noon, "t", client_seq);
        line.finish();
        return out;
    };
    const std::string plain = "{\"seq\":5,\"at\":\"2026-11-16T12:00:00.123Z\",\"type\":\"t\"}\n";
    CHECK(line_with(0) == plain);
    CHECK(line_with(5) == plain);
    CHECK(
        line_with(4)
        == "{\"seq\":5,\"at\":\"2026-11-16T12:00:00.123Z\",\"type\":\"t\",\"client_seq\":4}\n");
}

TEST_CASE("a stream line points at bytes instead of repeating them") {
    std::string out;
    append_stream_line(out, {.turn = 3, .offset = 8192, .bytes = 512, .seq = 41, .at = noon});
    append_stream_line(
        out,
        {.stream = Stream::stderr_log,
         .channel = Channel::tool,
         .turn = 3,
         .bytes = 1,
         .seq = 42,
         .at = noon});
    CHECK(
        out
        == R"({"seq":41,"at":"2026-11-16T12:00:00.123Z","type":"turn.output","turn":3,"offset":8192,"bytes":512})"
           "\n"
           R"({"seq":42,"at":"2026-11-16T12:00:00.123Z","type":"turn.stderr","turn":3,"channel":"tool","offset":0,"bytes":1})"
           "\n");
}

TEST_CASE("a stream line is spelled like any other timeline line") {
    constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    std::string fast;
    append_stream_line(
        fast,
        {.channel = Channel::reasoning, .turn = least, .bytes = most, .seq = most, .at = noon});
    std::string plain;
    TimelineLine line(plain, most, noon, "turn.output");
    line.object().integer("turn", least);
    line.object().string("channel", name_of(Channel::reasoning));
    line.object().integer("offset", 0);
    line.object().integer("bytes", most);
    line.finish();
    CHECK(fast == plain);
}

}  // namespace relay::layout
