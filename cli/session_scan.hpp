// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command_line.hpp"
#include "layout/documents.hpp"
#include "layout/result.hpp"
#include "layout/ulid.hpp"

#include <functional>
#include <span>
#include <string>
#include <vector>

// Reading the meta.json of many sessions at once.

namespace relay::cli {

struct ScannedSession {
    layout::Meta meta;      // as MetaSkimmer reads it
    std::string directory;  // absolute
    std::string text;       // the document itself, when it was asked for
};

struct SkippedSession {
    std::string directory;
    layout::Error why;
};

struct SessionScan {
    std::vector<ScannedSession> sessions;  // newest first
    std::vector<SkippedSession> skipped;   // damaged, of a newer format, or not to be read
};

enum class KeepText { no, yes };

struct ScanRequest {
    std::vector<std::string> sessions_directories;
    KeepText keep_text = KeepText::no;
    // Of the ids, before anything is read; none: all.
    std::function<bool(const layout::Ulid& id)> wanted_id;
    // Of what was read; called by several threads at once. None: all.
    std::function<bool(const layout::Meta& meta)> wanted;
};

// A store that is not there holds no sessions; one that cannot be read is a skipped one.
[[nodiscard]] SessionScan scan_sessions(const ScanRequest& request);

// Says on `err` which ones are missing from what was shown, each with its reason; of very many the first.
void name_skipped(std::span<const SkippedSession> skipped, const Surroundings& surroundings);

}  // namespace relay::cli
