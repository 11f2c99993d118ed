// SPDX-License-Identifier: Apache-2.0
#include "recorder/clock.hpp"

#include <chrono>

namespace relay::recorder {

layout::Timestamp SystemClock::now() const {
    const auto since = std::chrono::system_clock::now().time_since_epoch();
    return {std::chrono::duration_cast<std::chrono::milliseconds>(since).count()};
}

std::int64_t SystemClock::steady_us() const {
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::microseconds>(since).count();
}

}  // namespace relay::recorder
