// SPDX-License-Identifier: Apache-2.0

// Secrets on their way through a real daemon: what reaches the disk, and when it is answered.

#include "tests/end_to_end/recording.hpp"
#include "tests/support/eventually.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <vector>

namespace relay::tests {
namespace {

const std::string body = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8";
const std::string key = "ghp_" + body;
const std::string hidden = "ghp_[REDACTED:github-token]";

// Files below the daemon's own directory, the journal's too, that hold these bytes.
std::string holders_of(const DaemonProcess& daemon, const std::string& bytes) {
    return run_shell(
               "grep --recursive --text --files-with-matches --fixed-strings -e '" + bytes + "' '"
               + daemon.root() + "'")
        .out;
}

TEST_CASE("a secret in any text of any event reaches no file not even the journal") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(
        client,
        daemon.work(),
        {{"command", {"agent", "--key", key}},
         {"name", "n " + key},
         {"labels", {key}},
         {"extra", {{"k", key}}}});
    REQUIRE_FALSE(session.id.empty());
    const auto ask = [&](const char* type, const Json& fields) {
        CHECK_ACK(client.ask(type, session.id, fields));
    };
    ask("turn.start", {{"prompt", "use " + key}});
    ask("turn.output", {{"text", "using " + key + "\n"}});
    ask("turn.stderr", {{"text", "warning: " + key + "\n"}});
    ask("turn.tool",
        {{"tool_id", "1"},
         {"name", "sh"},
         {"status", "ok"},
         {"summary", key},
         {"input", {{"cmd", "echo\n" + key}}},
         {"output", key}});
    ask("turn.note", {{"kind", "decision"}, {"payload", {{"summary", "rotate " + key}}}});
    ask("session.attachment",
        {{"name", "env.txt"},
         {"data", "Z2hwX2ExQjJjM0Q0ZTVGNmc3SDhpOUowazFMMm0zTjRvNVA2cTdSOA=="}});
    ask("turn.end",
        {{"error", "bad " + key},
         {"diff", "+" + key + "\n"},
         {"next_task", key},
         {"validation", {{"t", key}}},
         {"files", {{{"path", key}}}},
         {"extra", {{"k", key}}}});
    ask("session.update", {{"stage", key}});
    ask("session.checkpoint",
        {{"reason", "because " + key}, {"decisions", {{{"summary", key}}}}, {"next_task", key}});
    CHECK_ACK(client.request({{"type", "flush"}}));

    CHECK(holders_of(daemon, body) == "");
    CHECK(holders_of(daemon, body.substr(0, 12)) == "");
    CHECK(session.text("turns/001-prompt.md") == "use " + hidden);
    CHECK(session.text("turns/001-output.md") == "using " + hidden + "\n");
    CHECK(session.text("turns/001-stderr.log") == "warning: " + hidden + "\n");
    CHECK(session.text("turns/001-diff.patch") == "+" + hidden + "\n");
    CHECK(session.text("attachments/env.txt") == hidden);
    const Json meta = session.meta();
    CHECK(meta["objective"] == "use " + hidden);
    CHECK(meta["preview"] == "use " + hidden);
    CHECK(meta["command"][2] == hidden);
    CHECK(meta["capture"]["redactions"] == 22);
    CHECK_MESSAGE(damage_of(session.path).empty(), damage_of(session.path));
}

TEST_CASE("a secret in pieces is hidden and the piece in between is answered once it is decided") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "p"}}));
    CHECK_ACK(client.ask("turn.output", session.id, {{"text", "key: ghp_"}}));
    CHECK(session.text("turns/001-output.md") == "key: ghp_");
    for (std::size_t at = 0; at < body.size(); ++at) {
        Json piece = event("turn.output", session.id, {{"text", body.substr(at, 1)}});
        piece["id"] = at;
        REQUIRE(client.send(piece));
    }
    for (std::size_t at = 0; at < body.size(); ++at) {
        const Json answer = client.read();
        CHECK_ACK(answer);
        CHECK(answer["id"] == at);
    }
    CHECK_ACK(client.ask("turn.output", session.id, {{"text", " and on"}}));
    CHECK(session.text("turns/001-output.md") == "key: " + hidden + " and on");
    CHECK_ACK(client.request({{"type", "flush"}}));
    CHECK(holders_of(daemon, body.substr(0, 8)) == "");
    CHECK(session.meta()["capture"]["redactions"] == 1);
}

TEST_CASE(
    "a piece that nothing follows is answered by itself and what completes it later is hidden") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "p"}}));
    const auto begin = std::chrono::steady_clock::now();
    CHECK_ACK(client.ask("turn.output", session.id, {{"text", "ghp_" + body.substr(0, 6)}}));
    CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(140));
    CHECK(session.text("turns/001-output.md") == "ghp_" + body.substr(0, 6));
    CHECK_ACK(client.ask("turn.output", session.id, {{"text", body.substr(6)}}));
    CHECK(
        session.text("turns/001-output.md")
        == "ghp_" + body.substr(0, 6) + "[REDACTED:github-token]");
    CHECK_ACK(client.ask("turn.end", session.id));
    CHECK(holders_of(daemon, body.substr(6, 8)) == "");
}

TEST_CASE("a turn that ends inside a word has the whole word") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "p"}}));
    REQUIRE(client.send(event("turn.output", session.id, {{"text", "pip install sk-learn"}})));
    CHECK_ACK(client.ask("turn.end", session.id));
    CHECK(session.text("turns/001-output.md") == "pip install sk-learn");
    CHECK(session.meta()["capture"]["redactions"] == 0);
}

