// SPDX-License-Identifier: Apache-2.0
#include "cli/agent_process.hpp"
#include "cli/agent_table.hpp"
#include "cli/captured_program.hpp"
#include "cli/command_line.hpp"
#include "cli/current_directory.hpp"
#include "cli/flag_table.hpp"
#include "cli/local_settings.hpp"
#include "cli/screen.hpp"
#include "cli/side_by_side.hpp"
#include "cli/terminal_text.hpp"
#include "layout/json_writer.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace relay::cli {

const std::string_view discover_help = R"(agent-relay discover: which agents are installed

usage: agent-relay discover [flags]

examples:
  agent-relay discover
  agent-relay discover --json | jq -r 'select(.installed) | .agent'

Looks in PATH for the agents that agent-relay run knows by name, those of your configuration too, and asks each one
for its version, all at once and none for longer than ten seconds.

flags:
  --config FILE    instead of the usual configuration

--json prints a line an agent: {"v":1,"agent":"codex","aliases":["x"],"binary":"codex","installed":true,"path":"/usr/bin/codex",
"version":"codex 1.0"}; path and version are null when they are not known.

exit status: 0 at least one is installed, 1 none is, or the configuration is wrong, 2 wrong usage
)";

namespace {

using layout::Result;

struct Discovered {
    AgentEntry agent;
    std::optional<std::string> path;
    std::optional<std::string> version;
};

std::optional<std::string> first_line(std::string_view text) {
    constexpr std::size_t version_bytes_max = 120;
    const std::size_t begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
    text.remove_prefix(begin);
    text = text.substr(0, std::min(text.find_first_of("\r\n"), version_bytes_max));
    return text.empty() ? std::nullopt : std::optional(std::string(text));
}

void ask_version(Discovered& found, const std::vector<std::string>& environment) {
    constexpr std::chrono::seconds patience{10};
    Question question;
    question.program = *found.path;
    question.words = {found.agent.binary, "--version"};
    question.environment = environment;
    question.output_bytes_max = 64 << 10;
    question.deadline = std::chrono::steady_clock::now() + patience;
    if (const Result<std::string> answer = ask_program(question); answer.ok()) {
        found.version = first_line(answer.value());
    }
}

std::vector<Discovered>
discover(const std::vector<AgentEntry>& agents, const Surroundings& surroundings) {
    const std::string path =
        surroundings.environment("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
    std::vector<std::string> environment;
    for (char** variable = ::environ; variable != nullptr && *variable != nullptr; ++variable) {
        environment.emplace_back(*variable);
    }
    std::vector<Discovered> found;
    for (const AgentEntry& agent : agents) {
        const Result<std::string> program = find_program(agent.binary, path);
        // A path is taken as it is said, whether anything is there or not.
        const bool there = program.ok() && ::access(program.value().c_str(), X_OK) == 0;
        found.push_back(
            {agent, there ? std::optional(program.value()) : std::nullopt, std::nullopt});
    }
    // One thread each: they wait for others.
    side_by_side(found.size(), found.size(), [&](std::size_t, std::size_t item) {
        if (found[item].path) {
            ask_version(found[item], environment);
        }
    });
    return found;
}

std::string discovered_json(const Discovered& found) {
    std::string out;
    layout::JsonObject object(out, layout::JsonObject::Form::compact);
    object.integer("v", 1);
    object.string("agent", found.agent.name);
    object.strings("aliases", found.agent.aliases);
    object.string("binary", found.agent.binary);
    object.boolean("installed", found.path.has_value());
    object.string_or_null("path", found.path);
    object.string_or_null("version", found.version);
    object.finish();
    return out;
}

void print(
    const std::vector<Discovered>& all, const CommandLine& line, const Surroundings& surroundings) {
    std::vector<std::vector<Cell>> rows;
    for (const Discovered& found : all) {
        if (line.json) {
            const std::string json = discovered_json(found);
            surroundings.out << (surroundings.out_is_terminal ? harmless_json(json) : json) << '\n';
            continue;
        }
        std::string aliases;
        for (const std::string& alias : found.agent.aliases) {
            aliases += (aliases.empty() ? "" : ", ") + alias;
        }
        rows.push_back(
            {{harmless(found.agent.name), found.path ? Tone::bold : Tone::dim},
             {harmless(aliases)},
             {found.path ? harmless(found.version.value_or("does not say")) : "not installed",
              found.path ? Tone::plain : Tone::dim},
             {harmless(found.path.value_or("-"))}});
    }
    if (!line.json) {
        surroundings.out << print_table(
            {{"AGENT"}, {"ALSO"}, {"VERSION", Column::Side::left, 8}, {"PATH"}},
            rows,
            look_at_screen(surroundings));
    }
}

}  // namespace

ExitCode discover_command(const CommandLine& line, const Surroundings& surroundings) {
    std::string explicit_file;
    const std::vector<Flag> flags{text_flag("--config", "a file", explicit_file)};
    const Result<std::vector<std::string>> words = take_flags(line.arguments, flags);
    if (!words.ok() || !words.value().empty()) {
        return complain_usage(
            surroundings,
            "discover",
            words.ok() ? "discover does not know \"" + words.value().front() + "\""
                       : words.error().context);
    }
    const Result<std::string> here = current_directory();
    const Result<LocalSettings> local =
        load_local_settings(surroundings.environment, here.ok() ? here.value() : "", explicit_file);
    const Result<RunConfig> config =
        local.ok() ? make_run_config(local.value().settings, local.value().repository_root)
                   : Result<RunConfig>(local.error());
    if (!config.ok()) {
        return complain(surroundings, ExitCode::failed, config.error().context);
    }
    name_ignored(local.value(), surroundings);
    const std::vector<Discovered> found = discover(config.value().agents, surroundings);
    print(found, line, surroundings);
    const bool any = std::any_of(
        found.begin(), found.end(), [](const Discovered& each) { return each.path.has_value(); });
    return any ? ExitCode::ok : ExitCode::failed;
}

}  // namespace relay::cli
