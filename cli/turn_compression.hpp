// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/result.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace relay::cli {

struct Compression {
    std::int64_t files = 0;  // replaced by compressed ones
    std::int64_t bytes_before = 0;
    std::int64_t bytes_after = 0;
    std::vector<std::string> left;  // as they are, because they differ from their seal
};

// Replaces the prompts, outputs, stderrs and diffs of a session's sealed turns by compressed ones, as docs/format.md tells.
// A file is read back and compared with its seal before the recorded one goes; at every moment one of the two is there and
// whole. Small files, and those that would not shrink, stay as they are. Errc::busy when the session runs or somebody else is
// at it.
[[nodiscard]] layout::Result<Compression> compress_turns(const std::string& session_directory);

// How many bytes of a session's files compress_turns() would look at.
[[nodiscard]] std::int64_t compressible_bytes(const std::string& session_directory);

}  // namespace relay::cli
