// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/result.hpp"
#include "layout/store.hpp"

#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// From the arguments of agent-relay to one command. A command is one file with one function, and one
// line in the table of command_line.cpp.

namespace relay::cli {

// Scripts branch on these; they never change their meaning.
enum class ExitCode {
    ok = 0,
    failed = 1,
    usage = 2,  // or an ambiguous name
    no_such_session = 3,
    daemon_unreachable = 4,
    damaged = 5,
    interrupted = 130,  // by Ctrl-C
};

// What a command may reach of the world around it, apart from files and the daemon. Data goes to `out`,
// words to `err`.
struct Surroundings {
    layout::Environment environment;
    std::ostream& out;
    std::ostream& err;
    bool out_is_terminal = false;
    bool err_is_terminal = false;
};

// The arguments, sorted. Global flags may stand anywhere before "--" and are taken out of `arguments`.
struct CommandLine {
    std::string command;  // empty when there is none
    std::vector<std::string> arguments;
    std::string socket;  // --socket; empty: the usual one
    bool json = false;
    bool no_color = false;
    bool help = false;
    bool version = false;
};
[[nodiscard]] layout::Result<CommandLine>
parse_command_line(std::span<const char* const> arguments);

struct Command {
    std::string_view name;
    std::string_view summary;  // one line of `agent-relay --help`
    std::string_view help;     // ends in a newline
    ExitCode (*run)(const CommandLine& line, const Surroundings& surroundings) = nullptr;
};
[[nodiscard]] std::span<const Command> commands();

// Everything `agent-relay` does. `arguments` without the program's name.
[[nodiscard]] ExitCode
run_command(std::span<const char* const> arguments, const Surroundings& surroundings);

// Says one sentence on `err`, with "agent-relay: " before it, and returns `code`.
ExitCode complain(const Surroundings& surroundings, ExitCode code, std::string_view sentence);

// The same for a mistake in the arguments of `command`: points at its help.
ExitCode complain_usage(
    const Surroundings& surroundings, std::string_view command, std::string_view sentence);

// The commands, each in <name>_command.cpp.
[[nodiscard]] ExitCode archive_command(const CommandLine& line, const Surroundings& surroundings);
[[nodiscard]] ExitCode clone_command(const CommandLine& line, const Surroundings& surroundings);
[[nodiscard]] ExitCode complete_command(const CommandLine& line, const Surroundings& surroundings);
[[nodiscard]] ExitCode config_command(const CommandLine& line, const Surroundings& surroundings);
[[nodiscard]] ExitCode continue_command(const CommandLine& line, const Surroundings& surroundings);
[[nodiscard]] ExitCode daemon_command(const CommandLine& line, const Surroundings& surroundings);
[[nodiscard]] ExitCode delete_command(const CommandLine& line, const Surroundings& surroundings);
[[nodiscard]] ExitCode discover_command(const CommandLine& line, const Surroundings& surroundings);
[[nodiscard]] ExitCode doctor_command(const CommandLine& line, const Surroundings& surroundings);
[[nodiscard]] ExitCode emit_command(const CommandLine& line, const Surroundings& surroundings);
[[nodiscard]] ExitCode export_command(const CommandLine& line, const Surroundings& surroundings);
[[nodiscard]] ExitCode fork_command(const CommandLine& line, const Surroundings& surroundings);
[[nodiscard]] ExitCode handoff_command(const CommandLine& line, const Surroundings& surroundings);
[[nodiscard]] ExitCode index_command(const CommandLine& line, const Surroundings& surroundings);
[[nodiscard]] ExitCode list_command(const CommandLine& line, const Surroundings& surroundings);
[[nodiscard]] ExitCode log_command(const CommandLine& line, const Surroundings& surroundings);
[[nodiscard]] ExitCode manual_command(const CommandLine& line, const Surroundings& surroundings);
[[nodiscard]] ExitCode metrics_command(const CommandLine& line, const Surroundings& surroundings);
[[nodiscard]] ExitCode note_command(const CommandLine& line, const Surroundings& surroundings);
[[nodiscard]] ExitCode prune_command(const CommandLine& line, const Surroundings& surroundings);
[[nodiscard]] ExitCode resume_command(const CommandLine& line, const Surroundings& surroundings);
[[nodiscard]] ExitCode run_agent_command(const CommandLine& line, const Surroundings& surroundings);
[[nodiscard]] ExitCode scrub_command(const CommandLine& line, const Surroundings& surroundings);
[[nodiscard]] ExitCode search_command(const CommandLine& line, const Surroundings& surroundings);
[[nodiscard]] ExitCode set_command(const CommandLine& line, const Surroundings& surroundings);
[[nodiscard]] ExitCode show_command(const CommandLine& line, const Surroundings& surroundings);
[[nodiscard]] ExitCode tree_command(const CommandLine& line, const Surroundings& surroundings);
[[nodiscard]] ExitCode trust_command(const CommandLine& line, const Surroundings& surroundings);
[[nodiscard]] ExitCode verify_command(const CommandLine& line, const Surroundings& surroundings);
[[nodiscard]] ExitCode watch_command(const CommandLine& line, const Surroundings& surroundings);

// Their help, beside the functions that it describes.
extern const std::string_view archive_help;
extern const std::string_view clone_help;
extern const std::string_view config_help;
extern const std::string_view continue_help;
extern const std::string_view daemon_help;
extern const std::string_view delete_help;
extern const std::string_view discover_help;
extern const std::string_view doctor_help;
extern const std::string_view emit_help;
extern const std::string_view export_help;
extern const std::string_view fork_help;
extern const std::string_view handoff_help;
extern const std::string_view index_help;
extern const std::string_view list_help;
extern const std::string_view log_help;
extern const std::string_view metrics_help;
extern const std::string_view note_help;
extern const std::string_view prune_help;
extern const std::string_view resume_help;
extern const std::string_view run_help;
extern const std::string_view scrub_help;
extern const std::string_view search_help;
extern const std::string_view set_help;
extern const std::string_view show_help;
extern const std::string_view tree_help;
extern const std::string_view trust_help;
extern const std::string_view verify_help;
extern const std::string_view watch_help;

}  // namespace relay::cli
