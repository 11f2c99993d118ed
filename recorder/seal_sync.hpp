// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/result.hpp"
#include "recorder/clock.hpp"
#include "recorder/disk.hpp"

#include <cstddef>
#include <span>

namespace relay::recorder {

// How the files of several turns become durable: all at once with their file system, which costs least as
// long as nobody else writes much to it, or each for itself. Whoever builds or downloads on the same disk
// leaves megabytes behind, for which the first way waits as well; then it is not tried again for a while. One
// thread at a time.
class SealSync {
public:
    // `place` is open since before the files were written, on their file system.
    [[nodiscard]] Status sync(Directory& place, std::span<File* const> files, const Clock& clock);

private:
    std::size_t singly_ = 0;       // so many times more file by file
    std::size_t singly_next_ = 0;  // and so many after the next time that is slow
};

}  // namespace relay::recorder
