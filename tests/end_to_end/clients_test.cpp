// SPDX-License-Identifier: Apache-2.0

// The clients in clients/, in their own languages, against a daemon that is killed in the middle.

#include "tests/end_to_end/relay_home.hpp"
#include "tests/support/eventually.hpp"

#include <doctest/doctest.h>
#include <relay_built_here.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

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
    const std::string* agent;
};
const Language python{"Python", "python3", "agent.py", &python_agent};
const Language node{"Node", "node", "agent.mjs", &node_agent};

bool is_there(const Language& language) {
    const bool there = run_shell(std::string("command -v ") + language.program).status == 0;
    if (!there) {
        MESSAGE("skipped: there is no ", language.program, " here");
    }
    return there;
}

std::vector<Language> languages_here() {
    std::vector<Language> here{python, node};
    std::erase_if(here, [](const Language& language) { return !is_there(language); });
    return here;
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
    write_text(home.work() + "/" + language.file, *language.agent);
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
    write_text(home.work() + "/" + language.file, *language.agent);
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
    // Any run delivers what was left behind, unless the machine is too busy; then the next one goes on.
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
    REQUIRE_MESSAGE(
        eventually(is_delivered),
        home.shell("agent-relay list; ls -l '" + home.spool() + "'; agent-relay doctor").out);
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

// What an agent says in a few lines of its language, and what it prints at the end: of a session, whether it is safe, how many events were
// refused, and whether there is trouble.
const std::string python_begin = R"(import os, sys, time
sys.dont_write_bytecode = True
sys.path.insert(0, os.environ["CLIENTS"])
from agent_relay import Session
def say(session): print("safe" if session.close(timeout=5) else "unsafe", len(session.refused), "trouble" if session.trouble else "well")
)";
const std::string node_begin = R"(import * as fs from "node:fs";
const { Session } = await import(process.env.CLIENTS + "/agent_relay.mjs");
const say = async (session) => console.log((await session.close({}, 5000)) ? "safe" : "unsafe", session.refused.length, session.trouble ? "trouble" : "well");
)";

struct Sayings {
    std::string python;
    std::string node;
};

ProgramEnd perform(
    const RelayHome& home,
    const Language& language,
    const Sayings& sayings,
    const std::string& variables = "") {
    const bool is_python = language.name == python.name;
    write_text(
        home.work() + "/" + language.file,
        is_python ? python_begin + sayings.python : node_begin + sayings.node);
    return home.shell(call(language, variables));
}

TEST_CASE("one event that cannot be said or read costs a client no other event") {
    // Half of an emoji, as a text that was cut has it; what no JSON can hold; a line that is longer than the daemon reads.
    const Sayings sayings{
        R"(session = Session("py")
session.send("turn.start", prompt="p")
session.send("turn.output", text="half \ud83d of \U0001f600\n")
session.send("turn.note", kind="decision", payload={"x": float("nan")})
session.send("turn.output", text="x" * 100000)
session.send("turn.output", text="after\n")
session.send("turn.end")
say(session)
)",
        R"(const session = new Session("node");
session.send("turn.start", { prompt: "p" });
session.send("turn.output", { text: "half \ud83d of \u{1f600}\n" });
session.send("turn.note", { kind: "decision", payload: { x: 1n } });
session.send("turn.output", { text: "x".repeat(100000) });
session.send("turn.output", { text: "after\n" });
session.send("turn.end");
await say(session);
)"};
    for (const Language& language : languages_here()) {
        CAPTURE(language.name);
        const RelayHome home;
        const std::string small = "agent-relay daemon start -- --set daemon.max_event_bytes=64KiB";
        REQUIRE(home.shell(small).status == 0);
        const ProgramEnd end = perform(home, language, sayings);
        CHECK_MESSAGE(end.out == "safe 2 well\n", (end.out + end.err));
        const std::string mark = language.name == python.name ? "?" : "\xef\xbf\xbd";
        const std::string said = "half " + mark + " of \xf0\x9f\x98\x80\nafter\n";
        CHECK(home.session().text("turns/001-output.md").substr(0, 200) == said);
        CHECK(home.session().meta()["status"] == "completed");
    }
}

