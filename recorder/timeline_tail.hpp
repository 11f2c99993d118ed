// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/result.hpp"
#include "layout/ulid.hpp"

#include <cstdint>
#include <string>

namespace relay::recorder {

// A follower's place in one session: read-only, from the plain files, so that whatever it delivers is
// durable and visible, and a follower that lags costs nobody memory. May wait for a disk.
struct TimelineCursor {
    layout::Ulid session;
    std::string directory;
    std::int64_t offset = 0;    // in events.jsonl: where the next line begins
    std::int64_t from_seq = 0;  // lines below it are passed over
    std::int64_t next_seq = 0;  // what to come back with: one more than the last line delivered
};

// Moves the cursor behind the last whole line there is now.
[[nodiscard]] layout::Status skip_to_end(TimelineCursor& cursor);

// The next lines as events for the wire: with `session`, and with `text` (or `data` in base64) where
// the line points at a stream. About `bytes_max` at most; empty when there is nothing new.
[[nodiscard]] layout::Result<std::string>
read_timeline(TimelineCursor& cursor, std::int64_t bytes_max);

}  // namespace relay::recorder
