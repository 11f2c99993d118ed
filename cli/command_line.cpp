// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.hpp"

#include "cli/current_directory.hpp"
#include "cli/daemon_starter.hpp"
#include "cli/flag_table.hpp"
#include "cli/local_settings.hpp"
#include "cli/terminal_text.hpp"
#include "delivery/spool_delivery.hpp"
#include "layout/nearest_name.hpp"
#include "layout/version.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <ostream>
#include <variant>

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
  agent-relay run -- make test                  run any command and record it
  agent-relay run codex "fix the failing test"  run an agent and record it
  agent-relay daemon start                      start the recorder
  agent-relay daemon status                     is it well, and what is it doing?
  agent-relay emit turn.note kind=decision payload:='{"summary":"use sqlite"}'
                                                push one event from a shell script
  agent-relay list                              what was recorded here?
  agent-relay show @latest                      the newest session, turn by turn
  agent-relay watch                             the one that runs, as it happens
  agent-relay search "rate limit" --since 2d    where was that?
  agent-relay verify                            is every sealed turn as it was written?
  agent-relay -c "now the docs"                 the newest session of this directory goes on
  agent-relay export @latest --format html      a page to pass around

commands:
)";
    constexpr std::size_t column = 12;
    for (const Command& command : commands()) {
        text += "  " + std::string(command.name);
        text.append(column - std::min(column, command.name.size()), ' ');
        text += std::string(command.summary) + "\n";
    }
    text += R"(
A session is named by its id, the last characters of it, its slug, its name, a directory, @latest, @1, @2 or @running;
":3" after it means its third turn.

flags of every command:
  --json           data as JSON, one object a line
  --no-color       no colours; NO_COLOR=1 in the environment says the same
  --socket PATH    the daemon's socket (default: $AGENT_RELAY_SOCKET, $XDG_RUNTIME_DIR/agent-relay/relay.sock, …)
  --help, -h       what a command does, with examples
  --version, -V    print the version

exit status: 0 ok, 1 failed, 2 wrong usage, 3 no such session, 4 daemon unreachable, 5 damaged data
)";
    return text;
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
    if (name == "ls") {
        name = "list";
    }
    const std::span<const Command> all = commands();
    const auto found = std::find_if(
        all.begin(), all.end(), [name](const Command& command) { return command.name == name; });
    return found == all.end() ? nullptr : &*found;
}

enum class IfAway { start, leave };

