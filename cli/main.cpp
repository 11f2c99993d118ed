// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <exception>
#include <iostream>
#include <span>

namespace {

// A file that we open must not become what the caller has closed. Whoever we start finds it closed, as it would
// without us.
void take_closed_descriptors() {
    int fd = -1;
    do {
        fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    ::close(fd);
}

}  // namespace

int main(int count, char** arguments) {
    take_closed_descriptors();
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
