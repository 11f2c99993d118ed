// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/result.hpp"
#include "layout/store.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace relay::daemon {

// What the daemon can be told. Defaults are what a user gets without any file. Values come from, later
// ones winning: built in, /etc/agent-relay/config.toml, the user's config.toml, AGENT_RELAY_<SECTION>__<KEY>
// in the environment, flags. A repository's own config.toml never reaches the daemon.
struct Config {
    // [daemon]
    std::string socket;                              // empty: layout::socket_path()
    std::int64_t max_event_bytes = 16 << 20;         // a longer line is refused with too_large
    std::int64_t max_inflight_bytes = 64 << 20;      // unanswered bytes of all clients together
    std::chrono::milliseconds orphan_grace{30'000};  // how long a session waits for its client
    std::chrono::milliseconds idle_exit{0};          // 0: never
    std::int64_t max_connections = 12'000;

    // [journal]
    std::string journal_dir;  // empty: <state>/journal
    std::int64_t segment_bytes = 32 << 20;
    std::int64_t segments_max = 8;  // beyond it clients wait for a checkpoint
    std::chrono::milliseconds checkpoint_interval{5'000};

    // [sessions]
    std::string store = "auto";  // auto, repo or user

    // Where each value that is not built in came from: "journal.segment_bytes" -> "/etc/…:3:1".
    std::vector<std::pair<std::string, std::string>> origins;
};

// Where to look. `explicit_file` (from --config) replaces both files and must exist.
struct ConfigSources {
    std::string system_file = "/etc/agent-relay/config.toml";
    std::string user_file;
    std::string explicit_file;
    layout::Environment environment;
    // From flags: {"daemon.orphan_grace", "5s"}; checked like everything else, origin "command line".
    std::vector<std::pair<std::string, std::string>> flags;
};

// Reads and checks everything. An unknown key, a wrong type or a value out of bounds is one sentence
// with file:line:column (or the variable's or flag's name), what was seen and what would be right.
// Sections and keys that only the command line uses ([default], [agents.*], …) are accepted unread.
[[nodiscard]] layout::Result<Config> load_config(const ConfigSources& sources);

// "30s", "500ms", "10min", "2h", "1d", or a plain number of seconds.
[[nodiscard]] layout::Result<std::chrono::milliseconds> parse_duration(std::string_view text);

// "64MiB", "16 KiB", "1000000"; K, M, G as powers of 1024.
[[nodiscard]] layout::Result<std::int64_t> parse_size(std::string_view text);

}  // namespace relay::daemon
