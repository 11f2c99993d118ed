// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/bench/contender.hpp"

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

namespace relay::tests {

// Speaks our own protocol: to agent-relayd, and to relay_peer, which takes the same lines.
class LineTalker final : public Talker {
public:
    explicit LineTalker(const std::string& socket_path);
    ~LineTalker() override;

    // Sends a line that begins after `{"id":N,`, and waits for its answer, a JSON object.
    [[nodiscard]] std::string ask(std::string_view rest);
    // The session of all further events.
    void use_session(std::string_view session);

    void prepare(Step step, bool awaited) override;
    void flush() override;
    [[nodiscard]] std::size_t receive() override;
    [[nodiscard]] int descriptor() const override { return fd_; }

    [[nodiscard]] std::int64_t ended_turns() const { return ended_turns_; }

private:
    void begin_line(bool awaited);
    void receive_more();

    struct Awaited {
        std::int64_t id = 0;
        bool ends_turn = false;
    };

    int fd_;
    std::int64_t id_ = 0;
    std::string outgoing_;
    std::string incoming_;
    std::array<std::string, 4> lines_;  // by Step
    std::deque<Awaited> awaited_;
    std::int64_t ended_turns_ = 0;
};

}  // namespace relay::tests
