// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/index_notes.hpp"
#include "cli/session_card.hpp"
#include "cli/session_scan.hpp"

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

// The cards of very many sessions, with the help of an index.

namespace relay::cli {

struct FoundCard {
    SessionPlace place;
    std::string_view card;      // for decode_card(), which reads it
    std::string_view document;  // meta.json as one line, when it was asked for
};

enum class Documents { no, yes };

struct CardRequest {
    std::vector<std::string> sessions_directories;
    // Called by several threads at once. None: all.
    std::function<bool(const SessionCard& card)> wanted;
    // The newest so many; older ones are not looked at.
    std::size_t sessions_max = SIZE_MAX;
    Documents documents = Documents::no;
    // Where an index may be. With one, a meta.json is read only when the index has none of its stamp; what is found
    // is the same. Empty: none is used.
    std::string index_directory;
};

// The request must outlive it.
struct CardScan {
    std::vector<FoundCard> sessions;      // newest first
    std::vector<SkippedSession> skipped;  // damaged, of a newer format, or not to be read
    IndexNotes notes;                     // of what had to be read, when an index was named
    std::size_t in_stores = 0;            // sessions, looked at or not
    std::vector<std::string> bytes;       // where the cards and documents lie
};

// A store that is not there holds no sessions; one that cannot be read is a skipped one.
[[nodiscard]] CardScan scan_cards(const CardRequest& request);

}  // namespace relay::cli
