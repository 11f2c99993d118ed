// SPDX-License-Identifier: Apache-2.0

// The README's recipes, run as they stand: every block whose fence says "runnable", in the order of the page, each
// language in one shell, in a home of its own.

#include "tests/end_to_end/relay_home.hpp"

#include <boost/filesystem.hpp>
#include <doctest/doctest.h>
#include <relay_built_here.hpp>

#include <sstream>
#include <string>
#include <vector>

namespace relay::tests {
namespace {

std::vector<std::string> runnable(const std::string& language) {
    std::istringstream lines(read_text(std::string(RELAY_SOURCE_DIR) + "/README.md"));
    std::vector<std::string> blocks;
    bool within = false;
    for (std::string line; std::getline(lines, line);) {
        if (within && line == "```") {
            within = false;
        } else if (within) {
            blocks.back() += line + "\n";
        } else if (line == "```" + language + " runnable") {
            within = true;
            blocks.emplace_back();
        }
    }
    CHECK_FALSE(within);
    return blocks;
}

bool says(const std::string& text, const std::string& words) {
    return text.find(words) != std::string::npos;
}

TEST_CASE("the recipes of the README do what they say") {
    const RelayHome home;
    const std::vector<std::string> blocks = runnable("sh");
    REQUIRE(blocks.size() >= 2);
    // The place that scripts/demo would have built into.
    boost::filesystem::create_directories(home.work() + "/build/release");
    boost::filesystem::create_directory_symlink(
        home.root() + "/bin", home.work() + "/build/release/bin");
    // Ctrl-C, for what goes on until it comes.
    std::string script = "set -e\nunset AGENT_RELAY_HOME\n"
                         "tail() { timeout --signal=INT 1 tail \"$@\" || [ $? -eq 124 ]; }\n";
    for (const std::string& block : blocks) {
        script += block;
    }
    write_text(home.root() + "/tour.sh", script + "echo 'the tour has ended'\n");
    const ProgramEnd end = home.shell("bash '" + home.root() + "/tour.sh'");
    CAPTURE(end.err);
    CAPTURE(end.out);
    CHECK(end.status == 0);
    for (const std::string words :
         {"001-state.json",
          R"("preview":"which tests fail?")",
          R"("summary":"fix disk_test first")",
          R"("type":"turn.end")",
          "still here after a kill",
          ": ok, 2 sealed turns",
          "has stopped",
          "the tour has ended\n"}) {
        CHECK_MESSAGE(says(end.out, words), words);
    }
}

TEST_CASE("the README's table names every command") {
    const RelayHome home;
    const std::string readme = read_text(std::string(RELAY_SOURCE_DIR) + "/README.md");
    const std::size_t begin = readme.find("\n## Commands\n");
    REQUIRE(begin != std::string::npos);
    const std::string table = readme.substr(begin, readme.find("\n## ", begin + 1) - begin);
    std::istringstream lines(home.shell("agent-relay --help").out);
    std::string line;
    while (std::getline(lines, line) && line != "commands:") {
    }
    int commands = 0;
    while (std::getline(lines, line) && line.starts_with("  ")) {
        const std::string name = line.substr(2, line.find(' ', 2) - 2);
        CHECK_MESSAGE((says(table, "`" + name + "`") || says(table, "`" + name + " ")), name);
        ++commands;
    }
    CHECK(commands > 20);
}

TEST_CASE("the client of the README records a session") {
    const RelayHome home;
    const std::vector<std::string> blocks = runnable("python");
    REQUIRE(blocks.size() == 1);
    REQUIRE(home.shell("agent-relay daemon start").status == 0);
    write_text(home.work() + "/client.py", blocks.front());
    const ProgramEnd end =
        home.shell("AGENT_RELAY_SOCKET=$AGENT_RELAY_HOME/state/relay.sock python3 client.py");
    CHECK_MESSAGE(end.status == 0, end.err);
    CHECK(says(end.out, "'ack'"));
    CHECK(home.session().text("turns/001-output.md") == "hello\n");
    CHECK(home.session().meta()["status"] == "completed");
}

}  // namespace
}  // namespace relay::tests
