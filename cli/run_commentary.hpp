// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command_line.hpp"

#include <cstdint>
#include <mutex>
#include <ostream>
#include <string>

namespace relay::cli {

// Tells on standard error what a `run` records beside the agent's own words: turns, decisions, blockers, how it ended.
// Any thread.
class RunCommentary {
public:
    explicit RunCommentary(const Surroundings& surroundings);

    // `members` as in PendingEvent.
    void tell(const std::string& members);

private:
    const Surroundings surroundings_;  // with standard error where output goes
    std::mutex mutex_;
    std::int64_t turn_ = 0;  // under mutex_
};

}  // namespace relay::cli
