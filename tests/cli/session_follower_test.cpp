// SPDX-License-Identifier: Apache-2.0
#include "cli/session_follower.hpp"
#include "layout/documents.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/written_session.hpp"

#include <boost/filesystem.hpp>
#include <doctest/doctest.h>

#include <fstream>
#include <string>
#include <vector>

using relay::cli::Moment;
using relay::cli::moment_json;
using relay::cli::SessionFollower;
using relay::layout::Meta;
using relay::layout::SessionStatus;
using relay::tests::example_meta;
using relay::tests::TemporaryDirectory;
using relay::tests::write_session;

namespace {

std::vector<std::string> read(SessionFollower& follower) {
    std::vector<std::string> seen;
    const auto status = follower.read([&seen](const Moment& moment) {
        seen.push_back(
            moment.type + (moment.text.empty() ? "" : "=" + moment.text)
            + (moment.said.empty() ? "" : " (" + moment.said + ")"));
    });
    REQUIRE(status.ok());
    return seen;
}

void append(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::app | std::ios::binary) << text;
}

Meta running_meta() {
    Meta meta = example_meta(1);
    meta.status = SessionStatus::active;
    return meta;
}

}  // namespace

TEST_CASE("a follower hands over what a session holds with its text and then what is added") {
    const TemporaryDirectory directory;
    const std::string session = write_session(
        directory.path(),
        running_meta(),
        {{"ask", "answer\n", "warned\n"}, {"more", "", {}, false}});
    SessionFollower follower(session);
    CHECK(
        read(follower)
        == std::vector<std::string>{
            "session.start (codex in /home/ann/projects/relay)",
            "turn.start=ask",
            "turn.output=answer\n",
            "turn.stderr=warned\n",
            "turn.end (completed)",
            "turn.start=more"});
    CHECK_FALSE(follower.at_rest());
    CHECK(follower.last_turn() == 2);
    CHECK(read(follower).empty());

    append(session + "/turns/002-output.md", "grown");
    append(
        session + "/events.jsonl", R"({"seq":9,"at":"2026-11-01T00:00:00.000Z","type":"turn.out)");
    CHECK(read(follower).empty());
    append(session + "/events.jsonl", "put\",\"turn\":2,\"offset\":0,\"bytes\":5}\n");
    CHECK(read(follower) == std::vector<std::string>{"turn.output=grown"});
    append(
        session + "/events.jsonl",
        R"({"seq":10,"at":"x","type":"turn.tool","turn":2,"name":"bash","status":"ok","summary":"make"})"
        "\n"
        R"({"seq":11,"type":"turn.note","turn":2,"kind":"decision","payload":{"summary":"keep it"}})"
        "\nno json\n[]\n"
        R"({"seq":12,"type":"session.checkpoint","reason":"manual"})"
        "\n");
    CHECK(
        read(follower)
        == std::vector<std::string>{
            "turn.tool (bash ok: make)",
            "turn.note (decision: keep it)",
            "session.checkpoint (manual)"});
    CHECK(follower.damaged_lines() == 2);
    CHECK(follower.at_rest());
    append(session + "/events.jsonl", "{\"seq\":13,\"type\":\"session.attach\",\"reopen\":true}\n");
    static_cast<void>(read(follower));
    CHECK_FALSE(follower.at_rest());
}

TEST_CASE("a follower reads compressed turns like those that are not") {
    const TemporaryDirectory directory;
    const std::string session = write_session(
        directory.path(), example_meta(1), {{"ask", "answer\n", "warned\n"}, {"more", "2\n"}});
    SessionFollower plain(session);
    const std::vector<std::string> before = read(plain);
    for (const char* const file : {"001-prompt.md", "001-output.md", "001-stderr.log"}) {
        relay::tests::compress_file(session + "/turns/" + file);
    }
    SessionFollower compressed(session);
    CHECK(read(compressed) == before);
}

TEST_CASE("a follower that begins at a turn passes over what was before it") {
    const TemporaryDirectory directory;
    const std::string session =
        write_session(directory.path(), example_meta(1), {{"one", "1"}, {"two", "2"}});
    SessionFollower follower(session);
    follower.begin_at(2);
    CHECK(
        read(follower)
        == std::vector<std::string>{
            "turn.start=two", "turn.output=2", "turn.end (completed)", "session.end (exit 0)"});
    CHECK(follower.at_rest());
}

TEST_CASE("a follower goes on where the recorder does when a file was changed by hand") {
    const TemporaryDirectory directory;
    const std::string session =
        write_session(directory.path(), running_meta(), {{"ask", "", {}, false}});
    SessionFollower follower(session);
    static_cast<void>(read(follower));
    boost::filesystem::create_directory(session + "/recovered");
    std::ofstream(session + "/turns/001-output.md") << "the user's";
    std::ofstream(session + "/recovered/001-output.md") << "ours";
    append(
        session + "/events.jsonl",
        R"({"seq":4,"type":"recorder.conflict","file":"turns/001-output.md","kept":"recovered/001-output.md"})"
        "\n"
        R"({"seq":5,"type":"turn.output","turn":1,"offset":0,"bytes":4})"
        "\n");
    CHECK(
        read(follower)
        == std::vector<std::string>{
            "recorder.conflict (turns/001-output.md was changed by hand; the record goes on in "
            "recovered/001-output.md)",
            "turn.output=ours"});
    // The timeline itself: the recorder's own version has the same offsets.
    boost::filesystem::copy_file(session + "/events.jsonl", session + "/recovered/events.jsonl");
    std::ofstream(session + "/events.jsonl") << "mine\n";
    append(session + "/recovered/events.jsonl", "{\"seq\":6,\"type\":\"session.end\"}\n");
    CHECK(read(follower) == std::vector<std::string>{"session.end"});
}

TEST_CASE("a session without a timeline holds nothing yet") {
    const TemporaryDirectory directory;
    SessionFollower follower(directory.path());
    CHECK(read(follower).empty());
    CHECK_FALSE(follower.at_rest());
}

TEST_CASE("a moment as JSON has the members of its line and the session and the text") {
    Moment moment;
    moment.type = "turn.start";
    moment.line = R"({"seq":2,"at":"2026-11-01T00:00:00.000Z","type":"turn.start","turn":1})";
    moment.text = "say \"hi\"\n";
    CHECK(
        moment_json(moment, "S")
        == R"({"seq":2,"at":"2026-11-01T00:00:00.000Z","type":"turn.start","turn":1,"session":"S","text":"say \"hi\"\n"})");
    moment.type = "turn.output";
    moment.channel = "reasoning";
    moment.seq = 3;
    moment.turn = 1;
    moment.offset = 7;
    moment.text = "x";
    CHECK(
        moment_json(moment, "S")
        == R"({"seq":3,"at":"1970-01-01T00:00:00.000Z","type":"turn.output","turn":1,"channel":"reasoning","offset":7,"bytes":1,"session":"S","text":"x"})");
}
