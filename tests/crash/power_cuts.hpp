// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace relay::tests {

struct PowerCutOrder {
    std::string kind;  // of the file system that holds journal and sessions: ext4, xfs, btrfs
    std::chrono::milliseconds limit{60'000};  // no further round after it; one at least
    std::uint64_t seed = 0;
    // Every sync of the daemon is answered with success and not made: the canary, which must be found out.
    bool syncs_lie = false;
};

struct PowerCutReport {
    std::string skipped;  // why nothing was tried; empty otherwise
    int cuts = 0;
    int interrupted = 0;  // recoveries killed on the way and begun again
    std::int64_t events = 0;
    std::string complaints;
};

// Atomic copies of the disk's image are taken while clients talk to the daemon on it. Each is what the disk
// would hold had the power failed in that moment: without the kernel's page cache, with all that was handed
// to the device. Each is mounted: documents are whole and sealed turns sound before any recovery, and after
// it everything is there that was acked before the copy, and nothing that had not been sent after it.
[[nodiscard]] PowerCutReport cut_power_in_copies(const PowerCutOrder& order);

// The file system itself is shut down under the load, without writing out its log; then the daemon is
// killed, the disk mounted again, and the same clients go on. ext4 and XFS only.
[[nodiscard]] PowerCutReport cut_power_in_place(const PowerCutOrder& order);

}  // namespace relay::tests
