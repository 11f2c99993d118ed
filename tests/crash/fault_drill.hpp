// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace relay::tests {

// One fault in one life of a real daemon that two clients talk to.
struct FaultPoint {
    // "first": an empty home, recording, an orderly stop. "recovery": the journal of a killed daemon,
    // recording, an orderly stop.
    std::string scene = "first";
    std::string kind = "count";  // count, kill, tear, short, or an errno's name
    std::string part;            // journal, sessions; empty for all files
    long call = 0;               // the how-manyeth, over all threads
    bool ever = false;           // an errno: again at each later call of the name, for a while

    // As flags of relay_torture, to have the same once more.
    [[nodiscard]] std::string flags() const;
};

struct FaultOutcome {
    long calls = 0;          // counted in that life
    std::string hit;         // the call interfered with: "pwrite64 …/journal/000001"; empty: none
    std::string complaints;  // what was not as promised, one a line; empty when all was well
};

// Plays it: after the fault the files as they lie are compared with what was acked, the daemon is started
// anew (or goes on, if it lives), the clients say the rest, and the files are compared once more.
[[nodiscard]] FaultOutcome play(const FaultPoint& point);

}  // namespace relay::tests
