// SPDX-License-Identifier: Apache-2.0

// Commands that follow sessions while they happen, at a terminal of their own.

#include "tests/end_to_end/recording.hpp"
#include "tests/support/pseudo_terminal.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/written_session.hpp"

#include <boost/filesystem.hpp>
#include <doctest/doctest.h>
#include <relay_built_here.hpp>

#include <unistd.h>

#include <chrono>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace relay::tests {
namespace {

std::map<std::string, std::string> plain(const DaemonProcess& daemon) {
    std::map<std::string, std::string> environment = daemon.environment();
    environment["NO_COLOR"] = "1";
    return environment;
}

std::vector<std::string> relay(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), RELAY_CLI_BINARY);
    return arguments;
}

struct Live {
    Live() : daemon(small_journal()) {
        REQUIRE_MESSAGE(daemon.start(), daemon.log());
        client = WireClient(daemon.socket());
        session = start_session(client, daemon.work(), {{"agent", "codex"}});
        REQUIRE_FALSE(session.id.empty());
    }
    void send(std::string_view type, Json fields = Json::object()) {
        CHECK_ACK(client.ask(type, session.id, std::move(fields)));
    }

    DaemonProcess daemon;
    WireClient client{""};
    Recording session;
};

TEST_CASE("watch shows a turn as it grows and follows to the next and to the end") {
    Live live;
    live.send("turn.start", {{"prompt", "first"}});
    live.send("turn.output", {{"text", "begun "}});
    PseudoTerminal terminal(relay({"watch"}), plain(live.daemon));
    CHECK(terminal.await("> first"));
    CHECK(terminal.await("begun "));
    live.send("turn.output", {{"text", "and grown\n"}});
    CHECK(terminal.await("and grown\r\n"));
    live.send("turn.stderr", {{"text", "careful\n"}});
    CHECK(terminal.await("! careful\r\n"));
    live.send(
        "turn.tool",
        {{"tool_id", "t"}, {"name", "bash"}, {"status", "started"}, {"summary", "make"}});
    CHECK(terminal.await("  tool bash started: make\r\n"));
    live.send("turn.note", {{"kind", "blocker"}, {"payload", {{"summary", "no network"}}}});
    CHECK(terminal.await("  blocker: no network\r\n"));
    live.send("turn.end", {{"tokens", {{"input", 5}, {"output", 7}}}});
    CHECK(terminal.await("── turn 1 completed, 12 tokens\r\n"));
    live.send("turn.start", {{"prompt", "second"}});
    CHECK(terminal.await("── turn 2, "));
    CHECK(terminal.await("> second"));
    live.send("turn.output", {{"text", "\x1b[2Jhostile"}});
    CHECK(terminal.await("\\x1b[2Jhostile"));
    live.send("session.end", {{"exit_code", 0}});
    CHECK(terminal.await("── ended: exit 0\r\n"));
    CHECK(terminal.wait() == 0);
    CHECK(terminal.shown().find('\x1b') == std::string::npos);
}

TEST_CASE("Ctrl-C leaves a watch with 130 and from takes it up again") {
    Live live;
    live.send("turn.start", {{"prompt", "first"}});
    live.send("turn.output", {{"text", "one\n"}});
    live.send("turn.end");
    live.send("turn.start", {{"prompt", "second"}});
    live.send("turn.output", {{"text", "two\n"}});
    PseudoTerminal terminal(relay({"watch", live.session.id}), plain(live.daemon));
    CHECK(terminal.await("two\r\n"));
    CHECK(terminal.shown().find("> first") == std::string::npos);
    terminal.type("\x03");
    CHECK(terminal.wait() == 130);
    live.send("turn.end");
    live.send("session.end");
    const ProgramEnd again =
        run_program(relay({"watch", live.session.id, "--from", "1"}), plain(live.daemon));
    CHECK(again.status == 0);
    CHECK(again.out.find("> first\n\none\n── turn 1 completed") != std::string::npos);
    CHECK(again.out.find("> second\n\ntwo\n── turn 2 completed") != std::string::npos);
    CHECK(again.out.ends_with("── ended\n"));
    const ProgramEnd second =
        run_program(relay({"watch", live.session.id + ":2"}), plain(live.daemon));
    CHECK(second.out.find("> first") == std::string::npos);
    CHECK(second.out.find("> second") != std::string::npos);
}

TEST_CASE("a watch outlives the daemon") {
    Live live;
    live.send("turn.start", {{"prompt", "go on"}});
    live.send("turn.output", {{"text", "before\n"}});
    PseudoTerminal terminal(relay({"watch"}), plain(live.daemon));
    CHECK(terminal.await("before\r\n"));
    REQUIRE(live.daemon.restart());
    live.client = WireClient(live.daemon.socket());
    live.send("session.attach", {{"pid", static_cast<std::int64_t>(::getpid())}});
    live.send("turn.output", {{"text", "after\n"}});
    CHECK(terminal.await("after\r\n"));
    live.send("session.checkpoint", {{"reason", "manual"}});
    CHECK(terminal.await("── checkpointed: manual\r\n"));
    CHECK(terminal.wait() == 0);
}

