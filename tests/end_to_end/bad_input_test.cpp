// SPDX-License-Identifier: Apache-2.0
#include "tests/end_to_end/recording.hpp"
#include "tests/support/eventually.hpp"

#include <doctest/doctest.h>

#include <array>

namespace relay::tests {
namespace {

// A daemon with a session in the middle of a turn, and a second connection with another one: whatever
// the first does wrong, both go on.
struct Bystanders {
    DaemonProcess daemon;
    WireClient client{""};
    WireClient other{""};
    Recording session;
    Recording others;
    int words = 0;

    explicit Bystanders(DaemonSetup setup = {}) : daemon(std::move(setup)) {
        REQUIRE_MESSAGE(daemon.start(), daemon.log());
        client = WireClient(daemon.socket());
        other = WireClient(daemon.socket());
        session = start_session(client, daemon.work());
        others = start_session(other, daemon.work());
        CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "p"}}));
        CHECK_ACK(other.ask("turn.start", others.id, {{"prompt", "p"}}));
    }

    void check_both_go_on() {
        ++words;
        CHECK_ACK(client.ask("turn.output", session.id, {{"text", "w"}}));
        CHECK_ACK(other.ask("turn.output", others.id, {{"text", "w"}}));
        const std::string expected(static_cast<std::size_t>(words), 'w');
        CHECK(session.text("turns/001-output.md") == expected);
        CHECK(others.text("turns/001-output.md") == expected);
    }

    // The answer to a line that is refused.
    Json refusal(std::string_view line) {
        REQUIRE(client.send_line(line));
        return client.read();
    }
};

TEST_CASE("a line that is no JSON object is refused and costs nothing") {
    Bystanders scene;
    const std::array<std::string, 11> lines{
        " ",
        "hello",
        "{",
        "{\"type\":\"status\"",
        "[1,2]",
        "\"status\"",
        "null",
        "{\"type\":\"status\"} {\"type\":\"status\"}",
        "{\"type\":\"hello\",\"client\":\"raw \x01 control\"}",
        "{\"type\":\"hello\",\"client\":\"bad \\q escape\"}",
        "{\"type\":\"hello\",\"protocol\":1e999999}",
    };
    for (const std::string& line : lines) {
        CAPTURE(line);
        const Json answer = scene.refusal(line);
        CHECK(code_of(answer) == "bad_json");
        CHECK(message_of(answer).size() > 10);
    }
    scene.check_both_go_on();
}

TEST_CASE("bytes that are not UTF-8 and NUL bytes are refused and the message says so") {
    Bystanders scene;
    const std::array<std::string, 5> lines{
        "{\"type\":\"hello\",\"client\":\"\xff\"}",
        "{\"type\":\"hello\",\"client\":\"\xc0\xaf\"}",
        "{\"type\":\"hello\",\"client\":\"\xed\xa0\x80\"}",
        "{\"type\":\"hello\",\"client\":\"cut \xe2\x82\"}",
        "\xff\xfe\xfd",
    };
    for (const std::string& line : lines) {
        const Json answer = scene.refusal(line);
        CHECK(code_of(answer) == "bad_json");
        CHECK(message_of(answer).find("UTF-8") != std::string::npos);
    }
    const Json answer = scene.refusal(std::string("{\"type\":\"hello\",\"client\":\"\0\"}", 28));
    CHECK(code_of(answer) == "bad_json");
    CHECK(message_of(answer).find("NUL") != std::string::npos);
    // An escaped one is a character like any other.
    CHECK_ACK(scene.client.ask(
        "turn.note", scene.session.id, {{"kind", "k"}, {"payload", std::string("\0", 1)}}));
    scene.check_both_go_on();
}

TEST_CASE("a million levels of nesting are refused without harm") {
    Bystanders scene;
    constexpr std::size_t levels = 1'000'000;
    Json answer = scene.refusal(std::string(levels, '['));
    CHECK(code_of(answer) == "bad_json");
    answer = scene.refusal(std::string(levels, '[') + std::string(levels, ']'));
    CHECK(code_of(answer) == "bad_json");
    std::string objects;
    for (std::size_t level = 0; level < levels; ++level) {
        objects += "{\"a\":";
    }
    answer = scene.refusal(objects + "1" + std::string(levels, '}'));
    CHECK(code_of(answer) == "bad_json");
    // What parses but no later reader should have to follow.
    answer = scene.refusal(
        R"({"type":"turn.note","session":")" + scene.session.id + R"(","kind":"k","payload":)"
        + std::string(500, '[') + std::string(500, ']') + "}");
    CHECK(code_of(answer) == "bad_field");
    scene.check_both_go_on();
}

