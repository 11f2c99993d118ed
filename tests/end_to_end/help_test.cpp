// SPDX-License-Identifier: Apache-2.0

// What the program says of itself, word by word. RELAY_UPDATE_GOLDEN=1 writes it anew.

#include "tests/end_to_end/recording.hpp"

#include <doctest/doctest.h>
#include <relay_built_here.hpp>

#include <stdlib.h>

#include <string>
#include <vector>

namespace relay::tests {
namespace {

const std::string golden_root = std::string(RELAY_TEST_DATA) + "/words/";

void check_golden(const std::string& name, const std::string& text) {
    CAPTURE(name);
    if (::getenv("RELAY_UPDATE_GOLDEN") != nullptr) {
        write_text(golden_root + name, text);
    }
    CHECK(text == read_text(golden_root + name));
}

ProgramEnd say(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), RELAY_CLI_BINARY);
    return run_program(
        arguments, {{"AGENT_RELAY_HOME", "/nonexistent/relay"}, {"HOME", "/nonexistent"}});
}

TEST_CASE("the help of commands is as it was agreed on") {
    for (const std::string command :
         {"list",     "show",   "watch", "log",    "search",   "metrics", "tree",
          "verify",   "config", "trust", "doctor", "discover", "handoff", "resume",
          "continue", "fork",   "clone", "set",    "archive",  "delete",  "prune",
          "export",   "run",    "note",  "emit",   "daemon",   "scrub",   "index"}) {
        const ProgramEnd end = say({command, "--help"});
        CHECK(end.status == 0);
        CHECK(end.err.empty());
        check_golden(command + "-help.txt", end.out);
    }
    check_golden("help.txt", say({"--help"}).out);
}

TEST_CASE("mistakes are answered in the words that were agreed on") {
    const std::vector<std::vector<std::string>> mistakes{
        {"list", "what"},
        {"list", "--stauts", "active"},
        {"list", "--status", "asleep"},
        {"list", "--since", "soon"},
        {"list", "-n", "0"},
        {"list", "--agent"},
        {"list"},
        {"show", "a", "b"},
        {"show", "--prompt", "--output"},
        {"show"},
        {"show", "nobody"},
        {"show", "@0"},
        {"show", "./nowhere"},
        {"show", "--store", "/nonexistent/store"},
        {"watch"},
        {"watch", "nobody"},
        {"watch", "--from", "first"},
        {"log"},
        {"log", "tail"},
        {"search"},
        {"search", "--regex", "a("},
        {"search", "--regex", "a", "b"},
        {"metrics"},
        {"metrics", "--by", "week"},
        {"metrics", "--chain", "nobody"},
        {"tree", "nobody"},
        {"tree"},
        {"verify", "nobody"},
        {"verify", "--quick"},
        {"verify"},
        {"handoff"},
        {"handoff", "--session", "nobody"},
        {"resume"},
        {"resume", "nobody"},
        {"fork"},
        {"fork", "nobody:2"},
        {"clone", "--name", "x"},
        {"set", "nobody"},
        {"set", "nobody", "lable+=x"},
        {"set", "nobody", "name=x"},
        {"archive"},
        {"delete"},
        {"delete", "nobody"},
        {"delete", "--undo", "nobody"},
        {"delete", "--list"},
        {"scrub"},
        {"scrub", "x"},
        {"prune"},
        {"prune", "--keep", "many"},
        {"prune", "--keep", "3"},
        {"index", "melt"},
        {"index", "rebuild", "remove"},
        {"index"},
        {"export", "--format", "pdf"},
        {"export", "--format", "md"},
    };
    std::string all;
    for (const std::vector<std::string>& mistake : mistakes) {
        all += "$ agent-relay";
        for (const std::string& word : mistake) {
            all += " " + word;
        }
        const ProgramEnd end = say(mistake);
        all += "\n" + end.out + end.err + "exit " + std::to_string(end.status) + "\n\n";
    }
    check_golden("mistakes.txt", all);
}

}  // namespace
}  // namespace relay::tests
