// SPDX-License-Identifier: Apache-2.0
#include "layout/base64.hpp"
#include "tests/end_to_end/recording.hpp"
#include "tests/support/eventually.hpp"

#include <doctest/doctest.h>

#include <unistd.h>

#include <set>

namespace relay::tests {
namespace {

constexpr std::chrono::milliseconds short_while{100};

TEST_CASE("hello is answered with versions and limits") {
    DaemonProcess daemon;
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Json answer = client.request({{"type", "hello"}, {"protocol", 1}, {"client", "a test"}});
    CHECK_ACK(answer);
    CHECK(answer.value("protocol", 0) == 1);
    CHECK(answer.value("version", "").find("0.1.0") != std::string::npos);
    CHECK(answer.dump().find(std::to_string(16 << 20)) != std::string::npos);
}

TEST_CASE("a session start is answered with session and slug and path") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    CHECK_ACK(session.answer);
    CHECK(session.id.size() == 26);
    CHECK(session.slug.size() > 8);
    CHECK(session.path == daemon.state() + "/sessions/" + session.id);
    CHECK(session.has("meta.json"));
    const Recording other = start_session(client, daemon.work());
    CHECK(other.id > session.id);
    CHECK(other.slug != session.slug);
}

TEST_CASE("a session start repeated with its own ULID makes one session") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    const std::string own = new_ulid();
    WireClient client(daemon.socket());
    const Recording first = start_session(client, daemon.work(), {{"session", own}, {"seq", 1}});
    CHECK_ACK(first.answer);
    CHECK(first.id == own);
    CHECK_FALSE(first.answer.value("duplicate", false));
    const Recording again = start_session(client, daemon.work(), {{"session", own}, {"seq", 1}});
    CHECK_ACK(again.answer);
    CHECK(again.answer.value("duplicate", false));
    CHECK(again.id == own);
    CHECK(again.slug == first.slug);
    CHECK(again.path == first.path);
    CHECK(first.timeline().size() == 1);

    // Also when the first answer was lost with the daemon.
    REQUIRE_MESSAGE(daemon.restart(), daemon.log());
    client = WireClient(daemon.socket());
    const Recording late = start_session(client, daemon.work(), {{"session", own}, {"seq", 1}});
    CHECK_ACK(late.answer);
    CHECK(late.answer.value("duplicate", false));
    CHECK(late.path == first.path);
    CHECK_ACK(client.ask("turn.start", own, {{"prompt", "p"}, {"seq", 2}}));
}

TEST_CASE("an id is echoed exactly and a line without id is answered only when refused") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const auto echoed = [&client](const std::string& id) {
        REQUIRE(client.send_line(R"({"type":"hello","id":)" + id + "}"));
        return client.read_line().value_or("").find("\"id\":" + id + ",") != std::string::npos;
    };
    CHECK(echoed("7"));
    CHECK(echoed("-3"));
    CHECK(echoed("0"));
    CHECK(echoed("9223372036854775807"));
    CHECK(echoed(R"("seven")"));
    CHECK(echoed(R"("")"));
    CHECK(echoed(R"("ü \" \\ line")"));

    REQUIRE(client.send_line(R"({"type":"hello"})"));
    REQUIRE(client.send_line(R"({"type":"nonsense"})"));
    REQUIRE(client.send_line(R"({"type":"hello","id":"end"})"));
    const Json refused = client.read();
    CHECK(code_of(refused) == "unknown_type");
    CHECK_FALSE(refused.contains("id"));
    CHECK(client.read().value("id", "") == "end");
}

