// SPDX-License-Identifier: Apache-2.0
#include "delivery/agent_relay.hpp"
#include "tests/end_to_end/recording.hpp"
#include "tests/support/daemon_process.hpp"

#include <doctest/doctest.h>
#include <relay_built_here.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

using agent_relay::Delivery;
using agent_relay::Places;
using agent_relay::Session;
using agent_relay::SessionStart;
using agent_relay::TurnEnd;
using relay::tests::DaemonProcess;
using relay::tests::Json;
using relay::tests::read_text;

namespace {

constexpr std::chrono::seconds ample{20};

struct Scene {
    DaemonProcess daemon{relay::tests::small_journal({"--orphan-grace", "10min"})};

    [[nodiscard]] Places places() const {
        return {.socket = daemon.socket(), .spool_directory = daemon.root() + "/spool"};
    }
    [[nodiscard]] SessionStart start() const {
        return {
            .agent = "tester",
            .cwd = daemon.work(),
            .command = {"tester", "--fast"},
            .name = "",
            .model = "",
            .labels = {"nightly"},
            .store = "",
            .more = ""};
    }
    [[nodiscard]] std::string file(const Session& session, const std::string& name) const {
        return daemon.state() + "/sessions/" + session.id() + "/" + name;
    }
    [[nodiscard]] Json json(const Session& session, const std::string& name) const {
        return Json::parse(read_text(file(session, name)), nullptr, /*allow_exceptions=*/false);
    }
};

TurnEnd turn_end(std::string more) {
    return {
        .status = "failed",
        .stop_reason = "",
        .exit_code = 3,
        .error = "",
        .more = std::move(more)};
}

}  // namespace

TEST_CASE("a session of the library has everything that was said in its files") {
    Scene scene;
    REQUIRE_MESSAGE(scene.daemon.start(), scene.daemon.log());
    Session session(scene.start(), scene.places());
    CHECK(session.id().size() == 26);
    session.begin_turn("say \"hello\"\n");
    session.output("hel");
    session.output("lo\n");
    session.output("\xff\xfe");
    session.error_output("careful\n");
    CHECK(session.event("turn.note", R"({"kind":"decision","payload":{"summary":"greet"}})"));
    CHECK(session.end_turn(turn_end("{\n\"tokens\": {\"input\": 3,\n\"output\": 1}\n}")));
    CHECK(session.wait(ample));
    CHECK(read_text(scene.file(session, "turns/001-prompt.md")) == "say \"hello\"\n");
    CHECK(read_text(scene.file(session, "turns/001-output.md")) == "hello\n\xff\xfe");
    CHECK(read_text(scene.file(session, "turns/001-stderr.log")) == "careful\n");
    const Json state = scene.json(session, "turns/001-state.json");
    CHECK(state["status"] == "failed");
    CHECK(state["exit_code"] == 3);
    CHECK(state["tokens"]["input"] == 3);
    const Delivery end = session.end(0, ample);
    CHECK_MESSAGE(end.recorded, end.trouble);
    CHECK(end.trouble.empty());
    const Json meta = scene.json(session, "meta.json");
    CHECK(meta["status"] == "completed");
    CHECK(meta["agent"] == "tester");
    CHECK(meta["labels"] == Json::array({"nightly"}));
    // After the end nothing is taken, and the end is told again.
    session.output("too late");
    CHECK(session.end(1, ample).recorded);
    CHECK(relay::tests::damage_of(scene.file(session, "")).empty());
}

TEST_CASE("a session of the library goes on through kills of the daemon and records all once") {
    Scene scene;
    REQUIRE_MESSAGE(scene.daemon.start(), scene.daemon.log());
    Session session(scene.start(), scene.places());
    session.begin_turn("count");
    std::string said;
    for (int round = 0; round < 5; ++round) {
        for (int line = 0; line < 200; ++line) {
            const std::string text = std::to_string(round * 1000 + line) + "\n";
            session.output(text);
            said += text;
        }
        scene.daemon.kill();
        session.output("while nobody listened\n");
        said += "while nobody listened\n";
        CHECK_FALSE(session.wait(std::chrono::milliseconds(20)));
        REQUIRE_MESSAGE(scene.daemon.start(), scene.daemon.log());
        CHECK(session.wait(ample));
    }
    CHECK(session.end_turn());
    const Delivery end = session.checkpoint("limit", ample);
    CHECK_MESSAGE(end.recorded, end.trouble);
    CHECK(read_text(scene.file(session, "turns/001-output.md")) == said);
    CHECK(scene.json(session, "resume.json")["checkpoint_reason"] == "limit");
    CHECK(relay::tests::damage_of(scene.file(session, "")).empty());
}

