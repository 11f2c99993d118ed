// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/bench/server_process.hpp"
#include "tests/bench/turn_work.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace relay::tests {

// One client's connection to whatever keeps its events.
class Talker {
public:
    Talker() = default;
    virtual ~Talker() = default;
    Talker(const Talker&) = delete;
    Talker& operator=(const Talker&) = delete;

    // Prepares one event. With `awaited` its answer is counted by receive(), and what was prepared before it
    // is as safe as it is.
    virtual void prepare(Step step, bool awaited) = 0;
    virtual void flush() = 0;  // sends what is prepared
    // Takes what has come; how many awaited answers that completed. A wrong one ends the program.
    [[nodiscard]] virtual std::size_t receive() = 0;
    [[nodiscard]] virtual int descriptor() const = 0;
};

// Somebody who keeps events, ready to be talked to.
class Contender {
public:
    Contender() = default;
    virtual ~Contender() = default;
    Contender(const Contender&) = delete;
    Contender& operator=(const Contender&) = delete;

    [[nodiscard]] virtual std::unique_ptr<Talker> connect(int number) = 0;
    [[nodiscard]] virtual ServerProcess& server() = 0;
    // Looks whether what was acknowledged is there, where that can be told.
    virtual void check() {}
};

struct ContenderSetup {
    std::string name;
    std::string programs;  // where agent-relayd, relay_peer and the rest of ours are
    std::string tests;
    std::string directory;   // on the disk that is measured; ours alone
    std::string sync_count;  // a file in which the server's syncs are counted
    int clients = 1;
    bool whole_turns = false;  // nobody waits before the end of a turn
};

// Null when it is not installed here, or cannot do this; says why on stderr.
[[nodiscard]] std::unique_ptr<Contender> make_contender(const ContenderSetup& setup);

[[nodiscard]] std::unique_ptr<Contender> make_relay(const ContenderSetup& setup);
[[nodiscard]] std::unique_ptr<Contender> make_peer(const ContenderSetup& setup);
[[nodiscard]] std::unique_ptr<Contender> make_redis(const ContenderSetup& setup);
[[nodiscard]] std::unique_ptr<Contender> make_postgres(const ContenderSetup& setup);

// The environment in which a server's syncs are counted.
[[nodiscard]] std::vector<std::pair<std::string, std::string>>
counted_environment(const ContenderSetup& setup);

// The first of these that can be run; empty when none can.
[[nodiscard]] std::string find_program(const std::vector<std::string>& places);

}  // namespace relay::tests
