// SPDX-License-Identifier: Apache-2.0
#include "recorder/seal_sync.hpp"

#include <algorithm>
#include <cstdint>

namespace relay::recorder {

namespace {

// From here on the file system's sync is cheaper (ext4: 8 files 104 µs each against 148 µs), and from there on
// it is in any case: a recovery that has much to do.
constexpr std::size_t together_min = 8;
constexpr std::size_t always_together_min = 1024;

// What the file system's sync may take for each of our files before somebody else's must be among them.
constexpr std::int64_t share_us_max = 250;
constexpr std::size_t singly_min = 16;
constexpr std::size_t singly_max = 4096;

}  // namespace

Status SealSync::sync(Directory& place, std::span<File* const> files, const Clock& clock) {
    const bool small = files.size() < together_min;
    if (small || (singly_ > 0 && files.size() < always_together_min)) {
        singly_ -= !small && singly_ > 0 ? 1 : 0;
        return place.sync_files(files);
    }
    const std::int64_t begin_us = clock.steady_us();
    Status synced = place.sync_file_system();
    const std::int64_t took_us = clock.steady_us() - begin_us;
    if (took_us > share_us_max * static_cast<std::int64_t>(files.size())) {
        singly_ = std::clamp(singly_next_, singly_min, singly_max);
        singly_next_ = 2 * singly_;
    } else {
        singly_next_ = 0;
    }
    return synced;
}

}  // namespace relay::recorder