TEST_CASE("what the library could not deliver waits in a spool file for the next process") {
    Scene scene;
    std::string spool;
    std::string id;
    {
        Session session(scene.start(), scene.places());
        id = session.id();
        session.begin_turn("alone");
        session.output("nobody hears me\n");
        CHECK(session.end_turn());
        const Delivery end = session.end(0, std::chrono::milliseconds(200));
        CHECK_FALSE(end.recorded);
        CHECK_MESSAGE(end.trouble.find(scene.daemon.socket()) != std::string::npos, end.trouble);
        CHECK(end.spool_file == scene.daemon.root() + "/spool/" + id + ".spool");
        spool = end.spool_file;
    }
    CHECK(relay::tests::exists(spool));
    CHECK(agent_relay::deliver_left_behind(ample, scene.places()) == 0);
    REQUIRE_MESSAGE(scene.daemon.start(), scene.daemon.log());
    CHECK(agent_relay::deliver_left_behind(ample, scene.places()) == 1);
    CHECK_FALSE(relay::tests::exists(spool));
    CHECK(
        read_text(scene.daemon.state() + "/sessions/" + id + "/turns/001-output.md")
        == "nobody hears me\n");
}

TEST_CASE("a spool file of another client is delivered whole but for what is no JSON") {
    Scene scene;
    REQUIRE_MESSAGE(scene.daemon.start(), scene.daemon.log());
    const pid_t gone = ::fork();
    if (gone == 0) {
        ::_exit(0);
    }
    REQUIRE(::waitpid(gone, nullptr, 0) == gone);
    const std::string id = "01M7J690Z2TM97TN46F1TWFTA9";
    std::string text = "agent-relay spool 1 " + id + " 00000000000000000001\n";
    const auto say = [&text](const std::string& members) {
        text += std::to_string(members.size()) + " -\n" + members + "\n\n";
    };
    // As Python spaces it, by a process that is gone.
    say(R"({"type": "session.start", "agent": "py", "cwd": ")" + scene.daemon.work()
        + R"(", "pid": )" + std::to_string(gone) + "}");
    say(R"({"type": "turn.start", "prompt": "p"})");
    std::string expected;
    for (int number = 0; number < 1000; ++number) {
        const std::string line = std::to_string(number);
        say(R"({"type": "turn.output", "text": ")" + line + R"(\n"})");
        expected += line + "\n";
    }
    say(R"({"type": "turn.output", "text": "half a pair: \ud83d"})");
    say(R"({"type": "turn.end"})");
    say(R"({"type": "session.end", "exit_code": 0})");
    const std::string spool = scene.daemon.root() + "/spool";
    std::filesystem::create_directories(spool);
    relay::tests::write_text(spool + "/" + id + ".spool", text);
    CHECK(agent_relay::deliver_left_behind(ample, scene.places()) == 1);
    const std::string session = scene.daemon.state() + "/sessions/" + id;
    CHECK(read_text(session + "/turns/001-output.md") == expected);
    CHECK(read_text(session + "/meta.json").find("\"completed\"") != std::string::npos);
    const std::string timeline = read_text(session + "/events.jsonl");
    CHECK(timeline.find("bad_json") != std::string::npos);
    CHECK(timeline.find("crash") == std::string::npos);
}

TEST_CASE("a session of the library that is dropped without an end leaves nothing unsaid") {
    Scene scene;
    std::string id;
    {
        Session session(scene.start(), scene.places());
        id = session.id();
        session.begin_turn("dropped");
        session.output("last words\n");
    }
    REQUIRE_MESSAGE(scene.daemon.start(), scene.daemon.log());
    CHECK(agent_relay::deliver_left_behind(ample, scene.places()) == 1);
    CHECK(
        read_text(scene.daemon.state() + "/sessions/" + id + "/turns/001-output.md")
        == "last words\n");
}

