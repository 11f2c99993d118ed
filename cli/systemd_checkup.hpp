// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/checkup.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace relay::cli {

// What the user's manager says about one unit; the words are systemd's own.
struct UnitState {
    std::string load;       // "loaded", "not-found", "masked", …
    std::string active;     // "active", "inactive", "failed", …
    std::string unit_file;  // "enabled", "disabled", "static", …
    std::string result;     // "success", "exit-code", …
    std::int64_t main_pid = 0;
};

struct UnitStates {
    UnitState socket;
    UnitState service;
};
// Of the answer to `systemctl --user show` for both units.
[[nodiscard]] UnitStates read_unit_states(std::string_view shown);

// Half of an installation is ill: a socket that is enabled and does not listen, that listens and is not enabled, that
// was left alone by a daemon somebody else started. None at all is well: the daemon is then started when it is needed.
// `daemon_pid`: of the one that answers; 0 when none does.
[[nodiscard]] std::vector<CheckupFinding>
judge_units(const UnitStates& units, std::int64_t daemon_pid);

}  // namespace relay::cli
