// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cassert>
#include <cstdint>

namespace relay::tests {

// A stream of numbers that depends on the seed alone, on every machine and in every build, so that
// a printed seed replays a failure. SplitMix64: one word of state, good enough to draw faults with.
class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed) {}

    std::uint64_t next() { return mixed(state_ += 0x9E3779B97F4A7C15); }

    // One of 0 ... n-1. The bias of the remainder is far below what a test could notice.
    std::uint64_t below(std::uint64_t n) {
        assert(n > 0);
        return next() % n;
    }

    // True once in `one_in` draws on average.
    bool chance(std::uint32_t one_in) { return below(one_in) == 0; }

    // A number that looks unrelated to `value` and to its neighbours.
    [[nodiscard]] static std::uint64_t mixed(std::uint64_t value) {
        value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
        value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
        return value ^ (value >> 31);
    }

private:
    std::uint64_t state_;
};

}  // namespace relay::tests
