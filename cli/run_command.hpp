// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command_line.hpp"
#include "cli/resume_prompt.hpp"
#include "cli/run_options.hpp"
#include "layout/result.hpp"

#include <optional>
#include <string>

namespace relay::cli {

// Runs what `options` say and records it; with `earlier`, as a session that goes on from that one. Its own
// resume flags are not looked at.
[[nodiscard]] ExitCode run_agent(
    const RunOptions& options,
    std::optional<ResumableSession> earlier,
    const CommandLine& line,
    const Surroundings& surroundings);

// Whether run could start the agent of this name here: a sentence when not.
[[nodiscard]] layout::Status check_agent(const std::string& name, const Surroundings& surroundings);

}  // namespace relay::cli
