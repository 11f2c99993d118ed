// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/result.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace relay::cli {

struct ScrubbedFile {
    std::string name;  // relative to the session directory
    std::int64_t matches = 0;
};

struct Scrub {
    std::vector<ScrubbedFile> files;  // those in which something was found
    std::int64_t matches = 0;
    bool finished_earlier = false;  // one that had been interrupted was finished first
};

// Overwrites every match of an RE2 pattern in all files of a session that has ended with as many other bytes, so that every offset
// stays what it was; compressed files too, and of documents the strings. Hashes and the chain of seals are made anew, meta.json
// counts the matches, and the timeline gets a line `recorder.scrub`.
//
// All new files are written and synced aside first; then a list of them is, and from there on the scrub happens: should it be
// interrupted, the next call finishes it, whatever its pattern. Before that nothing has changed.
//
// Errc::invalid for a pattern that is none, or that matches words of the record itself; Errc::busy when the session runs or
// somebody else is at it. A dry run changes nothing, and finishes nothing.
[[nodiscard]] layout::Result<Scrub>
scrub_session(const std::string& session_directory, const std::string& pattern, bool dry_run);

}  // namespace relay::cli
