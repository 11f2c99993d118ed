// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/bench/contender.hpp"
#include "tests/bench/sample.hpp"

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

namespace relay::tests {

enum class Mode {
    event,  // every client waits for the answer to its last event
    turn,   // it sends a whole turn and waits for the answer to its end
    open,   // it sends 20 events a second, whether answers come or not
};

struct LoadFigures {
    std::int64_t events = 0;        // acknowledged
    std::int64_t timed_events = 0;  // of these, while all clients were busy
    Clock::duration busy{};         // for so long
    Sample acks;                    // of a chunk; of a turn's end where nothing else is waited for
    Sample ends;                    // of a turn's end
};

// All clients of one contender, driven by one thread.
class Load {
public:
    Load(Contender& contender, int clients, Mode mode);
    ~Load();
    Load(const Load&) = delete;
    Load& operator=(const Load&) = delete;

    // Every client talks for so long; then all answers are waited for.
    void run_for(Clock::duration duration, LoadFigures& figures);

private:
    struct Sent {
        Clock::time_point at;
        Step step = Step::prompt;
    };
    struct Client {
        std::unique_ptr<Talker> talker;
        TurnCursor cursor;
        std::deque<Sent> unanswered;
        Clock::time_point next;  // of an open load
    };

    void send(Client& client, Clock::time_point due);
    void send_due(Clock::time_point now);
    void receive(Client& client, bool timed, LoadFigures& figures);
    [[nodiscard]] int wait_ms() const;

    Mode mode_;
    std::vector<std::unique_ptr<Client>> clients_;
    std::size_t turn_of_ = 0;  // whose event is due next, in an open load
    std::size_t unanswered_ = 0;
    int epoll_;
};

}  // namespace relay::tests
