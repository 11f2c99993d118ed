// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daemon/service_notifier.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace relay::daemon {

// Keeps the service manager patient, from construction to destruction, while a start or a stop waits for disks in one
// long call: every `beat` it is asked for three more, and its watchdog fed, by a thread of its own. At most for `limit`: whatever takes longer is
// judged by the manager's own timeouts. Does nothing without a manager.
class TimeoutExtender {
public:
    static constexpr std::chrono::seconds beat{10};
    static constexpr std::chrono::minutes limit{30};

    // `doing` is what `systemctl status` shows meanwhile, with the time it has taken: "Recovering". The notifier outlives this
    // object and is used by nobody else meanwhile.
    TimeoutExtender(const ServiceNotifier& notifier, std::string doing);
    TimeoutExtender(const TimeoutExtender&) = delete;
    TimeoutExtender& operator=(const TimeoutExtender&) = delete;
    ~TimeoutExtender();

private:
    void work();

    const ServiceNotifier& notifier_;
    const std::string doing_;
    std::mutex mutex_;
    std::condition_variable end_;
    bool ended_ = false;
    std::thread thread_;
};

}  // namespace relay::daemon