TEST_CASE("turns are numbered and an open one is sealed as interrupted by the next") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    Json answer = client.ask("turn.start", session.id, {{"prompt", "one"}, {"model", "m-1"}});
    CHECK(answer.value("turn", 0) == 1);
    answer = client.ask("turn.output", session.id, {{"text", "half an ans"}});
    CHECK(answer.value("turn", 0) == 1);
    answer = client.ask("turn.start", session.id, {{"prompt", "two"}});
    CHECK(answer.value("turn", 0) == 2);
    CHECK(session.json("turns/001-state.json").value("status", "") == "interrupted");
    CHECK(session.json("turns/001-state.json").value("model", "") == "m-1");
    CHECK(session.text("turns/001-output.md") == "half an ans");
    CHECK(session.text("turns/002-prompt.md") == "two");
    CHECK_FALSE(session.has("turns/002-state.json"));
    answer = client.ask("turn.end", session.id);
    CHECK(answer.value("turn", 0) == 2);
    CHECK(session.json("turns/002-state.json").value("status", "") == "completed");
    CHECK(damage_of(session.path).empty());
}

TEST_CASE("output comes as text or base64 and stderr goes beside it") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "p"}}));
    CHECK_ACK(client.ask("turn.output", session.id, {{"text", "ä\n"}}));
    CHECK_ACK(client.ask("turn.output", session.id, {{"data", "/wD+"}, {"channel", "tool"}}));
    CHECK_ACK(client.ask("turn.output", session.id, {{"text", "hm"}, {"channel", "reasoning"}}));
    CHECK_ACK(client.ask("turn.stderr", session.id, {{"text", "warning\n"}}));
    CHECK(session.text("turns/001-output.md") == std::string("ä\n\xff\0\xfehm", 8));
    CHECK(session.text("turns/001-stderr.log") == "warning\n");
    CHECK_ACK(client.ask("turn.end", session.id));
    CHECK(damage_of(session.path).empty());
}

TEST_CASE("tools and notes and the end of a turn reach its seal") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    const auto note = [&](const char* kind, const Json& payload) {
        return client.ask("turn.note", session.id, {{"kind", kind}, {"payload", payload}});
    };
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "p"}}));
    const Json tool{{"tool_id", "t1"}, {"name", "bash"}, {"summary", "ls"}};
    Json call = tool;
    call.update({{"status", "started"}, {"input", {{"command", "ls"}}}});
    CHECK_ACK(client.ask("turn.tool", session.id, call));
    call = tool;
    call.update({{"status", "ok"}, {"output", "a b"}});
    CHECK_ACK(client.ask("turn.tool", session.id, call));
    CHECK_ACK(note("decision", {{"summary", "use C++"}, {"why", "speed"}}));
    CHECK_ACK(note("blocker", {{"summary", "no network"}}));
    CHECK_ACK(note("mood", "bright"));
    CHECK_ACK(client.ask(
        "turn.end",
        session.id,
        {{"status", "failed"},
         {"stop_reason", "max_tokens"},
         {"tokens", {{"input", 10}, {"output", 5}}},
         {"cost_usd", 0.25},
         {"files", {{{"path", "a.cpp"}, {"status", "modified"}, {"added", 2}, {"removed", 1}}}},
         {"validation", {{"tests", "green"}}},
         {"diff", "--- a\n+++ b\n"},
         {"next_task", "go on"},
         {"limit", {{"kind", "rate"}}},
         {"exit_code", 3},
         {"error", "it broke"},
         {"extra", {{"mine", 1}}}}));
    const Json state = session.json("turns/001-state.json");
    REQUIRE(state.is_object());
    CHECK(state["status"] == "failed");
    CHECK(state["stop_reason"] == "max_tokens");
    CHECK(state["tokens"]["input"] == 10);
    CHECK(state["tokens"]["reasoning"].is_null());
    CHECK(state["cost_usd"] == 0.25);
    REQUIRE(state["tools"].size() == 1);
    CHECK(state["tools"][0]["id"] == "t1");
    CHECK(state["tools"][0]["status"] == "ok");
    CHECK(state["tools"][0]["duration_ms"].is_number());
    CHECK(state["files"][0]["path"] == "a.cpp");
    CHECK(state["validation"]["tests"] == "green");
    CHECK(state["decisions"][0]["summary"] == "use C++");
    CHECK(state["blockers"][0]["summary"] == "no network");
    CHECK(state["next_task"] == "go on");
    CHECK(state["limit"]["kind"] == "rate");
    CHECK(state["exit_code"] == 3);
    CHECK(state["error"] == "it broke");
    CHECK(state["extra"]["mine"] == 1);
    CHECK(session.text("turns/001-diff.patch") == "--- a\n+++ b\n");
    bool mood_seen = false;
    for (const Json& line : session.timeline()) {
        mood_seen = mood_seen || (line.value("kind", "") == "mood" && line["payload"] == "bright");
    }
    CHECK(mood_seen);
    CHECK(damage_of(session.path).empty());
}

