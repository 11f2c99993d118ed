// SPDX-License-Identifier: Apache-2.0
#include "cli/agent_table.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace relay::cli {

namespace {

using layout::ConfigLayer;
using layout::Errc;
using layout::Error;
using layout::Result;
using layout::Setting;
using layout::Settings;

// "agents.mine.binary" -> "mine", "binary".
std::pair<std::string, std::string> split_name(std::string_view name) {
    name.remove_prefix(std::string_view("agents.").size());
    const std::size_t dot = name.rfind('.');
    return {std::string(name.substr(0, dot)), std::string(name.substr(dot + 1))};
}

std::string text_of(const Setting& setting) {
    const auto* const text = std::get_if<std::string>(&setting.value);
    return text == nullptr ? "" : *text;
}

std::vector<std::string> words_of(const Setting& setting) {
    const auto* const words = std::get_if<std::vector<std::string>>(&setting.value);
    return words == nullptr ? std::vector<std::string>() : *words;
}

std::string program_of(const Setting& setting, const std::string& repository_root) {
    const std::string program = text_of(setting);
    const bool relative = program.find('/') != std::string::npos && program.front() != '/';
    return relative && setting.layer == ConfigLayer::repository ? repository_root + "/" + program
                                                                : program;
}

void apply(
    const std::string& leaf,
    const Setting& setting,
    const std::string& repository_root,
    AgentEntry& agent) {
    if (leaf == "binary") {
        agent.binary = program_of(setting, repository_root);
    } else if (leaf == "format") {
        agent.format = text_of(setting);
    } else if (leaf == "extra_args") {
        agent.extra_arguments = words_of(setting);
    } else if (leaf == "aliases") {
        agent.aliases = words_of(setting);
    } else if (leaf == "prompt") {
        const std::string way = text_of(setting);
        agent.prompt_on_stdin = way == "stdin";
        if (way.starts_with('-')) {
            agent.arguments = {way};
        }
    }
}

}  // namespace

// Each as its makers describe a run without a person in front of it, printing text. A prompt may begin with a dash, as
// a line of a list does, and is no flag for that.
std::vector<AgentEntry> built_in_agents() {
    std::vector<AgentEntry> agents(5);
    agents[0] = {
        "claude-code", {"c", "claude"}, "claude", "plain", {"-p", "--"}, {"-p"}, {}, false};
    agents[1] = {
        "codex",
        {"x"},
        "codex",
        "plain",
        {"exec", "--skip-git-repo-check", "--"},
        {"exec", "--skip-git-repo-check", "-"},
        {},
        false};
    agents[2] = {"gemini", {"g"}, "gemini", "plain", {"--prompt="}, {}, {}, false};
    agents[3] = {"opencode", {"o"}, "opencode", "plain", {"run", "--"}, {"run"}, {}, false};
    agents[4] = {
        "aider",
        {"a"},
        "aider",
        "plain",
        {"--yes-always", "--no-pretty", "--no-stream", "--message="},
        {"--yes-always", "--no-pretty", "--no-stream", "--message-file", "/dev/stdin"},
        {},
        false};
    return agents;
}

const AgentEntry* find_agent(const std::vector<AgentEntry>& agents, std::string_view name) {
    const auto named = std::find_if(agents.begin(), agents.end(), [name](const AgentEntry& agent) {
        return agent.name == name;
    });
    if (named != agents.end()) {
        return &*named;
    }
    const auto found =
        std::find_if(agents.rbegin(), agents.rend(), [name](const AgentEntry& agent) {
            return std::find(agent.aliases.begin(), agent.aliases.end(), name)
                   != agent.aliases.end();
        });
    return found == agents.rend() ? nullptr : &*found;
}

Result<RunConfig> make_run_config(const Settings& settings, const std::string& repository_root) {
    RunConfig config;
    config.agents = built_in_agents();
    for (const auto& [name, setting] : settings.given) {
        if (!name.starts_with("agents.")) {
            continue;
        }
        const auto [agent_name, leaf] = split_name(name);
        auto agent = std::find_if(
            config.agents.begin(), config.agents.end(), [&wanted = agent_name](const auto& known) {
                return known.name == wanted;
            });
        if (agent == config.agents.end()) {
            config.agents.emplace_back().name = agent_name;
            agent = config.agents.end() - 1;
        }
        apply(leaf, setting, repository_root, *agent);
        if (agent->binary.empty() && !settings.given.contains("agents." + agent_name + ".binary")) {
            return Error{
                Errc::invalid, 0, setting.origin + ": agents." + agent_name + " needs a binary"};
        }
    }
    config.default_agent = text_of(settings.find("default.agent"));
    const Setting turns = settings.find("default.max_turns");
    config.max_turns = std::get<std::int64_t>(turns.value);
    config.watch = std::get<bool>(settings.find("default.watch").value);
    config.no_color = std::get<bool>(settings.find("default.no_color").value);
    const Setting store = settings.find("sessions.store");
    config.store = store.layer == ConfigLayer::repository ? text_of(store) : "";
    return config;
}

AgentCall call_agent(const AgentEntry& agent, const std::optional<std::string>& prompt) {
    AgentCall call;
    call.words.push_back(agent.binary);
    if (!prompt) {
        call.words.insert(
            call.words.end(), agent.extra_arguments.begin(), agent.extra_arguments.end());
        return call;
    }
    const bool on_stdin = agent.prompt_on_stdin || prompt->size() > argument_bytes_max;
    std::vector<std::string> words = on_stdin ? agent.long_arguments : agent.arguments;
    // Flags of the user's are for the subcommand, if there is one, and stand before whatever ends the flags.
    const bool subcommand = !words.empty() && !words.front().starts_with('-');
    if (on_stdin) {
        call.input_text = *prompt;
    } else if (!words.empty() && words.back().ends_with('=')) {
        words.back() += *prompt;
    } else {
        words.push_back(*prompt);
    }
    words.insert(
        words.begin() + (subcommand ? 1 : 0),
        agent.extra_arguments.begin(),
        agent.extra_arguments.end());
    call.words.insert(call.words.end(), words.begin(), words.end());
    return call;
}

}  // namespace relay::cli