TEST_CASE("events that are no JSON objects or not the client's to say are refused at once") {
    Scene scene;
    REQUIRE_MESSAGE(scene.daemon.start(), scene.daemon.log());
    Session session(scene.start(), scene.places());
    session.begin_turn("p");
    for (const std::string wrong :
         {"[1]",
          "{",
          "null",
          "{\"kind\":\"a\"} x",
          R"({"kind":"a","seq":7})",
          R"({"session":"01M7J690Z2TM97TN46F1TWFTA9"})",
          R"({"type":"turn.end"})"}) {
        CAPTURE(wrong);
        CHECK_FALSE(session.event("turn.note", wrong));
        CHECK_FALSE(session.end_turn(turn_end(wrong)));
    }
    CHECK_FALSE(session.event("turn.note", std::string(100, '[') + std::string(100, ']')));
    for (const std::string type :
         {"session.end", "session.start", "session.attach", "follow", ""}) {
        CHECK_FALSE(session.event(type, "{}"));
    }
    // What only the daemon can know to be wrong becomes a note, and the session goes on.
    CHECK(session.event("turn.nonsense", ""));
    CHECK(session.end_turn());
    const Delivery end = session.end(0, ample);
    CHECK_MESSAGE(end.recorded, end.trouble);
    const std::string timeline = read_text(scene.file(session, "events.jsonl"));
    CHECK(timeline.find("unknown_type") != std::string::npos);
}

TEST_CASE("a session of the library that cannot be recorded at all says why at its end") {
    Scene scene;
    REQUIRE_MESSAGE(scene.daemon.start(), scene.daemon.log());
    SessionStart wrong = scene.start();
    wrong.more = "no json";
    Session first(wrong, scene.places());
    first.begin_turn("p");
    CHECK_FALSE(first.wait(ample));
    CHECK(first.end(0).trouble.find("SessionStart::more") != std::string::npos);
    SessionStart nowhere = scene.start();
    nowhere.cwd = "/nonexistent/directory";
    Session second(nowhere, scene.places());
    second.begin_turn("p");
    const Delivery end = second.end(0, ample);
    CHECK_FALSE(end.recorded);
    CHECK_MESSAGE(end.trouble.find("/nonexistent/directory") != std::string::npos, end.trouble);
    CHECK(end.spool_file.empty());
}

TEST_CASE("threads of an agent share one session of the library") {
    Scene scene;
    REQUIRE_MESSAGE(scene.daemon.start(), scene.daemon.log());
    Session session(scene.start(), scene.places());
    session.begin_turn("p");
    std::thread other([&session] {
        for (int line = 0; line < 2000; ++line) {
            session.error_output("e\n");
        }
    });
    for (int line = 0; line < 2000; ++line) {
        session.output("o\n");
    }
    other.join();
    CHECK(session.end_turn());
    CHECK(session.end(0, ample).recorded);
    CHECK(read_text(scene.file(session, "turns/001-output.md")).size() == 4000);
    CHECK(read_text(scene.file(session, "turns/001-stderr.log")).size() == 4000);
}

TEST_CASE("the example of the library records what it does and works without a recorder") {
    Scene scene;
    const std::string line = "printf 'hello\\nworld\\n' | " RELAY_EXAMPLE_BINARY;
    const auto shout = [&scene, &line] {
        return relay::tests::run_program({"/bin/sh", "-c", line}, [&scene] {
            auto environment = scene.daemon.environment();
            environment["AGENT_RELAY_SOCKET"] = scene.daemon.socket();
            return environment;
        }());
    };
    const relay::tests::ProgramEnd alone = shout();
    CHECK(alone.status == 0);
    CHECK(alone.out.starts_with("HELLO\nWORLD\n"));
    CHECK(alone.err.find("not recorded yet: connect to " + scene.daemon.socket()) == 0);
    REQUIRE_MESSAGE(scene.daemon.start(), scene.daemon.log());
    const relay::tests::ProgramEnd heard = shout();
    CHECK(heard.status == 0);
    CHECK(heard.err.empty());
    const std::string id = heard.out.substr(std::string("HELLO\nWORLD\n").size(), 26);
    const std::string session = scene.daemon.state() + "/sessions/" + id;
    CHECK(read_text(session + "/turns/002-prompt.md") == "world");
    CHECK(read_text(session + "/turns/002-output.md") == "WORLD\n");
    CHECK(relay::tests::damage_of(session).empty());
}
