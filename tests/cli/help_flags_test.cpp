// SPDX-License-Identifier: Apache-2.0
#include "cli/help_flags.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using relay::cli::flags_in_help;
using relay::cli::HelpFlag;
using relay::cli::usage_names;

namespace {

HelpFlag flag_of(const char* command, const std::string& name) {
    for (const HelpFlag& flag : flags_in_help(command)) {
        if (flag.name == name) {
            return flag;
        }
    }
    return {};
}

}  // namespace

TEST_CASE("flags are read from the help with their values and meanings") {
    CHECK(flag_of("list", "--since").value == "TIME");
    CHECK(flag_of("list", "--since").meaning.starts_with("touched since then"));
    CHECK(flag_of("list", "--flagged").value.empty());
    CHECK(flag_of("list", "-n").value == "NUMBER");
    CHECK(flag_of("run", "--store").value == "auto|repo|user");
    // Two in one line, one inside the other, one in the usage alone.
    CHECK(flag_of("run", "--label").value == "LABEL");
    CHECK(flag_of("run", "--from").value == "SESSION");
    CHECK(flag_of("note", "--why").value == "TEXT");
    // Of another command.
    CHECK(flag_of("log", "--since").value == "TIME");
    CHECK(flag_of("resume", "--max-turns").value == "N");
    // Of other programs, of examples, and of every command.
    CHECK(flag_of("search", "-E").name.empty());
    CHECK(flag_of("daemon", "--idle-exit").name.empty());
    CHECK(flag_of("config", "--json").name.empty());
    CHECK(flags_in_help("nonsense").empty());
}

TEST_CASE("a usage tells what a command wants to be named") {
    CHECK(usage_names("show", "session"));
    CHECK(usage_names("verify", "session"));
    CHECK(usage_names("run", "agent"));
    CHECK_FALSE(usage_names("run", "session"));
    CHECK_FALSE(usage_names("list", "agent"));
}
