// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/timestamp.hpp"

#include <cstdint>

namespace relay::recorder {

// Time, passed in so that the simulation can step it. Any thread.
class Clock {
public:
    Clock() = default;
    virtual ~Clock() = default;
    Clock(const Clock&) = delete;
    Clock& operator=(const Clock&) = delete;

    [[nodiscard]] virtual layout::Timestamp now() const = 0;   // may step back
    [[nodiscard]] virtual std::int64_t steady_us() const = 0;  // never does
    [[nodiscard]] std::int64_t steady_ms() const { return steady_us() / 1'000; }
};

class SystemClock : public Clock {
public:
    [[nodiscard]] layout::Timestamp now() const override;
    [[nodiscard]] std::int64_t steady_us() const override;
};

}  // namespace relay::recorder
