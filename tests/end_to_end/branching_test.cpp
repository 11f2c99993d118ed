// SPDX-License-Identifier: Apache-2.0

// Going on from sessions that have ended, from their middle, and twice.

#include "tests/end_to_end/relay_home.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace relay::tests {
namespace {

bool says(const std::string& text, const std::string& words) {
    return text.find(words) != std::string::npos;
}

// A home with an agent that says its prompt, and a way to record three turns of it.
class Bench {
public:
    Bench() {
        REQUIRE(
            home.shell(
                    "mkdir -p \"$AGENT_RELAY_HOME/config\" && printf '[agents.echo]\\nbinary = "
                    "\"says\"\\nprompt = \"stdin\"\\n' > \"$AGENT_RELAY_HOME/config/config.toml\"")
                .status
            == 0);
        write_text(
            home.root() + "/bin/says",
            "#!/bin/bash\nread -r first rest\ncase \"$first\" in\n"
            "turn*) echo \"RELAY_STATE: {\\\"decisions\\\":[\\\"decided in $first\\\"],"
            "\\\"next_task\\\":\\\"after "
            "$first\\\",\\\"validation\\\":{\\\"tests\\\":\\\"$first\\\"}}\";;\n"
            "esac\necho \"said $first\"; cat > /dev/null\n");
        REQUIRE(home.shell("chmod 700 ../bin/says").status == 0);
    }

    [[nodiscard]] Recording record_three_turns() const {
        const ProgramEnd end =
            home.shell("printf 'turn-one\\nturn-two\\nturn-three\\n' > steps; agent-relay run echo "
                       "--prompts-file steps --name source");
        CHECK_MESSAGE(end.status == 0, end.err);
        return home.sessions().back();
    }

