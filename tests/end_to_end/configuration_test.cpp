// SPDX-License-Identifier: Apache-2.0
#include "tests/end_to_end/relay_home.hpp"

#include <doctest/doctest.h>

#include <map>
#include <sstream>
#include <string>

namespace relay::tests {
namespace {

bool says(const std::string& text, const std::string& words) {
    return text.find(words) != std::string::npos;
}

std::map<std::string, Json> settings_of(const RelayHome& home, const std::string& before = "") {
    const ProgramEnd end = home.shell(before + " agent-relay config --json");
    REQUIRE(end.status == 0);
    std::map<std::string, Json> found;
    std::istringstream lines(end.out);
    for (std::string line; std::getline(lines, line);) {
        const Json row = Json::parse(line);
        found[row["key"]] = row;
    }
    return found;
}

void configure(const RelayHome& home, const std::string& text) {
    REQUIRE(home.shell("mkdir -p \"$AGENT_RELAY_HOME/config\"").status == 0);
    write_text(home.root() + "/relay/config/config.toml", text);
}

// A repository at work() whose configuration says this.
void configure_repository(const RelayHome& home, const std::string& text) {
    REQUIRE(home.shell("mkdir -p .git .agent-relay").status == 0);
    write_text(home.work() + "/.agent-relay/config.toml", text);
}

TEST_CASE("config tells every value and where it comes from") {
    const RelayHome home;
    configure(home, "[daemon]\norphan_grace = \"90s\"\n[handoff]\nmax_decisions = 3\n");
    configure_repository(home, "[default]\nmax_turns = 7\n");
    auto found = settings_of(home, "AGENT_RELAY_JOURNAL__SEGMENTS_MAX=9");
    CHECK(found["daemon.orphan_grace"]["value"] == 90'000);
    CHECK(found["daemon.orphan_grace"]["unit"] == "ms");
    CHECK(found["daemon.orphan_grace"]["layer"] == "user");
    CHECK(found["daemon.orphan_grace"]["origin"] == home.root() + "/relay/config/config.toml:2:1");
    CHECK(found["handoff.max_decisions"]["used"] == false);
    CHECK(found["default.max_turns"]["value"] == 7);
    CHECK(found["default.max_turns"]["origin"] == home.work() + "/.agent-relay/config.toml:2:1");
    CHECK(found["journal.segments_max"]["value"] == 9);
    CHECK(found["journal.segments_max"]["origin"] == "AGENT_RELAY_JOURNAL__SEGMENTS_MAX");
    CHECK(found["journal.dir"]["value"] == home.root() + "/relay/state/journal");
    CHECK(found["default.agent"]["value"].is_null());
    CHECK(found["agents.codex.binary"]["value"] == "codex");
    CHECK(found["daemon.socket"]["layer"] == "built in");

    const ProgramEnd shown = home.shell("agent-relay config --show-origin");
    CHECK(says(shown.out, "daemon.orphan_grace"));
    CHECK(says(shown.out, "config.toml:2:1"));
    CHECK(home.shell("agent-relay config daemon.orphan_grace").out == "90s\n");
    CHECK(home.shell("agent-relay config --socket /x.sock daemon.socket").out == "/x.sock\n");
    CHECK(
        home.shell("agent-relay config --show-origin --socket=/x.sock daemon.socket").out
        == "--socket\t/x.sock\n");
    const ProgramEnd unknown = home.shell("agent-relay config daemon.sokcet");
    CHECK(unknown.status == 2);
    CHECK(says(unknown.err, "did you mean \"daemon.socket\"?"));
}

TEST_CASE("config refuses a wrong file with its line and column and so does the daemon") {
    const RelayHome home;
    configure(home, "[journal]\nsegment_bytes = 5000\n");
    const std::string place = home.root() + "/relay/config/config.toml:2:17: journal.segment_bytes";
    const ProgramEnd end = home.shell("agent-relay config");
    CHECK(end.status == 1);
    CHECK(says(end.err, place));
    CHECK(says(home.shell("agent-relay daemon status").err, place));
    // The agent does not fail because of it.
    const ProgramEnd run = home.shell("agent-relay run -- echo still here");
    CHECK(run.status == 0);
    CHECK(run.out == "still here\n");
    CHECK(says(run.err, "this run is not recorded: " + place));
}

TEST_CASE("the command line and the daemon meet at the socket that the configuration names") {
    const RelayHome home;
    const std::string socket = home.root() + "/meeting.sock";
    configure(home, "[daemon]\nsocket = \"" + socket + "\"\n");
    // A program below the agent finds it in its environment.
    const ProgramEnd end = home.shell("agent-relay run -- sh -c 'echo $AGENT_RELAY_SOCKET'");
    CHECK(end.status == 0);
    CHECK(end.out == socket + "\n");
    CHECK(exists(socket));
    CHECK(home.daemon() > 0);
    CHECK(home.session().meta()["status"] == "completed");
    CHECK(says(home.shell("agent-relay daemon stop").out, "has stopped"));
}

TEST_CASE("scripts are told what became of the daemon") {
    const RelayHome home;
    const auto told = [&home](const std::string& action) {
        const ProgramEnd end = home.shell("agent-relay daemon " + action + " --json");
        CHECK(end.status == 0);
        return Json::parse(end.out);
    };
    const Json started = told("start");
    CHECK(started["v"] == 1);
    CHECK(started["running"] == true);
    CHECK(started["pid"] == home.daemon());
    CHECK(started["socket"] == home.root() + "/relay/state/relay.sock");
    CHECK(told("start") == started);
    const Json restarted = told("restart");
    CHECK(restarted["running"] == true);
    CHECK(restarted["pid"] != started["pid"]);
    CHECK(told("stop")["running"] == false);
    CHECK(told("stop")["pid"].is_null());
}

TEST_CASE("an untrusted repository cannot make run execute a program") {
    const RelayHome home;
    configure_repository(
        home,
        "[default]\nagent = \"evil\"\n[agents.evil]\nbinary = \"./evil\"\n"
        "[agents.codex]\nbinary = \"./evil\"\naliases = [\"x\", \"ls\"]\n");
    write_text(home.work() + "/evil", "#!/bin/sh\ntouch '" + home.root() + "/executed'\n");
    REQUIRE(home.shell("chmod 755 evil").status == 0);
    for (const std::string words : {"", "evil", "evil hello", "codex hello", "x hello", "ls"}) {
        const ProgramEnd end = home.shell("agent-relay run " + words + " < /dev/null");
        CAPTURE(words);
        CAPTURE(end.err);
        CHECK(end.status != 0);
        CHECK(says(end.err, "agent-relay trust " + home.work()));
        CHECK(end.err.find("is ignored") == end.err.rfind("is ignored"));
        CHECK_FALSE(exists(home.root() + "/executed"));
    }
    // A command of the user's own is run, and nothing is said.
    CHECK(home.shell("agent-relay run -- true").err.empty());

    const ProgramEnd trusted = home.shell("agent-relay trust");
    CHECK(trusted.status == 0);
    CHECK(says(trusted.out, "agents.evil.binary = \"./evil\""));
    // From anywhere in the repository: the path begins at its root.
    const ProgramEnd end = home.shell("mkdir -p sub && cd sub && agent-relay run evil < /dev/null");
    CHECK(end.status == 0);
    CHECK(end.err.empty());
    CHECK(exists(home.root() + "/executed"));
}

TEST_CASE("trust ends with a change of the file and by being revoked") {
    const RelayHome home;
    const std::string file = home.work() + "/.agent-relay/config.toml";
    configure_repository(home, "[agents.tool]\nbinary = \"true\"\n");
    const auto runs = [&home] {
        return home.shell("agent-relay run tool < /dev/null").status == 0;
    };
    const auto state = [&home] {
        const ProgramEnd end = home.shell("agent-relay trust --list --json");
        return end.out.empty() ? std::string() : Json::parse(end.out)["state"].get<std::string>();
    };
    CHECK_FALSE(runs());
    CHECK(state().empty());
    CHECK(home.shell("agent-relay trust .agent-relay/config.toml").status == 0);
    CHECK(runs());
    CHECK(state() == "trusted");
    write_text(file, "[agents.tool]\nbinary = \"true\"\n# changed\n");
    CHECK_FALSE(runs());
    CHECK(state() == "changed");
    CHECK(home.shell("cd / && agent-relay trust '" + home.work() + "'").status == 0);
    CHECK(runs());
    CHECK(home.shell("agent-relay trust --revoke").status == 0);
    CHECK_FALSE(runs());
    CHECK(home.shell("agent-relay trust --revoke").status == 1);
    CHECK(home.shell("agent-relay trust").status == 0);
    // Of a repository that is gone.
    CHECK(home.shell("rm -r .agent-relay").status == 0);
    CHECK(state() == "gone");
    CHECK(home.shell("agent-relay trust --revoke '" + file + "'").status == 0);
    CHECK(state().empty());
    CHECK(home.shell("agent-relay trust").status == 1);
    CHECK(home.shell("agent-relay trust --list x").status == 2);
    CHECK(mode_of(home.root() + "/relay/state/trust.json") == 0600);
}

TEST_CASE("a list of trust that was damaged trusts nothing and says so") {
    const RelayHome home;
    configure_repository(home, "[agents.tool]\nbinary = \"true\"\n");
    REQUIRE(home.shell("agent-relay trust").status == 0);
    write_text(home.root() + "/relay/state/trust.json", "{");
    CHECK(home.shell("agent-relay run tool < /dev/null").status == 2);
    const ProgramEnd end = home.shell("agent-relay trust --list");
    CHECK(end.status == 1);
    CHECK(says(end.err, "trust.json cannot be understood"));
}

TEST_CASE("a repository chooses the store of its sessions") {
    const RelayHome home;
    configure_repository(home, "[sessions]\nstore = \"nowhere\"\n");
    const ProgramEnd wrong = home.shell("agent-relay run -- true");
    CHECK(wrong.status == 0);
    CHECK(says(wrong.err, "config.toml:2:9: sessions.store must be"));
    configure_repository(home, "[sessions]\nstore = \"user\"\n");
    const ProgramEnd end = home.shell(
        "env -u AGENT_RELAY_HOME sh -c 'agent-relay run -- true; agent-relay daemon stop' && find "
        "\"$HOME/.local/state/agent-relay/sessions\" .agent-relay -name meta.json");
    CHECK(says(end.out, home.root() + "/.local/state/agent-relay/sessions/"));
    CHECK_FALSE(says(end.out, "\n.agent-relay/"));
}

TEST_CASE("a command runs past a configuration that cannot be understood and says so") {
    const RelayHome home;
    configure_repository(home, "[default]\nagnt = \"x\"\n");
    const ProgramEnd end = home.shell("agent-relay run -- echo ran");
    CHECK(end.status == 0);
    CHECK(end.out == "ran\n");
    CHECK_MESSAGE(says(end.err, "config.toml:2:1: unknown key"), end.err);
    CHECK(says(end.err, "this command runs as if nothing were configured"));
    CHECK(home.session().text("turns/001-output.md") == "ran\n");
}

}  // namespace
}  // namespace relay::tests
