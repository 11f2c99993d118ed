// SPDX-License-Identifier: Apache-2.0
#include "cli/run_options.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using relay::cli::as_typed;
using relay::cli::parse_run_options;
using Words = std::vector<std::string>;

TEST_CASE("run takes a command behind two dashes with all its flags") {
    const auto options =
        parse_run_options({"--name", "n", "--no-diff", "--", "make", "--name", "x", "--"});
    REQUIRE(options.ok());
    CHECK(options.value().command == Words{"make", "--name", "x", "--"});
    CHECK(options.value().name == "n");
    CHECK_FALSE(options.value().diff);
    CHECK(options.value().agent.empty());
}

TEST_CASE("run takes an agent with a prompt and flags around it") {
    const auto options = parse_run_options(
        {"--label=a",
         "codex",
         "--max-turns",
         "3",
         "fix it",
         "--label",
         "b",
         "--store=user",
         "--raw"});
    REQUIRE(options.ok());
    CHECK(options.value().agent == "codex");
    CHECK(options.value().prompt == "fix it");
    CHECK(options.value().max_turns == 3);
    CHECK(options.value().labels == Words{"a", "b"});
    CHECK(options.value().store == "user");
    CHECK(options.value().raw);
    CHECK_FALSE(parse_run_options({"codex"}).value().prompt);
    CHECK(parse_run_options({"codex", ""}).value().prompt == "");
}

TEST_CASE("a prompt may be a list with dashes") {
    const auto options = parse_run_options({"codex", "- mend the parser\n- test it", "--raw"});
    REQUIRE(options.ok());
    CHECK(options.value().prompt == "- mend the parser\n- test it");
    CHECK(options.value().raw);
    CHECK(parse_run_options({"--name=two words", "codex"}).value().name == "two words");
    CHECK_FALSE(parse_run_options({"codex", "--fast"}).ok());
}

TEST_CASE("run refuses what contradicts itself and names it") {
    const auto refusal = [](const Words& words) {
        return parse_run_options(words).error().context;
    };
    CHECK(refusal({"--"}) == "run needs a command behind --");
    CHECK(refusal({"codex", "--", "x"}) == "run takes an agent or a command behind --, got both");
    CHECK(refusal({"codex", "fix", "it"}) == "run takes one prompt; put it in quotes");
    CHECK(
        refusal({"codex", "p", "--prompts-file", "f"})
        == "run takes a prompt or --prompts-file, got both");
    CHECK(refusal({"--max-turns", "0", "codex"}) == "--max-turns needs a number from 1, got \"0\"");
    CHECK(
        refusal({"--max-turns", "2x", "codex"}) == "--max-turns needs a number from 1, got \"2x\"");
    CHECK(refusal({"--store", "moon", "codex"}) == "--store is auto, repo or user, got \"moon\"");
    CHECK(refusal({"--name"}) == "--name needs a value");
    CHECK(refusal({"--name", "--", "x"}) == "--name needs a value");
    CHECK(refusal({"--name", "@latest", "--", "x"}).starts_with("\"@latest\" can be no name"));
    CHECK(refusal({"-j2", "make"}).starts_with("unknown flag \"-j2\""));
    CHECK(
        refusal({"--max-turns=2", "--", "make"}).starts_with("--prompts-file and --max-turns are"));
    CHECK(refusal({"--from", "x", "codex"}).starts_with("--from says which session"));
}

TEST_CASE("a command is shown as one would type it") {
    CHECK(as_typed({"make", "-j2", "a=b"}) == "make -j2 a=b");
    CHECK(as_typed({"sh", "-c", "echo $HOME"}) == "sh -c 'echo $HOME'");
    CHECK(as_typed({"say", "", "it's"}) == "say '' 'it'\\''s'");
}
