// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/result.hpp"

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace relay::cli {

// A small program that is asked a question: some input, some output, an end.
struct Question {
    std::string program;                   // a path
    std::vector<std::string> words;        // its name first
    std::vector<std::string> environment;  // "NAME=value"
    std::string_view input;
    std::size_t output_bytes_max = 64 << 20;
    std::chrono::steady_clock::time_point deadline;
};

// Everything it wrote to its standard output, when it ended with 0 and in time. It is killed when it writes too
// much or takes too long. Its errors go nowhere. Any thread.
[[nodiscard]] layout::Result<std::string> ask_program(const Question& question);

}  // namespace relay::cli
