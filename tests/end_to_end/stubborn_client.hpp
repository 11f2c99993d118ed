// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/end_to_end/script.hpp"
#include "tests/support/random.hpp"
#include "tests/support/wire_client.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <string>

namespace relay::tests {

// What a client puts up with beside acks.
enum class Patience {
    crashes,  // lost connections alone
    faults,   // also refusals that a failing disk explains; it comes back until it is taken
};

// A client that never gives up: when its connection is lost it attaches again, compares what the daemon
// has with what was acked, and says the rest once more. The counters may be read from other threads.
class StubbornClient {
public:
    StubbornClient(
        std::string socket,
        Script script,
        std::uint64_t seed,
        std::int64_t turns_max = std::numeric_limits<std::int32_t>::max(),
        Patience patience = Patience::crashes)
        : socket_(std::move(socket)),
          script_(std::move(script)),
          random_(seed),
          turns_max_(turns_max),
          patience_(patience) {}

    // Between two runs of events; before it begins.
    void set_pause(std::chrono::milliseconds pause) { pause_ = pause; }

    // Until all is said, `enough` is set and the turn is over, or something is wrong.
    void run(const std::atomic<bool>& enough);
    // The same on one connection: tries to get one until `gone` is set, and returns when it is lost.
    void run_once(const std::atomic<bool>& enough, const std::atomic<bool>& gone);

    [[nodiscard]] bool done() const { return done_; }
    [[nodiscard]] bool well() const { return well_; }
    // What is wrong, or was refused last. Once it has stopped.
    [[nodiscard]] const std::string& failure() const { return failure_; }
    [[nodiscard]] const Script& script() const { return script_; }
    [[nodiscard]] std::int64_t acked() const { return acked_; }
    [[nodiscard]] std::int64_t visible() const { return visible_; }  // acked and not deferred
    [[nodiscard]] std::int64_t sent() const {
        return sent_;
    }  // at most; the last may not have left
    // Once it is done: the last event but the session's end. What was sent beyond it was lost in time and
    // not said again.
    [[nodiscard]] std::int64_t recorded() const { return next_ - 1; }
    [[nodiscard]] int attached() const { return attached_; }

private:
    bool fail(const std::string& what, const Json& answer);
    bool refused(const std::string& what, const Json& answer);
    bool attach(WireClient& client);
    void talk(WireClient& client, const std::atomic<bool>& enough);
    void say_last(WireClient& client);
    bool await_acks(WireClient& client, std::int64_t end);
    [[nodiscard]] bool is_last(std::int64_t seq, const std::atomic<bool>& enough) const;

    std::string socket_;
    Script script_;
    Random random_;
    std::int64_t turns_max_;
    Patience patience_;
    std::chrono::milliseconds pause_{0};
    std::int64_t next_ = 1;
    bool last_said_ = false;  // the session's end; not counted in the numbers below
    std::atomic<std::int64_t> sent_ = 0;
    std::atomic<std::int64_t> acked_ = 0;
    std::atomic<std::int64_t> visible_ = 0;
    std::atomic<int> attached_ = 0;
    std::atomic<bool> done_ = false;
    std::atomic<bool> well_ = true;
    std::string failure_;
};

}  // namespace relay::tests
