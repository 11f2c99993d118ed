// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// One event on its way to the daemon, before it has its number. Numbers come from the place in the line, so
// that an event can be put before others that were not recorded yet.

namespace relay::delivery {

struct PendingEvent {
    std::string
        members;  // a JSON object without session, seq and id: {"type":"turn.end","exit_code":0}
    std::string bytes;  // what a stream event carries; its members are stream_members()
    bool is_stream = false;

    [[nodiscard]] std::size_t size() const { return members.size() + bytes.size(); }
    bool operator==(const PendingEvent&) const = default;
};

enum class AgentStream { output, error };

[[nodiscard]] std::string_view stream_members(AgentStream stream);
[[nodiscard]] PendingEvent stream_event(AgentStream stream, std::string_view bytes);

// What its member "type" says, however its JSON is spaced: a spool file may be another client's. "" when it says nothing.
[[nodiscard]] std::string event_type(const PendingEvent& event);

// True for events that need an open turn: output, stderr, tools and the end.
[[nodiscard]] bool needs_open_turn(const PendingEvent& event);

// The line of the protocol with its newline. Stream bytes go as text, or as data when they are no UTF-8.
// `seq` is also the id.
[[nodiscard]] std::string
wire_line(const PendingEvent& event, std::string_view session, std::int64_t seq);

}  // namespace relay::delivery
