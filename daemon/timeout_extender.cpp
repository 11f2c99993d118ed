// SPDX-License-Identifier: Apache-2.0
#include "daemon/timeout_extender.hpp"

#include <utility>

namespace relay::daemon {

using std::chrono::steady_clock;

TimeoutExtender::TimeoutExtender(const ServiceNotifier& notifier, std::string doing)
    : notifier_(notifier), doing_(std::move(doing)) {
    if (notifier_.active()) {
        notifier_.status(doing_);
        thread_ = std::thread([this] { work(); });
    }
}

TimeoutExtender::~TimeoutExtender() {
    if (!thread_.joinable()) {
        return;
    }
    {
        const std::lock_guard guard(mutex_);
        ended_ = true;
        end_.notify_all();
    }
    thread_.join();
}

void TimeoutExtender::work() {
    const auto begun = steady_clock::now();
    std::unique_lock lock(mutex_);
    while (!ended_ && steady_clock::now() - begun < limit) {
        const auto taken =
            std::chrono::duration_cast<std::chrono::seconds>(steady_clock::now() - begun);
        notifier_.extend_timeout(3 * beat);
        notifier_.watchdog();
        if (taken.count() > 0) {
            notifier_.status(doing_ + " for " + std::to_string(taken.count()) + " s");
        }
        end_.wait_for(lock, beat, [this] { return ended_; });
    }
}

}  // namespace relay::daemon
