// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command_line.hpp"
#include "layout/settings.hpp"
#include "layout/store.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// What `doctor` looks at. Nothing here changes anything, starts a daemon or waits long for one.

namespace relay::cli {

struct CheckupFinding {
    std::string check;  // "daemon", "socket", …
    std::string what;   // one sentence
    std::string mend;   // the command that mends it; empty: all is well
};

// Where everything is, as far as it is known.
struct CheckupPlaces {
    layout::UserDirectories user;
    std::string socket;
    std::string journal;
    std::string config_file;
    std::chrono::milliseconds orphan_grace{};
};

struct DaemonCheckup {
    bool answers = false;
    std::int64_t pid = 0;  // 0: unknown
    std::vector<CheckupFinding> findings;
};
// Does it answer, is it of this version, does it say that something is wrong, who may reach its socket?
[[nodiscard]] DaemonCheckup check_daemon(const CheckupPlaces& places, std::string_view version);

// The units of the user's systemd, and whether the daemon that answers (0: none) is theirs. Nothing where there is no
// such manager, or where another socket than theirs is used.
[[nodiscard]] std::vector<CheckupFinding> check_systemd(
    const CheckupPlaces& places, const layout::Environment& environment, std::int64_t daemon_pid);

// State directory and journal: permissions, file system, size, what was left over, undelivered events.
[[nodiscard]] std::vector<CheckupFinding> check_state(const CheckupPlaces& places);

// Every store: is it there, permissions, file system, sessions that nobody owns, leftover files.
[[nodiscard]] std::vector<CheckupFinding>
check_stores(const CheckupPlaces& places, bool daemon_answers);

// The permissions of a directory or file of ours; nothing when it does not exist.
void check_permissions(
    std::string_view check, const std::string& path, std::vector<CheckupFinding>& findings);

// Whether the file system below `path` keeps what it is told to sync. Nothing when it does not exist.
void check_durability(
    std::string_view check,
    const std::string& path,
    const std::string& mend,
    std::vector<CheckupFinding>& findings);

}  // namespace relay::cli
