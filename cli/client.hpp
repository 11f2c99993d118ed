// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command_line.hpp"
#include "delivery/client.hpp"
#include "layout/result.hpp"

#include <string>

namespace relay::cli {

using delivery::Client;

// The socket that the flags, the environment or the configuration name; absolute.
[[nodiscard]] layout::Result<std::string>
find_socket(const CommandLine& line, const Surroundings& surroundings);

// "agent-relayd is not running (no answer at …); start it with: agent-relay daemon start"
[[nodiscard]] std::string not_running(const std::string& socket);

// The sentence for a connection that could not be made.
[[nodiscard]] std::string unreachable(const std::string& socket, const layout::Error& error);

}  // namespace relay::cli
