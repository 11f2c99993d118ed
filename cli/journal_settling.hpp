// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command_line.hpp"
#include "layout/result.hpp"

#include <string>

namespace relay::cli {

// To be called before a session that has ended is moved or its files are replaced. What the journal still holds of
// it would be written once more after a crash of the daemon: a deleted session would be back, a compressed file
// would be taken for one that the user has changed. So the daemon, which is started when there is none, is asked to
// finish what it has. `store` as of --store: one that no daemon has ever recorded in needs none. Errors as of
// DaemonTalk.
[[nodiscard]] layout::Status
settle_journal(const std::string& store, const CommandLine& line, const Surroundings& surroundings);

}  // namespace relay::cli
