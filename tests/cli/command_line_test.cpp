// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.hpp"
#include "tests/support/temporary_directory.hpp"

#include <doctest/doctest.h>

#include <initializer_list>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

using relay::cli::Command;
using relay::cli::commands;
using relay::cli::ExitCode;
using relay::cli::parse_command_line;
using relay::cli::run_command;
using relay::cli::Surroundings;
using relay::tests::TemporaryDirectory;

namespace {

struct Outcome {
    ExitCode code = ExitCode::ok;
    std::string out;
    std::string err;
};

Outcome
run(std::initializer_list<const char*> arguments,
    std::map<std::string, std::string> variables = {}) {
    std::ostringstream out;
    std::ostringstream err;
    const auto environment = [&variables](const char* name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
    };
    const Surroundings surroundings{environment, out, err, false};
    const ExitCode code = run_command(std::vector<const char*>(arguments), surroundings);
    return {code, out.str(), err.str()};
}

auto parse(std::initializer_list<const char*> arguments) {
    return parse_command_line(std::vector<const char*>(arguments));
}

}  // namespace

TEST_CASE("the exit codes are the ones that scripts know") {
    CHECK(static_cast<int>(ExitCode::ok) == 0);
    CHECK(static_cast<int>(ExitCode::failed) == 1);
    CHECK(static_cast<int>(ExitCode::usage) == 2);
    CHECK(static_cast<int>(ExitCode::no_such_session) == 3);
    CHECK(static_cast<int>(ExitCode::daemon_unreachable) == 4);
    CHECK(static_cast<int>(ExitCode::damaged) == 5);
}

TEST_CASE("global flags may stand before and after the command but not after two dashes") {
    const auto line = parse(
        {"--json", "emit", "turn.note", "--socket", "/s", "kind=x", "--", "--json", "--help"});
    REQUIRE(line.ok());
    CHECK(line.value().command == "emit");
    CHECK(line.value().json);
    CHECK(line.value().socket == "/s");
    CHECK_FALSE(line.value().help);
    CHECK(
        line.value().arguments
        == std::vector<std::string>{"turn.note", "kind=x", "--", "--json", "--help"});
    CHECK(parse({"daemon", "status", "--socket=/t"}).value().socket == "/t");
    CHECK(parse({"daemon", "-h"}).value().help);
    CHECK(parse({"-V"}).value().version);
    CHECK(parse({"emit", "--reopen"}).value().arguments == std::vector<std::string>{"--reopen"});
}

TEST_CASE("a wrong global flag is refused by name and points at the help") {
    CHECK(parse({"--socket"}).error().context == "--socket needs a path; see agent-relay --help");
    CHECK(
        parse({"x", "--socket="}).error().context
        == "--socket needs a path; see agent-relay --help");
    CHECK(
        parse({"--frobnicate"}).error().context
        == "unknown flag \"--frobnicate\"; see agent-relay --help");
    const Outcome outcome = run({"--frobnicate"});
    CHECK(outcome.code == ExitCode::usage);
    CHECK(outcome.err == "agent-relay: unknown flag \"--frobnicate\"; see agent-relay --help\n");
}

TEST_CASE("an unknown command is refused with the nearest known one") {
    const Outcome near = run({"deamon", "start"});
    CHECK(near.code == ExitCode::usage);
    CHECK(near.out.empty());
    CHECK(
        near.err
        == "agent-relay: unknown command \"deamon\" (did you mean \"daemon\"?); see agent-relay "
           "--help\n");
    CHECK(
        run({"frobnicate"}).err
        == "agent-relay: unknown command \"frobnicate\"; see agent-relay --help\n");
    CHECK(run({"\x1b[2J"}).err.find('\x1b') == std::string::npos);
}

TEST_CASE("every command explains itself with examples") {
    const Outcome all = run({"--help"});
    CHECK(all.code == ExitCode::ok);
    CHECK(all.err.empty());
    for (const Command& command : commands()) {
        const std::string name(command.name);
        CAPTURE(name);
        CHECK(all.out.find("\n  " + name + " ") != std::string::npos);
        const Outcome flag = run({name.c_str(), "--help"});
        CHECK(flag.code == ExitCode::ok);
        CHECK(flag.out.starts_with("agent-relay " + name + ": "));
        CHECK(flag.out.find("\nexamples:\n") != std::string::npos);
        CHECK(flag.out.find("exit status: ") != std::string::npos);
        CHECK(run({"help", name.c_str()}).out == flag.out);
    }
    CHECK(run({"help"}).out == all.out);
    const Outcome none = run({});
    CHECK(none.code == ExitCode::usage);
    CHECK(none.out.empty());
    CHECK(none.err == all.out);
}

