// SPDX-License-Identifier: Apache-2.0
#include "tests/end_to_end/relay_home.hpp"
#include "tests/support/eventually.hpp"

#include <doctest/doctest.h>

#include <signal.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

namespace relay::tests {
namespace {

bool says(const std::string& text, const std::string& words) {
    return text.find(words) != std::string::npos;
}

// Of all first turns.
std::size_t bytes_recorded(const RelayHome& home) {
    std::size_t bytes = 0;
    for (const Recording& session : home.sessions()) {
        bytes += session.text("turns/001-output.md").size();
    }
    return bytes;
}

TEST_CASE("fifty runs at once start one daemon") {
    const RelayHome home;
    const int runs = sanitized ? 20 : 50;
    const ProgramEnd end = home.shell(
        "for n in $(seq " + std::to_string(runs)
        + "); do agent-relay run -- echo run $n & done; wait; echo done");
    CHECK(end.status == 0);
    CHECK(end.err.empty());
    CHECK(home.daemons().size() == 1);
    const std::vector<Recording> sessions = home.sessions();
    CHECK(sessions.size() == static_cast<std::size_t>(runs));
    std::set<std::string> outputs;
    for (const Recording& session : sessions) {
        CHECK(session.meta()["status"] == "completed");
        outputs.insert(session.text("turns/001-output.md"));
    }
    CHECK(outputs.size() == static_cast<std::size_t>(runs));
}

TEST_CASE("an agent that cannot be recorded runs as ever and its session is delivered later once") {
    const RelayHome home;
    home.forbid_daemon(true);
    const ProgramEnd end = home.shell("agent-relay run -- sh -c 'echo out; echo bad >&2; exit 3'");
    CHECK(end.status == 3);
    CHECK(end.out == "out\n");
    CHECK(end.err.starts_with("bad\n"));
    CHECK(says(end.err, "is delivered by the next agent-relay call"));
    CHECK(home.sessions().empty());
    REQUIRE(tree_of(home.spool()).size() == 1);
    // Whoever only reads is not kept from it.
    CHECK(home.shell("agent-relay list").status == 0);
    home.forbid_daemon(false);
    SUBCASE("by the start of a daemon") {
        CHECK(home.shell("agent-relay daemon start").status == 0);
    }
    SUBCASE("by the next call of whatever kind") {
        CHECK(says(home.shell("agent-relay list").out, "failed"));
    }
    const Recording session = home.session();
    CHECK(tree_of(home.spool()).empty());
    CHECK(session.text("turns/001-output.md") == "out\n");
    CHECK(session.text("turns/001-stderr.log") == "bad\n");
    CHECK(session.meta()["status"] == "completed");
    CHECK(session.meta()["exit_code"] == 3);
    CHECK(session.meta()["turn_count"] == 1);
    const std::string timeline = session.text("events.jsonl");
    REQUIRE(home.shell("agent-relay daemon status").status == 0);
    CHECK(session.text("events.jsonl") == timeline);
    CHECK(damage_of(session.path).empty());
}

TEST_CASE("a spool that was delivered already is not delivered again") {
    const RelayHome home;
    home.forbid_daemon(true);
    REQUIRE(home.shell("agent-relay run -- echo once").status == 0);
    REQUIRE(home.shell("cp -r \"$AGENT_RELAY_HOME/state/spool\" kept").status == 0);
    home.forbid_daemon(false);
    REQUIRE(home.shell("agent-relay daemon start").status == 0);
    const std::string timeline = home.session().text("events.jsonl");
    // As if the call that delivered it had died before it could remove the file.
    REQUIRE(
        home.shell("cp kept/* \"$AGENT_RELAY_HOME/state/spool/\" && agent-relay run --no-session "
                   "-- true")
            .status
        == 0);
    CHECK(tree_of(home.spool()).empty());
    CHECK(home.session().text("events.jsonl") == timeline);
    CHECK(home.session().meta()["status"] == "completed");
}

TEST_CASE("what a client of another language spooled goes on behind a turn that was sealed") {
    const RelayHome home;
    const std::string id = "01M7J690Z2TM97TN46F1TWFTA9";
    const auto spool = [&](const std::string& first_seq, const std::vector<std::string>& events) {
        std::string text = "agent-relay spool 1 " + id + " 0000000000000000000" + first_seq + "\n";
        for (const std::string& event : events) {
            text += std::to_string(event.size()) + " -\n" + event + "\n\n";
        }
        REQUIRE(home.shell("mkdir -p -m 700 '" + home.spool() + "'").status == 0);
        write_text(home.spool() + "/" + id + ".spool", text);
        CHECK(home.shell("agent-relay config daemon.socket").status == 0);
        CHECK(tree_of(home.spool()).empty());
    };
    spool(
        "1",
        {R"({"type":"session.start","agent":"py","cwd":")" + home.work() + "\"}",
         R"({"type":"turn.start","prompt":"p"})",
         R"({"type":"turn.output","text":"a\n"})"});
    // Whoever delivered that is gone.
    REQUIRE(eventually([&] { return home.session().meta()["status"] == "checkpointed"; }));
    spool(
        "4",
        {R"({"type":"turn.output","text":"b\n"})",
         R"({"type":"turn.end"})",
         R"({"type":"session.end","exit_code":0})"});
    CHECK(home.session().text("turns/001-output.md") == "a\n");
    CHECK(home.session().text("turns/002-output.md") == "b\n");
    CHECK(home.session().meta()["status"] == "completed");
}

TEST_CASE("a daemon that dies in the middle of a turn costs the session nothing") {
    const RelayHome home;
    const ProgramEnd end = home.shell(
        "agent-relay run -- bash -c '"
        "echo before; while [ ! -e go ]; do sleep 0.01; done; echo after; seq 1 20000' > out & "
        "while ! grep -qs before \"$AGENT_RELAY_HOME\"/state/sessions/*/turns/001-output.md; do "
        "sleep 0.01; done; "
        "kill -9 $(agent-relay daemon status --json | jq .pid); touch go; wait $!; echo $?");
    CHECK(end.out == "0\n");
    CHECK(home.daemons().size() == 2);
    const Recording session = home.session();
    CHECK(session.text("turns/001-output.md") == read_text(home.work() + "/out"));
    CHECK(session.meta()["turn_count"] == 1);
    CHECK(session.meta()["status"] == "completed");
    CHECK(tree_of(home.spool()).empty());
}

TEST_CASE("a turn whose daemon never came back goes on as another one when it is delivered") {
    const RelayHome home;
    const ProgramEnd end = home.shell(
        "agent-relay run -- bash -c '"
        "echo before; while [ ! -e go ]; do sleep 0.01; done; echo after' > out & "
        "while ! grep -qs before \"$AGENT_RELAY_HOME\"/state/sessions/*/turns/001-output.md; do "
        "sleep 0.01; done; "
        "touch ../forbidden; kill -9 $(agent-relay daemon status --json | jq .pid); touch go; wait "
        "$!; echo $?");
    CHECK(end.out == "0\n");
    home.forbid_daemon(false);
    REQUIRE(home.shell("agent-relay daemon start").status == 0);
    const Recording session = home.session();
    CHECK(tree_of(home.spool()).empty());
    CHECK(session.text("turns/001-output.md") == "before\n");
    CHECK(session.json("turns/001-state.json")["status"] == "interrupted");
    CHECK(session.text("turns/002-output.md") == "after\n");
    CHECK(session.json("turns/002-state.json")["status"] == "completed");
    CHECK(session.meta()["status"] == "completed");
    CHECK(says(session.text("events.jsonl"), "\"kind\":\"continued\""));
    CHECK(damage_of(session.path).empty());
}

TEST_CASE("fifty chatty runs lose no byte while the daemon is killed ten times") {
    const RelayHome home;
    const int runs = sanitized ? 15 : 50;
    // Each prints a hundred lines ten times a second until the tenth daemon is dead, and then more at once.
    const std::string chatter =
        "m=0; while [ ! -e over ]; do m=$((m + 1)); seq -f \"run $0 line $m.%g\" 100; sleep 0.1; "
        "done; seq 5000; echo \"end $0\"";
    std::thread killer([&home] {
        std::size_t recorded = 0;
        for (int kill = 0; kill < 10; ++kill) {
            // It is there, and it records.
            static_cast<void>(eventually([&] { return home.daemon() > 0; }));
            static_cast<void>(eventually([&] { return bytes_recorded(home) > recorded; }));
            home.kill_daemon();
            recorded = bytes_recorded(home);
        }
        write_text(home.work() + "/over", "");
    });
    const ProgramEnd end = home.shell(
        "for n in $(seq " + std::to_string(runs)
            + "); do agent-relay run --no-diff --name run-$n -- bash -c '" + chatter
            + "' $n > out.$n & done; wait; echo done",
        std::chrono::seconds(240));
    killer.join();
    CHECK(end.out == "done\n");
    CHECK_MESSAGE(end.err.empty(), end.err);
    REQUIRE(home.shell("agent-relay run --no-session -- true").status == 0);
    CHECK(home.daemons().size() == 11);
    const std::vector<Recording> sessions = home.sessions();
    REQUIRE(sessions.size() == static_cast<std::size_t>(runs));
    for (const Recording& session : sessions) {
        const std::string name = session.meta()["name"];
        CAPTURE(name);
        const std::string seen = read_text(home.work() + "/out." + name.substr(4));
        CHECK(says(seen, "end " + name.substr(4) + "\n"));
        CHECK(session.text("turns/001-output.md") == seen);
        CHECK(session.meta()["status"] == "completed");
        CHECK(session.meta()["turn_count"] == 1);
        CHECK(damage_of(session.path).empty());
    }
    CHECK(tree_of(home.spool()).empty());
}

}  // namespace
}  // namespace relay::tests