TEST_CASE("a line without end is refused at the limit and its connection closed") {
    Bystanders scene;
    WireClient stranger(scene.daemon.socket());
    const long before_kib = scene.daemon.resident_kib();
    REQUIRE(stranger.send_bytes(R"({"type":"hello","client":")"));
    const std::string piece(1 << 20, 'x');
    int pieces = 0;
    long peak_kib = 0;
    while (pieces < 1024 && stranger.send_bytes(piece)) {
        ++pieces;
        peak_kib = std::max(peak_kib, scene.daemon.resident_kib());
    }
    CHECK(pieces >= 15);
    Json last;
    for (Json line = stranger.read(); !line.is_discarded(); line = stranger.read()) {
        last = line;
    }
    CHECK(code_of(last) == "too_large");
    CHECK(message_of(last).find(std::to_string(16 << 20)) != std::string::npos);
    CHECK(stranger.at_end());
    if (!sanitized) {
        CHECK(peak_kib - before_kib < 100 * 1024);
    }
    scene.check_both_go_on();
}

TEST_CASE("a line of exactly the limit is taken and one byte more is not") {
    constexpr std::size_t limit = 64 * 1024;
    Bystanders scene(small_journal({"--set", "daemon.max_event_bytes=64KiB"}));
    const std::string frame =
        event("turn.output", scene.session.id, {{"text", ""}, {"id", "big"}}).dump();
    Json line = event("turn.output", scene.session.id, {{"id", "big"}});
    line["text"] = std::string(limit - frame.size(), 'x');
    REQUIRE(line.dump().size() == limit);
    REQUIRE(scene.client.send(line));
    CHECK_ACK(scene.client.read());
    CHECK(scene.session.text("turns/001-output.md").size() == limit - frame.size());
    line["text"] = std::string(limit - frame.size() + 1, 'x');
    REQUIRE(scene.client.send(line));
    CHECK(code_of(scene.client.read()) == "too_large");
    CHECK(scene.client.read_to_end());
    CHECK(scene.session.text("turns/001-output.md").size() == limit - frame.size());
    CHECK_ACK(scene.other.ask("turn.output", scene.others.id, {{"text", "w"}}));
}

TEST_CASE("a hundred bad lines in a row close the connection and ninety nine do not") {
    Bystanders scene;
    for (int round = 0; round < 2; ++round) {
        for (int count = 0; count < 99; ++count) {
            CHECK(code_of(scene.refusal("garbage")) == "bad_json");
        }
        scene.check_both_go_on();
    }
    WireClient stranger(scene.daemon.socket());
    std::string garbage;
    for (int count = 0; count < 150; ++count) {
        garbage += "garbage\n";
    }
    stranger.send_bytes(garbage);
    int answers = 0;
    while (code_of(stranger.read()) == "bad_json") {
        ++answers;
    }
    CHECK(answers >= 99);
    CHECK(answers <= 100);
    CHECK(stranger.at_end());
    scene.check_both_go_on();
}

TEST_CASE("an unknown type is refused by name") {
    Bystanders scene;
    const Json answer = scene.client.request({{"type", "turn.begin"}});
    CHECK(code_of(answer) == "unknown_type");
    CHECK(message_of(answer).find("turn.begin") != std::string::npos);
    CHECK(code_of(scene.client.request({{"type", ""}})) == "unknown_type");
    CHECK(code_of(scene.client.request({{"no", "type"}})) == "bad_field");
    CHECK(code_of(scene.client.request({{"type", 3}})) == "bad_field");
    scene.check_both_go_on();
}

TEST_CASE("a field of the wrong type is refused by name and records nothing") {
    Bystanders scene;
    const std::string id = scene.session.id;
    struct Wrong {
        Json request;
        std::string field;
    };
    const std::vector<Wrong> wrongs{
        {event("turn.output", id, {{"text", 5}}), "text"},
        {event("turn.output", id, {{"text", {"a"}}}), "text"},
        {event("turn.output", id), "text"},
        {event("turn.output", id, {{"text", "a"}, {"channel", "loud"}}), "channel"},
        {event("turn.output", id, {{"text", "a"}, {"seq", "1"}}), "seq"},
        {event("turn.output", id, {{"text", "a"}, {"seq", 0}}), "seq"},
        {event("turn.output", id, {{"text", "a"}, {"seq", -1}}), "seq"},
        {event("turn.output", id, {{"text", "a"}, {"seq", 1.5}}), "seq"},
        {event("turn.start", id), "prompt"},
        {event("turn.start", id, {{"prompt", Json::object()}}), "prompt"},
        {event("turn.tool", id, {{"tool_id", "t"}, {"name", "n"}}), "status"},
        {event("turn.tool", id, {{"tool_id", "t"}, {"name", "n"}, {"status", "fine"}}), "status"},
        {event("turn.note", id), "kind"},
        {event("turn.end", id, {{"status", "great"}}), "status"},
        {event("turn.end", id, {{"tokens", 5}}), "tokens"},
        {event("turn.end", id, {{"tokens", {{"input", "many"}}}}), "input"},
        {event("turn.end", id, {{"cost_usd", "1"}}), "cost_usd"},
        {event("turn.end", id, {{"exit_code", "0"}}), "exit_code"},
        {event("turn.end", id, {{"files", "a"}}), "files"},
        {event("turn.end", id, {{"extra", 1}}), "extra"},
        {event("turn.end", id, {{"extra", {{"k", std::string(20'000, 'x')}}}}), "extra"},
        {event("session.update", id, {{"labels", "bug"}}), "labels"},
        {event("session.update", id, {{"flagged", 1}}), "flagged"},
        {event("session.checkpoint", id), "reason"},
        {event("session.checkpoint", id, {{"reason", "r"}, {"decisions", "d"}}), "decisions"},
        {event("session.end", id, {{"exit_code", {}}, {"error", 5}}), "error"},
        {{{"type", "session.start"}, {"cwd", "/"}}, "agent"},
        {{{"type", "session.start"}, {"agent", "a"}}, "cwd"},
        {{{"type", "session.start"}, {"agent", ""}, {"cwd", "/"}}, "agent"},
        {{{"type", "session.start"}, {"agent", "a"}, {"cwd", "/"}, {"command", "ls"}}, "command"},
        {{{"type", "session.start"}, {"agent", "a"}, {"cwd", "/"}, {"pid", "x"}}, "pid"},
        {{{"type", "session.start"}, {"agent", "a"}, {"cwd", "/"}, {"store", "cloud"}}, "store"},
        {{{"type", "turn.end"}}, "session"},
        {{{"type", "turn.end"}, {"session", 5}}, "session"},
        {{{"type", "session.list"}, {"status", "odd"}}, "status"},
        {{{"type", "session.list"}, {"limit", 0}}, "limit"},
        {{{"type", "follow"}, {"from_seq", "x"}}, "from_seq"},
    };
    const std::size_t lines_before = scene.session.timeline().size();
    for (const Wrong& wrong : wrongs) {
        CAPTURE(wrong.request.dump().substr(0, 200));
        const Json answer = scene.client.request(wrong.request);
        CAPTURE(answer.dump());
        CHECK(code_of(answer) == "bad_field");
        CHECK(message_of(answer).find(wrong.field) != std::string::npos);
    }
    CHECK(scene.session.timeline().size() == lines_before);
    CHECK(code_of(scene.client.request({{"type", "hello"}})).empty());
    scene.check_both_go_on();
}

TEST_CASE("a session id that is no ULID is refused and an unknown one too") {
    Bystanders scene;
    for (const char* const id :
         {"",
          "x",
          "../../../../etc/passwd",
          "8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
          "01J9X3M7K5VBHQEN6T2F4D8RP",
          "01J9X3M7K5VBHQEN6T2F4D8RPZZ",
          "01J9X3M7K5VBHQEN6T2F4D8RPU"}) {
        CAPTURE(id);
        CHECK(code_of(scene.client.ask("turn.output", id, {{"text", "a"}})) == "bad_field");
        const Recording started =
            start_session(scene.client, scene.daemon.work(), {{"session", id}});
        CHECK(code_of(started.answer) == "bad_field");
    }
    for (const char* const type :
         {"session.attach", "session.get", "session.end", "turn.end", "session.update", "follow"}) {
        CAPTURE(type);
        const std::string unknown = new_ulid();
        const Json answer = scene.client.ask(type, unknown);
        CHECK(code_of(answer) == "unknown_session");
        CHECK(message_of(answer).find(unknown) != std::string::npos);
    }
    scene.check_both_go_on();
}

TEST_CASE("an attachment name cannot leave its directory") {
    Bystanders scene;
    const std::vector<std::string> before = tree_of(scene.daemon.root());
    const std::array<std::string, 14> names{
        "../evil",
        "..",
        ".",
        "/etc/evil",
        "a/b",
        "a\\b",
        "",
        ".hidden",
        std::string(300, 'n'),
        std::string("nul\0byte", 8),
        "line\nbreak",
        "bell\x07",
        "delete\x7f",
        "c1 \xc2\x9b",
    };
    for (const std::string& name : names) {
        CAPTURE(name);
        const Json answer = scene.client.ask(
            "session.attachment", scene.session.id, {{"name", name}, {"data", "YQ=="}});
        CHECK(code_of(answer) == "bad_field");
        CHECK(message_of(answer).find("name") != std::string::npos);
    }
    CHECK_FALSE(scene.session.has("attachments"));
    CHECK(tree_of(scene.daemon.root()) == before);
    scene.check_both_go_on();
}

TEST_CASE("base64 that is none is refused") {
    Bystanders scene;
    for (const char* const data : {"a", "YQ=", "Y Q=", "YQ==YQ==", "Y-_=", "YR==", "=", "ä"}) {
        CAPTURE(data);
        CHECK(
            code_of(scene.client.ask("turn.output", scene.session.id, {{"data", data}}))
            == "bad_field");
        CHECK(
            code_of(scene.client.ask(
                "session.attachment", scene.session.id, {{"name", "n"}, {"data", data}}))
            == "bad_field");
    }
    scene.check_both_go_on();
}

TEST_CASE("an event that needs a turn is refused without one") {
    Bystanders scene;
    const Recording idle = start_session(scene.client, scene.daemon.work());
    const Json tool{{"tool_id", "t"}, {"name", "n"}, {"status", "ok"}};
    CHECK(code_of(scene.client.ask("turn.output", idle.id, {{"text", "a"}})) == "no_open_turn");
    CHECK(code_of(scene.client.ask("turn.stderr", idle.id, {{"text", "a"}})) == "no_open_turn");
    CHECK(code_of(scene.client.ask("turn.tool", idle.id, tool)) == "no_open_turn");
    CHECK(code_of(scene.client.ask("turn.end", idle.id)) == "no_open_turn");
    // A refused event uses up no seq.
    CHECK(code_of(scene.client.ask("turn.end", idle.id, {{"seq", 1}})) == "no_open_turn");
    CHECK_ACK(scene.client.ask("turn.start", idle.id, {{"prompt", "p"}, {"seq", 1}}));
    scene.check_both_go_on();
}

TEST_CASE("an event for an ended or a foreign session is refused") {
    Bystanders scene;
    const Recording done = start_session(scene.client, scene.daemon.work());
    CHECK_ACK(scene.client.ask("session.end", done.id));
    CHECK(code_of(scene.client.ask("turn.start", done.id, {{"prompt", "p"}})) == "ended");
    CHECK(code_of(scene.client.ask("turn.output", done.id, {{"text", "a"}})) == "ended");
    CHECK(code_of(scene.client.ask("session.end", done.id)) == "ended");
    CHECK(code_of(scene.client.ask("session.checkpoint", done.id, {{"reason", "r"}})) == "ended");
    CHECK(
        code_of(scene.client.ask("turn.output", scene.others.id, {{"text", "a"}})) == "not_owner");
    scene.check_both_go_on();
}

TEST_CASE("a cwd that is not absolute or does not exist is refused") {
    Bystanders scene;
    const std::size_t before = tree_of(scene.daemon.state() + "/sessions").size();
    const auto refused = [&](const std::string& cwd) {
        const Recording session = start_session(scene.client, cwd);
        CAPTURE(session.answer.dump());
        CHECK(code_of(session.answer) == "bad_field");
        CHECK(message_of(session.answer).find("cwd") != std::string::npos);
    };
    refused("relative/path");
    refused("");
    refused(scene.daemon.work() + "/missing");
    refused("~/work");
    refused(std::string("/tmp\0x", 6));
    refused("/" + std::string(5000, 'a'));
    write_text(scene.daemon.work() + "/file", "");
    refused(scene.daemon.work() + "/file");
    CHECK(tree_of(scene.daemon.state() + "/sessions").size() == before);
    scene.check_both_go_on();
}

TEST_CASE("a line that arrives byte by byte is a line") {
    Bystanders scene;
    const std::string line =
        event("turn.output", scene.session.id, {{"text", "slow"}, {"id", "s"}}).dump() + "\n";
    for (const char byte : line) {
        REQUIRE(scene.client.send_bytes({&byte, 1}));
    }
    CHECK_ACK(scene.client.read());
    CHECK(scene.session.text("turns/001-output.md") == "slow");
}

}  // namespace
}  // namespace relay::tests
