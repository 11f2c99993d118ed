// SPDX-License-Identifier: Apache-2.0
#include "daemon/options.hpp"
#include "layout/version.hpp"

#include <doctest/doctest.h>

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

using relay::daemon::help_text;
using relay::daemon::Options;
using relay::daemon::parse_options;
using relay::daemon::version_text;
using relay::layout::Errc;

namespace {

auto parse(std::initializer_list<const char*> arguments) {
    return parse_options(std::vector<const char*>(arguments));
}

std::string refusal(std::initializer_list<const char*> arguments) {
    const auto options = parse(arguments);
    REQUIRE_FALSE(options.ok());
    CHECK(options.error().code == Errc::invalid);
    return options.error().context;
}

}  // namespace

TEST_CASE("the daemon runs with its defaults when it gets no flags") {
    const auto options = parse({});
    REQUIRE(options.ok());
    CHECK(options.value().mode == Options::Mode::run);
    CHECK(options.value().config_file.empty());
    CHECK(options.value().settings.empty());
    CHECK_FALSE(options.value().unsafe_journal);
}

TEST_CASE("every flag reaches its key in the order given and in both forms") {
    const auto options = parse(
        {"--config",
         "/c.toml",
         "--socket",
         "/s",
         "--journal-dir=/j",
         "--unsafe-journal",
         "--idle-exit=10min",
         "--orphan-grace",
         "5s",
         "--checkpoint-interval=1s",
         "--set",
         "sessions.store=user",
         "--set=a.b=c=d",
         "--set=a.b="});
    REQUIRE(options.ok());
    CHECK(options.value().config_file == "/c.toml");
    CHECK(options.value().unsafe_journal);
    const std::vector<std::pair<std::string, std::string>> settings{
        {"daemon.socket", "/s"},
        {"journal.dir", "/j"},
        {"daemon.idle_exit", "10min"},
        {"daemon.orphan_grace", "5s"},
        {"journal.checkpoint_interval", "1s"},
        {"sessions.store", "user"},
        {"a.b", "c=d"},
        {"a.b", ""},
    };
    CHECK(options.value().settings == settings);
}

TEST_CASE("asking for help or the version of the daemon ends the parsing") {
    CHECK(parse({"--help", "--nonsense"}).value().mode == Options::Mode::help);
    CHECK(parse({"-h"}).value().mode == Options::Mode::help);
    CHECK(parse({"--version", "--nonsense"}).value().mode == Options::Mode::version);
    CHECK(parse({"-V"}).value().mode == Options::Mode::version);
}

TEST_CASE("a wrong flag of the daemon is refused by name and points at the help") {
    CHECK(
        refusal({"--sokcet", "/x"})
        == "unknown flag \"--sokcet\" (did you mean \"--socket\"?); see agent-relayd --help");
    CHECK(refusal({"--frobnicate"}) == "unknown flag \"--frobnicate\"; see agent-relayd --help");
    CHECK(refusal({"--socket"}) == "--socket needs a value; see agent-relayd --help");
    CHECK(refusal({"--socket="}) == "--socket needs a value; see agent-relayd --help");
    CHECK(refusal({"--config", ""}) == "--config needs a value; see agent-relayd --help");
    CHECK(
        refusal({"--unsafe-journal=yes"})
        == "--unsafe-journal takes no value, got \"yes\"; see agent-relayd --help");
    CHECK(refusal({"start"}) == "unexpected argument \"start\"; see agent-relayd --help");
    CHECK(refusal({"--"}) == "unexpected argument \"--\"; see agent-relayd --help");
    CHECK(refusal({""}) == "unexpected argument \"\"; see agent-relayd --help");
    for (const char* const setting : {"x", "x=1", ".x=1", "x.=1", "=1.x"}) {
        CAPTURE(setting);
        CHECK(refusal({"--set", setting}).starts_with("--set needs section.key=value, got \""));
    }
}

TEST_CASE("the help of the daemon names every flag and the version names the formats") {
    const std::string help = help_text();
    for (const char* const flag :
         {"--config ",
          "--socket ",
          "--journal-dir ",
          "--unsafe-journal ",
          "--idle-exit ",
          "--orphan-grace ",
          "--checkpoint-interval ",
          "--set ",
          "--version",
          "--help"}) {
        CAPTURE(flag);
        CHECK(help.find(flag) != std::string::npos);
    }
    CHECK(help.find("examples:") != std::string::npos);
    const std::string version = version_text();
    CHECK(version.starts_with("agent-relayd "));
    CHECK(version.find("format 1, protocol 1, ") != std::string::npos);
    const std::string commit(relay::layout::program_commit());
    CHECK((version.find("commit " + commit) != std::string::npos) != commit.empty());
    CHECK(version.ends_with(")\n"));
}
