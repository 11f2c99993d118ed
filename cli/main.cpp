// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.hpp"

#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <exception>
#include <iostream>
#include <span>

int main(int count, char** arguments) {
    try {
        if (::isatty(STDOUT_FILENO) != 1) {
            // As much as a pipe takes at once: a list of ten thousand sessions is 12 MB of JSON.
            constexpr std::size_t block_bytes = std::size_t{64} * 1024;
            static_cast<void>(std::setvbuf(stdout, nullptr, _IOFBF, block_bytes));
        }
        const std::span<char*> all(arguments, static_cast<std::size_t>(count));
        const relay::cli::Surroundings surroundings{
            relay::layout::process_environment(),
            std::cout,
            std::cerr,
            ::isatty(STDOUT_FILENO) == 1,
            ::isatty(STDERR_FILENO) == 1,
        };
        return static_cast<int>(relay::cli::run_command(
            {all.begin() + (all.empty() ? 0 : 1), all.end()}, surroundings));
    } catch (const std::exception& failure) {
        std::cerr << "agent-relay: " << failure.what() << '\n';
    } catch (...) {
        std::cerr << "agent-relay: failed for an unknown reason\n";
    }
    return static_cast<int>(relay::cli::ExitCode::failed);
}