TEST_CASE("a repeated seq is acked as duplicate and recorded once and a gap is refused") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    Json answer = client.ask("turn.start", session.id, {{"prompt", "p"}, {"seq", 1}});
    CHECK(answer.value("seq", 0) == 1);
    for (int round = 0; round < 2; ++round) {
        answer = client.ask("turn.output", session.id, {{"text", "a"}, {"seq", 2}});
        CHECK_ACK(answer);
        CHECK(answer.value("seq", 0) == 2);
        CHECK(answer.value("duplicate", false) == (round == 1));
    }
    answer = client.ask("turn.output", session.id, {{"text", "c"}, {"seq", 4}});
    CHECK(code_of(answer) == "seq_gap");
    CHECK(message_of(answer).find('4') != std::string::npos);
    CHECK(message_of(answer).find('3') != std::string::npos);
    CHECK_ACK(client.ask("turn.output", session.id, {{"text", "b"}, {"seq", 3}}));
    CHECK_ACK(client.ask("turn.end", session.id, {{"seq", 4}}));
    CHECK(session.text("turns/001-output.md") == "ab");
    CHECK(session.meta()["capture"]["last_seq"] == 4);
}

TEST_CASE("pipelined events are answered in order with the timeline numbers") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    CHECK(session.answer.value("seq", -1) == 0);
    std::string lines = event("turn.start", session.id, {{"prompt", "p"}, {"id", 0}}).dump() + "\n";
    constexpr int events = 2000;
    std::string expected;
    for (int number = 1; number <= events; ++number) {
        const std::string text = std::to_string(number) + "\n";
        expected += text;
        lines += event("turn.output", session.id, {{"text", text}, {"id", number}}).dump() + "\n";
    }
    REQUIRE(client.send_bytes(lines));
    for (int number = 0; number <= events; ++number) {
        const Json answer = client.read();
        REQUIRE_MESSAGE(is_ack(answer), answer.dump());
        REQUIRE(answer["id"] == number);
        REQUIRE(answer["seq"] == number + 1);
    }
    CHECK(session.text("turns/001-output.md") == expected);
}

TEST_CASE("a client that lost its connection attaches and learns where to go on") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work(), {{"seq", 1}});
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "p"}, {"seq", 2}}));
    CHECK_ACK(client.ask("turn.output", session.id, {{"text", "a"}, {"seq", 3}}));
    client.close();
    client = WireClient(daemon.socket());
    Json answer;
    // The daemon may see the new connection before the old one's end.
    REQUIRE(eventually([&] {
        answer = client.ask("session.attach", session.id, {{"pid", ::getpid()}});
        return is_ack(answer);
    }));
    CHECK(answer.value("last_seq", 0) == 3);
    CHECK(answer.value("turn", 0) == 1);
    CHECK(answer.value("status", "") == "active");
    answer = client.ask("turn.output", session.id, {{"text", "a"}, {"seq", 3}});
    CHECK(answer.value("duplicate", false));
    CHECK_ACK(client.ask("turn.output", session.id, {{"text", "b"}, {"seq", 4}}));
    CHECK_ACK(client.ask("turn.end", session.id, {{"seq", 5}}));
    CHECK(session.text("turns/001-output.md") == "ab");
    CHECK(session.json("turns/001-state.json").value("status", "") == "completed");
}

