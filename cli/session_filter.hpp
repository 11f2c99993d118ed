// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/flag_table.hpp"
#include "cli/session_card.hpp"
#include "cli/session_choice.hpp"
#include "cli/session_scan.hpp"
#include "layout/documents.hpp"
#include "layout/timestamp.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Which sessions a reading command is about: the flags that list, search, metrics, tree, verify and log share.

namespace relay::cli {

// What people call a session that completed with an error or another exit status than 0.
inline constexpr std::string_view failed_status = "failed";

struct SessionFilter {
    std::optional<layout::SessionStatus> status;
    bool failed = false;  // of completed ones
    std::optional<std::string> agent;
    std::vector<std::string> labels;  // all of them
    std::optional<std::string> stage;
    std::optional<std::string> repo;          // its root, a directory below it, or its last name
    std::optional<layout::Timestamp> since;   // updated then or later
    std::optional<layout::Timestamp> before;  // not updated since then
    bool flagged = false;
    bool unread = false;
    enum class Archived { no, only, also } archived = Archived::no;

    [[nodiscard]] bool admits(const SessionCard& card) const;
    [[nodiscard]] bool admits(const layout::Meta& meta) const;
};

// Where to look for them.
struct StoreFlags {
    std::string store;  // --store; empty: the one of the current directory
    bool all_repos = false;
};

// The flags that fill them; the places must outlive the flags.
[[nodiscard]] std::vector<Flag> filter_flags(SessionFilter& filter);
[[nodiscard]] std::vector<Flag> store_flags(StoreFlags& stores);

// The sessions/ directories that the flags mean. A filter by repository looks everywhere.
[[nodiscard]] layout::Result<std::vector<std::string>> sessions_directories(
    const StoreFlags& stores, const SessionFilter& filter, const layout::Environment& environment);

}  // namespace relay::cli
