// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/adapters/adapter.hpp"
#include "cli/agent_process.hpp"
#include "cli/daemon_starter.hpp"
#include "delivery/courier.hpp"
#include "delivery/outbox.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace relay::cli {

struct RunPlan {
    std::string agent;
    std::vector<std::string> command;
    std::string cwd;
    std::string name;  // empty: none
    std::vector<std::string> labels;
    std::string store;   // empty: the daemon decides
    std::string parent;  // JSON of session.start's `parent`; empty: none
};

// The session of one `run`: its turns become events, the events are carried to the daemon, and whatever becomes of
// the daemon, nobody here waits before finish().
class RecordedRun {
public:
    RecordedRun(RunPlan plan, const DaemonPlace& place);

    // Known from the beginning, so that the agent can be told.
    [[nodiscard]] const std::string& session() const { return outbox_.session(); }
    [[nodiscard]] EventSink& sink() { return sink_; }

    // Hears of every event before it is on its way; by whichever thread has it.
    using Listener = std::function<void(const std::string& members)>;
    void set_listener(Listener listener) { sink_.listener = std::move(listener); }

    // The agent of the next turn was started with this prompt. The first one begins the session.
    void begin_turn(const std::string& prompt);
    // `changes`: further members of turn.end as in TurnFacts; what git says, for example.
    void end_turn(const TurnFacts& facts, const AgentEnd& end, const std::string& changes);

    // The session stops short and can be gone on with.
    void checkpoint(const std::string& reason, const std::optional<std::string>& next_task);
    void end(const AgentEnd& last);

    // Waits until all is recorded, within reason. Empty, or one sentence about what was not.
    [[nodiscard]] std::string finish();

private:
    struct Sink final : EventSink {
        explicit Sink(delivery::Outbox& to) : outbox(to) {}
        void event(std::string members) override;
        void bytes(AgentStream stream, std::string_view text) override {
            outbox.bytes(stream, text);
        }

        delivery::Outbox& outbox;
        Listener listener;
    };

    delivery::Outbox outbox_;
    Sink sink_{outbox_};
    delivery::Courier courier_;
    RunPlan plan_;
    bool begun_ = false;
};

}  // namespace relay::cli
