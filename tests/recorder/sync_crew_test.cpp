// SPDX-License-Identifier: Apache-2.0
#include "recorder/sync_crew.hpp"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <mutex>

namespace relay::tests {

using recorder::SyncCrew;

TEST_CASE("a crew does every piece of work once and returns when all are done") {
    SyncCrew crew(3);
    for (std::size_t count = 0; count < 200; ++count) {
        std::array<std::atomic<int>, 200> done{};
        crew.run(count, [&](std::size_t index) { ++done[index]; });
        for (std::size_t index = 0; index < done.size(); ++index) {
            REQUIRE(done[index] == (index < count ? 1 : 0));
        }
    }
}

TEST_CASE("a crew works on several pieces at the same time") {
    SyncCrew crew(3);
    std::mutex mutex;
    std::condition_variable met;
    int inside = 0;
    // Each piece waits for the other three: one after the other they would never end.
    crew.run(4, [&](std::size_t /*index*/) {
        std::unique_lock lock(mutex);
        ++inside;
        met.notify_all();
        met.wait(lock, [&] { return inside == 4; });
    });
    CHECK(inside == 4);
}

TEST_CASE("a crew without helpers leaves all the work to its caller") {
    SyncCrew crew(0);
    int done = 0;
    crew.run(5, [&](std::size_t /*index*/) { ++done; });
    CHECK(done == 5);
}

}  // namespace relay::tests
