// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace relay::cli {

// Threads that are worth starting for `items` pieces of work on files, of which one thread should have
// `share` or more. At least 1, at most 16, and four a core: whoever waits for a disk needs none.
[[nodiscard]] inline std::size_t worker_count(std::size_t items, std::size_t share) {
    constexpr std::size_t workers_a_core = 4;
    constexpr std::size_t workers_max = 16;
    const std::size_t cores = std::max<std::size_t>(1, std::thread::hardware_concurrency());
    const std::size_t wanted = items / std::max<std::size_t>(1, share);
    return std::clamp<std::size_t>(wanted, 1, std::min(workers_max, workers_a_core * cores));
}

// Calls `work(worker, item)` once for each item below `items`, about in their order, on `workers` threads,
// of which the caller's is one, and returns when all are done. `work` must not throw.
template<typename Work>
void side_by_side(std::size_t items, std::size_t workers, const Work& work) {
    std::atomic<std::size_t> next{0};
    const auto take = [&next, &work, items](std::size_t worker) {
        for (std::size_t item = next++; item < items; item = next++) {
            work(worker, item);
        }
    };
    std::vector<std::thread> others;
    for (std::size_t worker = 1; worker < workers; ++worker) {
        others.emplace_back(take, worker);
    }
    take(0);
    for (std::thread& other : others) {
        other.join();
    }
}

}  // namespace relay::cli
