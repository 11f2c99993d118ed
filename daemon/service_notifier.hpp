// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/result.hpp"
#include "layout/store.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The two small protocols between a service and systemd: sd_notify(3) and sd_listen_fds(3).

namespace relay::daemon {

// Tells the service manager how we are. Without $NOTIFY_SOCKET every call does nothing. A message that
// cannot be delivered is dropped: the manager's own timeouts are the answer to that. Never blocks. One
// thread at a time.
class ServiceNotifier {
public:
    explicit ServiceNotifier(const layout::Environment& environment);
    ServiceNotifier(const ServiceNotifier&) = delete;
    ServiceNotifier& operator=(const ServiceNotifier&) = delete;
    ~ServiceNotifier();

    [[nodiscard]] bool active() const { return fd_ >= 0; }

    // `status` is the line that `systemctl status` shows; line ends in it become spaces.
    void ready(std::string_view status) const;
    void status(std::string_view text) const;
    void watchdog() const;
    void reloading() const;  // ready() ends the reload
    void stopping() const;
    // The current start, reload or stop may take this much longer from now on.
    void extend_timeout(std::chrono::microseconds more) const;

    // How often watchdog() is to be called: half of what the manager allows. Nothing when it does not watch us.
    [[nodiscard]] std::optional<std::chrono::microseconds> watchdog_interval() const {
        return watchdog_interval_;
    }

private:
    void send(std::string_view message) const;

    int fd_ = -1;
    std::string address_;  // as in sun_path; an abstract one begins with a zero byte
    std::optional<std::chrono::microseconds> watchdog_interval_;
};

// A listening socket that the service manager opened for us. Whoever takes it closes it, and never
// unlinks or shuts it down: it is the manager's too.
struct ListenFd {
    int fd = -1;
    std::string name;  // FileDescriptorName=; "unknown" when it has none
};

// Takes what $LISTEN_FDS hands over, sets close-on-exec, and removes the variables from the environment,
// so that no child takes them for its own. Call once, before the first thread starts. Empty when nothing was meant for
// this process; Errc::invalid when something handed over is no listening Unix stream socket.
[[nodiscard]] layout::Result<std::vector<ListenFd>> take_listen_fds();

}  // namespace relay::daemon
