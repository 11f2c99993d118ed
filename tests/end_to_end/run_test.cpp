// SPDX-License-Identifier: Apache-2.0
#include "tests/end_to_end/relay_home.hpp"
#include "tests/support/eventually.hpp"

#include <doctest/doctest.h>

#include <signal.h>

#include <map>
#include <string>
#include <thread>
#include <vector>

namespace relay::tests {
namespace {

bool says(const std::string& text, const std::string& words) {
    return text.find(words) != std::string::npos;
}

void configure(const RelayHome& home, const std::string& text) {
    REQUIRE(home.shell("mkdir -p \"$AGENT_RELAY_HOME/config\"").status == 0);
    write_text(home.root() + "/relay/config/config.toml", text);
}

TEST_CASE("run passes a command through and records it as one turn") {
    const RelayHome home;
    const ProgramEnd end =
        home.shell("printf 'from stdin' | agent-relay run --name first --label a -- "
                   "sh -c 'cat; echo; echo out; echo bad >&2; exit 7'");
    CHECK(end.status == 7);
    CHECK(end.out == "from stdin\nout\n");
    CHECK(end.err == "bad\n");
    const Recording session = home.session();
    CHECK(session.text("turns/001-output.md") == end.out);
    CHECK(session.text("turns/001-stderr.log") == end.err);
    CHECK(
        session.text("turns/001-prompt.md") == "sh -c 'cat; echo; echo out; echo bad >&2; exit 7'");
    const Json meta = session.meta();
    CHECK(meta["status"] == "completed");
    CHECK(meta["exit_code"] == 7);
    CHECK(meta["error"] == "the agent ended with exit status 7");
    CHECK(meta["agent"] == "sh");
    CHECK(meta["name"] == "first");
    CHECK(meta["labels"] == Json({"a"}));
    CHECK(meta["command"][0] == "sh");
    CHECK(session.json("turns/001-state.json")["status"] == "failed");
    CHECK(session.json("turns/001-state.json")["exit_code"] == 7);
    CHECK(damage_of(session.path).empty());
    CHECK_FALSE(exists(home.spool() + "/" + session.id + ".spool"));
}

TEST_CASE("run is as if it were not there for exit statuses and signals and missing programs") {
    const RelayHome home;
    CHECK(home.shell("agent-relay run -- true").status == 0);
    CHECK(home.shell("agent-relay run -- sh -c 'kill -9 $$'").status == 137);
    const ProgramEnd absent = home.shell("agent-relay run -- no-such-program");
    CHECK(absent.status == 127);
    CHECK(absent.err == "agent-relay: no program \"no-such-program\" in PATH\n");
    CHECK(home.shell("agent-relay run -- /etc/passwd").status == 126);
    CHECK(home.shell("agent-relay run -- ./absent").status == 127);
    // A script without its first line is run by a shell.
    CHECK(home.shell("echo 'exit 5' > s && chmod +x s && agent-relay run -- ./s").status == 5);
    const std::vector<Recording> sessions = home.sessions();
    REQUIRE(sessions.size() == 3);  // what never ran is no session
    CHECK(sessions[1].meta()["error"] == "the agent was ended by signal 9");
    CHECK(sessions[1].json("turns/001-state.json")["status"] == "failed");
}

TEST_CASE("bytes in a pipe are the same bytes") {
    const RelayHome home;
    const ProgramEnd end = home.shell(
        "head -c 3000001 /dev/urandom > data; "
        "agent-relay run --raw -- cat data | cmp - data && "
        "agent-relay run --raw -- cat data > copy && cmp copy data && "
        "agent-relay run --raw -- sh -c 'cat data >&2' 2> copy && cmp copy data && echo same");
    CHECK(end.out == "same\n");
    const std::string data = read_text(home.work() + "/data");
    const std::vector<Recording> sessions = home.sessions();
    REQUIRE(sessions.size() == 3);
    CHECK(sessions[0].text("turns/001-output.md") == data);
    CHECK(sessions[1].text("turns/001-output.md") == data);
    CHECK(sessions[2].text("turns/001-stderr.log") == data);
    CHECK(sessions[2].text("turns/001-output.md").empty());
}

TEST_CASE("output and errors that go to one place keep their order") {
    const RelayHome home;
    const std::string chatter = "for n in $(seq 1 200); do echo out $n; echo err $n >&2; done";
    const ProgramEnd bare = home.shell("sh -c '" + chatter + "' 2>&1 | cat");
    const ProgramEnd wrapped = home.shell("agent-relay run -- sh -c '" + chatter + "' 2>&1 | cat");
    CHECK(wrapped.out == bare.out);
    CHECK(home.session().text("turns/001-output.md") == bare.out);
}

TEST_CASE("escape sequences stay with the user and out of the files") {
    const RelayHome home;
    const ProgramEnd end = home.shell("agent-relay run -- printf '\\033[31mred\\033[0m\\n'");
    CHECK(end.out == "\033[31mred\033[0m\n");
    CHECK(home.session().text("turns/001-output.md") == "red\n");
}

TEST_CASE("a reader that goes away ends the agent as it would have without us") {
    const RelayHome home;
    const ProgramEnd end = home.shell("agent-relay run -- yes | head -n 2; echo ${PIPESTATUS[0]}");
    CHECK(end.out == "y\ny\n141\n");
    CHECK(home.session().meta()["status"] == "completed");
}

TEST_CASE("output that a full disk refuses is told of and recorded") {
    const RelayHome home;
    const ProgramEnd end = home.shell("agent-relay run -- echo hello > /dev/full");
    CHECK(end.status == 1);
    CHECK(
        end.err
        == "agent-relay: what the agent printed could not be written: No space left on device\n");
    CHECK(home.session().text("turns/001-output.md") == "hello\n");
    CHECK(home.session().meta()["exit_code"] == 0);
}

TEST_CASE("an agent finds closed what its caller has closed") {
    const RelayHome home;
    for (const std::string closed : {">&-", "2>&-", "<&-", ">&- 2>&-", ">&- 2>/dev/null"}) {
        CAPTURE(closed);
        const std::string ask = "bash -c 'echo out; echo err >&2; cat < /dev/fd/0' " + closed;
        const ProgramEnd bare = home.shell(ask);
        const ProgramEnd end = home.shell("agent-relay run --no-diff -- " + ask);
        CHECK(end.out == bare.out);
        CHECK(end.err == bare.err);
        CHECK(end.status == bare.status);
    }
}

TEST_CASE("an agent that closes its output early is waited for") {
    const RelayHome home;
    // The reader sees the end at once, and not when the agent ends.
    const ProgramEnd end = home.shell("agent-relay run -- sh -c 'echo first; exec >&-; while [ ! "
                                      "-e seen ]; do sleep 0.01; done; exit 3' | "
                                      "{ cat; touch seen; }; echo ${PIPESTATUS[0]}");
    CHECK(end.out == "first\n3\n");
    CHECK(home.session().meta()["exit_code"] == 3);
}

TEST_CASE("a grandchild that keeps the pipe does not keep the run and keeps its reader") {
    const RelayHome home;
    const ProgramEnd end = home.shell("{ agent-relay run -- bash -c '{ while [ ! -e over ]; do "
                                      "sleep 0.01; done; echo late; } & echo soon'; "
                                      "echo status $?; touch over; } | cat");
    CHECK(end.out == "soon\nstatus 0\nlate\n");
    CHECK(home.session().text("turns/001-output.md") == "soon\n");
    CHECK(home.session().meta()["status"] == "completed");
}

TEST_CASE("a signal to run reaches the agent and leaves a checkpoint by hand") {
    for (const std::string name : {"INT", "TERM", "HUP"}) {
        CAPTURE(name);
        const RelayHome home;
        // With job control, because a shell's background has SIGINT ignored otherwise.
        const ProgramEnd end = home.shell(
            "set -m; agent-relay run -- bash -c 'trap \"echo got " + name + "; exit 0\" " + name
            + "; touch ready; while true; do sleep 0.01; done' & "
              "while [ ! -e ready ]; do sleep 0.01; done; kill -"
            + name + " $!; wait $!; echo $?");
        CHECK(end.out == "got " + name + "\n0\n");
        const Recording session = home.session();
        CHECK(session.meta()["status"] == "checkpointed");
        CHECK(session.meta()["checkpoint_reason"] == "manual");
        CHECK(session.json("resume.json")["checkpoint_reason"] == "manual");
        CHECK(session.json("turns/001-state.json")["status"] == "interrupted");
        CHECK(session.text("turns/001-output.md") == "got " + name + "\n");
    }
}

TEST_CASE("a run whose reader does not read ends when it is told to") {
    const RelayHome home;
    const ProgramEnd end =
        home.shell("mkfifo slow; sleep 30 < slow & agent-relay run -- yes > slow & run=$!; "
                   "while [ ! -s \"$AGENT_RELAY_HOME\"/state/latest/turns/001-output.md ]; do "
                   "sleep 0.01; done; "
                   "kill -TERM $run; wait $run; echo $?; kill %1");
    CHECK(end.out == "143\n");
    CHECK(home.session().meta()["status"] == "checkpointed");
}

TEST_CASE("what an agent declares reaches its seal and the handoff packet") {
    const RelayHome home;
    const ProgramEnd end =
        home.shell("agent-relay run -- bash -c '"
                   "echo \"RELAY_STATE: {\\\"decisions\\\":[\\\"use "
                   "sqlite\\\"],\\\"next_task\\\":\\\"docs\\\"}\"; "
                   "agent-relay note blocker no network --why sandbox --id net; "
                   "agent-relay note validation tests=pass; kill -TERM $PPID; exec sleep 30'");
    CHECK(end.err.empty());
    const Json state = home.session().json("turns/001-state.json");
    REQUIRE(state["decisions"].size() == 1);
    CHECK(state["decisions"][0]["summary"] == "use sqlite");
    CHECK(state["decisions"][0]["source"] == "declared");
    CHECK(state["blockers"][0]["id"] == "net");
    CHECK(state["blockers"][0]["why"] == "sandbox");
    CHECK(state["validation"]["tests"] == "pass");
    const Json packet = home.session().json("resume.json");
    CHECK(packet["next_task"] == "docs");
    CHECK(packet["decisions"][0]["source"] == "declared");
    CHECK(packet["validation_state"]["tests"]["value"] == "pass");
    CHECK(says(home.shell("agent-relay show").out, "\n  validation: tests pass\n  next: docs\n"));
}

TEST_CASE("a note without a session or a daemon says what is missing") {
    const RelayHome home;
    ProgramEnd end = home.shell("agent-relay note decision x");
    CHECK(end.status == 2);
    CHECK(says(end.err, "name one with --session"));
    end = home.shell("agent-relay note decision x --session 01M7J690Z2TM97TN46F1TWFTA9");
    CHECK(end.status == 4);
    CHECK(says(end.err, "agent-relay daemon start"));
    REQUIRE(home.shell("agent-relay run -- true").status == 0);
    end = home.shell("agent-relay note decision x --session 01M7J690Z2TM97TN46F1TWFTA9");
    CHECK(end.status == 3);
    end = home.shell("agent-relay note decision x --session " + home.session().id);
    CHECK(end.status == 1);
    CHECK(says(end.err, "reopen"));
    CHECK(home.shell("agent-relay note decision x --session nobody").status == 3);
    REQUIRE(
        home.shell("agent-relay run --name known -- bash -c 'touch ready; while [ ! -e told ]; do "
                   "sleep 0.01; done' & while [ ! -e ready ] || ! agent-relay show @running --path "
                   ">/dev/null 2>&1; do sleep 0.01; done; "
                   "agent-relay note decision 'from elsewhere' --session known; code=$?; touch "
                   "told; wait; exit $code")
            .status
        == 0);
    CHECK(
        home.sessions().back().json("turns/001-state.json")["decisions"][0]["summary"]
        == "from elsewhere");
    CHECK(home.shell("agent-relay note validation x=1 y --session s").status == 2);
    CHECK(home.shell("agent-relay note next --session s").status == 2);
    CHECK(home.shell("agent-relay note").status == 2);
}

TEST_CASE("agents of the configuration are run with their prompts turn by turn") {
    const RelayHome home;
    configure(
        home,
        "[agents.echoes]\nbinary = \"echo\"\nextra_args = [\"-n\", \"I\"]\naliases = [\"e\"]\n"
        "[agents.reads]\nbinary = \"cat\"\nprompt = \"stdin\"\n"
        "[agents.fails]\nbinary = \"false\"\n[agents.odd]\nbinary = \"x\"\nformat = \"odd\"\n");
    ProgramEnd end = home.shell("agent-relay run e 'say so'");
    CHECK(end.status == 0);
    CHECK(end.out == "I say so");
    end = home.shell("printf 'one\\n\\ntwo\\nthree\\n' > p; agent-relay run reads --prompts-file p "
                     "--max-turns 2");
    CHECK(end.out == "onetwo");
    CHECK(end.status == 2);
    CHECK(home.shell("seq 3 | agent-relay run e --prompts-file -").out == "I 1I 2I 3");
    CHECK(home.shell("echo from a pipe | agent-relay run reads").out == "from a pipe\n");
    CHECK(home.shell("agent-relay run fails x").status == 1);
    CHECK(home.shell("agent-relay run e --passthrough-exit x").status == 0);
    const std::vector<Recording> sessions = home.sessions();
    REQUIRE(sessions.size() == 6);
    CHECK(sessions[0].text("turns/001-prompt.md") == "say so");
    CHECK(sessions[0].meta()["agent"] == "echoes");
    CHECK(sessions[1].meta()["turn_count"] == 2);
    CHECK(sessions[1].text("turns/002-prompt.md") == "two");
    CHECK(sessions[1].text("turns/002-output.md") == "two");
    CHECK(sessions[2].meta()["turn_count"] == 3);
    CHECK(sessions[3].text("turns/001-prompt.md") == "from a pipe\n");
    end = home.shell("agent-relay run echos x");
    CHECK(end.status == 2);
    CHECK(says(end.err, "did you mean \"echoes\"?"));
    CHECK(says(home.shell("agent-relay run odd x").err, "agents.odd.format"));
    end = home.shell("agent-relay run codex x");
    CHECK(end.status == 127);
    CHECK(says(end.err, "install codex"));
    CHECK(home.shell("agent-relay run").status == 2);
}

TEST_CASE("a run that stops before its last prompt leaves a checkpoint that says which is next") {
    const RelayHome home;
    configure(home, "[agents.e]\nbinary = \"echo\"\n");
    SUBCASE("of a file") {
        CHECK(
            home.shell("seq 3 > p; agent-relay run e --prompts-file p --max-turns 2").status == 2);
    }
    SUBCASE("of standard input") {
        CHECK(home.shell("seq 3 | agent-relay run e --prompts-file - --max-turns 2").status == 2);
    }
    const Recording session = home.session();
    CHECK(session.meta()["checkpoint_reason"] == "max_turns");
    CHECK(session.meta()["turn_count"] == 2);
    CHECK(session.json("resume.json")["next_task"] == "3");
    CHECK(home.shell("seq 2 | agent-relay run e --prompts-file - --max-turns 2").status == 0);
    CHECK(home.sessions()[1].meta()["status"] == "completed");
}

TEST_CASE("a run that is handed over between its prompts says what it was asked and what is next") {
    const RelayHome home;
    configure(
        home,
        "[agents.e]\nbinary = \"sh\"\n"
        "extra_args = [\"-c\", \"[ $0 != 2 ] || agent-relay handoff\"]\n");
    CHECK(home.shell("seq 3 > p; agent-relay run e --prompts-file p").status == 2);
    CHECK(home.session().json("resume.json")["next_task"] == "3");
    const ProgramEnd end = home.shell("agent-relay run --resume -- cat");
    CHECK(says(end.out, "\n## What to do next\n\n> 3\n"));
    CHECK(says(end.out, "Turn 2 is completed; "));
    CHECK(says(end.out, "It was asked:\n\n> 2\n"));
}

TEST_CASE("an agent without a prompt is started without one") {
    const RelayHome home;
    configure(
        home,
        "[agents.counts]\nbinary = \"sh\"\nextra_args = [\"-c\", \"echo $#\", "
        "\"counts\"]\n");
    CHECK(home.shell("agent-relay run counts < /dev/null").out == "0\n");
    CHECK(home.shell("agent-relay run counts word < /dev/null").out == "1\n");
}

TEST_CASE("prompts from standard input are read when their turn comes") {
    const RelayHome home;
    configure(home, "[agents.e]\nbinary = \"echo\"\n");
    // The second line is written when the first one's output is there.
    const ProgramEnd end = home.shell(
        "mkfifo lines; agent-relay run e --prompts-file - < lines > out & exec 3> lines; "
        "echo one >&3; while ! grep -qs one out; do sleep 0.01; done; "
        "printf '\\nlast' >&3; exec 3>&-; wait $!; echo \"status $?\"; cat out");
    CHECK(end.out == "status 0\none\nlast\n");
    CHECK(home.session().meta()["turn_count"] == 2);
    CHECK(home.session().text("turns/002-prompt.md") == "last");
}

TEST_CASE("a run that waits for its next prompt is stopped by a signal and by a handoff") {
    const RelayHome home;
    configure(home, "[agents.e]\nbinary = \"echo\"\n");
    const std::string begin =
        "mkfifo lines; agent-relay run e --prompts-file - < lines > out & run=$!; exec 3> lines; "
        "echo one >&3; "
        "while ! ls \"$AGENT_RELAY_HOME\"/state/sessions/*/turns/001-state.json >/dev/null 2>&1; "
        "do sleep 0.01; done; ";
    std::string stop;
    std::string reason;
    SUBCASE("a signal") {
        stop = "kill -TERM $run; ";
        reason = "manual";
    }
    SUBCASE("a handoff") {
        stop = "agent-relay handoff --reason enough >/dev/null; ";
        reason = "enough";
    }
    SUBCASE("a handoff now") {
        stop = "agent-relay handoff --now >/dev/null; ";
        reason = "handoff";
    }
    const ProgramEnd end = home.shell(begin + stop + "wait $run; echo \"status $?\"");
    CHECK(end.out == "status 2\n");
    const Json meta = home.session().meta();
    CHECK(meta["status"] == "checkpointed");
    CHECK(meta["checkpoint_reason"] == reason);
    CHECK(home.session().json("turns/001-state.json")["status"] == "completed");
}

TEST_CASE("run tells what it records when it is asked to") {
    const RelayHome home;
    ProgramEnd end = home.shell("agent-relay run --watch -- sh -c 'echo \"RELAY_STATE: "
                                "{\\\"decisions\\\":[\\\"use \\\\u001b[2Jsqlite\\\"]}\"; exit 3'");
    CHECK(end.status == 3);
    CHECK(says(end.out, "RELAY_STATE"));
    CHECK(says(end.err, "── turn 1, "));
    CHECK(says(end.err, "> sh -c "));
    CHECK(says(end.err, "decision: use [2Jsqlite\n"));
    CHECK_FALSE(says(end.err, "\x1b"));
    CHECK(says(end.err, "── turn 1 failed, exit 3\n"));
    CHECK(says(end.err, "── ended: the agent ended with exit status 3\n"));
    end = home.shell("AGENT_RELAY_DEFAULT__WATCH=true agent-relay run -- true");
    CHECK(says(end.err, "── turn 1 completed"));
    CHECK(home.shell("agent-relay run -- true").err.empty());
}

TEST_CASE("an agent is asked for no colours where the user wants none") {
    const RelayHome home;
    const std::string tell = "agent-relay run -- sh -c 'echo \"<$NO_COLOR>\"'";
    CHECK(home.shell(tell).out == "<>\n");
    CHECK(home.shell("agent-relay run --no-color -- sh -c 'echo \"<$NO_COLOR>\"'").out == "<1>\n");
    CHECK(home.shell("AGENT_RELAY_DEFAULT__NO_COLOR=true " + tell).out == "<1>\n");
    CHECK(home.shell("NO_COLOR=yes " + tell).out == "<yes>\n");
}

TEST_CASE("a turn in a git work tree carries its change") {
    const RelayHome home;
    REQUIRE(make_repository(home.work()));
    REQUIRE(home.shell("agent-relay run -- sh -c 'echo hello > new.txt'").status == 0);
    REQUIRE(home.shell("agent-relay run --no-diff -- sh -c 'echo again >> new.txt'").status == 0);
    const std::vector<Recording> sessions = home.sessions();
    REQUIRE(sessions.size() == 2);
    CHECK(says(sessions[0].text("turns/001-diff.patch"), "+hello"));
    CHECK(
        sessions[0].json("turns/001-state.json")["files"]
        == Json::parse(R"([{"path":"new.txt","status":"added","added":1,"removed":0}])"));
    CHECK(
        says(home.shell("agent-relay show @2").out, "  added new.txt +1 -0\n── turn 1 completed"));
    CHECK_FALSE(sessions[1].has("turns/001-diff.patch"));
    CHECK(sessions[1].json("turns/001-state.json")["files"] == Json::array());
}

TEST_CASE("a packet tells whether something was left to commit when a run was killed") {
    const RelayHome home;
    REQUIRE(make_repository(home.work()));
    write_text(
        home.root() + "/bin/agent",
        "#!/bin/bash\necho more >> new.txt\n"
        "[ $1 = first ] && exit\n"
        "while ! ls \"$AGENT_RELAY_HOME\"/state/latest/turns/002-prompt.md; do sleep 0.01; done\n"
        "kill -9 $PPID\n");
    const ProgramEnd end = home.shell(
        "chmod 700 ../bin/agent; mkdir -p \"$AGENT_RELAY_HOME/config\"; "
        "printf '[agents.mine]\\nbinary = \"agent\"\\n' > "
        "\"$AGENT_RELAY_HOME/config/config.toml\"; "
        "printf 'first\\nsecond\\n' > ../steps; "
        "TMPDIR=$PWD/.. agent-relay run mine --prompts-file ../steps; "
        "while [ ! -e \"$AGENT_RELAY_HOME\"/state/latest/resume.json ]; do sleep 0.01; done; "
        "agent-relay run --resume -- cat");
    CHECK(end.status == 0);
    const Json packet = home.sessions().front().json("resume.json");
    CHECK(packet["checkpoint_reason"] == "crash");
    CHECK(packet["last_turn"]["turn"] == 2);
    CHECK(packet["working_tree"]["dirty"] == true);
    CHECK(says(end.out, "\n> when last looked at: with changes that are not committed\n"));
}

TEST_CASE("a patch that the daemon would not take is left out and the turn is not") {
    const RelayHome home;
    REQUIRE(make_repository(home.work()));
    const ProgramEnd end = home.shell(
        "agent-relay run -- sh -c 'for n in 1 2 3; do yes | head -c 900000 > big$n.txt; done'");
    CHECK(end.status == 0);
    CHECK(end.err.empty());
    const Json state = home.session().json("turns/001-state.json");
    CHECK(state["status"] == "completed");
    CHECK(state["files"].size() == 3);
    CHECK(state["diff"].is_null());
    CHECK(home.session().meta()["status"] == "completed");
}

TEST_CASE("an agent that cannot be recorded for want of a place runs all the same") {
    const RelayHome home;
    ProgramEnd end = home.shell("env -i " + home.program() + " run -- sh -c 'echo ran; exit 4'");
    CHECK(end.status == 4);
    CHECK(end.out == "ran\n");
    CHECK(end.err.starts_with("agent-relay: this run is not recorded: "));
    end = home.shell("mkdir gone && cd gone && rmdir ../gone && agent-relay run -- echo ran");
    CHECK(end.status == 0);
    CHECK(end.out == "ran\n");
    CHECK(says(end.err, "this run is not recorded: find the current directory"));
    CHECK(home.daemons().empty());
}

TEST_CASE(
    "an unrecorded agent's bytes go through at its reader's pace and its reader's end is its own") {
    const RelayHome home;
    const std::string pour = "agent-relay run --no-session -- sh -c 'seq 400000; echo $? >&2'";
    const ProgramEnd slow = home.shell(pour + " 2>/dev/null | (sleep 0.3; md5sum)");
    CHECK(slow.out == home.shell("seq 400000 | md5sum").out);
    const ProgramEnd gone = home.shell("trap '' PIPE; " + pour + " | head -1");
    CHECK(gone.out == "1\n");
    CHECK_MESSAGE(gone.err.find("0\n") != 0, gone.err);  // seq could not write
}

TEST_CASE("run without a session records nothing and starts nothing") {
    const RelayHome home;
    const ProgramEnd end =
        home.shell("agent-relay run --no-session -- sh -c 'echo \"[$AGENT_RELAY_SESSION]\"'");
    CHECK(end.out == "[]\n");
    CHECK(home.sessions().empty());
    CHECK(home.daemons().empty());
}

TEST_CASE("a run below another run belongs to it") {
    const RelayHome home;
    REQUIRE(home.shell("agent-relay run -- agent-relay run -- true").status == 0);
    const std::vector<Recording> sessions = home.sessions();
    REQUIRE(sessions.size() == 2);
    CHECK(sessions[1].meta()["parent"]["session"] == sessions[0].id);
    CHECK(sessions[1].meta()["parent"]["relation"] == "subagent");
}

}  // namespace
}  // namespace relay::tests
