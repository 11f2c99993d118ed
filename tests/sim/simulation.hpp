// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace relay::tests {

// What a run did, so that a test can show that it did anything.
struct SimulationCounts {
    std::int64_t seeds = 0;
    std::int64_t events = 0;        // of clients, resent ones included
    std::int64_t acks = 0;          // visible or deferred
    std::int64_t deferred = 0;      // of these
    std::int64_t batches = 0;       // committed to journals
    std::int64_t crashes = 0;       // ends of the process with the page cache kept
    std::int64_t power_losses = 0;  // …and without it
    std::int64_t recoveries = 0;    // that came to their end
    std::int64_t interrupted = 0;   // recoveries that did not
    std::int64_t faults = 0;        // full, read-only and failing disks, acts of users
    std::int64_t calls = 0;         // of the recorder, up to the end of its last life

    void add(const SimulationCounts& other);
    [[nodiscard]] std::string text() const;
};

struct PlantedBug;

// One system call that fails, or, with `for_ever`, all from it on until the process ends.
struct StruckCall {
    std::int64_t number = 0;
    int os_errno = 0;
    bool for_ever = false;
    std::int64_t short_write_bytes = -1;
    bool only_renames = false;  // the first one from this call on
};

struct SimulationOptions {
    bool verbose = false;                     // tells every step on standard error
    const PlantedBug* planted_bug = nullptr;  // that must be found
    // Instead of drawn faults: one life that ends with a power loss, with this and nothing else wrong.
    const StruckCall* struck_call = nullptr;
};

// One seed: the production pipeline over disks in memory, a few clients that speak to sessions, and one
// to four lives of the process, each ended by a crash, a power loss or an orderly stop at a drawn
// moment, recovery included. Everything is drawn from the seed, so a failing seed fails again.
//
// What must hold, always: durability.md, I1 to I8. The oracle knows every change a session ever
// submitted, so what is found after a recovery must be exactly the outcome of the first n of them, for an
// n not smaller than what was acknowledged.
class Simulation {
public:
    explicit Simulation(std::uint64_t seed, SimulationOptions options = {});
    ~Simulation();
    Simulation(const Simulation&) = delete;
    Simulation& operator=(const Simulation&) = delete;

    // Empty when every promise held; otherwise the first one broken.
    [[nodiscard]] std::string run();
    [[nodiscard]] const SimulationCounts& counts() const;

private:
    class World;
    std::unique_ptr<World> world_;
};

}  // namespace relay::tests
