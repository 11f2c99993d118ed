// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace relay::recorder {

// A process told apart from every other one that ever had or will have its number: "<pid> <start time
// in clock ticks> <boot id>". Empty when there is no such process or /proc does not say.
[[nodiscard]] std::string process_identity(std::int64_t pid);

// The number that begins an identity; 0 when there is none.
[[nodiscard]] std::int64_t pid_of(std::string_view identity);

enum class OwnerFate {
    alive,
    dead,      // the process is gone, the machine has been up all the time
    rebooted,  // the machine was down since: whatever ran then does not run now
    unknown,   // no identity was recorded
};
[[nodiscard]] OwnerFate fate_of(std::string_view identity);

}  // namespace relay::recorder
