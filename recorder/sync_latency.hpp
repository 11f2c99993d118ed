// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace relay::recorder {

// How long the journal's commits took: a histogram in powers of two microseconds. Bucket n counts those
// of less than 2^n µs (and not less than 2^(n-1)); the last one takes the rest. Any thread.
class SyncLatency {
public:
    static constexpr std::size_t bucket_count = 24;  // the last but one ends at 4 s

    void add(std::int64_t microseconds) {
        const auto value = static_cast<std::uint64_t>(microseconds < 0 ? 0 : microseconds);
        const auto bucket = static_cast<std::size_t>(std::bit_width(value));
        buckets_[bucket < bucket_count ? bucket : bucket_count - 1].fetch_add(
            1, std::memory_order_relaxed);
        sum_us_.fetch_add(value, std::memory_order_relaxed);
    }
    [[nodiscard]] std::uint64_t bucket(std::size_t index) const {
        return buckets_[index].load(std::memory_order_relaxed);
    }

    [[nodiscard]] std::uint64_t sum_us() const { return sum_us_.load(std::memory_order_relaxed); }

private:
    std::array<std::atomic<std::uint64_t>, bucket_count> buckets_{};
    std::atomic<std::uint64_t> sum_us_{0};
};

}  // namespace relay::recorder
