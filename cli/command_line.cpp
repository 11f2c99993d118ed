// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.hpp"

#include "cli/terminal_text.hpp"
#include "layout/nearest_name.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <ostream>

#ifndef RELAY_VERSION
#define RELAY_VERSION "0.1.0"
#endif

namespace relay::cli {

namespace {

using layout::Errc;
using layout::Error;
using layout::Result;

std::string program_help() {
    std::string text =
        R"(agent-relay: keeps the sessions of coding agents, turn by turn, as plain files

usage: agent-relay <command> [arguments] [flags]

examples:
  agent-relay daemon start                      start the recorder
  agent-relay daemon status                     is it well, and what is it doing?
  agent-relay emit turn.note kind=decision payload:='{"summary":"use sqlite"}'
                                                push one event from a shell script
  agent-relay verify .agent-relay/sessions/*    is every sealed turn as it was written?

commands:
)";
    constexpr std::size_t column = 12;
    for (const Command& command : commands()) {
        text += "  " + std::string(command.name);
        text.append(column - std::min(column, command.name.size()), ' ');
        text += std::string(command.summary) + "\n";
    }
    text += R"(
flags of every command:
  --json           data as JSON, one object a line
  --socket PATH    the daemon's socket (default: $AGENT_RELAY_SOCKET, $XDG_RUNTIME_DIR/agent-relay/relay.sock, …)
  --help, -h       what a command does, with examples
  --version, -V    print the version

exit status: 0 ok, 1 failed, 2 wrong usage, 3 no such session, 4 daemon unreachable, 5 damaged data
)";
    return text;
}

std::string version_text() {
#if defined(__clang__)
    return "agent-relay " RELAY_VERSION " (format 1, protocol 1, clang++ " __clang_version__ ")\n";
#else
    return "agent-relay " RELAY_VERSION " (format 1, protocol 1, g++ " __VERSION__ ")\n";
#endif
}

ExitCode unknown_command(const std::string& name, const Surroundings& surroundings) {
    std::vector<std::string_view> names{"help"};
    for (const Command& command : commands()) {
        names.push_back(command.name);
    }
    std::string sentence = "unknown command \"" + name + "\"";
    const std::string_view nearest = layout::nearest_name(name, names, 2);
    if (!nearest.empty()) {
        sentence += " (did you mean \"" + std::string(nearest) + "\"?)";
    }
    return complain(surroundings, ExitCode::usage, sentence + "; see agent-relay --help");
}

const Command* find_command(std::string_view name) {
    const std::span<const Command> all = commands();
    const auto found = std::find_if(
        all.begin(), all.end(), [name](const Command& command) { return command.name == name; });
    return found == all.end() ? nullptr : &*found;
}

ExitCode dispatch(CommandLine line, const Surroundings& surroundings) {
    if (line.version) {
        surroundings.out << version_text();
        return ExitCode::ok;
    }
    if (line.command == "help") {
        line.help = true;
        line.command = line.arguments.empty() ? "" : line.arguments.front();
    }
    if (line.command.empty()) {
        (line.help ? surroundings.out : surroundings.err) << program_help();
        return line.help ? ExitCode::ok : ExitCode::usage;
    }
    const Command* const command = find_command(line.command);
    if (command == nullptr) {
        return unknown_command(line.command, surroundings);
    }
    if (line.help) {
        surroundings.out << command->help;
        return ExitCode::ok;
    }
    return command->run(line, surroundings);
}

// Takes the global flag at `at`, if there is one, and moves `at` to the last argument it used.
Result<bool>
take_global(std::span<const char* const> arguments, std::size_t& at, CommandLine& line) {
    const std::string_view argument = arguments[at];
    if (argument == "--json") {
        line.json = true;
    } else if (argument == "--help" || argument == "-h") {
        line.help = true;
    } else if (argument == "--version" || argument == "-V") {
        line.version = true;
    } else if (argument == "--socket" || argument.starts_with("--socket=")) {
        const bool apart = argument == "--socket";
        if (apart && at + 1 < arguments.size()) {
            line.socket = arguments[++at];
        } else if (!apart) {
            line.socket = argument.substr(argument.find('=') + 1);
        }
        if (line.socket.empty()) {
            return Error{Errc::invalid, 0, "--socket needs a path; see agent-relay --help"};
        }
    } else {
        return false;
    }
    return true;
}

}  // namespace

std::span<const Command> commands() {
    static const std::array table{
        Command{"daemon", "start, stop or ask the recorder", daemon_help, daemon_command},
        Command{"emit", "push one event from a shell script", emit_help, emit_command},
        Command{"verify", "recompute the hashes of sessions", verify_help, verify_command},
    };
    return table;
}

Result<CommandLine> parse_command_line(std::span<const char* const> arguments) {
    CommandLine line;
    for (std::size_t at = 0; at < arguments.size(); ++at) {
        const std::string_view argument = arguments[at];
        if (argument == "--") {
            line.arguments.insert(
                line.arguments.end(),
                arguments.begin() + static_cast<std::ptrdiff_t>(at),
                arguments.end());
            break;
        }
        const Result<bool> taken = take_global(arguments, at, line);
        if (!taken.ok()) {
            return taken.error();
        }
        if (taken.value()) {
            continue;
        }
        if (!line.command.empty()) {
            line.arguments.emplace_back(argument);
        } else if (argument.starts_with('-')) {
            return Error{
                Errc::invalid,
                0,
                "unknown flag \"" + std::string(argument) + "\"; see agent-relay --help"};
        } else {
            line.command = argument;
        }
    }
    return line;
}

ExitCode run_command(std::span<const char* const> arguments, const Surroundings& surroundings) {
    const Result<CommandLine> line = parse_command_line(arguments);
    if (!line.ok()) {
        return complain(surroundings, ExitCode::usage, line.error().context);
    }
    const ExitCode code = dispatch(line.value(), surroundings);
    if (!surroundings.out.flush() && code == ExitCode::ok) {
        return complain(surroundings, ExitCode::failed, "the output could not be written");
    }
    return code;
}

ExitCode complain(const Surroundings& surroundings, ExitCode code, std::string_view sentence) {
    surroundings.err << "agent-relay: " << harmless(sentence) << '\n';
    return code;
}

ExitCode complain_usage(
    const Surroundings& surroundings, std::string_view command, std::string_view sentence) {
    return complain(
        surroundings,
        ExitCode::usage,
        std::string(sentence) + "; see agent-relay " + std::string(command) + " --help");
}

}  // namespace relay::cli
