// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/documents.hpp"
#include "layout/result.hpp"

#include <iosfwd>
#include <string>
#include <vector>

// A session as one document, for people and programs that have never heard of its files.

namespace relay::cli {

struct ExportedSession {
    std::string directory;
    layout::Meta meta;
    std::vector<std::int64_t> turns;
};

// Each writes all of it to `out` and returns what could not be read, one sentence each: the rest is there all the same.
//
// Markdown: prompts, outputs and the rest in fences that nothing inside them can close.
[[nodiscard]] std::vector<std::string>
export_markdown(const ExportedSession& session, std::ostream& out);

// One page without scripts and without anything from elsewhere; every recorded byte is text in it.
[[nodiscard]] std::vector<std::string>
export_html(const ExportedSession& session, std::ostream& out);

// First {"v":1,"type":"session","meta":…}, then the events as `watch --json` prints them, then a line a turn as `show --json`
// prints them: what followers of the daemon see, and what the files hold.
[[nodiscard]] std::vector<std::string>
export_jsonl(const ExportedSession& session, std::ostream& out);

}  // namespace relay::cli
