// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/client.hpp"
#include "layout/result.hpp"
#include "layout/store.hpp"

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace relay::cli {

// Where a daemon is, and how to get one there.
struct DaemonPlace {
    std::string socket;
    std::vector<std::string> arguments;  // of a daemon that has to be started
    std::string state_directory;
    layout::Environment environment;

    [[nodiscard]] std::string spool_directory() const { return state_directory + "/spool"; }
};
[[nodiscard]] layout::Result<DaemonPlace>
find_place(const CommandLine& line, const Surroundings& surroundings);

// A connection to the daemon, which is started when nobody listens: by one of the processes that want it at
// the same time, who holds <state>/start.lock, while the others wait for the socket. Gives up after
// `timeout`, when `cancelled` says so, or at once when a daemon cannot be started. The daemon's words
// are in <state>/daemon.log.
[[nodiscard]] layout::Result<Client> reach_daemon(
    const DaemonPlace& place,
    std::chrono::milliseconds timeout,
    const std::function<bool()>& cancelled);

}  // namespace relay::cli
