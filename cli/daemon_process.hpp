// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/result.hpp"
#include "layout/store.hpp"

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

// The daemon as a process: finding its program, starting it apart from this one, ending it.

namespace relay::cli {

// agent-relayd beside the running program, else in $PATH. Errc::not_found when it is in neither.
[[nodiscard]] layout::Result<std::string> find_daemon(const layout::Environment& environment);

// A daemon started by this process, in a session of its own, reading nothing, its words appended to a
// log. It keeps running when this object goes.
class StartedDaemon {
public:
    // `log_file` is made if need be, with its directories; 0600 in 0700.
    [[nodiscard]] static layout::Result<StartedDaemon> start(
        const std::string& program,
        const std::vector<std::string>& arguments,
        const std::string& log_file);

    [[nodiscard]] pid_t pid() const { return pid_; }

    // The wait status once it has exited, and from then on.
    [[nodiscard]] std::optional<int> exit_status();

    // The last lines it wrote to the log, without what stood there before it.
    [[nodiscard]] std::vector<std::string> last_words() const;

private:
    StartedDaemon(pid_t pid, std::string log_file, off_t log_begin)
        : pid_(pid), log_file_(std::move(log_file)), log_begin_(log_begin) {}

    pid_t pid_;
    std::string log_file_;
    off_t log_begin_;  // size of the log before the daemon
    std::optional<int> exit_status_;
};

// A process that may not be a child, pinned so that its number cannot pass to another one.
class PinnedProcess {
public:
    // Errc::gone when there is no such process.
    [[nodiscard]] static layout::Result<PinnedProcess> pin(pid_t pid);

    PinnedProcess(const PinnedProcess&) = delete;
    PinnedProcess& operator=(const PinnedProcess&) = delete;
    PinnedProcess(PinnedProcess&& other) noexcept;
    PinnedProcess& operator=(PinnedProcess&&) = delete;
    ~PinnedProcess();

    // SIGTERM, then waits. True when it is gone, false when it still runs after `timeout`.
    [[nodiscard]] layout::Result<bool> terminate(std::chrono::milliseconds timeout) const;

private:
    explicit PinnedProcess(int fd) : fd_(fd) {}

    int fd_;
};

}  // namespace relay::cli
