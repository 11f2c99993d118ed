// SPDX-License-Identifier: Apache-2.0
#include "daemon/config.hpp"
#include "tests/support/temporary_directory.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <string_view>

using relay::daemon::Config;
using relay::daemon::load_config;
using relay::layout::ConfigSources;
using relay::layout::Errc;
using relay::tests::TemporaryDirectory;
using std::chrono::milliseconds;

namespace {

// Sources that see nothing of the machine the test runs on.
struct Sources : ConfigSources {
    Sources() {
        system_file = directory.path() + "/system.toml";
        user_file = directory.path() + "/user.toml";
        environment = [this](const char* name) -> std::optional<std::string> {
            const auto found = variables.find(name);
            return found == variables.end() ? std::nullopt : std::optional(found->second);
        };
    }

    void system(std::string_view text) const { std::ofstream(system_file) << text; }
    void user(std::string_view text) const { std::ofstream(user_file) << text; }

    TemporaryDirectory directory;
    std::map<std::string, std::string> variables;
};

std::string failure_of(const ConfigSources& sources) {
    const auto config = load_config(sources);
    REQUIRE_FALSE(config.ok());
    return config.error().context;
}

// What the system file's `text` is refused with, without the file's name.
std::string refusal(std::string_view text) {
    const Sources sources;
    sources.system(text);
    const std::string failure = failure_of(sources);
    REQUIRE(failure.starts_with(sources.system_file + ":"));
    return failure.substr(sources.system_file.size() + 1);
}

}  // namespace

