// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/agent_process.hpp"
#include "delivery/outbox.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

// From what an agent prints to events. One file a format in this folder; make_adapter() knows them all.

namespace relay::cli {

using delivery::AgentStream;
using delivery::EventSink;

// What the end of a turn says beyond the process's own end; members of turn.end as JSON, without braces:
// "tokens":{…},"cost_usd":0.1
struct TurnFacts {
    std::string status;       // completed, interrupted, failed
    std::string stop_reason;  // empty: nobody said
    std::string error;        // empty: none
    std::string members;      // empty: none
};

// Listens to one turn. output() and error() are called by two threads, each by one; finish() when both are
// done.
class Adapter {
public:
    Adapter() = default;
    Adapter(const Adapter&) = delete;
    Adapter& operator=(const Adapter&) = delete;
    virtual ~Adapter() = default;

    virtual void output(std::string_view bytes) = 0;
    virtual void error(std::string_view bytes) = 0;
    [[nodiscard]] virtual TurnFacts finish(const AgentEnd& end) = 0;
};

struct AdapterSettings {
    bool from_terminal = false;  // the agent had a terminal of its own
    bool raw = false;            // keep escape sequences
};

// The adapter of `format`, which writes to `sink`; null when there is no such format.
[[nodiscard]] std::unique_ptr<Adapter>
make_adapter(std::string_view format, EventSink& sink, const AdapterSettings& settings);

}  // namespace relay::cli
