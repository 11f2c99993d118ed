// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/result.hpp"
#include "layout/settings.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The agents that `run` knows by name: built in, and [agents.<name>] of the configuration.

namespace relay::cli {

struct AgentEntry {
    std::string name;
    std::vector<std::string> aliases;
    std::string binary;
    std::string format = "plain";
    std::vector<std::string> arguments;  // of a run with a prompt, before it; after a = in one word
    std::vector<std::string> long_arguments;   // likewise, when the prompt comes on standard input
    std::vector<std::string> extra_arguments;  // of every run, from the configuration
    bool prompt_on_stdin = false;              // always, not only when it is long
};

// What `run` takes from the configuration.
struct RunConfig {
    std::vector<AgentEntry> agents;  // built in ones first, changed by what the files say
    std::string default_agent;       // empty: none
    std::int64_t max_turns = 0;      // 0: no bound
    bool watch = false;              // tell what is recorded
    bool no_color = false;           // ask the agent for none
    std::string store;  // of a repository that has its own wish; empty: the daemon knows
};

// Errc::invalid, with the place, when an agent has no program. A relative path of a program that a repository's
// file names begins at `repository_root`.
[[nodiscard]] layout::Result<RunConfig>
make_run_config(const layout::Settings& settings, const std::string& repository_root);

[[nodiscard]] std::vector<AgentEntry> built_in_agents();

// By name, else by alias; of several with one alias the last, so that the user's go before built-in ones. Null when
// there is none.
[[nodiscard]] const AgentEntry*
find_agent(const std::vector<AgentEntry>& agents, std::string_view name);

// A prompt that would not fit into one argument of a program goes through its standard input.
inline constexpr std::size_t argument_bytes_max = 120 << 10;

struct AgentCall {
    std::vector<std::string> words;         // the binary first
    std::optional<std::string> input_text;  // for its standard input
};
// Without a prompt: as a person would start it.
[[nodiscard]] AgentCall
call_agent(const AgentEntry& agent, const std::optional<std::string>& prompt);

}  // namespace relay::cli
