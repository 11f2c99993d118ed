// SPDX-License-Identifier: Apache-2.0

// What the daemon writes and says, against docs/schema: requests, answers, followed lines, and every document of
// the sessions they made.

#include "tests/end_to_end/relay_home.hpp"
#include "tests/support/wire_client.hpp"

#include <doctest/doctest.h>
#include <relay_built_here.hpp>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace relay::tests {
namespace {

class Evidence {
public:
    void add(const std::string& schema, const Json& document, const std::string& definition = "") {
        REQUIRE_MESSAGE(document.is_object(), schema);
        Json line{{"schema", schema}, {"definition", nullptr}, {"document", document}};
        if (!definition.empty()) {
            line["definition"] = definition;
        }
        text_ += line.dump() + "\n";
        kinds_.insert(schema + " " + document.value("type", ""));
    }

    // Sends a request and keeps it and its answer.
    Json ask(WireClient& client, const Json& request) {
        static const std::set<std::string> described{
            "hello",
            "session.start",
            "session.attach",
            "turn.start",
            "session.attachment",
            "session.list",
            "session.get",
            "status"};
        Json sent = request;
        sent["id"] = 7;
        add("request", sent);
        const Json answer = client.request(request);
        add("answer", answer);
        const std::string type = request["type"];
        if (is_ack(answer) && described.contains(type)) {
            add("answer", answer, type);
        }
        return answer;
    }

    void add_session(const Recording& recording) {
        add("meta", recording.meta());
        if (recording.has("resume.json")) {
            add("resume", recording.json("resume.json"));
        }
        for (const std::string& file : tree_of(recording.path + "/turns")) {
            if (file.ends_with("-state.json")) {
                add("state", recording.json("turns/" + file));
            }
        }
        for (const Json& line : recording.timeline()) {
            add("event", line);
        }
    }

