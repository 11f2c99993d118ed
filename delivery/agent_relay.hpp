// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Records what an agent does with Agent Relay. Installed as <agent_relay.hpp>; links with agent_relay alone.
//
//     agent_relay::Session session({.agent = "my-agent"});
//     session.begin_turn("say hello");
//     session.output("hello\n");
//     session.end_turn();
//     const agent_relay::Delivery end = session.end(0);
//
// The agent never waits for the recorder and never fails because of it. Events go to agent-relayd from a thread of the
// session's own. While nobody listens they wait in memory, and after a second, or beyond 4 MiB, in a spool file. After a lost
// connection the session is attached again and what was not acknowledged is sent again: each event is
// recorded once, in order, whatever happens to the daemon. What this process leaves in the spool file is
// delivered by the next agent-relay command or deliver_left_behind().
//
// Not promised: what waits in memory dies with the process, and no daemon is started; with the user's
// agent-relayd.socket enabled, systemd starts it at the first connection.
//
// Texts that are JSON documents may be anything that is sent; they are checked for being JSON and nothing more: the
// daemon decides, by docs/protocol.md. An event that it refuses is replaced by a note that says so.

namespace agent_relay {

// What session.start says. Empty members are left out.
struct SessionStart {
    std::string agent;  // who: "my-agent"
    std::string
        cwd;  // absolute; empty: the current directory. It decides which store gets the session
    std::vector<std::string> command;
    std::string name;
    std::string model;
    std::vector<std::string> labels;
    std::string store;  // auto, repo or user; empty: the daemon's configuration decides
    std::string more;   // further members of session.start, as a JSON object
};

// What turn.end says. Empty members are left out.
struct TurnEnd {
    std::string status;  // completed, interrupted or failed; empty: completed
    std::string stop_reason;
    std::optional<int> exit_code;
    std::string error;
    std::string more;  // further members, as a JSON object: R"({"tokens":{"input":3,"output":1}})"
};

// Where things are. Empty members mean what they mean to agent-relay itself.
struct Places {
    std::string socket;
    std::string spool_directory;
};

struct Delivery {
    bool recorded = false;   // every event survives a loss of power and is in the session's files
    std::string trouble;     // why not, in one sentence
    std::string spool_file;  // where the rest waits for the next delivery; empty when it is lost
};

// One session, from its first event to its last. Every function may be called from every thread; events have the order of
// the calls. Of no use in the child of a fork().
class [[gnu::visibility("default")]] Session {
public:
    explicit Session(const SessionStart& start, Places places = {});
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    // Without end() or checkpoint(): what was not recorded is left in the spool file, and the daemon waits
    // `daemon.orphan_grace` for somebody to attach, then checkpoints the session.
    ~Session();

    // A ULID, known from the beginning: for AGENT_RELAY_SESSION of a child, for `agent-relay show`.
    [[nodiscard]] const std::string& id() const;

    // An open turn is sealed as interrupted.
    void begin_turn(std::string_view prompt);
    // Bytes as the agent wrote them, UTF-8 or not, cut anywhere.
    void output(std::string_view bytes);
    void error_output(std::string_view bytes);
    // False, and nothing happens, when `more` is neither empty nor a JSON object.
    bool end_turn(const TurnEnd& end = {});

    // Any other event about a turn (turn.tool, turn.note …), session.update or session.attachment, with its members as a
    // JSON object without session, seq and id. False, and nothing happens, when it is something else.
    bool event(std::string_view type, std::string_view members);

    // True once everything said so far is recorded; false when that takes longer, or will never be.
    [[nodiscard]] bool wait(std::chrono::milliseconds most) const;

    // The last event. Waits until all is recorded, or for `most`. A second call returns what the first one did, and events
    // after it are dropped.
    Delivery end(int exit_code, std::chrono::milliseconds most = std::chrono::seconds(10));
    // Likewise, for a session that stops short and can be gone on with: reason is "limit", "manual" or the like.
    Delivery checkpoint(
        std::string_view reason, std::chrono::milliseconds most = std::chrono::seconds(10));

private:
    struct Parts;
    std::unique_ptr<Parts> parts_;
};

// Brings what processes before this one could not deliver to the daemon, if one is running. How many sessions were
// delivered whole.
[[gnu::visibility("default")]] std::size_t
deliver_left_behind(std::chrono::milliseconds most, const Places& places = {});

}  // namespace agent_relay
