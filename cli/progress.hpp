// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command_line.hpp"

#include <chrono>
#include <cstddef>
#include <string>

namespace relay::cli {

// Says on a terminal's standard error how far a command is that takes longer than a second, on one line that
// goes away again. Says nothing elsewhere. One thread at a time.
class Progress {
public:
    // "<doing> 3 of 200 sessions"
    Progress(const Surroundings& surroundings, std::string doing, std::size_t total);
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;
    ~Progress();

    void reach(std::size_t done);
    // Takes the line away and says no more: something else is about to be printed.
    void stop();

private:
    using Clock = std::chrono::steady_clock;

    const Surroundings& surroundings_;
    std::string doing_;
    std::size_t total_;
    Clock::time_point next_;
    bool active_;
    bool shown_ = false;
};

}  // namespace relay::cli