TEST_CASE("a line that is added to the timeline is shown without any other change") {
    const TemporaryDirectory home;
    layout::Meta meta = example_meta(1);
    meta.status = layout::SessionStatus::active;
    const std::string session =
        write_session(home.path() + "/state/sessions", meta, {{"wait", "", {}, /*sealed=*/false}});
    PseudoTerminal terminal(
        relay({"watch"}), {{"AGENT_RELAY_HOME", home.path()}, {"NO_COLOR", "1"}});
    CHECK(terminal.await("> wait\r\n"));
    const auto append = [&session](const std::string& file, const std::string& text) {
        std::ofstream(session + "/" + file, std::ios::app) << text;
    };
    append("turns/001-output.md", "came");
    append(
        "events.jsonl",
        "{\"seq\":3,\"type\":\"turn.output\",\"turn\":1,\"offset\":0,\"bytes\":4}\n");
    CHECK(terminal.await("came", std::chrono::seconds(5)));
    append("events.jsonl", "{\"seq\":4,\"type\":\"session.end\",\"exit_code\":1}\n");
    CHECK(terminal.wait() == 0);
}

TEST_CASE("a watched session that is deleted ends the watch with a word") {
    const TemporaryDirectory home;
    layout::Meta meta = example_meta(1);
    meta.status = layout::SessionStatus::active;
    const std::string session =
        write_session(home.path() + "/state/sessions", meta, {{"wait", "", {}, /*sealed=*/false}});
    PseudoTerminal terminal(
        relay({"watch"}), {{"AGENT_RELAY_HOME", home.path()}, {"NO_COLOR", "1"}});
    CHECK(terminal.await("> wait\r\n"));
    boost::filesystem::remove_all(session);
    CHECK(terminal.wait() == 1);
    CHECK(terminal.shown().find("was moved or deleted") != std::string::npos);
}

TEST_CASE("watch filters lines and tells everything as JSON") {
    Live live;
    live.send("turn.start", {{"prompt", "count"}});
    live.send("turn.output", {{"text", "fine\nan Error here\nfine\n"}});
    live.send("turn.note", {{"kind", "decision"}, {"payload", {{"summary", "no errors left"}}}});
    live.send("turn.end");
    live.send("session.end");
    const ProgramEnd filtered =
        run_program(relay({"watch", "@latest", "--filter", "error"}), plain(live.daemon));
    CHECK(filtered.status == 0);
    CHECK(filtered.out == "an Error here\n  decision: no errors left\n");
    const ProgramEnd json = run_program(relay({"watch", "@latest", "--json"}), plain(live.daemon));
    CHECK(json.status == 0);
    std::istringstream stream(json.out);
    std::vector<std::string> types;
    std::string output;
    for (std::string line; std::getline(stream, line);) {
        const Json event = Json::parse(line, nullptr, /*allow_exceptions=*/false);
        REQUIRE_MESSAGE(event.is_object(), line);
        CHECK(event["session"] == live.session.id);
        types.push_back(event.value("type", ""));
        output += types.back() == "turn.output" ? event.value("text", "") : "";
        CHECK((types.back() != "turn.start" || event["text"] == "count"));
    }
    CHECK(
        types
        == std::vector<std::string>{
            "turn.start", "turn.output", "turn.note", "turn.end", "session.end"});
    CHECK(output == "fine\nan Error here\nfine\n");
}

TEST_CASE("log stream tells of every session and of those that begin later") {
    Live live;
    const std::string first = live.session.id.substr(20);
    live.send("turn.start", {{"prompt", "past"}});
    live.send("turn.output", {{"text", "was there\n"}});
    PseudoTerminal terminal(relay({"log", "stream"}), plain(live.daemon));
    CHECK(terminal.await(first + "  > past\r\n"));
    CHECK(terminal.await(first + "  was there\r\n"));
    const Recording other = start_session(live.client, live.daemon.work());
    REQUIRE_FALSE(other.id.empty());
    CHECK(terminal.await(other.id.substr(20) + "  ── custom in "));
    CHECK_ACK(live.client.ask("turn.start", other.id, {{"prompt", "new"}}));
    CHECK(terminal.await(other.id.substr(20) + "  > new\r\n"));
    // Half a line of one session does not run into the other's.
    live.send("turn.output", {{"text", "half"}});
    CHECK_ACK(live.client.ask("turn.output", other.id, {{"text", "whole\n"}}));
    CHECK(terminal.await(other.id.substr(20) + "  whole\r\n"));
    live.send("turn.output", {{"text", " and half\n"}});
    CHECK(terminal.await(first + "  half and half\r\n"));
    terminal.type("\x03");
    CHECK(terminal.wait() == 130);
}

TEST_CASE("log stream shows the past of chosen sessions oldest first and ends when told so") {
    Live live;
    live.send("turn.start", {{"prompt", "older"}});
    live.send("session.end");
    const Recording newer = start_session(live.client, live.daemon.work(), {{"agent", "gemini"}});
    CHECK_ACK(live.client.ask("turn.start", newer.id, {{"prompt", "newer"}}));
    const ProgramEnd all = run_program(relay({"log", "stream", "--no-follow"}), plain(live.daemon));
    CHECK(all.status == 0);
    const std::size_t older_at = all.out.find("> older\n");
    const std::size_t newer_at = all.out.find("> newer\n");
    REQUIRE(older_at != std::string::npos);
    REQUIRE(newer_at != std::string::npos);
    CHECK(older_at < newer_at);
    const ProgramEnd chosen = run_program(
        relay({"log", "stream", "--no-follow", "--agent", "gemini"}), plain(live.daemon));
    CHECK(chosen.out.find("> older\n") == std::string::npos);
    CHECK(chosen.out.find("> newer\n") != std::string::npos);
    CHECK(run_program(relay({"log"}), plain(live.daemon)).status == 2);
}

}  // namespace
}  // namespace relay::tests
