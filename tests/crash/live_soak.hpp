// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace relay::tests {

struct SoakOrder {
    std::chrono::seconds duration{1800};
    std::chrono::seconds kill_every{30};
    std::chrono::seconds row_every{60};
    int sessions = 1000;             // at any moment; each ends after some turns, another begins
    int burst_connections = 10'000;  // beside them, now and then, idle or in the middle of a line
    int full_disk_sessions = 10;     // in a repository on a disk without room; needs root
    std::chrono::milliseconds pause{15'000};  // of a session between two runs of events
    std::uint64_t seed = 1;
};

struct SoakReport {
    std::int64_t events = 0;    // acked
    std::int64_t sessions = 0;  // ended, compared with what was said, and deleted
    int kills = 0;
    int bursts = 0;
    int follower_cuts = 0;  // times that the one who reads too slowly was sent away
    std::int64_t resident_kib_max = 0;
    std::int64_t descriptors_max = 0;
    std::int64_t journal_bytes_max = 0;
    std::chrono::milliseconds recovery_max{0};  // from its start to the daemon's first answer
    std::string full_disk;                      // why there was none; empty otherwise
    std::string complaints;                     // bounds broken, bytes lost; empty when all is well
};

// A daemon with the default journal, and everything at once for a long time: sessions that come and go,
// bursts of connections, a follower that hardly reads, a repository on a full disk, SIGKILL again and again.
// Every file of every session is compared with what was said; memory, descriptors, journal and the time a
// recovery takes stay within the bounds of docs/durability.md. `say` is given a table, line by line.
[[nodiscard]] SoakReport
soak(const SoakOrder& order, const std::function<void(const std::string&)>& say);

}  // namespace relay::tests