TEST_CASE("without any file the configuration is the built in one") {
    const Sources sources;
    const auto config = load_config(sources);
    REQUIRE(config.ok());
    CHECK(config.value().max_event_bytes == 16 << 20);
    CHECK(config.value().orphan_grace == milliseconds(30'000));
    CHECK(config.value().store == "auto");
    CHECK(config.value().origins.empty());
}

TEST_CASE("the defaults of the daemon are those of the table of keys") {
    const auto config = load_config(Sources());
    REQUIRE(config.ok());
    const Config built_in;
    CHECK(config.value().max_event_bytes == built_in.max_event_bytes);
    CHECK(config.value().max_inflight_bytes == built_in.max_inflight_bytes);
    CHECK(config.value().orphan_grace == built_in.orphan_grace);
    CHECK(config.value().idle_exit == built_in.idle_exit);
    CHECK(config.value().max_connections == built_in.max_connections);
    CHECK(config.value().segment_bytes == built_in.segment_bytes);
    CHECK(config.value().segments_max == built_in.segments_max);
    CHECK(config.value().checkpoint_interval == built_in.checkpoint_interval);
    CHECK(config.value().store == built_in.store);
    CHECK(config.value().socket.empty());
    CHECK(config.value().journal_dir.empty());
}

TEST_CASE("every key of the daemon can be set in a file") {
    const Sources sources;
    sources.system(R"(
[daemon]
socket = "/run/x/relay.sock"
max_event_bytes = "1MiB"
max_inflight_bytes = 2097152
orphan_grace = "500ms"
idle_exit = 600
max_connections = 7
[journal]
dir = "/var/lib/x"
segment_bytes = "4 MiB"
segments_max = 3
checkpoint_interval = "2h"
)");
    std::string text = failure_of(sources);
    CHECK(text.ends_with("must be a duration from 10ms to 1h, got \"2h\""));
    sources.system(R"(
[daemon]
socket = "/run/x/relay.sock"
max_event_bytes = "1MiB"
max_inflight_bytes = 2097152
orphan_grace = "500ms"
idle_exit = 600
max_connections = 7
[journal]
dir = "/var/lib/x"
segment_bytes = "4 MiB"
segments_max = 3
checkpoint_interval = "1h"
[sessions]
store = "user"
)");
    const auto config = load_config(sources);
    REQUIRE(config.ok());
    const Config& found = config.value();
    CHECK(found.socket == "/run/x/relay.sock");
    CHECK(found.max_event_bytes == 1 << 20);
    CHECK(found.max_inflight_bytes == 2 << 20);
    CHECK(found.orphan_grace == milliseconds(500));
    CHECK(found.idle_exit == milliseconds(600'000));
    CHECK(found.max_connections == 7);
    CHECK(found.journal_dir == "/var/lib/x");
    CHECK(found.segment_bytes == 4 << 20);
    CHECK(found.segments_max == 3);
    CHECK(found.checkpoint_interval == milliseconds(3'600'000));
    CHECK(found.store == "user");
    REQUIRE(found.origins.size() == 11);
    CHECK(found.origins.front().first == "daemon.socket");
    CHECK(found.origins.front().second == sources.system_file + ":3:1");
}

TEST_CASE("later sources win over earlier ones key by key") {
    Sources sources;
    sources.system("[daemon]\norphan_grace = 1\nidle_exit = 1\nmax_connections = 1\n"
                   "[journal]\nsegments_max = 11\n");
    sources.user("[daemon]\norphan_grace = 2\nidle_exit = 2\nmax_connections = 2\n");
    sources.variables["AGENT_RELAY_DAEMON__ORPHAN_GRACE"] = "3s";
    sources.variables["AGENT_RELAY_DAEMON__IDLE_EXIT"] = "3";
    sources.variables["AGENT_RELAY_DAEMON__MAX_CONNECTIONS"] = "";
    sources.flags = {{"daemon.orphan_grace", "5s"}, {"daemon.orphan_grace", "4s"}};
    const auto config = load_config(sources);
    REQUIRE(config.ok());
    CHECK(config.value().segments_max == 11);
    CHECK(config.value().max_connections == 2);
    CHECK(config.value().idle_exit == milliseconds(3'000));
    CHECK(config.value().orphan_grace == milliseconds(4'000));
    const std::vector<std::pair<std::string, std::string>> origins{
        {"daemon.orphan_grace", "command line"},
        {"daemon.idle_exit", "AGENT_RELAY_DAEMON__IDLE_EXIT"},
        {"daemon.max_connections", sources.user_file + ":4:1"},
        {"journal.segments_max", sources.system_file + ":6:1"},
    };
    CHECK(config.value().origins == origins);
}

TEST_CASE("a named configuration file replaces both files and must exist") {
    Sources sources;
    sources.system("[daemon]\norphan_grace = 1\n");
    sources.user("nonsense");
    sources.explicit_file = sources.directory.path() + "/own.toml";
    const auto missing = load_config(sources);
    REQUIRE_FALSE(missing.ok());
    CHECK(missing.error().code == Errc::not_found);
    CHECK(missing.error().context.find(sources.explicit_file) != std::string::npos);
    std::ofstream(sources.explicit_file) << "[daemon]\nidle_exit = \"1d\"\n";
    const auto config = load_config(sources);
    REQUIRE(config.ok());
    CHECK(config.value().orphan_grace == milliseconds(30'000));
    CHECK(config.value().idle_exit == milliseconds(86'400'000));
}

TEST_CASE("a wrong value is refused with its place and its rule and what was seen") {
    CHECK(
        refusal("\n[journal]\nsegment_bytes = 5000\n")
        == "3:17: journal.segment_bytes must be a multiple of 4096, got 5000");
    CHECK(
        refusal("[journal]\nsegment_bytes = 4096\n")
        == "2:17: journal.segment_bytes must be a size from 64KiB to 1GiB, got 4096");
    CHECK(
        refusal("[journal]\nsegment_bytes = \"2GiB\"\n")
        == "2:17: journal.segment_bytes must be a size from 64KiB to 1GiB, got \"2GiB\"");
    CHECK(
        refusal("[journal]\nsegments_max = 1\n")
        == "2:16: journal.segments_max must be a whole number from 2 to 64, got 1");
    CHECK(
        refusal("[journal]\nsegments_max = \"3K\"\n")
        == "2:16: journal.segments_max must be a whole number from 2 to 64, got \"3K\"");
    CHECK(
        refusal("[journal]\ndir = \"here\"\n")
        == "2:7: journal.dir must be an absolute path, got \"here\"");
    CHECK(refusal("[journal]\ndir = 3\n") == "2:7: journal.dir must be an absolute path, got 3");
    CHECK(
        refusal("[daemon]\nsocket = \"/a\\u0000b\"\n")
        == "2:10: daemon.socket must be an absolute path, got \"/a\\x00b\"");
    CHECK(
        refusal("[daemon]\nmax_event_bytes = 1023\n")
        == "2:19: daemon.max_event_bytes must be a size from 1KiB to 64MiB, got 1023");
    CHECK(
        refusal("[daemon]\norphan_grace = \"25h\"\n")
        == "2:16: daemon.orphan_grace must be a duration from 0 to 1d, got \"25h\"");
    CHECK(
        refusal("[daemon]\norphan_grace = -1\n")
        == "2:16: daemon.orphan_grace must be a duration from 0 to 1d, got -1");
    CHECK(
        refusal("[daemon]\norphan_grace = true\n")
        == "2:16: daemon.orphan_grace must be a duration from 0 to 1d, got a boolean");
    CHECK(
        refusal("[daemon]\norphan_grace = 9223372036854775807\n")
        == "2:16: daemon.orphan_grace must be a duration from 0 to 1d, got 9223372036854775807");
    CHECK(
        refusal("[sessions]\nstore = \"repos\"\n")
        == "2:9: sessions.store must be \"auto\", \"repo\" or \"user\", got \"repos\"");
    CHECK(
        refusal("daemon = 3\n")
        == "1:10: daemon must be a section, written [daemon], got an integer");
}

TEST_CASE("a socket path is refused beyond what the kernel can bind") {
    Sources sources;
    sources.flags = {{"daemon.socket", "/" + std::string(106, 'x')}};
    CHECK(load_config(sources).ok());
    sources.flags = {{"daemon.socket", "/" + std::string(107, 'x')}};
    CHECK(failure_of(sources).starts_with(
        "command line: daemon.socket must be at most 107 bytes long (it has 108), got \"/xxx"));
}

TEST_CASE("an unknown key is refused with its place and the nearest known one") {
    CHECK(
        refusal("[daemon]\n\nsokcet = \"/x\"\n")
        == "3:1: unknown key \"daemon.sokcet\"; did you mean \"daemon.socket\"?");
    CHECK(
        refusal("[deamon]\nsocket = \"/x\"\n")
        == "1:2: unknown key \"deamon\"; did you mean \"daemon\"?");
    CHECK(
        refusal("socket = \"/x\"\n")
        == "1:1: unknown key \"socket\"; did you mean \"daemon.socket\"?");
    CHECK(
        refusal("[journal]\ncompression = { y = 1 }\n")
        == "2:1: unknown key \"journal.compression\"");
    Sources sources;
    sources.flags = {{"journal.dri", "/x"}};
    CHECK(
        failure_of(sources)
        == "command line: unknown key \"journal.dri\"; did you mean \"journal.dir\"?");
}

TEST_CASE("keys and sections that only the command line reads are passed over") {
    Sources sources;
    sources.system("[default]\nagent = 3\n[handoff]\norder = []\n[metrics]\nx = 1\n"
                   "[agents.codex]\nbinary = \"x\"\n"
                   "[sessions]\ndir = 1\ncompress_after_days = \"x\"\n");
    sources.flags = {{"default.agent", "codex"}, {"sessions.dir", "x"}};
    const auto config = load_config(sources);
    REQUIRE(config.ok());
    CHECK(config.value().origins.empty());
}

TEST_CASE("what is no TOML is refused with its place") {
    CHECK(refusal("[daemon]\nsocket = \n").starts_with("2:"));
    CHECK(refusal("[daemon]\na = 1\na = 2\n").starts_with("3:"));
    CHECK(refusal(std::string(10'000, '[')).starts_with("1:"));
    const Sources sources;
    sources.system(std::string((1 << 20) + 1, ' '));
    CHECK(
        failure_of(sources)
        == sources.system_file + ": the configuration must be at most 1MiB long");
}

TEST_CASE("a configuration that is no regular file is refused without waiting for it") {
    Sources sources;
    sources.explicit_file = sources.directory.path();
    CHECK(
        failure_of(sources)
        == sources.explicit_file + ": the configuration must be a regular file");
}

TEST_CASE("a wrong value in the environment is refused with the name of the variable") {
    Sources sources;
    sources.variables["AGENT_RELAY_JOURNAL__CHECKPOINT_INTERVAL"] = "9ms";
    CHECK(
        failure_of(sources)
        == "AGENT_RELAY_JOURNAL__CHECKPOINT_INTERVAL: journal.checkpoint_interval must be a "
           "duration from 10ms to 1h, got \"9ms\"");
}

TEST_CASE("the largest event always fits half a segment and the bytes in flight") {
    CHECK(
        refusal("[journal]\nsegment_bytes = \"16MiB\"\n")
        == "2:17: daemon.max_event_bytes must be at most half of journal.segment_bytes, which is "
           "16777216, got 16777216");
    CHECK(
        refusal("[daemon]\nmax_event_bytes = \"32MiB\"\n")
        == "2:19: daemon.max_event_bytes must be at most half of journal.segment_bytes, which is "
           "33554432, got 33554432");
    CHECK(
        refusal("[daemon]\nmax_inflight_bytes = \"1MiB\"\n")
        == "2:22: daemon.max_event_bytes must be at most daemon.max_inflight_bytes, which is "
           "1048576, got 16777216");
    Sources sources;
    sources.user("[journal]\nsegment_bytes = \"16MiB\"\n[daemon]\nmax_event_bytes = \"8MiB\"\n");
    CHECK(load_config(sources).ok());
}
