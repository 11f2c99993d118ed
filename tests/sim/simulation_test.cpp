// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/simulation.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <string>

namespace relay::tests {
namespace {

std::uint64_t seeds_wanted() {
    const char* const wanted = std::getenv("RELAY_SIM_SEEDS");
    return wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 5'000;
}

}  // namespace

TEST_CASE("every promise holds in a world of crashes and power losses and failing disks") {
    SimulationCounts total;
    const auto begin = std::chrono::steady_clock::now();
    const std::uint64_t seeds = seeds_wanted();
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
        Simulation simulation(seed);
        const std::string broken = simulation.run();
        total.add(simulation.counts());
        REQUIRE_MESSAGE(broken.empty(), broken);
    }
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    MESSAGE(total.text(), "; ", seconds, " s");
    if (seeds >= 1'000) {
        CHECK(total.power_losses > 0);
        CHECK(total.crashes > 0);
        CHECK(total.interrupted > 0);
        CHECK(total.deferred > 0);
    }
}

TEST_CASE("a seed replays to the same events") {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        Simulation first(seed);
        Simulation second(seed);
        REQUIRE(first.run() == second.run());
        CHECK(first.counts().text() == second.counts().text());
    }
}

}  // namespace relay::tests
