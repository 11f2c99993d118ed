// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command_line.hpp"
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

// Where a session lies.
struct SessionPlace {
    layout::Ulid id;
    const std::string* sessions_directory = nullptr;  // of whoever named it
    [[nodiscard]] std::string directory() const { return *sessions_directory + "/" + id.text(); }
};

struct ScannedSession {
    layout::Meta meta;      // as MetaSkimmer reads it
    std::string directory;  // absolute
};

struct SkippedSession {
    std::string directory;
    layout::Error why;
};

// Why, without the directory that was named already: "meta.json: is no JSON".
[[nodiscard]] std::string reason_of(const SkippedSession& skipped);

struct SessionScan {
    std::vector<ScannedSession> sessions;  // newest first
    std::vector<SkippedSession> skipped;   // damaged, of a newer format, or not to be read
};

// The sessions of one directory, newest first.
using ListSessions =
    std::function<layout::Result<std::vector<layout::Ulid>>(const std::string& directory)>;

struct ScanRequest {
    std::vector<std::string> sessions_directories;
    ListSessions list;  // none: layout::list_sessions()
    // Of the ids, before anything is read; none: all.
    std::function<bool(const layout::Ulid& id)> wanted_id;
    // Of what was read; called by several threads at once. None: all.
    std::function<bool(const layout::Meta& meta)> wanted;
};

// A store that is not there holds no sessions; one that cannot be read is a skipped one.
[[nodiscard]] SessionScan scan_sessions(const ScanRequest& request);

// Those of all directories, newest first; a directory that cannot be listed is a skipped one. The directories must
// outlive the places.
[[nodiscard]] std::vector<SessionPlace> find_places(
    const std::vector<std::string>& sessions_directories,
    const ListSessions& list,
    std::vector<SkippedSession>& skipped);

// Says on `err` which ones are missing from what was shown, each with its reason; of very many the first.
void name_skipped(std::span<const SkippedSession> skipped, const Surroundings& surroundings);

}  // namespace relay::cli