TEST_CASE("the version of the command line names format and protocol") {
    const Outcome outcome = run({"emit", "--version"});
    CHECK(outcome.code == ExitCode::ok);
    CHECK(outcome.out.starts_with("agent-relay "));
    CHECK(outcome.out.find("format 1, protocol 1, ") != std::string::npos);
}

TEST_CASE("output that cannot be written fails the command") {
    std::ostringstream err;
    std::ostringstream out;
    out.setstate(std::ios::badbit);
    const Surroundings surroundings{
        [](const char*) { return std::optional<std::string>(); }, out, err, false};
    const std::vector<const char*> arguments{"--version"};
    CHECK(run_command(arguments, surroundings) == ExitCode::failed);
    CHECK(err.str() == "agent-relay: the output could not be written\n");
}

TEST_CASE("wrong arguments of a command point at the help of that command") {
    CHECK(
        run({"daemon"}).err
        == "agent-relay: daemon needs one of start, stop, restart, status; see agent-relay daemon "
           "--help\n");
    CHECK(run({"daemon", "halt"}).code == ExitCode::usage);
    CHECK(run({"daemon", "stop", "--", "x"}).code == ExitCode::usage);
    CHECK(
        run({"daemon", "start", "now"}).err
        == "agent-relay: daemon start does not know \"now\"; see agent-relay daemon --help\n");
    CHECK(
        run({"verify", "--all-repo"}).err
        == "agent-relay: unknown flag \"--all-repo\" (did you mean \"--all-repos\"?); see "
           "agent-relay "
           "verify --help\n");
    CHECK(run({"verify", "--all"}).code == ExitCode::usage);
    CHECK(
        run({"emit", "--all", "a=b"}).err
        == "agent-relay: unknown flag \"--all\"; see agent-relay emit --help\n");
    CHECK(run({"emit", "turn.note", "turn.end", "a=b"}).code == ExitCode::usage);
    for (const char* const pid : {"--pid=", "--pid=0", "--pid=-1", "--pid=12x", "--pid"}) {
        CAPTURE(pid);
        CHECK(run({"emit", "turn.note", "a=b", pid})
                  .err.starts_with("agent-relay: --pid needs the number of a process, got \""));
    }
    CHECK(
        run({"emit", "turn.note", "kind=x"}).err
        == "agent-relay: turn.note needs a session; give session=<id> or set "
           "AGENT_RELAY_SESSION; see agent-relay emit --help\n");
}

TEST_CASE("a daemon that is not there is told apart from a failure") {
    const TemporaryDirectory directory;
    const std::string socket = directory.path() + "/relay.sock";
    const std::string sentence = "agent-relay: agent-relayd is not running (no answer at " + socket
                                 + "); start it with: agent-relay daemon start\n";
    const Outcome by_flag = run({"daemon", "status", "--socket", socket.c_str()});
    CHECK(by_flag.code == ExitCode::daemon_unreachable);
    CHECK(by_flag.err == sentence);
    CHECK(by_flag.out.empty());
    const Outcome by_variable =
        run({"emit", "turn.note", "kind=x", "session=S"}, {{"AGENT_RELAY_SOCKET", socket}});
    CHECK(by_variable.code == ExitCode::daemon_unreachable);
    CHECK(by_variable.err == sentence);
    CHECK(run({"daemon", "stop", "--socket", socket.c_str()}).code == ExitCode::ok);
}

TEST_CASE("verifying what is no session exits with no such session") {
    const TemporaryDirectory directory;
    const Outcome words = run({"verify", directory.path().c_str()});
    CHECK(words.code == ExitCode::no_such_session);
    CHECK(words.out.empty());
    CHECK(words.err.starts_with("agent-relay: "));
    const Outcome json = run({"verify", "--json", (directory.path() + "/").c_str()});
    CHECK(json.code == ExitCode::no_such_session);
    CHECK(json.err.empty());
    CHECK(json.out.starts_with(
        "{\"v\":1,\"session\":\"" + directory.path() + "/\",\"path\":\"" + directory.path()
        + "\",\"ok\":false,\"error\":\""));
}
