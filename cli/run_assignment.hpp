// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/agent_table.hpp"
#include "cli/prompt_source.hpp"
#include "cli/resume_prompt.hpp"
#include "cli/run_options.hpp"
#include "layout/result.hpp"

#include <optional>
#include <string>
#include <vector>

namespace relay::cli {

// What a `run` is to run, turn by turn.
struct RunAssignment {
    std::string agent;
    std::string format = "plain";
    const AgentEntry* entry = nullptr;  // null: a command; lives in the RunConfig
    std::vector<std::string> command;   // of a command
    PromptSource prompts;
    bool passthrough_exit = true;
    bool watch = false;
    bool no_color = false;
    std::string store;  // as the repository wishes; empty: the daemon knows
    std::optional<ResumableSession> resumed;
};

// Errc::invalid with a sentence when nobody is there to run, or nothing to begin with. Waits for
// the first prompt.
[[nodiscard]] layout::Result<RunAssignment> assign_run(
    const RunOptions& options, const RunConfig& config, std::optional<ResumableSession> resumed);

}  // namespace relay::cli