    [[nodiscard]] const std::string& text() const { return text_; }
    [[nodiscard]] bool has(const std::string& kind) const { return kinds_.contains(kind); }

private:
    std::string text_;
    std::set<std::string> kinds_;
};

// Every request there is, with every member.
void converse(Evidence& evidence, WireClient& client, const std::string& cwd) {
    evidence.ask(client, {{"type", "hello"}, {"protocol", 1}, {"client", "schema"}});
    const Json started = evidence.ask(
        client,
        {{"type", "session.start"},
         {"agent", "schema"},
         {"cwd", cwd},
         {"command", {"a", "b"}},
         {"name", "n"},
         {"model", "m"},
         {"user", "u"},
         {"labels", {"l"}},
         {"parent", {{"session", new_ulid()}, {"turn", 1}, {"relation", "fork"}}},
         {"store", "auto"},
         {"extra", {{"k", 1}}}});
    REQUIRE(is_ack(started));
    const std::string session = started["session"];
    const auto event = [&](const std::string& type, Json fields) {
        fields["type"] = type;
        fields["session"] = session;
        const Json answer = evidence.ask(client, fields);
        CHECK_MESSAGE(is_ack(answer), answer.dump());
    };
    event("turn.start", {{"prompt", "do it"}, {"model", "m"}});
    event("turn.output", {{"text", "out"}});
    event("turn.output", {{"data", "/w=="}, {"channel", "tool"}});
    event("turn.stderr", {{"text", "err"}});
    event("turn.tool", {{"tool_id", "t"}, {"name", "sh"}, {"status", "started"}, {"input", 1}});
    event("turn.tool", {{"tool_id", "t"}, {"name", "sh"}, {"status", "ok"}, {"summary", "s"}});
    event("turn.note", {{"kind", "decision"}, {"payload", "keep it"}});
    event("turn.note", {{"kind", "blocker"}, {"payload", {{"summary", "x"}, {"why", "y"}}}});
    event("turn.note", {{"kind", "validation"}, {"payload", {{"tests", "green"}}}});
    event("turn.note", {{"kind", "file"}, {"payload", "a.cpp"}});
    event("turn.note", {{"kind", "mood"}, {"payload", {1, 2}}});
    event(
        "turn.end",
        {{"status", "failed"},
         {"stop_reason", "end"},
         {"tokens", {{"input", 3}, {"output", 1}}},
         {"cost_usd", 0.5},
         {"diff", "--- a\n"},
         {"dirty", true},
         {"next_task", "more"},
         {"limit", {{"kind", "rate"}}},
         {"exit_code", 3},
         {"error", "it failed"},
         {"extra", {{"k", 1}}}});
    event("session.attachment", {{"name", "f.txt"}, {"data", "YQ=="}});
    event("session.update", {{"flagged", true}, {"stage", "done"}, {"labels", {"a", "b"}}});
    event("turn.start", {{"prompt", "again"}});
    event(
        "session.checkpoint",
        {{"reason", "manual"}, {"next_task", "rest"}, {"limit", {{"kind", "context"}}}});
    event("session.attach", {{"reopen", true}});
    event("turn.start", {{"prompt", "third"}});
    event("session.end", {{"exit_code", 1}, {"error", "bad"}});
    evidence.ask(client, {{"type", "session.get"}, {"session", session}});
    evidence.ask(client, {{"type", "session.list"}, {"status", "completed"}, {"limit", 10}});
    evidence.ask(client, {{"type", "flush"}});
    evidence.ask(client, {{"type", "status"}});
    CHECK(
        code_of(evidence.ask(
            client, {{"type", "turn.start"}, {"session", new_ulid()}, {"prompt", "nobody's"}}))
        == "unknown_session");
    evidence.ask(client, {{"type", "follow"}, {"session", session}, {"from_seq", 0}});
    for (Json line = client.read(); line.is_object(); line = client.read()) {
        evidence.add("event", line);
        if (line["type"] == "session.end") {
            break;
        }
    }
}

TEST_CASE("everything that the daemon writes and says fits the schemas and nothing wrong does") {
    const RelayHome home;
    Evidence evidence;
    REQUIRE(home.shell("agent-relay run -- sh -c 'echo out; echo err >&2'").status == 0);
    REQUIRE(
        home.shell("git init -q . && agent-relay run -- sh -c 'kill -TERM $PPID; exec sleep 9'")
            .status
        != 0);
    {
        WireClient client(home.root() + "/relay/state/relay.sock");
        REQUIRE(client.connected());
        converse(evidence, client, home.work());
    }
    {
        WireClient client(home.root() + "/relay/state/relay.sock");
        CHECK(is_ack(evidence.ask(
            client, {{"type", "session.start"}, {"agent", "open"}, {"cwd", home.work()}})));
    }
    const std::vector<Recording> sessions = home.sessions();
    REQUIRE(sessions.size() == 4);
    for (const Recording& recording : sessions) {
        evidence.add_session(recording);
    }
    for (const std::string kind :
         {"resume ", "state ", "event turn.stderr", "event session.attach"}) {
        CHECK_MESSAGE(evidence.has(kind), kind);
    }
    const std::string file = home.root() + "/evidence.jsonl";
    write_text(file, evidence.text());
    const std::string source = RELAY_SOURCE_DIR;
    const ProgramEnd end = run_program(
        {"/usr/bin/env",
         "python3",
         source + "/tests/schema/validate.py",
         source + "/docs/schema",
         file},
        {{"PYTHONWARNINGS", "ignore"}},
        std::chrono::seconds(120));
    if (end.status == 77) {
        // Where scripts/setup has put it, it must be found.
        const ProgramEnd promised =
            run_shell("dpkg-query --show --showformat='${db:Status-Status}' python3-jsonschema");
        CHECK_MESSAGE(promised.out != "installed", "python3-jsonschema is installed and not found");
        MESSAGE("NOT TESTED, run scripts/setup: " << end.out);
        return;
    }
    CHECK_MESSAGE(end.status == 0, end.out, end.err);
    MESSAGE(end.out);
}

}  // namespace
}  // namespace relay::tests