TEST_CASE("who does not own a session is refused with the name of the owner") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient owner(daemon.socket());
    WireClient other(daemon.socket());
    const Recording session = start_session(owner, daemon.work());
    CHECK_ACK(owner.ask("turn.start", session.id, {{"prompt", "p"}}));

    Json answer = other.ask("session.attach", session.id);
    CHECK(code_of(answer) == "not_owner");
    CHECK(message_of(answer).find(std::to_string(::getpid())) != std::string::npos);
    CHECK(code_of(other.ask("turn.start", session.id, {{"prompt", "p"}})) == "not_owner");
    CHECK(code_of(other.ask("turn.output", session.id, {{"text", "x"}})) == "not_owner");
    CHECK(code_of(other.ask("turn.stderr", session.id, {{"text", "x"}})) == "not_owner");
    const Json tool{{"tool_id", "t"}, {"name", "n"}, {"status", "ok"}};
    CHECK(code_of(other.ask("turn.tool", session.id, tool)) == "not_owner");
    CHECK(code_of(other.ask("turn.end", session.id)) == "not_owner");
    CHECK(code_of(other.ask("session.end", session.id)) == "not_owner");
    CHECK(code_of(other.ask("session.checkpoint", session.id, {{"reason", "r"}})) == "not_owner");
    CHECK(
        code_of(other.ask("session.update", session.id, {{"flagged", true}, {"seq", 1}}))
        == "not_owner");

    CHECK_ACK(other.ask("turn.note", session.id, {{"kind", "remark"}, {"payload", "seen"}}));
    CHECK_ACK(other.ask("session.update", session.id, {{"flagged", true}}));
    CHECK_ACK(other.ask("session.attachment", session.id, {{"name", "a.txt"}, {"data", "YQ=="}}));
    CHECK_ACK(other.ask("session.get", session.id));
    CHECK(session.meta()["flagged"] == true);
    CHECK(session.text("turns/001-output.md").empty());
    CHECK_ACK(owner.ask("turn.output", session.id, {{"text", "mine"}}));

    CHECK_ACK(other.ask("session.checkpoint", session.id, {{"reason", "manual"}, {"force", true}}));
    CHECK(session.meta()["status"] == "checkpointed");
    CHECK(code_of(owner.ask("turn.output", session.id, {{"text", "late"}})) == "ended");
}

TEST_CASE("a checkpointed or completed session goes on when it is reopened") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "one"}}));
    CHECK_ACK(client.ask("session.checkpoint", session.id, {{"reason", "rate_limit"}}));
    CHECK(session.has("resume.json"));
    CHECK(session.meta()["checkpoint_reason"] == "rate_limit");
    CHECK(code_of(client.ask("session.attach", session.id)) == "ended");

    WireClient next(daemon.socket());
    Json answer = next.ask("session.attach", session.id, {{"reopen", true}});
    CHECK_ACK(answer);
    CHECK(answer.value("status", "") == "active");
    CHECK_FALSE(session.has("resume.json"));
    CHECK(session.meta()["status"] == "active");
    CHECK(session.meta()["checkpoint_reason"].is_null());
    answer = next.ask("turn.start", session.id, {{"prompt", "two"}});
    CHECK(answer.value("turn", 0) == 2);
    CHECK_ACK(next.ask("turn.end", session.id));
    CHECK_ACK(next.ask("session.end", session.id, {{"exit_code", 0}}));
    CHECK(session.meta()["status"] == "completed");

    // Long after the daemon forgot it.
    REQUIRE(daemon.terminate() == 0);
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    client = WireClient(daemon.socket());
    CHECK(code_of(client.ask("session.attach", session.id)) == "ended");
    answer = client.ask("session.attach", session.id, {{"reopen", true}});
    CHECK_ACK(answer);
    CHECK(client.ask("turn.start", session.id, {{"prompt", "3"}}).value("turn", 0) == 3);
    CHECK_ACK(client.ask("session.end", session.id));
    CHECK(session.meta()["turn_count"] == 3);
    CHECK(damage_of(session.path).empty());
}

