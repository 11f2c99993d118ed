// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace relay::tests {

using Clock = std::chrono::steady_clock;

inline double microseconds(Clock::duration duration) {
    return std::chrono::duration<double, std::micro>(duration).count();
}

// Durations, and what share of them stays below a value.
class Sample {
public:
    void add(Clock::duration duration) {
        values_.push_back(static_cast<float>(microseconds(duration)));
    }
    // 0 when there is none.
    [[nodiscard]] double quantile(double share) {
        if (values_.empty()) {
            return 0;
        }
        const auto rank = static_cast<std::size_t>(share * static_cast<double>(values_.size() - 1));
        const auto at = values_.begin() + static_cast<std::ptrdiff_t>(rank);
        std::nth_element(values_.begin(), at, values_.end());
        return static_cast<double>(*at);
    }

private:
    std::vector<float> values_;
};

}  // namespace relay::tests
