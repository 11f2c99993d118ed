// SPDX-License-Identifier: Apache-2.0
#include "layout/session_reader.hpp"
#include "tests/end_to_end/recording.hpp"

#include <boost/filesystem.hpp>
#include <doctest/doctest.h>
#include <relay_built_here.hpp>

#include <stdlib.h>

#include <algorithm>
#include <map>

// tests/data/format-v1/ holds one session as version 1 wrote it. It must stay readable for ever, and the
// same events must still give the same bytes. RELAY_UPDATE_GOLDEN=1 writes it anew: only together with a
// change of the format that is meant.

namespace relay::tests {
namespace {

namespace filesystem = boost::filesystem;

const std::string golden_root = RELAY_TEST_DATA "/format-v1";

// Every kind of event, each answered before the next is sent. No two pieces of output follow each other:
// how the timeline joins those depends on the clock.
Recording record_everything(DaemonProcess& daemon) {
    WireClient client(daemon.socket());
    Recording session = start_session(
        client,
        daemon.work(),
        {{"seq", 1},
         {"agent", "claude-code"},
         {"command", {"claude", "-p", "fix the \"bug\""}},
         {"name", "golden"},
         {"model", "m-1"},
         {"user", "somebody"},
         {"labels", {"bug", "priority::2"}},
         {"extra", {{"ticket", 7}}}});
    REQUIRE_MESSAGE(is_ack(session.answer), session.answer.dump());
    std::int64_t seq = 1;
    const auto say = [&](std::string_view type, Json fields = Json::object()) {
        fields["seq"] = ++seq;
        CHECK_ACK(client.ask(type, session.id, fields));
    };
    const Json decision{{"id", "d1"}, {"summary", "Keep it simple"}, {"why", "It is enough"}};
    const Json tool{{"tool_id", "t1"}, {"name", "bash"}, {"summary", "make"}};
    Json started = tool;
    started.update({{"status", "started"}, {"input", {{"command", "make"}}}});
    Json finished = tool;
    finished.update({{"status", "ok"}, {"output", "done"}});

    say("turn.start", {{"prompt", "Fix the bug.\n\nÜber die Brücke, please.\n"}});
    say("turn.output", {{"text", "Looking …\n"}});
    say("turn.tool", started);
    say("turn.tool", finished);
    say("turn.output", {{"data", "/wD+"}, {"channel", "tool"}});
    say("turn.note", {{"kind", "decision"}, {"payload", decision}});
    say("turn.stderr", {{"text", "warning: old\n"}});
    say("turn.note", {{"kind", "compaction"}, {"payload", {{"kept", 10}}}});
    say("turn.note", {{"kind", "validation"}, {"payload", {{"lint", "clean"}}}});
    say("turn.end",
        {{"status", "completed"},
         {"stop_reason", "end_turn"},
         {"tokens", {{"input", 100}, {"output", 20}, {"total", 120}}},
         {"cost_usd", 0.25},
         {"files", {{{"path", "a.cpp"}, {"status", "modified"}, {"added", 2}, {"removed", 1}}}},
         {"validation", {{"tests", "green"}}},
         {"diff", "--- a/a.cpp\n+++ b/a.cpp\n"},
         {"next_task", "Write the test"},
         {"extra", {{"k", "v"}}}});
    say("session.attachment", {{"name", "log.txt"}, {"data", "YWJj"}});
    say("session.update", {{"stage", "in-progress"}, {"flagged", true}});
    say("turn.start", {{"prompt", "And the test."}, {"model", "m-2"}});
    say("turn.output", {{"text", "On it"}});
    say("turn.note", {{"kind", "blocker"}, {"payload", {{"summary", "No network"}}}});
    say("session.checkpoint",
        {{"reason", "rate_limit"},
         {"limit", {{"kind", "rate"}, {"resets_at", "2030-01-01T00:00:00.000Z"}}}});
    return session;
}

// The length of the time that begins at `at`; 0 when none does.
std::size_t time_at(std::string_view text, std::size_t at) {
    constexpr std::string_view form = "dddd-dd-ddTdd:dd:dd.dddZ";
    const std::string_view here = text.substr(at, form.size());
    const bool is_time =
        here.size() == form.size()
        && std::equal(here.begin(), here.end(), form.begin(), [](char seen, char wanted) {
               return wanted == 'd' ? seen >= '0' && seen <= '9' : seen == wanted;
           });
    return is_time ? form.size() : 0;
}

// Where the value of a member ends that begins at `at`: a string without escapes or a number.
std::size_t value_end(std::string_view text, std::size_t at) {
    return text[at] == '"' ? text.find('"', at + 1) + 1 : text.find_first_of(",}\n", at);
}

// What must differ from run to run goes by a name.
std::string normalised(std::string text, const std::string& id) {
    for (std::size_t at = text.find(id); at != std::string::npos; at = text.find(id, at)) {
        text.replace(at, id.size(), "ULID");
    }
    for (std::size_t at = 0; at < text.size(); ++at) {
        text.replace(at, time_at(text, at), time_at(text, at) > 0 ? "TIME" : "");
    }
    for (const std::string key : {"duration_ms", "pid", "host", "cwd", "slug", "chain"}) {
        const std::string member = "\"" + key + "\":";
        for (std::size_t at = text.find(member); at != std::string::npos;
             at = text.find(member, at)) {
            at = text.find_first_not_of(' ', at + member.size());
            text.replace(at, value_end(text, at) - at, "VALUE");
        }
    }
    return text;
}

std::map<std::string, std::string> normalised_tree(const std::string& directory) {
    const std::string id = filesystem::path(directory).filename().string();
    std::map<std::string, std::string> tree;
    for (const std::string& name : tree_of(directory)) {
        const std::string text = name.ends_with('/') ? "" : read_text(directory + "/" + name);
        const bool is_document = name.ends_with(".json") || name.ends_with(".jsonl");
        tree[name] = is_document ? normalised(text, id) : text;
    }
    return tree;
}

std::string golden_session() {
    const auto sessions = layout::list_sessions(golden_root);
    REQUIRE(sessions.ok());
    REQUIRE(sessions.value().size() == 1);
    return golden_root + "/" + sessions.value().front().text();
}

void replace_golden(const std::string& session_directory) {
    filesystem::remove_all(golden_root);
    for (const std::string& name : tree_of(session_directory)) {
        const filesystem::path target =
            filesystem::path(golden_root) / filesystem::path(session_directory).filename() / name;
        filesystem::create_directories(name.ends_with('/') ? target : target.parent_path());
        if (!name.ends_with('/')) {
            write_text(target.string(), read_text(session_directory + "/" + name));
        }
    }
}

TEST_CASE("the same events give the same bytes as version 1 wrote") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    const Recording session = record_everything(daemon);
    CHECK(damage_of(session.path).empty());
    if (::getenv("RELAY_UPDATE_GOLDEN") != nullptr) {
        replace_golden(session.path);
        MESSAGE("wrote " << golden_root);
    }
    const std::map<std::string, std::string> golden = normalised_tree(golden_session());
    const std::map<std::string, std::string> written = normalised_tree(session.path);
    for (const auto& file : golden) {
        CAPTURE(file.first);
        REQUIRE(written.contains(file.first));
        CHECK(written.at(file.first) == file.second);
    }
    CHECK(written.size() == golden.size());
}

TEST_CASE("the session that version 1 wrote is still read and sound") {
    const std::string directory = golden_session();
    const auto meta = layout::read_meta(directory);
    REQUIRE(meta.ok());
    CHECK(meta.value().agent == "claude-code");
    CHECK(meta.value().status == layout::SessionStatus::checkpointed);
    CHECK(meta.value().turn_count == 2);
    CHECK(meta.value().tokens.total == 120);
    CHECK(meta.value().labels == std::vector<std::string>{"bug", "priority::2"});
    CHECK(meta.value().unknown.empty());
    const auto first = layout::decode_turn_state(read_text(directory + "/turns/001-state.json"));
    REQUIRE(first.ok());
    CHECK(first.value().status == "completed");
    CHECK(first.value().tools.size() == 1);
    CHECK(first.value().next_task == "Write the test");
    const auto second = layout::decode_turn_state(read_text(directory + "/turns/002-state.json"));
    REQUIRE(second.ok());
    CHECK(second.value().status == "interrupted");
    const auto verification = layout::verify_session(directory);
    REQUIRE(verification.ok());
    CHECK(verification.value().turns == 2);
    CHECK(verification.value().damage.empty());
}

}  // namespace
}  // namespace relay::tests