TEST_CASE("a session update changes meta json also of a session that has ended") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    CHECK_ACK(client.ask(
        "session.update",
        session.id,
        {{"name", "nice"},
         {"labels", {"bug", "priority::2"}},
         {"flagged", true},
         {"archived", true},
         {"unread", true},
         {"stage", "todo"},
         {"model", "m"},
         {"extra", {{"k", {1, 2}}}}}));
    Json meta = session.meta();
    CHECK(meta["name"] == "nice");
    CHECK(meta["labels"] == Json({"bug", "priority::2"}));
    CHECK(meta["flagged"] == true);
    CHECK(meta["archived"] == true);
    CHECK(meta["unread"] == true);
    CHECK(meta["stage"] == "todo");
    CHECK(meta["model"] == "m");
    CHECK(meta["extra"]["k"][1] == 2);
    CHECK_ACK(client.ask("session.update", session.id, {{"name", nullptr}}));
    CHECK(session.meta()["name"].is_null());
    CHECK(session.meta()["stage"] == "todo");
    CHECK_ACK(client.ask("session.end", session.id));
    CHECK_ACK(client.ask("session.update", session.id, {{"stage", "done"}}));
    CHECK(session.meta()["stage"] == "done");
    CHECK(session.meta()["status"] == "completed");
    REQUIRE(daemon.terminate() == 0);
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    client = WireClient(daemon.socket());
    CHECK_ACK(client.ask("session.update", session.id, {{"archived", false}}));
    CHECK(session.meta()["archived"] == false);
    CHECK(session.meta()["stage"] == "done");
}

TEST_CASE("attachments of the same name are kept side by side") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    CHECK_ACK(
        client.ask("session.attachment", session.id, {{"name", "a b.bin"}, {"data", "AP8="}}));
    CHECK_ACK(
        client.ask("session.attachment", session.id, {{"name", "a b.bin"}, {"data", "AQ=="}}));
    CHECK(session.text("attachments/a b.bin") == std::string("\0\xff", 2));
    CHECK(session.text("attachments/a b-2.bin") == "\x01");
}

TEST_CASE("sessions are listed newest first by status and label and found by id") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording first = start_session(client, daemon.work(), {{"labels", {"bug"}}});
    const Recording second = start_session(client, daemon.work(), {{"agent", "codex"}});
    const Recording third = start_session(client, daemon.work());
    CHECK_ACK(client.ask("session.end", third.id));
    const auto ids = [&client](Json filters) {
        filters["type"] = "session.list";
        const Json answer = client.request(std::move(filters));
        CHECK_ACK(answer);
        std::vector<std::string> found;
        for (const Json& item : answer.value("sessions", Json::array())) {
            found.push_back(item.value("id", ""));
        }
        return found;
    };
    using Ids = std::vector<std::string>;
    CHECK(ids(Json::object()) == Ids{third.id, second.id, first.id});
    CHECK(ids({{"limit", 2}}) == Ids{third.id, second.id});
    CHECK(ids({{"status", "active"}}) == Ids{second.id, first.id});
    CHECK(ids({{"status", "completed"}}) == Ids{third.id});
    CHECK(ids({{"agent", "codex"}}) == Ids{second.id});
    CHECK(ids({{"label", "bug"}}) == Ids{first.id});
    CHECK(ids({{"cwd", daemon.work()}}).size() == 3);

    const Json got = client.ask("session.get", second.id);
    CHECK_ACK(got);
    CHECK(got["meta"]["id"] == second.id);
    CHECK(got["meta"]["slug"] == second.slug);
    CHECK(got["meta"]["agent"] == "codex");
    CHECK(got["path"] == second.path);
    CHECK(code_of(client.ask("session.get", new_ulid())) == "unknown_session");
}

// Reads events of a session until one of this type; the types read, in order.
std::vector<Json> follow_until(WireClient& follower, std::string_view type) {
    std::vector<Json> seen;
    do {
        seen.push_back(follower.read());
    } while (seen.back().is_object() && seen.back().value("type", "") != type);
    return seen;
}

