// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daemon/config.hpp"
#include "daemon/log.hpp"
#include "daemon/service_notifier.hpp"
#include "layout/result.hpp"
#include "layout/store.hpp"

#include <functional>
#include <memory>
#include <optional>

namespace relay::daemon {

struct DaemonSetup {
    Config config;
    layout::UserDirectories user;
    bool unsafe_journal = false;
    std::optional<int> listen_fd;                    // from the service manager; stays the caller's
    std::function<layout::Result<Config>()> reload;  // reads the configuration again
};

// Exit codes of agent-relayd. 78 is EX_CONFIG and 74 EX_IOERR: systemd is told not to restart on the
// former.
enum class DaemonExit : int {
    stopped = 0,
    failed = 1,
    already_running = 3,
    storage_failed = 74,
    bad_configuration = 78,
};

// The whole service from recovery to the last sync. run() returns when it was told to stop, or could
// not start, or its journal failed.
class Daemon {
public:
    Daemon(DaemonSetup setup, const Log& log, const ServiceNotifier& notifier);
    ~Daemon();
    Daemon(const Daemon&) = delete;
    Daemon& operator=(const Daemon&) = delete;

    [[nodiscard]] DaemonExit run();
    // Whether run() ended because somebody wanted it to.
    [[nodiscard]] bool was_told_to_stop() const;

private:
    struct Service;
    std::unique_ptr<Service> service_;
};

}  // namespace relay::daemon
