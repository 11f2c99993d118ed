// SPDX-License-Identifier: Apache-2.0
#include "cli/session_filter.hpp"
#include "tests/support/written_session.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using relay::cli::filter_flags;
using relay::cli::SessionFilter;
using relay::cli::take_flags;
using relay::layout::Meta;
using relay::layout::SessionStatus;
using relay::tests::example_meta;

namespace {

Meta rich_meta() {
    Meta meta = example_meta(1);
    meta.status = SessionStatus::checkpointed;
    meta.labels = {"bug", "parser"};
    meta.stage = "review";
    meta.flagged = true;
    return meta;
}

bool admits(const std::vector<std::string>& arguments, const Meta& meta) {
    SessionFilter filter;
    const auto words = take_flags(arguments, filter_flags(filter));
    REQUIRE_MESSAGE(words.ok(), words.error().context);
    return filter.admits(meta);
}

}  // namespace

TEST_CASE("a filter admits what each of its flags says") {
    const Meta meta = rich_meta();
    const std::vector<std::vector<std::string>> fitting{
        {},
        {"--status", "checkpointed"},
        {"--agent", "codex"},
        {"--label", "bug"},
        {"--label", "bug", "--label=parser"},
        {"--stage", "review"},
        {"--flagged"},
        {"--since", "2026-11-01"},
        {"--older-than", "2026-12-01"},
        {"--repo", "relay"},
        {"--repo", "/home/ann/projects/relay"},
        {"--repo", "/home/ann/projects/relay/src"},
        {"--repo", "/home/ann"},
        {"--all"},
    };
    for (const auto& arguments : fitting) {
        CAPTURE(arguments.size());
        CHECK(admits(arguments, meta));
    }
    const std::vector<std::vector<std::string>> wrong{
        {"--status", "active"},
        {"--agent", "code"},
        {"--label", "bug", "--label", "other"},
        {"--stage", "done"},
        {"--unread"},
        {"--archived"},
        {"--since", "2026-12-01"},
        {"--older-than", "2026-11-01"},
        {"--repo", "rel"},
        {"--repo", "/home/ann/projects/rel"},
    };
    for (const auto& arguments : wrong) {
        CAPTURE(arguments.front());
        CHECK_FALSE(admits(arguments, meta));
    }
}

TEST_CASE("archived sessions are left out unless they are asked for") {
    Meta meta = rich_meta();
    meta.archived = true;
    CHECK_FALSE(admits({}, meta));
    CHECK(admits({"--archived"}, meta));
    CHECK(admits({"--all"}, meta));
}

TEST_CASE("a filter's wrong values are refused with the right ones") {
    SessionFilter filter;
    CHECK(
        take_flags({"--status", "asleep"}, filter_flags(filter)).error().context
        == "--status needs one of active, checkpointed, completed, failed, got \"asleep\"");
    CHECK(
        take_flags({"--since", "soon"}, filter_flags(filter)).error().context
        == "--since needs a time, such as 2h, 3d, today or 2026-11-16, got \"soon\"");
}
