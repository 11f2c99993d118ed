// SPDX-License-Identifier: Apache-2.0
#include "cli/adapters/plain.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

using relay::cli::AdapterSettings;
using relay::cli::AgentEnd;
using relay::cli::AgentStream;
using relay::cli::declared_notes;
using relay::cli::EventSink;
using relay::cli::make_adapter;
using relay::cli::PlainAdapter;
using relay::cli::TurnFacts;

namespace {

class Heard final : public EventSink {
public:
    std::string output;
    std::string errors;
    std::vector<std::string> events;
    std::size_t pieces = 0;

    void event(std::string members) override { events.push_back(std::move(members)); }
    void bytes(AgentStream stream, std::string_view bytes) override {
        pieces += bytes.empty() ? 0U : 1U;
        (stream == AgentStream::output ? output : errors) += bytes;
    }
};

std::string note(const std::string& kind, const std::string& payload) {
    return R"({"type":"turn.note","kind":")" + kind + R"(","payload":)" + payload + "}";
}

}  // namespace

TEST_CASE("a plain agent's output and errors reach their files in whole characters") {
    Heard heard;
    PlainAdapter adapter(heard, {});
    adapter.output("gr\xc3");
    CHECK(heard.output == "gr");
    adapter.output("\xbc\xe2\x82");
    CHECK(heard.output == "gr\xc3\xbc");
    adapter.output("\xac!\n");
    CHECK(heard.output == "gr\xc3\xbc\xe2\x82\xac!\n");
    adapter.error("\x1b[31mbad\x1b[0m\n");
    CHECK(heard.errors == "bad\n");
    adapter.output("\xf0\x9f");  // and never the rest
    CHECK(adapter.finish({}).status == "completed");
    CHECK(heard.output == "gr\xc3\xbc\xe2\x82\xac!\n\xf0\x9f");
    CHECK(heard.events.empty());
    Heard raw;
    PlainAdapter keeps(raw, {.from_terminal = true, .raw = true});
    keeps.output("\x1b[31mbad\r\n");
    CHECK(raw.output == "\x1b[31mbad\r\n");
}

TEST_CASE("lines that declare something become notes and stay in the output") {
    Heard heard;
    PlainAdapter adapter(heard, {});
    const std::string text =
        "working\nRELAY_STATE: {\"decisions\":[\"use sqlite\",{\"summary\":\"s\","
        "\"id\":\"d9\"}],\"next_task\":\"docs\"}\nmore RELAY_STATE: {}\n";
    for (const char byte : text) {
        adapter.output(std::string_view(&byte, 1));
    }
    CHECK(heard.output == text);
    REQUIRE(heard.events.size() == 4);
    CHECK(heard.events[1] == note("decision", R"("use sqlite")"));
    CHECK(heard.events[2] == note("decision", R"({"id":"d9","summary":"s"})"));
    CHECK(heard.events[3] == note("next", R"("docs")"));
    Heard whole;
    PlainAdapter at_once(whole, {});
    at_once.output(text);
    CHECK(whole.events == heard.events);
    CHECK(whole.output == text);
    // The last line needs no end.
    at_once.output("RELAY_STATUS: {\"blocker\":\"no network\"}");
    CHECK(whole.events.size() == 4);
    static_cast<void>(at_once.finish({}));
    REQUIRE(whole.events.size() == 6);
    CHECK(whole.events[5] == note("blocker", R"("no network")"));
}

TEST_CASE("of a list too long to be kept the end is what counts") {
    std::string list = "\"first\"";
    for (int more = 0; more < 100; ++more) {
        list += ",\"another\"";
    }
    const auto notes = declared_notes("RELAY_STATUS: {\"decisions\":[" + list + ",\"last\"]}");
    CHECK(notes.size() == 65);
    CHECK(notes.back() == note("decision", "\"last\""));
}

TEST_CASE("a declaration that is none is only text") {
    CHECK(declared_notes("RELAY_STATE: nonsense").empty());
    CHECK(declared_notes("RELAY_STATE: [1]").empty());
    CHECK(declared_notes(" RELAY_STATE: {}").empty());
    CHECK(declared_notes("RELAY_STATION: {}").empty());
    CHECK(declared_notes("RELAY_STATE: {}") == std::vector<std::string>{note("state", "{}")});
    // What the daemon would refuse is not sent.
    CHECK(
        declared_notes(R"(RELAY_STATE: {"decisions":[1,{"why":"x"}],"validation":"ok","next":7})")
            .size()
        == 1);
    CHECK(
        declared_notes(R"(RELAY_STATE: {"validation":{"tests":"pass"},"files":["a.c"]})")
        == std::vector<std::string>{
            note("state", R"({"files":["a.c"],"validation":{"tests":"pass"}})"),
            note("file", R"("a.c")"),
            note("validation", R"({"tests":"pass"})")});
    CHECK(declared_notes("RELAY_STATE: {\"next\":\"" + std::string(100'000, 'x') + "\"}").empty());
}

TEST_CASE("the end of a plain agent is the end of its process") {
    Heard heard;
    const auto facts_of = [&heard](int wait_status, bool interrupted) {
        PlainAdapter adapter(heard, {});
        AgentEnd end;
        end.wait_status = wait_status;
        end.interrupted = interrupted;
        return adapter.finish(end);
    };
    CHECK(facts_of(0, false).status == "completed");
    CHECK(facts_of(3 << 8, false).status == "failed");
    CHECK(facts_of(3 << 8, false).error.empty());
    CHECK(facts_of(9, false).status == "failed");
    CHECK(facts_of(9, false).stop_reason == "signal 9");
    CHECK(facts_of(9, false).error == "the agent was ended by signal 9");
    CHECK(facts_of(2, true).status == "interrupted");
    CHECK(facts_of(0, true).status == "interrupted");
}

TEST_CASE("a format that nobody knows has no adapter") {
    Heard heard;
    CHECK(make_adapter("plain", heard, {}) != nullptr);
    CHECK(make_adapter("telepathy", heard, {}) == nullptr);
}