// What the events say of the output, whether it came as text or as base64.
std::string followed_bytes(const std::vector<Json>& events) {
    std::string all;
    for (const Json& line : events) {
        if (!line.is_object() || line.value("type", "") != "turn.output") {
            continue;
        }
        std::string decoded;
        if (line.contains("data")) {
            CHECK(layout::decode_base64(line.value("data", ""), decoded));
        }
        all += line.value("text", "") + decoded;
    }
    return all;
}

TEST_CASE("a follower gets an ack and the history and then what happens") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "p"}}));
    CHECK_ACK(client.ask("turn.output", session.id, {{"text", "past "}}));
    CHECK_ACK(client.ask("turn.note", session.id, {{"kind", "mark"}, {"payload", 1}}));

    WireClient follower(daemon.socket());
    REQUIRE(
        follower.send({{"type", "follow"}, {"session", session.id}, {"from_seq", 0}, {"id", "f"}}));
    const Json ack = follower.read();
    CHECK_ACK(ack);
    CHECK(ack.value("id", "") == "f");
    std::vector<Json> seen = follow_until(follower, "turn.note");
    REQUIRE(seen.back().is_object());
    CHECK(seen.front().value("type", "") == "session.start");
    CHECK(followed_bytes(seen) == "past ");
    for (const Json& line : seen) {
        CHECK(line.value("session", "") == session.id);
        CHECK(line.contains("seq"));
        CHECK(line.contains("at"));
    }

    CHECK_ACK(client.ask("turn.output", session.id, {{"text", "now "}}));
    CHECK_ACK(client.ask("turn.output", session.id, {{"data", "/w=="}}));
    CHECK_ACK(client.ask("turn.end", session.id));
    seen = follow_until(follower, "turn.end");
    REQUIRE(seen.back().is_object());
    CHECK(followed_bytes(seen) == "now \xff");
    const std::int64_t last = seen.back().value("seq", 0);

    // Each event once, in order, also for one that comes back later.
    WireClient later(daemon.socket());
    REQUIRE(later.send({{"type", "follow"}, {"session", session.id}, {"from_seq", last}}));
    CHECK_ACK(client.ask("session.end", session.id));
    seen = follow_until(later, "session.end");
    REQUIRE(seen.back().is_object());
    CHECK(seen.front().value("type", "") == "turn.end");
    CHECK(seen.front().value("seq", 0) == last);
    CHECK(seen.size() == 2);
}

TEST_CASE("a follower without a place to begin hears only what comes") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "p"}}));
    CHECK_ACK(client.ask("turn.note", session.id, {{"kind", "old"}}));
    WireClient follower(daemon.socket());
    CHECK_ACK(follower.request({{"type", "follow"}, {"session", session.id}}));
    CHECK_ACK(client.ask("turn.note", session.id, {{"kind", "new"}}));
    const Json first = follower.read();
    CHECK(first.value("type", "") == "turn.note");
    CHECK(first.value("kind", "") == "new");
}

TEST_CASE("a follower of all sessions hears of each with its name") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient follower(daemon.socket());
    CHECK_ACK(follower.request({{"type", "follow"}}));
    WireClient client(daemon.socket());
    const Recording first = start_session(client, daemon.work());
    const Recording second = start_session(client, daemon.work());
    CHECK_ACK(client.ask("session.end", first.id));
    CHECK_ACK(client.ask("session.end", second.id));
    std::set<std::string> ended;
    while (ended.size() < 2) {
        const Json line = follower.read();
        REQUIRE(line.is_object());
        if (line.value("type", "") == "session.end") {
            ended.insert(line.value("session", ""));
        }
    }
    CHECK(ended == std::set<std::string>{first.id, second.id});
}