TEST_CASE("numbered pieces of a secret are recorded once across a killed daemon") {
    DaemonProcess daemon(small_journal({"--orphan-grace", "1min"}));
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    const std::string id = new_ulid();
    const std::vector<std::string> pieces{
        "key: ", "ghp_", body.substr(0, 9), body.substr(9, 5), body.substr(14), "more", " end\n"};
    for (std::size_t kill_after = 0; kill_after < pieces.size(); ++kill_after) {
        CAPTURE(kill_after);
        std::string session;
        std::string path;
        std::int64_t next = 1;
        {
            WireClient client(daemon.socket());
            const Recording started = start_session(client, daemon.work());
            session = started.id;
            path = started.path;
            CHECK_ACK(client.ask("turn.start", session, {{"prompt", "p"}, {"seq", 1}}));
            for (std::size_t piece = 0; piece <= kill_after; ++piece) {
                REQUIRE(client.send(event(
                    "turn.output",
                    session,
                    {{"text", pieces[piece]}, {"seq", static_cast<std::int64_t>(piece) + 2}})));
            }
            REQUIRE(daemon.restart());
        }
        WireClient client(daemon.socket());
        const Json attached = client.ask("session.attach", session);
        CHECK_ACK(attached);
        next = attached["last_seq"].get<std::int64_t>();
        for (auto piece = static_cast<std::size_t>(next - 1); piece < pieces.size(); ++piece) {
            REQUIRE(client.send(event(
                "turn.output",
                session,
                {{"text", pieces[piece]}, {"seq", static_cast<std::int64_t>(piece) + 2}})));
        }
        CHECK_ACK(client.ask("turn.end", session));
        CHECK(read_text(path + "/turns/001-output.md") == "key: " + hidden + " end\n");
        CHECK_ACK(client.ask("session.end", session));
    }
    CHECK(holders_of(daemon, body.substr(0, 9)) == "");
    CHECK(holders_of(daemon, body.substr(14, 9)) == "");
}

TEST_CASE("an agent that dies in the middle of a secret leaves none of it to speak of") {
    DaemonProcess daemon(small_journal({"--orphan-grace", "0"}));
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    Recording session;
    {
        WireClient client(daemon.socket());
        session = start_session(client, daemon.work());
        CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "p"}}));
        REQUIRE(client.send(
            event("turn.output", session.id, {{"text", "x ghp_" + body.substr(0, 20)}})));
    }
    CHECK(eventually([&] { return session.meta().value("status", "") == "checkpointed"; }));
    CHECK(session.text("turns/001-output.md") == "x " + hidden);
    CHECK(holders_of(daemon, body.substr(0, 15)) == "");
}

TEST_CASE("redaction is configured: off a rule of one's own a wrong rule is refused at the start") {
    DaemonProcess daemon(small_journal());
    const auto recorded = [&](const std::string& text) {
        WireClient client(daemon.socket());
        const Recording session = start_session(client, daemon.work());
        CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", text}}));
        CHECK_ACK(client.ask("session.end", session.id));
        return session.text("turns/001-prompt.md");
    };
    const auto configure = [&](const std::string& lines) {
        static_cast<void>(run_shell("mkdir -p \"$(dirname '" + daemon.config_file() + "')\""));
        write_text(daemon.config_file(), "[redact]\n" + lines);
    };
    configure("enabled = false\n");
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    CHECK(recorded(key) == key);
    static_cast<void>(daemon.terminate());
    configure("rules = ['acme=acme_[0-9]{8}', '!github-token']\n");
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    CHECK(recorded("acme_12345678 " + key) == "acme_[REDACTED:acme] " + key);
    static_cast<void>(daemon.terminate());
    configure("rules = ['acme=(']\n");
    CHECK_FALSE(daemon.start());
    CHECK(daemon.wait() == 78);
    CHECK(daemon.log().find("redact.rules") != std::string::npos);
}

TEST_CASE("neither the log nor the status has anything of what was said") {
    DaemonProcess daemon(small_journal({"--orphan-grace", "10ms"}));
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    const std::string said = "Weissagung";
    WireClient client(daemon.socket());
    Recording session = start_session(
        client, daemon.work(), {{"name", said}, {"labels", {said}}, {"extra", {{"k", said}}}});
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", said}}));
    CHECK_ACK(client.ask("turn.output", session.id, {{"text", said}}));
    CHECK_ACK(client.ask("turn.end", session.id, {{"error", said}}));
    // What is refused, for whatever reason, is as private.
    for (const std::string& wrong :
         {"{" + said,
          R"({"type":")" + said + R"("})",
          R"({"type":"turn.start","session":")" + said + R"(","prompt":5})",
          R"({"type":"session.start","agent":"x","cwd":"/)" + said + R"("})",
          R"({"type":"turn.output","session":")" + session.id + R"(","text":")" + said + R"("})"}) {
        REQUIRE(client.send_line(wrong));
        CHECK(client.read()["type"] == "error");
    }
    REQUIRE(client.send_line(R"({"type":"status","id":1})"));
    const std::string status = client.read().dump();
    CHECK(status.find("\"refused\":5") != std::string::npos);
    CHECK(status.find(said) == std::string::npos);
    // Its owner goes, it is checkpointed, and the daemon is killed and recovers.
    client.close();
    CHECK(eventually([&session] { return session.meta()["status"] == "checkpointed"; }));
    daemon.kill();
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    static_cast<void>(daemon.terminate());
    CHECK(daemon.log().find("recovered") != std::string::npos);
    CHECK_MESSAGE(daemon.log().find(said) == std::string::npos, daemon.log());
}

}  // namespace
}  // namespace relay::tests
