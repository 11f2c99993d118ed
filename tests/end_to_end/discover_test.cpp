// SPDX-License-Identifier: Apache-2.0
#include "tests/end_to_end/relay_home.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <map>
#include <sstream>
#include <string>

namespace relay::tests {
namespace {

std::map<std::string, Json> agents_of(const ProgramEnd& end) {
    std::map<std::string, Json> found;
    std::istringstream lines(end.out);
    for (std::string line; std::getline(lines, line);) {
        const Json agent = Json::parse(line);
        found[agent["agent"]] = agent;
    }
    return found;
}

void install(const RelayHome& home, const std::string& name, const std::string& script) {
    write_text(home.root() + "/bin/" + name, "#!/bin/sh\n" + script);
    REQUIRE(home.shell("chmod 755 '" + home.root() + "/bin/" + name + "'").status == 0);
}

TEST_CASE("discover tells what is installed and waits for no agent that hangs") {
    const RelayHome home;
    install(home, "codex", "[ \"$1\" = --version ] && printf '\\n codex 1.2\\033[31m\\nmore\\n'\n");
    install(home, "claude", "exec sleep 60\n");
    install(home, "aider", "exec sleep 60\n");
    install(home, "gemini", "exit 3\n");
    install(home, "my-agent", "echo mine 7\n");
    REQUIRE(home.shell("mkdir -p \"$AGENT_RELAY_HOME/config\"").status == 0);
    write_text(
        home.root() + "/relay/config/config.toml",
        "[agents.mine]\nbinary = \"my-agent\"\naliases = [\"m\"]\n"
        "[agents.gone]\nbinary = \"/nowhere/gone\"\n");
    const auto begin = std::chrono::steady_clock::now();
    const ProgramEnd end = home.shell("agent-relay discover --json");
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
    CHECK(end.status == 0);
    auto found = agents_of(end);
    CHECK(found.size() == 7);
    CHECK(found["codex"]["installed"] == true);
    CHECK(found["codex"]["path"] == home.root() + "/bin/codex");
    CHECK(found["codex"]["version"] == "codex 1.2\x1b[31m");
    CHECK(found["claude-code"]["installed"] == true);
    CHECK(found["claude-code"]["version"].is_null());
    CHECK(found["gemini"]["version"].is_null());
    CHECK(found["opencode"]["installed"] == false);
    CHECK(found["opencode"]["path"].is_null());
    CHECK(found["mine"]["version"] == "mine 7");
    CHECK(found["gone"]["installed"] == false);
    const ProgramEnd shown = home.shell("agent-relay discover");
    CHECK(shown.out.find("codex 1.2\\x1b[31m") != std::string::npos);
    CHECK(shown.out.find("not installed") != std::string::npos);
    CHECK(home.daemons().empty());
}

TEST_CASE("discover fails where no agent is installed") {
    const RelayHome home;
    const ProgramEnd end = home.shell("PATH=" + home.root() + "/bin agent-relay discover");
    CHECK(end.status == 1);
    CHECK(home.shell("agent-relay discover codex").status == 2);
}

}  // namespace
}  // namespace relay::tests
