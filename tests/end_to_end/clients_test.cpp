// SPDX-License-Identifier: Apache-2.0

// The clients in clients/, in their own languages, against a daemon that is killed in the middle.

#include "tests/end_to_end/relay_home.hpp"
#include "tests/support/eventually.hpp"

#include <doctest/doctest.h>
#include <relay_built_here.hpp>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

namespace relay::tests {
namespace {

constexpr int lines = 3000;

std::string expected_output() {
    std::string text;
    for (int number = 0; number < lines; ++number) {
        text += "line " + std::to_string(number) + "\n";
    }
    return text;
}

const std::string clients = std::string(RELAY_SOURCE_DIR) + "/clients";

// Says 3000 lines in a turn, slowly enough to be interrupted; $GO is made after the first hundred.
const std::string python_agent = R"(import os, sys, time
sys.dont_write_bytecode = True
sys.path.insert(0, os.environ["CLIENTS"])
from agent_relay import Session
session = Session("py", memory_bytes=int(os.environ.get("MEMORY", 8 << 20)))
session.send("turn.start", prompt="count")
if "PATIENCE" not in os.environ: session.send("turn.nonsense", text="refused")
for number in range(3000):
    session.send("turn.output", text=f"line {number}\n")
    if number % 10 == 0: time.sleep(0.002)
    if number == 100: open("go", "w").close()
session.send("turn.end", tokens={"input": 1})
print("safe" if session.close(exit_code=0, timeout=float(os.environ.get("PATIENCE", 30))) else "spooled", len(session.refused))
)";

const std::string node_agent = R"(import * as fs from "node:fs";
const { Session } = await import(process.env.CLIENTS + "/agent_relay.mjs");
const session = new Session("node", { memoryBytes: Number(process.env.MEMORY || 8 << 20) });
session.send("turn.start", { prompt: "count" });
if (!process.env.PATIENCE) session.send("turn.nonsense", { text: "refused" });
for (let number = 0; number < 3000; ++number) {
  session.send("turn.output", { text: `line ${number}\n` });
  if (number % 10 === 0) await new Promise((done) => setTimeout(done, 2));
  if (number === 100) fs.writeFileSync("go", "");
}
session.send("turn.end", { tokens: { input: 1 } });
console.log((await session.close({ exit_code: 0 }, 1000 * Number(process.env.PATIENCE || 30))) ? "safe" : "spooled", session.refused.length);
)";

struct Language {
    const char* name;
    const char* program;
    const char* file;
    const std::string& agent;
};
const Language python{"Python", "python3", "agent.py", python_agent};
const Language node{"Node", "node", "agent.mjs", node_agent};

bool is_there(const Language& language) {
    const bool there = run_shell(std::string("command -v ") + language.program).status == 0;
    if (!there) {
        MESSAGE("skipped: there is no ", language.program, " here");
    }
    return there;
}

std::string call(const Language& language, const std::string& variables = "") {
    return "export CLIENTS='" + clients + "' " + variables + "; " + language.program + " "
           + language.file;
}

void check_whole(const Recording& session) {
    CHECK(session.text("turns/001-output.md") == expected_output());
    CHECK(session.meta()["status"] == "completed");
    CHECK(session.json("turns/001-state.json")["status"] == "completed");
    CHECK_MESSAGE(damage_of(session.path).empty(), damage_of(session.path));
}

void survives_kills(const Language& language) {
    const RelayHome home;
    write_text(home.work() + "/" + language.file, language.agent);
    REQUIRE(home.shell("agent-relay daemon start -- --orphan-grace 1min").status == 0);
    ProgramEnd end;
    std::thread agent([&] { end = home.shell(call(language)); });
    REQUIRE(eventually([&] { return exists(home.work() + "/go"); }));
    for (int kill = 0; kill < 2; ++kill) {
        home.kill_daemon();
        CHECK(home.shell("agent-relay daemon start -- --orphan-grace 1min").status == 0);
    }
    agent.join();
    CHECK_MESSAGE(end.out == "safe 1\n", (end.out + end.err));
    check_whole(home.session());
}

void spools(const Language& language) {
    const RelayHome home;
    home.forbid_daemon(true);
    write_text(home.work() + "/" + language.file, language.agent);
    SUBCASE("at the end") {
        const ProgramEnd end = home.shell(call(language, "PATIENCE=0.2"));
        CHECK_MESSAGE(end.out == "spooled 0\n", (end.out + end.err));
    }
    SUBCASE("when there is too much") {
        const ProgramEnd end = home.shell(call(language, "PATIENCE=0.2 MEMORY=20000"));
        CHECK_MESSAGE(end.out == "spooled 0\n", (end.out + end.err));
    }
    CHECK(tree_of(home.spool()).size() == 1);
    home.forbid_daemon(false);
    // Any run delivers what was left behind, for two seconds at most; the next one goes on.
    std::optional<Recording> ours;
    const auto is_delivered = [&] {
        CHECK(home.shell("agent-relay run -- true").status == 0);
        for (const Recording& session : home.sessions()) {
            if (session.has("turns/001-prompt.md")
                && session.text("turns/001-prompt.md") == "count") {
                ours = session;
            }
        }
        return ours && ours->meta().value("status", "") == "completed";
    };
    REQUIRE(eventually(is_delivered));
    CHECK(ours->text("turns/001-output.md") == expected_output());
}

TEST_CASE("the Python client records every line once across killed daemons") {
    if (is_there(python)) {
        survives_kills(python);
    }
}

TEST_CASE("the Node client records every line once across killed daemons") {
    if (is_there(node)) {
        survives_kills(node);
    }
}

TEST_CASE("what the Python client cannot deliver waits in a spool file") {
    if (is_there(python)) {
        spools(python);
    }
}

TEST_CASE("what the Node client cannot deliver waits in a spool file") {
    if (is_there(node)) {
        spools(node);
    }
}

TEST_CASE("the clients are short enough to be read before they are copied") {
    for (const char* const file : {"agent_relay.py", "agent_relay.mjs"}) {
        const std::string text = read_text(clients + "/" + file);
        CHECK_FALSE(text.empty());
        CHECK(std::count(text.begin(), text.end(), '\n') < 200);
    }
}

TEST_CASE("the shell example records a command and ends with its status") {
    const RelayHome home;
    const ProgramEnd end = home.shell(
        "PATH=$(dirname \"$(command -v agent-relay)\"):$PATH; '" + clients
        + "/record.sh' sh -c 'echo hello; exit 3'");
    CHECK(end.status == 3);
    CHECK_MESSAGE(end.out == "hello\n", (end.out + end.err));
    CHECK(home.session().text("turns/001-output.md") == "hello\n");
    CHECK(home.session().meta()["exit_code"] == 3);
}

}  // namespace
}  // namespace relay::tests
