// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace relay::tests {

struct SickDiskOrder {
    std::string kind;  // ext4, xfs, btrfs
    // What lies on the small disk: "journal", "sessions" or "both".
    std::string part;
    // What befalls it: "full", "read-only" (as soon as the kernel lets it) or "unmounted" (lazily, and
    // mounted again later).
    std::string ill;
    std::chrono::milliseconds ill_for{1500};
    std::uint64_t seed = 0;
};

struct SickDiskReport {
    std::string skipped;      // why it was not tried; empty otherwise
    std::int64_t before = 0;  // events acked before, during and after
    std::int64_t during = 0;
    std::int64_t after = 0;
    std::string complaints;
};

// Clients talk to a daemon; a disk falls ill under it and gets well. While it is ill every document stays
// whole; when it is well the recording goes on by itself, and in the end every acked byte is in its place.
[[nodiscard]] SickDiskReport fall_ill(const SickDiskOrder& order);

}  // namespace relay::tests
