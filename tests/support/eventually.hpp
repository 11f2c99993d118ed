// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <chrono>

namespace relay::tests {

// Waits until `condition()` holds; false when it does not within `limit`. The only place where a test
// waits by the clock: for what no descriptor tells.
template<typename Condition>
[[nodiscard]] bool
eventually(Condition condition, std::chrono::milliseconds limit = std::chrono::seconds(20)) {
    constexpr int pause_ms = 5;
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (!condition()) {
        if (std::chrono::steady_clock::now() >= deadline) {
            return condition();
        }
        ::poll(nullptr, 0, pause_ms);
    }
    return true;
}

}  // namespace relay::tests
