// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace relay::tests {

struct KillOrder {
    int kills = 50;
    int clients = 20;
    std::chrono::seconds limit{60};  // no further kill after it
    std::uint64_t seed = 0;
};

struct KillReport {
    int kills = 0;     // restarts after them
    int nested = 0;    // further kills in the middle of a recovery
    int attached = 0;  // times a client came back
    std::int64_t events = 0;
    std::string complaints;  // what was lost, doubled or mixed up; empty when nothing was
};

// Kills a daemon that clients talk to at random moments, some of them in its recovery, and compares every
// file of every session with what was said in the end. The moments depend on the machine, the rest on the
// seed.
[[nodiscard]] KillReport kill_under_load(const KillOrder& order);

}  // namespace relay::tests