TEST_CASE("a client says in a word that its session.start was refused") {
    const Sayings sayings{
        R"(session = Session("py", cwd="/nonexistent")
for number in range(200): session.send("turn.output", text="lost\n")
say(session)
)",
        R"(const session = new Session("node", { cwd: "/nonexistent" });
for (let number = 0; number < 200; ++number) session.send("turn.output", { text: "lost\n" });
await say(session);
)"};
    for (const Language& language : languages_here()) {
        CAPTURE(language.name);
        const RelayHome home;
        REQUIRE(home.shell("agent-relay daemon start").status == 0);
        const ProgramEnd end = perform(home, language, sayings);
        CHECK_MESSAGE(end.out == "unsafe 1 trouble\n", (end.out + end.err));
        CHECK(tree_of(home.spool()).empty());
    }
}

TEST_CASE("a client with neither daemon nor spool file goes on and says so at the end") {
    const Sayings sayings{
        R"(session = Session("py", memory_bytes=1000)
for number in range(200): session.send("turn.output", text="lost\n")
say(session)
)",
        R"(const session = new Session("node", { memoryBytes: 1000 });
for (let number = 0; number < 200; ++number) session.send("turn.output", { text: "lost\n" });
await say(session);
)"};
    for (const Language& language : languages_here()) {
        CAPTURE(language.name);
        const RelayHome home;
        std::filesystem::create_directories(home.root() + "/relay/state");
        write_text(home.spool(), "in the way");
        const ProgramEnd end = perform(home, language, sayings);
        CHECK_MESSAGE(end.out == "unsafe 0 trouble\n", (end.out + end.err));
    }
}

TEST_CASE("a daemon that stands still holds up no client") {
    // 200 events of 4 KiB are more than the socket takes and less than memory does.
    const Sayings sayings{
        R"(session = Session("py")
session.send("turn.start", prompt="p")
session.flush()
os.kill(int(os.environ["DAEMON"]), 19)
begun = time.monotonic()
for number in range(200): session.send("turn.output", text="x" * 4095 + "\n")
quick = time.monotonic() - begun < 3
os.kill(int(os.environ["DAEMON"]), 18)
print("quick" if quick else "slow")
say(session)
)",
        R"(const session = new Session("node");
session.send("turn.start", { prompt: "p" });
await session.flush();
process.kill(Number(process.env.DAEMON), "SIGSTOP");
const begun = Date.now();
for (let number = 0; number < 200; ++number) {
  session.send("turn.output", { text: "x".repeat(4095) + "\n" });
  await new Promise((done) => setImmediate(done));
}
console.log(Date.now() - begun < 3000 ? "quick" : "slow");
process.kill(Number(process.env.DAEMON), "SIGCONT");
await say(session);
)"};
    for (const Language& language : languages_here()) {
        CAPTURE(language.name);
        const RelayHome home;
        REQUIRE(home.shell("agent-relay daemon start").status == 0);
        const ProgramEnd end =
            perform(home, language, sayings, "DAEMON=" + std::to_string(home.daemon()));
        CHECK_MESSAGE(end.out == "quick\nsafe 0 well\n", (end.out + end.err));
        CHECK(home.session().text("turns/001-output.md").size() == 200 * 4096);
    }
}

TEST_CASE("an agent that was killed while it spooled leaves what can be delivered") {
    const Sayings sayings{
        R"(session = Session("py", memory_bytes=100)
session.send("turn.start", prompt="p")
session.send("turn.output", text="said\n")
os.kill(os.getpid(), 9)
)",
        R"(const session = new Session("node", { memoryBytes: 100 });
session.send("turn.start", { prompt: "p" });
session.send("turn.output", { text: "said\n" });
process.kill(process.pid, "SIGKILL");
)"};
    for (const Language& language : languages_here()) {
        CAPTURE(language.name);
        const RelayHome home;
        home.forbid_daemon(true);
        static_cast<void>(perform(home, language, sayings));
        home.forbid_daemon(false);
        REQUIRE(home.shell("agent-relay daemon start").status == 0);
        CHECK(eventually([&] {
            CHECK(home.shell("agent-relay list").status == 0);
            const std::vector<Recording> sessions = home.sessions();
            return sessions.size() == 1 && sessions.front().has("turns/001-output.md")
                   && sessions.front().text("turns/001-output.md") == "said\n";
        }));
        CHECK(tree_of(home.spool()).empty());
    }
}

