// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/daemon_process.hpp"
#include "tests/support/temporary_directory.hpp"

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace relay::tests {

// What systemd does for a service, in small: holds its listening socket, hands it over at every start, and hears what it
// says about itself. One thread at a time, except where it says otherwise.
class ServiceManager {
public:
    // The service's environment gets NOTIFY_SOCKET, and WATCHDOG_USEC when `watchdog` is not 0.
    explicit ServiceManager(
        DaemonSetup setup, std::chrono::milliseconds watchdog = std::chrono::milliseconds(0));
    ServiceManager(const ServiceManager&) = delete;
    ServiceManager& operator=(const ServiceManager&) = delete;
    ~ServiceManager();

    [[nodiscard]] DaemonProcess& service() { return service_; }

    // Starts the service whenever it does not run and a client waits, as a socket unit does, on a thread of its own
    // until this object goes. From then on service() is that thread's, but for its names and signal_service().
    void activate();
    void signal_service(int number);                         // any thread
    [[nodiscard]] int starts() const { return starts_; }     // any thread
    [[nodiscard]] bool is_running() const { return runs_; }  // any thread

    // Everything heard up to and with the first message that begins with `beginning`; the last one is it. Empty when none does
    // in time.
    [[nodiscard]] std::vector<std::string>
    hear(const std::string& beginning, std::chrono::milliseconds limit = std::chrono::seconds(20));
    // Whether such a message comes within `limit`; earlier ones are forgotten first.
    [[nodiscard]] bool hears_anew(const std::string& beginning, std::chrono::milliseconds limit);

private:
    TemporaryDirectory directory_;
    DaemonProcess service_;
    int listening_ = -1;
    int notified_ = -1;
    std::atomic<bool> gone_ = false;
    std::atomic<bool> runs_ = false;
    std::atomic<int> starts_ = 0;
    std::atomic<pid_t> pid_ = 0;
    std::thread thread_;
};

}  // namespace relay::tests
