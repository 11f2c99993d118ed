// SPDX-License-Identifier: Apache-2.0
#include "tests/end_to_end/relay_home.hpp"

#include <doctest/doctest.h>

#include <cctype>
#include <string>
#include <vector>

namespace relay::tests {
namespace {

bool says(const std::string& text, const std::string& words) {
    return text.find(words) != std::string::npos;
}

// An agent that runs until it is told to end.
const std::string patient_agent = "bash -c 'echo \"RELAY_STATE: {\\\"next_task\\\":\\\"write "
                                  "docs\\\"}\"; trap \"echo ended; exit 0\" TERM; "
                                  "touch ready; while [ ! -e finish ]; do sleep 0.01; done'";
const std::string await_ready =
    "while [ ! -e ready ]; do sleep 0.01; done; "
    "while ! grep -qs write \"$AGENT_RELAY_HOME\"/state/sessions/*/turns/*output*; do sleep 0.01; "
    "done; ";

TEST_CASE("a session that is handed over now ends its agent and another one goes on") {
    const RelayHome home;
    const ProgramEnd end = home.shell(
        "agent-relay run -- " + patient_agent + " > out & " + await_ready
        + "agent-relay handoff --now --reason 'out of credit'; echo \"status $?\"; wait; "
          "agent-relay run --resume -- cat > packet; echo \"status $?\"");
    CHECK(says(end.out, "is checkpointed; go on with:\n  agent-relay resume "));
    CHECK(says(end.out, "status 0\nstatus 0\n"));
    const std::vector<Recording> sessions = home.sessions();
    REQUIRE(sessions.size() == 2);
    const Json packet = sessions[0].json("resume.json");
    CHECK(packet["checkpoint_reason"] == "out of credit");
    CHECK(packet["next_task"] == "write docs");
    CHECK(says(sessions[0].text("turns/001-output.md"), "ended\n"));
    CHECK(sessions[1].meta()["parent"]["session"] == sessions[0].id);
    CHECK(sessions[1].meta()["parent"]["relation"] == "resume");
    const std::string prompt = read_text(home.work() + "/packet");
    CHECK(says(prompt, "\n> write docs\n"));
    CHECK(sessions[1].text("turns/001-prompt.md") == prompt);
}

TEST_CASE("a session that is handed over waits for the end of its turn") {
    const RelayHome home;
    const ProgramEnd end = home.shell(
        "agent-relay run -- " + patient_agent + " > out & " + await_ready
        + "agent-relay handoff; echo \"status $?\"; touch finish; wait");
    CHECK(says(end.out, "stops at the end of its turn"));
    CHECK(says(end.out, "status 0"));
    const Json meta = home.session().meta();
    CHECK(meta["status"] == "checkpointed");
    CHECK(meta["checkpoint_reason"] == "handoff");
    CHECK(home.session().json("turns/001-state.json")["status"] == "completed");
}

TEST_CASE("the agent that a session is handed to begins when its turn has ended") {
    const RelayHome home;
    REQUIRE(
        home.shell("mkdir -p \"$AGENT_RELAY_HOME/config\" && printf '[agents.next]\\nbinary = "
                   "\"cat\"\\nprompt = \"stdin\"\\n' > \"$AGENT_RELAY_HOME/config/config.toml\"")
            .status
        == 0);
    const ProgramEnd end = home.shell(
        "agent-relay run -- " + patient_agent + " > out & " + await_ready
        + "agent-relay handoff --to next > handed & handoff=$!; "
          "while [ -z \"$(ls \"$AGENT_RELAY_HOME\"/state/handoff 2>/dev/null)\" ]; do sleep 0.01; "
          "done; "
          "touch finish; wait $handoff; echo \"status $?\"; wait");
    CHECK(end.out == "status 0\n");
    const std::vector<Recording> sessions = home.sessions();
    REQUIRE(sessions.size() == 2);
    CHECK(sessions[0].json("turns/001-state.json")["status"] == "completed");
    CHECK(sessions[0].meta()["checkpoint_reason"] == "handoff");
    CHECK(sessions[1].meta()["agent"] == "next");
    CHECK(sessions[1].meta()["parent"]["session"] == sessions[0].id);
    CHECK(says(read_text(home.work() + "/handed"), "> write docs\n"));
}

TEST_CASE(
    "a session that somebody else checkpoints goes on to be heard and is checkpointed again") {
    const RelayHome home;
    const ProgramEnd end = home.shell(
        "agent-relay run -- " + patient_agent + " > out & " + await_ready
        + "agent-relay emit session.checkpoint reason=enough force:=true --no-attach "
          "session=$(basename \"$AGENT_RELAY_HOME\"/state/sessions/*) > answer; touch finish; wait "
          "$!; echo $?");
    CHECK(end.out == "0\n");
    CHECK(Json::parse(read_text(home.work() + "/answer"))["type"] == "ack");
    const Json meta = home.session().meta();
    CHECK(meta["status"] == "checkpointed");
    CHECK(meta["checkpoint_reason"] == "enough");
    CHECK(meta["turn_count"] == 2);
    CHECK(home.session().json("turns/002-state.json")["status"] == "completed");
}

TEST_CASE("handing over tells what cannot be") {
    const RelayHome home;
    ProgramEnd end = home.shell("agent-relay handoff");
    CHECK(end.status == 1);
    CHECK(says(end.err, "no session is running here"));
    REQUIRE(home.shell("agent-relay run -- true").status == 0);
    const std::string id = home.session().id;
    CHECK(says(home.shell("agent-relay handoff --session " + id).err, "has ended"));
    end = home.shell("agent-relay resume " + id + " codex");
    CHECK(end.status == 3);
    CHECK(says(end.err, "left nothing to go on with"));
    CHECK(home.shell("agent-relay run --resume codex").status == 3);
    CHECK(home.shell("agent-relay resume").status == 2);
    CHECK(home.shell("agent-relay handoff --frobnicate").status == 2);
    // Nobody is stopped for an agent that cannot begin.
    end = home.shell(
        "mkdir -p \"$AGENT_RELAY_HOME/config\"; printf '[agents.away]\\nbinary = \"no-such\"\\n' > "
        "\"$AGENT_RELAY_HOME/config/config.toml\"; agent-relay run -- "
        + patient_agent + " > out & run=$!; " + await_ready
        + "agent-relay handoff --now --to nobody; echo $?; agent-relay handoff --now --to away; "
          "echo $?; touch finish; wait $run; echo $?");
    CHECK(end.out == "1\n1\n0\n");
    CHECK(says(end.err, "no agent \"nobody\""));
    CHECK(says(end.err, "no program \"no-such\" in PATH; install away or name its binary"));
    // A client that is no run.
    REQUIRE(
        home.shell("S=$(agent-relay emit session.start agent=x --pid $PPID | jq -r .session); "
                   "AGENT_RELAY_SESSION=$S agent-relay emit turn.start prompt=p --pid $PPID && "
                   "echo $S > id")
            .status
        == 0);
    end = home.shell("agent-relay handoff --session $(cat id)");
    CHECK(end.status == 1);
    CHECK(says(end.err, "agent-relay handoff --now"));
    end = home.shell("agent-relay handoff --now --json --session $(cat id)");
    CHECK(end.status == 0);
    CHECK(Json::parse(end.out)["written"] == true);
    end = home.shell("agent-relay handoff --session $(cat id)");
    CHECK(end.status == 2);
}

TEST_CASE("handing over and going on take a session by every name that it has") {
    const RelayHome home;
    REQUIRE(
        home.shell(
                "for n in one two; do agent-relay run --name $n -- bash -c 'kill -TERM $PPID; exec "
                "sleep 10'; done; true")
            .status
        == 0);
    const std::vector<Recording> stopped = home.sessions();
    REQUIRE(stopped.size() == 2);
    const std::string id = stopped[0].id;
    std::string small = id;
    for (char& letter : small) {
        letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    }
    const std::vector<std::string> names{
        id,
        small,
        id.substr(id.size() - 6),
        "one",
        stopped[0].meta()["slug"].get<std::string>(),
        stopped[0].path};
    for (const std::string& name : names) {
        CAPTURE(name);
        CHECK(home.shell("agent-relay resume '" + name + "' -- cat").status == 0);
        CHECK(home.sessions().back().meta()["parent"]["session"] == id);
        CHECK(home.shell("agent-relay run --resume --from '" + name + "' -- cat").status == 0);
        CHECK(home.sessions().back().meta()["parent"]["session"] == id);
        // It is checkpointed already, which is told by the exit status and its command.
        const ProgramEnd again = home.shell("agent-relay handoff --session '" + name + "'");
        CHECK(again.status == 2);
        CHECK(says(again.out, "agent-relay resume " + id));
    }
    // Without a name it is the newest that stopped short, not what came later and completed.
    CHECK(home.shell("agent-relay run --resume -- cat").status == 0);
    CHECK(home.sessions().back().meta()["parent"]["session"] == stopped[1].id);
}

TEST_CASE("a session is gone on with by itself until somebody has done so to a good end") {
    const RelayHome home;
    const std::string stop = "agent-relay run -- bash -c 'kill -TERM $PPID; exec sleep 10'; true";
    REQUIRE(home.shell(stop).status == 0);
    const std::string id = home.session().id;
    CHECK(home.shell("agent-relay run --resume -- false").status == 1);
    CHECK(home.shell("agent-relay run --resume -- true").status == 0);
    CHECK(home.sessions().back().meta()["parent"]["session"] == id);
    const ProgramEnd end = home.shell("agent-relay run --resume -- true");
    CHECK(end.status == 3);
    CHECK(says(end.err, "waits to be gone on with"));
    // Whoever names it means it.
    CHECK(home.shell("agent-relay resume " + id + " -- true").status == 0);
}

TEST_CASE("handing over and going on refuse names that fit none or several sessions") {
    const RelayHome home;
    REQUIRE(
        home.shell(
                "for n in 1 2; do agent-relay run --name twin -- bash -c 'kill -TERM $PPID; exec "
                "sleep 10'; done; true")
            .status
        == 0);
    for (const std::string command :
         {"agent-relay resume twin -- cat",
          "agent-relay run --resume --from twin -- cat",
          "agent-relay handoff --session twin"}) {
        CAPTURE(command);
        const ProgramEnd end = home.shell(command);
        CHECK(end.status == 2);
        CHECK(says(end.err, "\"twin\" fits several sessions: "));
        CHECK(says(end.err, home.sessions()[0].id));
    }
    CHECK(home.shell("agent-relay resume nobody -- cat").status == 3);
    CHECK(home.shell("agent-relay handoff --session nobody").status == 3);
    CHECK(home.shell("agent-relay handoff --session @running").status == 3);
    ProgramEnd end = home.shell("agent-relay resume @latest:1 -- cat");
    CHECK(end.status == 2);
    CHECK(says(end.err, "names a turn"));
    CHECK(home.sessions().size() == 2);
}

TEST_CASE(
    "a packet longer than any argument reaches an agent whole and a chain keeps its objective") {
    const RelayHome home;
    REQUIRE(
        home.shell("mkdir -p \"$AGENT_RELAY_HOME/config\" && printf '[agents.reads]\\nbinary = "
                   "\"cat\"\\nprompt = \"stdin\"\\n' "
                   "> \"$AGENT_RELAY_HOME/config/config.toml\"")
            .status
        == 0);
    REQUIRE(
        home.shell("agent-relay run -- bash -c 'for n in $(seq 300); do agent-relay note file "
                   "path-$n-$(printf x%.0s $(seq 200)) ; done; kill -TERM $PPID; exec sleep 10'")
            .status
        == 143);
    const std::string id = home.session().id;
    const ProgramEnd first = home.shell("agent-relay run --resume reads 'go on'");
    CHECK(first.status == 0);
    CHECK(first.out.size() > 40'000);
    CHECK(says(first.out, "\ngo on\n"));
    // The second packet is about the first session's objective.
    REQUIRE(
        home.shell(
                "agent-relay resume " + id
                + " -- bash -c 'cat > /dev/null; kill -INT $PPID; exec sleep 10'")
            .status
        != 0);
    const ProgramEnd second = home.shell("agent-relay run --resume -- cat");
    CHECK(says(second.out, "## Objective of the session\n\n> bash -c 'for n in "));
}

}  // namespace
}  // namespace relay::tests
