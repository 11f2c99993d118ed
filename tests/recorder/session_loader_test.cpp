// SPDX-License-Identifier: Apache-2.0
#include "recorder/posix_disk.hpp"
#include "recorder/session_loader.hpp"
#include "tests/recorder/session_script.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/written_session.hpp"

#include <boost/filesystem.hpp>
#include <doctest/doctest.h>

#include <fstream>
#include <string>

namespace relay::tests {
namespace {

constexpr layout::Timestamp much_later{1'900'000'000'000};

// A session's files on a real disk.
class StoredSession {
public:
    explicit StoredSession(const SessionScript& script) {
        for (const auto& [name, content] : script.files) {
            put(name, content);
        }
    }

    void put(const std::string& name, const std::string& content) const {
        const boost::filesystem::path path = directory_.path() + "/" + name;
        boost::filesystem::create_directories(path.parent_path());
        std::ofstream(path.string(), std::ios::binary) << content;
    }
    [[nodiscard]] const std::string& path() const { return directory_.path(); }
    void drop(const std::string& name) const {
        boost::filesystem::remove(directory_.path() + "/" + name);
    }

    [[nodiscard]] layout::Result<recorder::SessionState>
    load(std::int64_t client_seq = 0, std::int64_t event_seq = 0) const {
        recorder::PosixDisk disk;
        auto directory = disk.open_directory(directory_.path());
        REQUIRE(directory.ok());
        return recorder::load_session(
            *directory.value(), RunningSession::fresh_state().claim, client_seq, event_seq);
    }

