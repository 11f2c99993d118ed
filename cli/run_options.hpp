// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace relay::cli {

// The arguments of `agent-relay run`, sorted and not yet understood.
struct RunOptions {
    std::vector<std::string> command;   // after "--"
    std::string agent;                  // empty with a command, or for the default one
    std::optional<std::string> prompt;  // of an agent
    std::string prompts_file;           // "-": standard input
    std::int64_t max_turns = 0;         // 0: not said
    std::string name;
    std::vector<std::string> labels;
    std::string store;  // empty: the daemon decides
    std::string config_file;
    bool resume = false;
    std::string resume_from;  // empty: the newest that stopped short
    bool record = true;
    bool diff = true;
    bool raw = false;
    bool watch = false;
    bool passthrough_exit = false;
};

// Errc::invalid with a sentence.
[[nodiscard]] layout::Result<RunOptions>
parse_run_options(const std::vector<std::string>& arguments);

// `words` as one would type them: quoted where a shell needs it.
[[nodiscard]] std::string as_typed(const std::vector<std::string>& words);

}  // namespace relay::cli
