// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command_line.hpp"
#include "cli/resume_prompt.hpp"
#include "cli/run_options.hpp"

#include <optional>

namespace relay::cli {

// Runs what `options` say and records it; with `earlier`, as a session that goes on from that one. Its own
// resume flags are not looked at.
[[nodiscard]] ExitCode run_agent(
    const RunOptions& options,
    std::optional<ResumableSession> earlier,
    const CommandLine& line,
    const Surroundings& surroundings);

}  // namespace relay::cli
