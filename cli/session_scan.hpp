// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command_line.hpp"
#include "cli/index_notes.hpp"
#include "layout/documents.hpp"
#include "layout/result.hpp"
#include "layout/ulid.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

// Reading the meta.json of many sessions at once.

namespace relay::cli {

struct ScannedSession {
    layout::Meta meta;      // as MetaSkimmer reads it
    std::string directory;  // absolute
    std::string text;  // the document, when it was asked for; on one line when it is from the index
};

struct SkippedSession {
    std::string directory;
    layout::Error why;
};

struct SessionScan {
    std::vector<ScannedSession> sessions;  // newest first
    std::vector<SkippedSession> skipped;   // damaged, of a newer format, or not to be read
    IndexNotes notes;                      // of what had to be read, when an index was named
    std::size_t in_stores = 0;             // sessions, looked at or not
};

enum class KeepText { no, yes };

struct ScanRequest {
    std::vector<std::string> sessions_directories;
    // The sessions of one of them, newest first. None: layout::list_sessions().
    std::function<layout::Result<std::vector<layout::Ulid>>(const std::string& directory)> list;
    KeepText keep_text = KeepText::no;
    // Of the ids, before anything is read; none: all.
    std::function<bool(const layout::Ulid& id)> wanted_id;
    // Of what was read; called by several threads at once. None: all.
    std::function<bool(const layout::Meta& meta)> wanted;
    // The newest so many; older ones are not looked at.
    std::size_t sessions_max = SIZE_MAX;
    // Where an index may be. With one, a meta.json is read only when the index has none of its stamp; what is found
    // is the same. Empty: none is used.
    std::string index_directory;
};

// A store that is not there holds no sessions; one that cannot be read is a skipped one.
[[nodiscard]] SessionScan scan_sessions(const ScanRequest& request);

// Says on `err` which ones are missing from what was shown, each with its reason; of very many the first.
void name_skipped(std::span<const SkippedSession> skipped, const Surroundings& surroundings);

}  // namespace relay::cli
