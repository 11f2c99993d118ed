// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/simulation.hpp"

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

// relay_sim --seed N [--verbose]    one seed, told step by step
// relay_sim --seeds A..B            a range; stops at the first that fails
// relay_sim --seeds A..B --count    the whole range; tells how many fail

namespace {

using relay::tests::Simulation;
using relay::tests::SimulationCounts;

volatile std::uint64_t seed_running = 0;

// An assertion of the production code failed: say with which seed, so that it can be played again.
void tell_seed(int) {
    static_cast<void>(
        std::fprintf(stderr, "seed %llu aborted\n", static_cast<unsigned long long>(seed_running)));
}

std::uint64_t number_of(std::string_view text) {
    return std::strtoull(std::string(text).c_str(), nullptr, 10);
}

}  // namespace

int main(int argument_count, char** arguments) {
    std::uint64_t first = 0;
    std::uint64_t last = 999;
    relay::tests::StruckCall struck;
    bool verbose = false;
    bool count_failures = false;
    for (int index = 1; index < argument_count; ++index) {
        const std::string_view argument = arguments[index];
        const std::string_view value = index + 1 < argument_count ? arguments[index + 1] : "";
        if (argument == "--seed") {
            first = last = number_of(value);
            ++index;
        } else if (argument == "--seeds") {
            const std::size_t dots = value.find("..");
            first = number_of(value.substr(0, dots));
            last = dots == std::string_view::npos ? first : number_of(value.substr(dots + 2));
            ++index;
        } else if (argument == "--call") {
            struck.number = static_cast<std::int64_t>(number_of(value));
            ++index;
        } else if (argument == "--errno") {
            struck.os_errno = static_cast<int>(number_of(value));
            ++index;
        } else if (argument == "--short") {
            struck.short_write_bytes = static_cast<std::int64_t>(number_of(value));
            ++index;
        } else if (argument == "--ever") {
            struck.for_ever = true;
        } else if (argument == "--verbose") {
            verbose = true;
        } else if (argument == "--count") {
            count_failures = true;
        } else {
            static_cast<void>(std::fprintf(
                stderr,
                "usage: relay_sim --seed N [--verbose] | --seeds A..B [--count]\n"
                "       relay_sim --seed N --call C --errno E [--ever] [--short BYTES] "
                "[--verbose]\n"));
            return 2;
        }
    }
    std::signal(SIGABRT, tell_seed);
    SimulationCounts total;
    std::uint64_t failures = 0;
    const auto begin = std::chrono::steady_clock::now();
    for (std::uint64_t seed = first; seed <= last; ++seed) {
        seed_running = seed;
        Simulation simulation(
            seed,
            {.verbose = verbose,
             .planted_bug = nullptr,
             .struck_call = struck.os_errno != 0 ? &struck : nullptr});
        const std::string broken = simulation.run();
        total.add(simulation.counts());
        if (!broken.empty()) {
            ++failures;
            if (failures <= 3) {
                static_cast<void>(std::printf("%s\n", broken.c_str()));
            }
            if (!count_failures) {
                break;
            }
        }
    }
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    static_cast<void>(std::printf(
        "%s; %.1f s, %.0f seeds/s; %llu failed\n",
        total.text().c_str(),
        seconds,
        static_cast<double>(total.seeds) / seconds,
        static_cast<unsigned long long>(failures)));
    return failures == 0 ? 0 : 1;
}