TEST_CASE("a session that completed stays so when the word of it is lost") {
    // Hands everything on, but for the answer to session.end, with which it closes once.
    const std::string between = R"(import os, socket, sys, threading
def hand_on(source, target, lost):
    while piece := source.recv(65536):
        lost[0] = lost[0] or b'"session.end"' in piece and not os.path.exists("ended")
        target.sendall(piece)
def answer(source, target, lost):
    while piece := source.recv(65536):
        if lost[0]:
            open("ended", "w").close()
            return target.shutdown(socket.SHUT_RDWR)
        target.sendall(piece)
listener = socket.socket(socket.AF_UNIX)
listener.bind("between.sock")
listener.listen()
open("listening", "w").close()
while True:
    client, daemon, lost = listener.accept()[0], socket.socket(socket.AF_UNIX), [False]
    daemon.connect(os.environ["DAEMON"])
    threading.Thread(target=hand_on, args=(client, daemon, lost), daemon=True).start()
    threading.Thread(target=answer, args=(daemon, client, lost), daemon=True).start()
)";
    const Sayings sayings{
        R"(session = Session("py")
session.send("turn.start", prompt="p")
session.flush()
say(session)
)",
        R"(const session = new Session("node");
session.send("turn.start", { prompt: "p" });
await session.flush();
await say(session);
)"};
    for (const Language& language : is_there(python) ? languages_here() : std::vector<Language>{}) {
        CAPTURE(language.name);
        const RelayHome home;
        REQUIRE(home.shell("agent-relay daemon start").status == 0);
        write_text(home.work() + "/between.py", between);
        const std::string begin = "DAEMON=$AGENT_RELAY_HOME/state/relay.sock python3 between.py"
                                  " >/dev/null 2>&1 & echo $! >pid";
        REQUIRE(home.shell(begin).status == 0);
        REQUIRE(eventually([&] { return exists(home.work() + "/listening"); }));
        const ProgramEnd end =
            perform(home, language, sayings, "AGENT_RELAY_SOCKET=" + home.work() + "/between.sock");
        CHECK_MESSAGE(end.out == "safe 0 well\n", (end.out + end.err));
        CHECK(exists(home.work() + "/ended"));
        CHECK(home.session().meta()["status"] == "completed");
        CHECK(home.shell("kill $(cat pid)").status == 0);
    }
}

TEST_CASE("a Node agent that does not close its session ends all the same") {
    if (!is_there(node)) {
        return;
    }
    const RelayHome home;
    const Sayings sayings{"", "new Session(\"node\");\n"};
    home.forbid_daemon(true);
    CHECK(perform(home, node, sayings).status == 0);
    home.forbid_daemon(false);
    REQUIRE(home.shell("agent-relay daemon start").status == 0);
    CHECK(perform(home, node, sayings).status == 0);
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

TEST_CASE("the shell example runs its command also when nothing can be recorded") {
    const RelayHome home;
    home.forbid_daemon(true);
    const ProgramEnd end = home.shell("'" + clients + "/record.sh' sh -c 'echo hello; exit 3'");
    CHECK(end.status == 3);
    CHECK_MESSAGE(end.out == "hello\n", (end.out + end.err));
    // And when the daemon goes while it runs, and cannot be started again.
    home.forbid_daemon(false);
    const ProgramEnd lost = home.shell(
        "'" + clients
        + "/record.sh' sh -c 'agent-relay daemon stop >/dev/null; touch ../forbidden; "
        + "echo hello; exit 3'");
    CHECK(lost.status == 3);
    CHECK_MESSAGE(lost.out == "hello\n", (lost.out + lost.err));
}

}  // namespace
}  // namespace relay::tests