void deliver_spool(const CommandLine& line, IfAway if_away, const Surroundings& surroundings) {
    constexpr std::chrono::milliseconds patience{2'000};
    constexpr std::chrono::milliseconds most{30'000};  // a flood of a gigabyte
    const Result<DaemonPlace> place = find_place(line, surroundings);
    if (!place.ok()) {
        return;
    }
    const auto deliver = [&place, patience, most] {
        return delivery::deliver_left_behind(
            place.value().spool_directory(), place.value().socket, patience, most);
    };
    if (deliver().is_away && if_away == IfAway::start
        && reach_daemon(place.value(), patience, [] { return false; }).ok()) {
        deliver();
    }
}

// The user wants no colours anywhere.
bool is_colourless(const Surroundings& surroundings) {
    const Result<std::string> cwd = current_directory();
    const Result<LocalSettings> local =
        load_local_settings(surroundings.environment, cwd.ok() ? cwd.value() : "", "");
    return local.ok() && std::get<bool>(local.value().settings.find("default.no_color").value);
}

Surroundings without_colours(const Surroundings& surroundings) {
    Surroundings plain = surroundings;
    plain.environment = [whole = surroundings.environment](const char* name) {
        return std::string_view(name) == "NO_COLOR" ? std::optional<std::string>("1") : whole(name);
    };
    return plain;
}

ExitCode dispatch(CommandLine line, const Surroundings& surroundings) {
    if (line.version) {
        surroundings.out << layout::version_text("agent-relay");
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
    // What these do comes first: an agent waits for nobody, and the daemon may not be there before.
    constexpr std::array<std::string_view, 6> deliver_after{
        "run", "resume", "continue", "fork", "clone", "daemon"};
    const bool delivers_after =
        std::find(deliver_after.begin(), deliver_after.end(), command->name) != deliver_after.end();
    const bool only_looks = command->name == "doctor";
    if (!delivers_after && !only_looks) {
        deliver_spool(line, IfAway::start, surroundings);
    }
    const ExitCode code = command->run(line, surroundings);
    if (delivers_after) {
        // They have done what they could to have one, or were told to stop it.
        deliver_spool(line, IfAway::leave, surroundings);
    }
    return code;
}

// Takes the global flag at `at`, if there is one, and moves `at` to the last argument it used.
Result<bool>
take_global(std::span<const char* const> arguments, std::size_t& at, CommandLine& line) {
    const std::string_view argument = arguments[at];
    if (argument == "--json") {
        line.json = true;
    } else if (argument == "--no-color") {
        line.no_color = true;
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
        Command{"run", "run an agent or any command and record it", run_help, run_agent_command},
        Command{
            "handoff",
            "stop a session so that another agent can go on",
            handoff_help,
            handoff_command},
        Command{"resume", "go on with a session that stopped short", resume_help, resume_command},
        Command{
            "continue",
            "go on with the newest session of this directory",
            continue_help,
            continue_command},
        Command{"fork", "begin anew from any turn of a session", fork_help, fork_command},
        Command{"clone", "a second session that goes on where one is", clone_help, clone_command},
        Command{"list", "the sessions that were recorded, newest first", list_help, list_command},
        Command{"show", "a session as it can be read", show_help, show_command},
        Command{"watch", "a session as it happens", watch_help, watch_command},
        Command{"log", "everything that happens in a store", log_help, log_command},
        Command{"search", "find words in what was recorded", search_help, search_command},
        Command{"metrics", "tokens, cost and time", metrics_help, metrics_command},
        Command{"tree", "which session went on from which", tree_help, tree_command},
        Command{"verify", "recompute the hashes of sessions", verify_help, verify_command},
        Command{"export", "a session as one document", export_help, export_command},
        Command{"set", "name a session, label it, say its stage", set_help, set_command},
        Command{"archive", "put sessions out of sight, and back", archive_help, archive_command},
        Command{"delete", "move sessions to the trash, and back", delete_help, delete_command},
        Command{"prune", "remove or compress old sessions by rules", prune_help, prune_command},
        Command{"index", "what makes list and search fast", index_help, index_command},
        Command{"scrub", "overwrite a secret that was recorded", scrub_help, scrub_command},
        Command{"note", "say what should be known of the work", note_help, note_command},
        Command{"emit", "push one event from a shell script", emit_help, emit_command},
        Command{"daemon", "start, stop or ask the recorder", daemon_help, daemon_command},
        Command{"config", "what is configured, and where", config_help, config_command},
        Command{"discover", "which agents are installed", discover_help, discover_command},
        Command{"doctor", "is everything in order?", doctor_help, doctor_command},
        Command{"trust", "let a repository's configuration count", trust_help, trust_command},
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
        } else if (argument == "-c") {
            line.command = "continue";
        } else if (argument.starts_with('-')) {
            // No command is known yet, so no flags but those of every command.
            return Error{
                Errc::invalid,
                0,
                take_flags({std::string(argument)}, {}).error().context
                    + "; see agent-relay --help"};
        } else {
            line.command = argument;
        }
    }
    return line;
}

ExitCode run_command(std::span<const char* const> arguments, const Surroundings& surroundings) {
    const std::string_view first = arguments.empty() ? "" : arguments.front();
    if (first == "__complete" || first == "__manual") {
        // For shells and the build. What follows is somebody's half a command line: none of it is meant for us.
        CommandLine typed;
        typed.command = first;
        typed.arguments.assign(arguments.begin() + 1, arguments.end());
        return first == "__complete" ? complete_command(typed, surroundings)
                                     : manual_command(typed, surroundings);
    }
    const Result<CommandLine> line = parse_command_line(arguments);
    if (!line.ok()) {
        return complain(surroundings, ExitCode::usage, line.error().context);
    }
    const bool on_terminal = surroundings.out_is_terminal || surroundings.err_is_terminal;
    const bool colourless = line.value().no_color || (on_terminal && is_colourless(surroundings));
    const ExitCode code =
        dispatch(line.value(), colourless ? without_colours(surroundings) : surroundings);
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
