// SPDX-License-Identifier: Apache-2.0
#include "daemon/memory_budget.hpp"

#include <algorithm>

namespace relay::daemon {

namespace {

// An event exists as its line, its change and its record for a while, and a small one costs more in
// bookkeeping than in bytes. How near to the bound the daemon stays with a thousand sessions is in
// docs/durability.md (`scripts/soak live`).
constexpr std::int64_t event_overhead_bytes = 768;

constexpr std::int64_t read_bytes_least = 4096;

}  // namespace

std::int64_t MemoryBudget::cost_of_event(std::size_t line_bytes) {
    return static_cast<std::int64_t>(line_bytes + line_bytes / 2) + event_overhead_bytes;
}

std::size_t MemoryBudget::read_bytes(std::size_t most) const {
    const std::int64_t room = std::max(bound_ - unanswered_ - held_, read_bytes_least);
    return std::min(most, static_cast<std::size_t>(room));
}

}  // namespace relay::daemon