    [[nodiscard]] recorder::Session session() const {
        auto state = load();
        REQUIRE(state.ok());
        return recorder::Session(std::move(state.value()));
    }

private:
    TemporaryDirectory directory_;
};

// Every kind of event, over several turns, the last one open.
void play(RunningSession& run) {
    run.tell(note("decision", "\"before any turn\""), 1);
    run.tell(prompt("first task"), 2);
    run.tell(output("hello "), 3);
    run.tell(output("world"), 4);
    run.tell(note("decision", "\"inside\""), 5);
    run.tell(note("file", R"({"path":"a.cpp","status":"added"})"), 6);
    layout::TurnEnd end;
    end.tokens.emplace().total = 7;
    end.cost_usd = 0.125;
    end.validation = {R"({"tests":"red"})"};
    end.dirty = true;
    end.exit_code = 1;
    run.tell(end, 7);
    run.tell(note("blocker", "\"between\""), 8);
    run.tell(prompt("second"), 9);
    run.tell(prompt("third"), 10);
    layout::SessionCheckpoint stop = checkpoint("manual");
    stop.decisions = {R"([{"summary":"at the stop"}])"};
    stop.next_task = "resume";
    run.tell(stop, 11);
    const layout::SessionAttach reopen{.reopen = true, .pid = std::nullopt};
    run.took(
        std::get<recorder::Step>(run.session.attach(reopen, "1 2 3", std::nullopt, {run.now_ms})));
    layout::TurnStart fourth = prompt("fourth");
    fourth.model = "m2";
    run.tell(fourth, 12);
    run.tell(output("part one "), 13);
    run.tell(tool("t1", "started"), 14);
    run.tell(errors("careful"), 15);
    run.tell(note("decision", "\"still open\""), 16);
    run.tell(note("validation", R"({"lint":"clean"})"), 17);
    run.tell(tool("t1", "ok"), 18);
    run.tell(layout::SessionAttachment{.name = "a.txt", .bytes = "x"}, 19);
    layout::SessionUpdate update;
    update.model.emplace("m3");
    run.tell(update, 20);
    run.took(run.session.catch_up_meta({run.now_ms}));
}

}  // namespace

TEST_CASE("a session read back goes on exactly like the one that never stopped") {
    RunningSession run;
    play(run);
    const StoredSession stored(run.script);
    recorder::Session loaded = stored.session();
    CHECK(loaded.last_client_seq() == run.session.last_client_seq());
    CHECK(loaded.last_event_seq() == run.session.last_event_seq());
    CHECK(loaded.open_turn() == 4);
    CHECK(layout::encode_meta(loaded.meta()) == layout::encode_meta(run.session.meta()));

    layout::Event end;
    end.seq = 21;
    end.body = layout::SessionAttachment{.name = "a.txt", .bytes = "y"};
    CHECK(
        std::get<recorder::Step>(loaded.handle(end, much_later)).change
        == std::get<recorder::Step>(run.session.handle(end, much_later)).change);
    end.seq = 22;
    end.body = output(" and part two");
    CHECK(
        std::get<recorder::Step>(loaded.handle(end, much_later)).change
        == std::get<recorder::Step>(run.session.handle(end, much_later)).change);
    CHECK(
        loaded.abandon("crash", much_later).change
        == run.session.abandon("crash", much_later).change);
}

TEST_CASE("a finished session read back knows what its packet said") {
    RunningSession run;
    play(run);
    layout::SessionEnd failed;
    failed.exit_code = 9;
    run.tell(failed, 21);
    const StoredSession stored(run.script);
    recorder::Session loaded = stored.session();
    const layout::SessionAttach reopen{.reopen = true, .pid = std::nullopt};
    for (recorder::Session* session : {&loaded, &run.session}) {
        static_cast<void>(session->attach(reopen, "o", std::nullopt, much_later));
    }
    const std::string ours = loaded.abandon("crash", much_later).change;
    CHECK(ours == run.session.abandon("crash", much_later).change);
    CHECK(ours.find("exit code 9") != std::string::npos);
}

TEST_CASE("a finished session that was compressed goes on with what its last output said") {
    RunningSession run;
    play(run);
    run.tell(layout::SessionEnd{}, 21);
    const StoredSession stored(run.script);
    const auto plain = stored.load();
    REQUIRE(plain.ok());
    REQUIRE(plain.value().knowledge.last_turn);
    const layout::ResumePacket::LastTurn last = *plain.value().knowledge.last_turn;
    REQUIRE_FALSE(last.output_tail.empty());
    compress_file(stored.path() + "/" + last.output_file);
    const auto compressed = stored.load();
    REQUIRE(compressed.ok());
    CHECK(compressed.value().knowledge.last_turn->output_tail == last.output_tail);
    // Damaged, the packet goes without it.
    stored.put(last.output_file + ".zst", "nothing");
    CHECK(stored.load().value().knowledge.last_turn->output_tail.empty());
}

TEST_CASE("output that the timeline did not name yet is named by the next step") {
    RunningSession run;
    run.tell(prompt("p"));
    run.tell(output("named"));
    run.took(run.session.catch_up_meta({run.now_ms}));
    run.tell(output(" not named"));
    const StoredSession stored(run.script);
    auto state = stored.load(0, 3);
    REQUIRE(state.ok());
    recorder::Session loaded(std::move(state.value()));
    CHECK(loaded.timeline_lags());
    SessionScript script = run.script;
    script.apply(loaded.catch_up_timeline({run.now_ms}));
    CHECK_FALSE(loaded.timeline_lags());
    const auto line = script.timeline().back();
    CHECK(line.at("type") == "turn.output");
    CHECK(line.at("offset") == 5);
    CHECK(line.at("bytes") == 10);
    CHECK(line.at("seq") == 3);
    CHECK(loaded.last_event_seq() == 3);
}

TEST_CASE("both streams without a line get lines with numbers of their own") {
    RunningSession run;
    run.tell(prompt("p"));
    StoredSession stored(run.script);
    stored.put("turns/001-output.md", "out");
    stored.put("turns/001-stderr.log", "err");
    recorder::Session loaded = stored.session();
    SessionScript script = run.script;
    script.apply(loaded.catch_up_timeline({run.now_ms}));
    const auto lines = script.timeline();
    REQUIRE(lines.size() == 4);
    CHECK(lines[2].at("seq") == 2);
    CHECK(lines[3].at("seq") == 3);
    CHECK(lines[3].at("type") == "turn.stderr");
    CHECK(loaded.last_event_seq() == 3);
}

TEST_CASE("a seal that meta.json does not know yet counts") {
    RunningSession run;
    run.tell(prompt("p"));
    const std::string behind = layout::encode_meta(run.session.meta());
    layout::TurnEnd end;
    end.tokens.emplace().total = 7;
    end.cost_usd = 0.5;
    run.tell(end);
    const StoredSession stored(run.script);
    stored.put("meta.json", behind);
    recorder::Session loaded = stored.session();
    CHECK(loaded.meta().turn_count == 1);
    CHECK(loaded.meta().tokens.total == 7);
    CHECK(loaded.meta().cost_usd == 0.5);
    CHECK(loaded.meta().chain == run.session.meta().chain);
    CHECK_FALSE(loaded.meta().current_turn.has_value());
    CHECK(loaded.open_turn() == 0);
}

TEST_CASE("a seal that cannot be read still keeps its number taken") {
    RunningSession run;
    run.tell(prompt("p"));
    const std::string behind = layout::encode_meta(run.session.meta());
    run.tell(layout::TurnEnd{});
    const StoredSession stored(run.script);
    stored.put("meta.json", behind);
    stored.put("turns/001-state.json", "{");
    CHECK(stored.session().meta().turn_count == 1);
}

TEST_CASE("what the recorder kept under recovered goes before the user's version") {
    RunningSession run;
    run.tell(prompt("p"));
    run.tell(output("recorded"));
    run.took(run.session.catch_up_meta({run.now_ms}));
    const StoredSession stored(run.script);
    stored.put("recovered/001-output.md", "recorded");
    stored.put("turns/001-output.md", "edited by hand");
    stored.put("recovered/meta.json", run.script.files.at("meta.json"));
    stored.put("meta.json", "{}");
    auto state = stored.load();
    REQUIRE(state.ok());
    CHECK(state.value().turn->output.bytes == 8);
    CHECK(state.value().turn->output.hash.hex() == layout::sha256_hex("recorded"));
}

TEST_CASE("damaged and unfinished timeline lines are passed over") {
    RunningSession run;
    run.tell(prompt("p"));
    run.tell(tool("a", "started"));
    const std::string whole = run.script.files.at("events.jsonl");
    const StoredSession stored(run.script);
    const std::string damaged = "garbage\n{\"seq\":90,\"at\":\n" + whole
                                + "{\"seq\":91,\"at\":\"x\",\"type\":\"turn.end\"}";
    stored.put("events.jsonl", damaged);
    auto state = stored.load();
    REQUIRE(state.ok());
    CHECK(state.value().event_seq == 2);
    CHECK(state.value().timeline_bytes == static_cast<std::int64_t>(damaged.size()));
    REQUIRE(state.value().turn.has_value());
    CHECK(state.value().turn->tools.size() == 1);
}

TEST_CASE("lines longer than a piece are read whole") {
    RunningSession run;
    run.tell(prompt("p"));
    layout::TurnTool big = tool("a", "started");
    big.input = {"\"" + std::string(60'000, 'x') + "\""};
    big.output = big.input;
    run.tell(big);
    run.tell(tool("b", "started"));
    auto state = StoredSession(run.script).load();
    REQUIRE(state.ok());
    CHECK(state.value().turn->tools.size() == 2);
    CHECK(state.value().event_seq == 3);
}

TEST_CASE("a session without a timeline is still a session") {
    RunningSession run;
    run.tell(prompt("p"));
    run.tell(output("x"));
    const StoredSession stored(run.script);
    stored.drop("events.jsonl");
    auto state = stored.load(4, 5);
    REQUIRE(state.ok());
    CHECK(state.value().timeline_bytes == 0);
    CHECK(state.value().client_seq == 4);
    CHECK(state.value().event_seq == 5);
    CHECK(state.value().turn->prompt.sha256 == layout::sha256_hex("p"));
}

TEST_CASE("a directory without a readable meta.json is no session to load") {
    RunningSession run;
    const StoredSession stored(run.script);
    stored.put("meta.json", "{");
    CHECK(stored.load().error().code == layout::Errc::corrupt);
    stored.drop("meta.json");
    CHECK(stored.load().error().code == layout::Errc::not_found);
}

TEST_CASE("the lineage survives a restart") {
    recorder::SessionState state = RunningSession::fresh_state();
    state.lineage = {"ROOT", "PARENT"};
    recorder::Step first;
    const recorder::Session session =
        recorder::Session::begin(std::move(state), std::nullopt, {1}, first);
    SessionScript script;
    script.apply(first);
    auto loaded = StoredSession(script).load();
    REQUIRE(loaded.ok());
    CHECK(loaded.value().lineage == std::vector<std::string>{"ROOT", "PARENT"});
}

}  // namespace relay::tests