    RelayHome home;
};

TEST_CASE("continue goes on with the newest session of this directory and its own agent") {
    const Bench bench;
    const Recording source = bench.record_three_turns();
    REQUIRE(source.meta()["status"] == "completed");
    // Another directory's session and one that was archived do not count.
    REQUIRE(bench.home.shell("mkdir -p other && cd other && agent-relay run -- true").status == 0);
    const ProgramEnd end = bench.home.shell("agent-relay -c 'now the docs'");
    CHECK_MESSAGE(end.status == 0, end.err);
    const Recording next = bench.home.sessions().back();
    const Json meta = next.meta();
    CHECK(meta["agent"] == "echo");
    CHECK(meta["parent"]["session"] == source.id);
    CHECK(meta["parent"]["turn"] == 3);
    CHECK(meta["parent"]["relation"] == "resume");
    const std::string prompt = next.text("turns/001-prompt.md");
    CHECK(says(prompt, "You continue work that an earlier session began."));
    CHECK(says(prompt, "\n## What the user asks of you now\n\nnow the docs\n"));
    CHECK(says(prompt, "\n> after turn-three\n"));
    CHECK(says(prompt, "\n> - decided in turn-one\n"));
    CHECK(says(prompt, "\n> said turn-three\n"));
    CHECK(says(prompt, "\n> turn-one\n"));  // the objective
    // Again: the chain goes on from the newest one.
    REQUIRE(bench.home.shell("agent-relay continue").status == 0);
    CHECK(bench.home.sessions().back().meta()["parent"]["session"] == next.id);
}

TEST_CASE("continue says what it cannot go on with") {
    const Bench bench;
    ProgramEnd end = bench.home.shell("agent-relay continue");
    CHECK(end.status == 3);
    CHECK(says(end.err, "no session was recorded in \"" + bench.home.work() + "\""));
    // A command is never run again by itself.
    REQUIRE(bench.home.shell("agent-relay run -- touch ran").status == 0);
    REQUIRE(bench.home.shell("rm ran; agent-relay continue").status == 2);
    CHECK_FALSE(exists(bench.home.work() + "/ran"));
    end = bench.home.shell("agent-relay continue");
    CHECK(says(end.err, "was run by \"touch\", which is no agent"));
    CHECK(bench.home.shell("agent-relay continue -- cat").status == 0);
    CHECK(bench.home.shell("agent-relay continue one two").status == 2);
    CHECK(bench.home.shell("agent-relay continue --resume").status == 2);
    end = bench.home.shell(
        "agent-relay run -- bash -c 'touch ready; while [ ! -e done ]; do sleep 0.01; done' & "
        "while [ ! -e ready ] || ! agent-relay show @running --path > /dev/null 2>&1; do sleep "
        "0.01; done; agent-relay continue -- cat; echo \"status $?\"; touch done; wait");
    CHECK(says(end.out, "status 3"));
    CHECK(says(end.err, "is still running; cut it with: agent-relay handoff --now"));
}

TEST_CASE("a fork begins with what was known when its turn ended") {
    const Bench bench;
    const Recording source = bench.record_three_turns();
    const std::vector<std::string> before = tree_of(source.path);
    const ProgramEnd end =
        bench.home.shell("agent-relay fork source:2 echo 'another way' --label branch");
    CHECK_MESSAGE(end.status == 0, end.err);
    const Recording fork = bench.home.sessions().back();
    const Json meta = fork.meta();
    CHECK(meta["parent"] == Json({{"session", source.id}, {"turn", 2}, {"relation", "fork"}}));
    CHECK(meta["labels"] == Json({"branch"}));
    const std::string prompt = fork.text("turns/001-prompt.md");
    CHECK(says(prompt, "\n> after turn-two\n"));
    CHECK(says(prompt, "\n> tests: turn-two\n"));
    CHECK(says(prompt, "\n> - decided in turn-one\n"));
    CHECK(says(prompt, "\n> - decided in turn-two\n"));
    CHECK(says(prompt, "Turn 2 is completed. It was asked:\n\n> turn-two\n\nIts last output:\n"));
    CHECK(says(prompt, "\nanother way\n"));
    CHECK(says(prompt, source.path + "/turns/"));
    CHECK_FALSE(says(prompt, "turn-three"));
    CHECK(tree_of(source.path) == before);
    const ProgramEnd tree = bench.home.shell("agent-relay tree source --json");
    CHECK(says(tree.out, "\"parent_turn\":2,\"relation\":\"fork\""));
    CHECK(says(bench.home.shell("agent-relay tree").out, "fork of turn 2"));
}

TEST_CASE("a clone is recorded without an agent and can be gone on with") {
    const Bench bench;
    const Recording source = bench.record_three_turns();
    const ProgramEnd end = bench.home.shell("agent-relay clone source --name twin --json");
    CHECK_MESSAGE(end.status == 0, end.err);
    const Json told = Json::parse(end.out);
    const Recording clone = bench.home.sessions().back();
    CHECK(told["session"] == clone.id);
    CHECK(told["path"] == clone.path);
    CHECK(told["parent"] == Json({{"session", source.id}, {"turn", 3}, {"relation", "clone"}}));
    CHECK(told["next"] == "agent-relay resume " + clone.id);
    const Json meta = clone.meta();
    CHECK(meta["status"] == "checkpointed");
    CHECK(meta["agent"] == "echo");
    CHECK(meta["turn_count"] == 0);
    CHECK(meta["parent"]["relation"] == "clone");
    const Json packet = clone.json("resume.json");
    CHECK(packet["next_task"] == "after turn-three");
    CHECK(packet["decisions"].size() == 3);
    CHECK(packet["validation_state"]["tests"]["value"] == "turn-three");
    CHECK(packet["lineage"] == Json({source.id, clone.id}));
    // Resuming it tells of the turns that are its parent's.
    const ProgramEnd resumed = bench.home.shell("agent-relay resume twin -- cat");
    CHECK(resumed.status == 0);
    CHECK(says(resumed.out, "\n> said turn-three\n"));
    CHECK(says(resumed.out, "\n> turn-one\n"));
    CHECK(says(
        resumed.out, "\nTurn 3 is completed. It was asked:\n\n> turn-three\n\nIts last output:\n"));
    CHECK(says(resumed.out, source.path + "/turns/"));
    CHECK(bench.home.sessions().back().meta()["parent"]["session"] == clone.id);
    // With an agent it runs at once.
    CHECK(bench.home.shell("agent-relay clone source echo").status == 0);
    CHECK(bench.home.sessions().back().meta()["turn_count"] == 1);
    CHECK(bench.home.sessions().back().meta()["parent"]["relation"] == "clone");
    CHECK(damage_of(clone.path).empty());
}

TEST_CASE("the objective of a long chain is the one it began with") {
    const Bench bench;
    static_cast<void>(bench.record_three_turns());
    REQUIRE(bench.home.shell("agent-relay continue 'more'").status == 0);
    REQUIRE(bench.home.shell("agent-relay clone @latest --name twin").status == 0);
    REQUIRE(bench.home.shell("agent-relay fork twin --no-launch --name third").status == 0);
    const ProgramEnd resumed = bench.home.shell("agent-relay resume third -- cat");
    CHECK(resumed.status == 0);
    CHECK(says(resumed.out, "\n## Objective of the session\n\n> turn-one\n\n"));
}

TEST_CASE("a fork without launch is a session to resume and a wrong turn is refused") {
    const Bench bench;
    const Recording source = bench.record_three_turns();
    CHECK(bench.home.shell("agent-relay fork source:1 --no-launch").status == 0);
    const Recording fork = bench.home.sessions().back();
    CHECK(fork.meta()["checkpoint_reason"] == "fork");
    CHECK(fork.meta()["parent"]["turn"] == 1);
    const ProgramEnd resumed = bench.home.shell("agent-relay resume @latest -- cat");
    CHECK(says(resumed.out, "\n> after turn-one\n"));
    CHECK_FALSE(says(resumed.out, "turn-two"));
    ProgramEnd end = bench.home.shell("agent-relay fork source:9 -- cat");
    CHECK(end.status == 3);
    CHECK(says(end.err, "has no turn 9; the last one that has ended is 3"));
    CHECK(bench.home.shell("agent-relay clone source:2").status == 2);
    CHECK(bench.home.shell("agent-relay fork nobody").status == 3);
    CHECK(bench.home.shell("agent-relay fork").status == 2);
    CHECK(bench.home.shell("agent-relay fork source --no-launch codex").status == 2);
    CHECK(bench.home.shell("agent-relay fork source --no-session").status == 2);
    // Without a daemon there is nobody to record it.
    bench.home.kill_daemon();
    bench.home.forbid_daemon(true);
    end = bench.home.shell("agent-relay clone source");
    CHECK(end.status == 4);
    CHECK(says(end.err, "cannot be reached"));
}

TEST_CASE("a turn that still runs cannot be forked but those before it can") {
    const Bench bench;
    const ProgramEnd end = bench.home.shell(
        "agent-relay daemon start > /dev/null; S=$(agent-relay emit session.start agent=x --pid $$ "
        "| jq -r .session); export "
        "AGENT_RELAY_SESSION=$S; e() { agent-relay emit --pid $$ \"$@\" > /dev/null; }; "
        "e turn.start prompt=first; e turn.output text=done; e turn.end; e turn.start "
        "prompt=second; "
        "unset AGENT_RELAY_SESSION; "
        "agent-relay fork $S:2 -- cat; echo \"status $?\"; agent-relay fork $S -- cat > packet; "
        "echo "
        "\"status $?\"; AGENT_RELAY_SESSION=$S e session.end");
    CHECK(says(end.out, "status 2\nstatus 0\n"));
    CHECK(says(end.err, "still runs; the last one that has ended is"));
    CHECK(says(read_text(bench.home.work() + "/packet"), "Turn 1 is completed."));
    CHECK(bench.home.sessions().back().meta()["parent"]["turn"] == 1);
}

}  // namespace
}  // namespace relay::tests
