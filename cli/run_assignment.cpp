// SPDX-License-Identifier: Apache-2.0
#include "cli/run_assignment.hpp"

#include "layout/nearest_name.hpp"

#include <cstdint>
#include <string_view>
#include <utility>

namespace relay::cli {

namespace {

using layout::Errc;
using layout::Error;
using layout::Result;

Error unknown_agent(const RunConfig& config, const std::string& name) {
    std::vector<std::string_view> names;
    for (const AgentEntry& agent : config.agents) {
        names.push_back(agent.name);
        names.insert(names.end(), agent.aliases.begin(), agent.aliases.end());
    }
    const std::string_view nearest = layout::nearest_name(name, names, 2);
    return Error{
        Errc::invalid,
        0,
        "no agent \"" + name + "\""
            + (nearest.empty() ? "" : " (did you mean \"" + std::string(nearest) + "\"?)")
            + (name.find_first_of(" \n") == std::string::npos
                   ? "; any command can be run behind --: agent-relay run -- " + name
                   : "; the agent's name goes before its prompt: agent-relay run claude-code "
                     "\"…\"")};
}

// The agent that was named, or the one that the session had, or the usual one.
Result<const AgentEntry*> choose_agent(
    const RunOptions& options,
    const RunConfig& config,
    const std::optional<ResumableSession>& resumed) {
    std::string name = options.agent;
    // A command is never run again because a session says so: a repository may bring sessions along.
    if (name.empty() && resumed && find_agent(config.agents, resumed->agent) != nullptr) {
        name = resumed->agent;
    }
    if (name.empty()) {
        name = config.default_agent;
    }
    if (name.empty() && resumed) {
        return Error{
            Errc::invalid,
            0,
            "session " + resumed->id + " was run by \"" + resumed->agent
                + "\", which is no agent; say who goes on: an agent, or a command behind --"};
    }
    if (name.empty()) {
        return Error{Errc::invalid, 0, "run needs an agent, or a command behind --"};
    }
    const AgentEntry* const entry = find_agent(config.agents, name);
    return entry == nullptr ? Result<const AgentEntry*>(unknown_agent(config, name)) : entry;
}

}  // namespace

Result<RunAssignment> assign_run(
    const RunOptions& options, const RunConfig& config, std::optional<ResumableSession> resumed) {
    RunAssignment assignment;
    assignment.resumed = std::move(resumed);
    assignment.store = config.store;
    assignment.watch = options.watch || config.watch;
    assignment.no_color = config.no_color;
    const std::optional<std::string> packet =
        assignment.resumed ? std::optional(assignment.resumed->prompt) : std::nullopt;
    if (!options.command.empty()) {
        const std::string& program = options.command.front();
        assignment.agent = program.substr(program.rfind('/') + 1);
        assignment.command = options.command;
        assignment.prompts = PromptSource({{packet.value_or(as_typed(options.command))}});
        return assignment;
    }
    const Result<const AgentEntry*> entry = choose_agent(options, config, assignment.resumed);
    if (!entry.ok()) {
        return entry.error();
    }
    assignment.entry = entry.value();
    assignment.agent = assignment.entry->name;
    assignment.format = assignment.entry->format;
    assignment.passthrough_exit = options.passthrough_exit;
    Result<PromptSource> prompts = PromptSource::open(options, packet);
    if (!prompts.ok()) {
        return prompts.error();
    }
    assignment.prompts = std::move(prompts.value());
    const std::int64_t most = options.max_turns > 0 ? options.max_turns : config.max_turns;
    if (most > 0) {
        assignment.prompts.limit(most);
    }
    return assignment;
}

}  // namespace relay::cli
