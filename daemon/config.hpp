// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/redactor.hpp"
#include "layout/result.hpp"
#include "layout/settings.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace relay::daemon {

// What the daemon can be told: the keys of layout/config_key.hpp that it reads. Defaults are what a user gets
// without any file. A repository's own config.toml never reaches the daemon.
struct Config {
    // [daemon]
    std::string socket;                              // see layout::configured_socket()
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

    // [redact]
    std::shared_ptr<const layout::Redactor> redactor;  // null: nothing is hidden

    // Where each value that is not built in came from: "journal.segment_bytes" -> "/etc/…:3:1".
    std::vector<std::pair<std::string, std::string>> origins;
};

// layout::load_settings() for the daemon, which is told nothing by a repository: the sources' reader and
// repository are of no account.
[[nodiscard]] layout::Result<Config> load_config(layout::ConfigSources sources);

}  // namespace relay::daemon