TEST_CASE("a follower that reads is fed as fast as it reads") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "p"}}));
    const std::string block(256 * 1024, 'x');
    for (int round = 0; round < 32; ++round) {
        REQUIRE(is_ack(client.ask("turn.output", session.id, {{"text", block}})));
        REQUIRE(is_ack(client.ask("turn.note", session.id, {{"kind", "mark"}})));
    }
    CHECK_ACK(client.ask("turn.end", session.id));
    WireClient follower(daemon.socket());
    const auto begun = std::chrono::steady_clock::now();
    CHECK_ACK(follower.request({{"type", "follow"}, {"session", session.id}, {"from_seq", 0}}));
    const std::vector<Json> seen = follow_until(follower, "turn.end");
    REQUIRE(seen.back().is_object());
    CHECK(followed_bytes(seen).size() == 32 * block.size());
    CHECK(std::chrono::steady_clock::now() - begun < std::chrono::seconds(8));
}

TEST_CASE("a follower that does not read is cut off with the seq to come back with") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "p"}}));
    WireClient follower(daemon.socket());
    REQUIRE(follower.send({{"type", "follow"}, {"session", session.id}}));
    const std::string block(256 * 1024, 'x');
    std::int64_t sent = 0;
    for (int round = 0; round < 40; ++round) {
        const Json answer = client.ask("turn.output", session.id, {{"text", block}});
        REQUIRE_MESSAGE(is_ack(answer), answer.dump());
        sent += static_cast<std::int64_t>(block.size());
    }
    CHECK(session.text("turns/001-output.md").size() == static_cast<std::size_t>(sent));
    // Whoever reads again before it is cut off is not too slow.
    CHECK(eventually([&] { return client.request({{"type", "status"}})["followers"] == 0; }));
    Json last;
    std::int64_t last_seq = 0;
    while (true) {
        const Json line = follower.read();
        if (line.is_discarded()) {
            break;
        }
        last = line;
        if (line.value("type", "") == "turn.output") {
            last_seq = line.value("seq", std::int64_t{0});
        }
    }
    CHECK(follower.at_end());
    CHECK(code_of(last) == "overloaded");
    REQUIRE(last.contains("seq"));
    CHECK(last.value("seq", std::int64_t{0}) >= last_seq);

    // Coming back with it misses nothing: the next event is not later than the one named.
    WireClient again(daemon.socket());
    REQUIRE(again.send({{"type", "follow"}, {"session", session.id}, {"from_seq", last["seq"]}}));
    CHECK_ACK(client.ask("turn.end", session.id));
    const std::vector<Json> seen = follow_until(again, "turn.end");
    REQUIRE(seen.back().is_object());
    CHECK(seen.front().value("seq", std::int64_t{0}) >= last["seq"].get<std::int64_t>());
}

TEST_CASE("flush is answered when everything lies in its final files") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    REQUIRE(client.send(event("turn.start", session.id, {{"prompt", "p"}})));
    REQUIRE(client.send(event("turn.output", session.id, {{"text", "words"}})));
    CHECK_ACK(client.request({{"type", "flush"}}));
    CHECK(session.text("turns/001-output.md") == "words");
    CHECK_ACK(client.request({{"type", "flush"}}));
}

TEST_CASE("status tells version and uptime and load and health") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    const Json status = client.request({{"type", "status"}});
    CHECK_ACK(status);
    CAPTURE(status.dump());
    CHECK(status.value("version", "").find("0.1.0") != std::string::npos);
    CHECK(status.value("pid", 0) == daemon.pid());
    for (const char* const key :
         {"uptime_ms",
          "sessions",
          "queue_depth",
          "journal_bytes",
          "fsync_us",
          "errors",
          "volumes"}) {
        CHECK_MESSAGE(status.contains(key), key);
    }
}

TEST_CASE("an unanswered event is recorded all the same") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    REQUIRE(client.send(event("turn.start", session.id, {{"prompt", "p"}})));
    REQUIRE(client.send(event("turn.output", session.id, {{"text", "quiet"}})));
    CHECK(eventually([&] { return session.text("turns/001-output.md") == "quiet"; }));
    CHECK_FALSE(client.read_line(short_while).has_value());
    CHECK_FALSE(client.at_end());
}

}  // namespace
}  // namespace relay::tests
