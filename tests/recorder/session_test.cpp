// SPDX-License-Identifier: Apache-2.0
#include "layout/sha256.hpp"
#include "recorder/session.hpp"
#include "tests/recorder/session_script.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace relay::tests {
namespace {

using Names = std::vector<std::string>;

constexpr std::size_t payload_bytes = 65536;

}  // namespace

TEST_CASE("a session begins with its claim and its first line and meta.json and the latest link") {
    RunningSession run;
    CHECK(
        run.script.effects
        == Names{"create", "append events.jsonl", "replace_synced meta.json", "link_latest"});
    CHECK(run.script.claim.owner == "1 2 3");
    CHECK(run.first.seq == 0);
    CHECK(
        run.first.fields
        == "\"slug\":\"270115-quiet-harbor\",\"path\":\"/repo/.agent-relay/sessions/"
           "01J9X3M7K5VBHQEN6T2F4D8RPZ\"");
    const auto line = run.script.timeline().at(0);
    CHECK(line.at("seq") == 0);
    CHECK(line.at("type") == "session.start");
    CHECK(line.at("agent") == "codex");
    CHECK(line.at("command").size() == 2);
    CHECK(run.script.json("meta.json").at("status") == "active");
    CHECK_FALSE(run.session.claim().create);
}

TEST_CASE("an ephemeral session leaves the latest link alone") {
    RunningSession run(std::nullopt, /*ephemeral=*/true);
    CHECK(run.script.effects == Names{"create", "append events.jsonl", "replace_synced meta.json"});
}

TEST_CASE("client and timeline count alike whether the client counts session.start or not") {
    RunningSession counted(1);
    CHECK(counted.first.seq == 1);
    CHECK(counted.script.timeline().at(0).at("seq") == 1);
    counted.tell(prompt("p"), 2);
    CHECK(counted.script.timeline().at(1).at("seq") == 2);
    CHECK_FALSE(counted.script.timeline().at(1).contains("client_seq"));

    RunningSession uncounted;
    uncounted.tell(prompt("p"), 1);
    CHECK(uncounted.script.timeline().at(1).at("seq") == 1);

    CHECK_FALSE(recorder::Session::refuse_first_seq(1).has_value());
    CHECK_FALSE(recorder::Session::refuse_first_seq(std::nullopt).has_value());
    CHECK(recorder::Session::refuse_first_seq(2)->code == layout::WireError::seq_gap);
}

TEST_CASE("a turn starts with its prompt and an empty output and leaves meta.json for later") {
    RunningSession run;
    const recorder::Step step = run.tell(prompt("fix\nthe bug"));
    CHECK(step.turn == 1);
    CHECK(
        run.script.effects
        == Names{
            "replace turns/001-prompt.md", "append turns/001-output.md", "append events.jsonl"});
    CHECK(run.script.files.at("turns/001-prompt.md") == "fix\nthe bug");
    CHECK(run.script.files.at("turns/001-output.md").empty());
    CHECK(run.session.meta_lags());
    CHECK(run.session.open_turn() == 1);
    CHECK(run.session.meta().objective == "fix\nthe bug");
    CHECK(run.session.meta().preview == "fix the bug");
    CHECK(run.session.meta().current_turn == 1);
    const auto line = run.script.timeline().back();
    CHECK(line.at("prompt").at("sha256") == layout::sha256_hex("fix\nthe bug"));
    CHECK(line.at("prompt").at("bytes") == 11);
}

TEST_CASE("output costs one append and its runs reach the timeline joined") {
    RunningSession run;
    run.tell(prompt("p"));
    run.tell(output("one "));
    CHECK(run.script.effects == Names{"append turns/001-output.md"});
    run.tell(output("two "));
    CHECK(run.script.effects == Names{"append turns/001-output.md"});
    CHECK(run.session.timeline_lags());
    run.tell(errors("oops"));
    CHECK(run.script.effects == Names{"append events.jsonl", "append turns/001-stderr.log"});
    run.tell(output("hm", layout::Channel::reasoning));
    run.tell(output("so"));
    run.took(run.session.catch_up_timeline({run.now_ms}));
    CHECK_FALSE(run.session.timeline_lags());
    CHECK(run.session.catch_up_timeline({run.now_ms}).change.empty());

    const auto lines = run.script.timeline();
    REQUIRE(lines.size() == 6);
    CHECK(lines[2].at("type") == "turn.output");
    CHECK(lines[2].at("offset") == 0);
    CHECK(lines[2].at("bytes") == 8);
    CHECK(lines[2].at("seq") == 3);
    CHECK(lines[3].at("type") == "turn.stderr");
    CHECK(lines[3].at("seq") == 4);
    CHECK(lines[4].at("channel") == "reasoning");
    CHECK(lines[4].at("offset") == 8);
    CHECK(lines[5].at("offset") == 10);
    CHECK_FALSE(lines[5].contains("channel"));
    CHECK(run.script.files.at("turns/001-output.md") == "one two hmso");
}

TEST_CASE("an empty text is an event that adds nothing and makes no stderr.log") {
    RunningSession run;
    run.tell(prompt("p"));
    const recorder::Step step = run.tell(errors(""), 1);
    CHECK(step.seq == 1);
    CHECK(run.script.header.client_seq == 1);
    CHECK(run.script.effects == Names{"append turns/001-output.md"});
    run.tell(layout::TurnEnd{});
    CHECK_FALSE(run.script.files.contains("turns/001-stderr.log"));
    CHECK(run.script.json("turns/001-state.json").at("stderr").is_null());
    CHECK(run.script.timeline().at(2).at("bytes") == 0);
}

TEST_CASE("the end of a turn settles its files and then seals it and then meta.json says so") {
    RunningSession run;
    run.tell(prompt("p"));
    run.tell(output("answer"));
    run.tell(errors("warning"));
    layout::TurnEnd end;
    end.diff = "--- a\n";
    end.tokens.emplace().input = 10;
    end.cost_usd = 0.5;
    end.stop_reason = "end_turn";
    const recorder::Step step = run.tell(end);
    CHECK(step.turn == 1);
    CHECK(
        run.script.effects
        == Names{
            "append events.jsonl",
            "replace turns/001-diff.patch",
            "settle turns/001-prompt.md",
            "settle turns/001-output.md",
            "settle turns/001-stderr.log",
            "settle turns/001-diff.patch",
            "replace_synced turns/001-state.json",
            "replace_synced meta.json"});
    const auto state = run.script.json("turns/001-state.json");
    CHECK(state.at("status") == "completed");
    CHECK(state.at("duration_ms") == 3000);
    CHECK(state.at("output").at("sha256") == layout::sha256_hex("answer"));
    CHECK(state.at("stderr").at("bytes") == 7);
    CHECK(state.at("diff").at("sha256") == layout::sha256_hex("--- a\n"));
    const auto meta = run.script.json("meta.json");
    CHECK(meta.at("turn_count") == 1);
    CHECK(meta.at("current_turn").is_null());
    CHECK(meta.at("tokens").at("input") == 10);
    CHECK(meta.at("tokens").at("output").is_null());
    CHECK(meta.at("cost_usd") == 0.5);
    CHECK(meta.at("chain") == state.at("chain"));
    CHECK_FALSE(run.session.meta_lags());
    CHECK(run.session.open_turn() == 0);
    CHECK(
        run.script.types()
        == Names{"session.start", "turn.start", "turn.output", "turn.stderr", "turn.end"});
}

TEST_CASE("seals are chained and totals are sums over turns") {
    RunningSession run;
    std::string previous(layout::chain_origin);
    for (const char* turn : {"turns/001-state.json", "turns/002-state.json"}) {
        run.tell(prompt("p"));
        layout::TurnEnd end;
        end.cost_usd = 0.25;
        run.tell(end);
        const auto check = layout::check_chain(run.script.files.at(turn), previous);
        REQUIRE(check.ok());
        CHECK(check.value().stated == check.value().computed);
        previous = check.value().stated;
    }
    CHECK(run.session.meta().cost_usd == 0.5);
    CHECK(run.session.meta().chain == previous);
}

TEST_CASE("a failing exit code makes the turn failed and leaves an observed blocker") {
    RunningSession run;
    run.tell(prompt("p"));
    layout::TurnEnd end;
    end.exit_code = 2;
    run.tell(end);
    const auto state = run.script.json("turns/001-state.json");
    CHECK(state.at("status") == "failed");
    CHECK(state.at("blockers").at(0).at("source") == "observed");
    CHECK(state.at("blockers").at(0).at("summary") == "exit code 2");
    CHECK(state.at("blockers").at(0).at("turn") == 1);

    run.tell(prompt("p"));
    layout::TurnEnd broken;
    broken.error = "the model\nhung up";
    run.tell(broken);
    const auto second = run.script.json("turns/002-state.json");
    CHECK(second.at("status") == "failed");
    CHECK(second.at("blockers").at(0).at("summary") == "the model hung up");
    CHECK(second.at("blockers").at(0).at("id") == "b2");
}

TEST_CASE("the exit code of an agent that was told to end blocks nobody") {
    RunningSession run;
    run.tell(prompt("p"));
    layout::TurnEnd told;
    told.status = "interrupted";
    told.exit_code = 130;
    run.tell(told);
    const auto state = run.script.json("turns/001-state.json");
    CHECK(state.at("exit_code") == 130);
    CHECK(state.at("blockers").empty());
}

TEST_CASE("a new prompt seals the open turn as superseded in the same change") {
    RunningSession run;
    run.tell(prompt("first"), 1);
    run.tell(output("half"), 2);
    const recorder::Step step = run.tell(prompt("second"), 3);
    CHECK(step.turn == 2);
    CHECK(step.seq == 3);
    CHECK(
        run.script.effects
        == Names{
            "settle turns/001-prompt.md",
            "settle turns/001-output.md",
            "replace_synced turns/001-state.json",
            "replace turns/002-prompt.md",
            "append turns/002-output.md",
            "append events.jsonl",
            "replace_synced meta.json"});
    const auto state = run.script.json("turns/001-state.json");
    CHECK(state.at("status") == "interrupted");
    CHECK(state.at("stop_reason") == "superseded");
    CHECK(run.script.json("meta.json").at("current_turn") == 2);
    CHECK(run.session.meta().objective == "first");
    const auto lines = run.script.timeline();
    CHECK(lines.back().at("seq") == 4);
    CHECK(lines.back().at("client_seq") == 3);
    CHECK(lines.at(lines.size() - 2).at("type") == "turn.end");
    CHECK(run.script.header.event_seq == 4);
    CHECK(run.script.header.client_seq == 3);
}

TEST_CASE("a repeated seq is a duplicate before any other rule and records nothing") {
    RunningSession run;
    run.tell(prompt("p"), 1);
    run.tell(layout::TurnEnd{}, 2);
    const recorder::Step again = run.tell(layout::TurnEnd{}, 2);
    CHECK(again.duplicate);
    CHECK(again.seq == 2);
    CHECK(again.change.empty());
    run.tell(layout::SessionEnd{}, 3);
    CHECK(run.tell(prompt("p"), 1).duplicate);
}

TEST_CASE("a gap in the seq is refused and says which one is next") {
    RunningSession run;
    run.tell(prompt("p"), 1);
    const layout::Refusal refusal = run.refused(output("x"), 3);
    CHECK(refusal.code == layout::WireError::seq_gap);
    CHECK(refusal.id == "7");
    CHECK(refusal.message.find("the next one is 2") != std::string::npos);
    run.tell(output("x"), 2);
}

TEST_CASE("a refused event uses up no seq and changes nothing") {
    RunningSession run;
    CHECK(run.refused(output("x"), 1).code == layout::WireError::no_open_turn);
    CHECK(run.refused(layout::TurnEnd{}, 1).code == layout::WireError::no_open_turn);
    CHECK(run.refused(tool("t", "ok"), 1).code == layout::WireError::no_open_turn);
    CHECK(run.refused(note("decision", "[1]"), 1).code == layout::WireError::bad_field);
    CHECK(run.session.last_client_seq() == 0);
    CHECK(run.session.last_event_seq() == 0);
    run.tell(prompt("p"), 1);
    CHECK(run.session.last_client_seq() == 1);
}

TEST_CASE("an ended session takes no turns and no attachments and says how to go on") {
    for (const bool completed : {true, false}) {
        RunningSession run;
        if (completed) {
            run.tell(layout::SessionEnd{});
        } else {
            run.tell(checkpoint("manual"));
        }
        for (const layout::EventBody& body :
             {layout::EventBody(prompt("p")),
              layout::EventBody(output("x")),
              layout::EventBody(note("other", "1")),
              layout::EventBody(tool("t", "ok")),
              layout::EventBody(layout::SessionAttachment{.name = "a", .bytes = "b"})}) {
            const layout::Refusal refusal = run.refused(body);
            CHECK(refusal.code == layout::WireError::ended);
            CHECK(refusal.message.find("reopen") != std::string::npos);
            CHECK(
                refusal.message.find(completed ? "completed" : "checkpointed")
                != std::string::npos);
        }
        layout::SessionUpdate update;
        update.flagged = true;
        run.tell(update);
        CHECK(run.script.json("meta.json").at("flagged") == true);
    }
}

TEST_CASE("tool calls are completed by their id and timed") {
    RunningSession run;
    run.tell(prompt("p"));
    run.tell(tool("a", "started"));
    run.tell(tool("b", "started"));
    layout::TurnTool done = tool("a", "ok");
    done.summary = "3 files";
    done.input = {"{\"x\":1}"};
    done.output = {"\"" + std::string(payload_bytes, 'x') + "\""};
    run.tell(done);
    run.tell(tool("unseen", "error"));
    run.tell(layout::TurnEnd{});
    const auto tools = run.script.json("turns/001-state.json").at("tools");
    REQUIRE(tools.size() == 3);
    CHECK(tools[0].at("status") == "ok");
    CHECK(tools[0].at("duration_ms") == 2000);
    CHECK(tools[0].at("summary") == "3 files");
    CHECK(tools[1].at("status") == "started");
    CHECK(tools[2].at("status") == "error");
    CHECK(tools[2].at("duration_ms").is_null());
    const auto line = run.script.timeline().at(4);
    CHECK(line.at("input").at("x") == 1);
    CHECK(line.at("output").at("omitted") == true);
    CHECK(line.at("output").at("bytes") == payload_bytes + 2);
}

TEST_CASE("a turn keeps a bounded number of tools in its seal and all of them in the timeline") {
    RunningSession run;
    run.tell(prompt("p"));
    for (std::size_t call = 0; call < recorder::turn_tools_max + 5; ++call) {
        run.took(std::get<recorder::Step>(run.send(tool(std::to_string(call), "started"))));
    }
    run.tell(layout::TurnEnd{});
    CHECK(run.script.json("turns/001-state.json").at("tools").size() == recorder::turn_tools_max);
    CHECK(run.script.timeline().size() == recorder::turn_tools_max + 8);
}

TEST_CASE("a turn keeps a bounded number of bytes of tools and notes in its seal") {
    RunningSession run;
    run.tell(prompt("p"));
    const std::string long_text(60'000, 'x');
    for (int round = 0; round < 60; ++round) {
        layout::TurnTool call = tool(std::to_string(round), "started");
        call.summary = long_text;
        run.tell(call);
        run.tell(note("blocker", "\"" + long_text + "\""));
    }
    run.tell(layout::TurnEnd{});
    const std::size_t bytes = run.script.files.at("turns/001-state.json").size();
    CHECK(bytes < recorder::turn_detail_bytes_max + 16'384);
    CHECK(bytes > recorder::turn_detail_bytes_max - 131'072);
}

TEST_CASE("notes of the known kinds reach the seal with id and source and turn") {
    RunningSession run;
    run.tell(prompt("p"));
    run.tell(note("decision", "\"use ULIDs\""));
    run.tell(note("decision", R"({"why":"speed","summary":"no regex","source":"observed"})"));
    run.tell(note("decision", R"({"id":"mine","summary":"x","source":"inferred"})"));
    run.tell(note("blocker", R"({"summary":"no network"})"));
    run.tell(note("validation", R"({"tests":"red","lint":"clean"})"));
    run.tell(note("validation", R"({"tests":"green"})"));
    run.tell(note("file", R"({"path":"a.cpp","status":"added","added":3})"));
    run.tell(note("file", "\"b.cpp\""));
    run.tell(note("next", R"({"task":"write the docs"})"));
    run.tell(note("compaction", R"({"before":9,"after":2})"));
    layout::TurnEnd end;
    end.files = {R"([{"path":"a.cpp","status":"deleted"},{"path":"c.cpp","status":"added"}])"};
    end.validation = {R"({"lint":"dirty"})"};
    run.tell(end);

    const auto state = run.script.json("turns/001-state.json");
    const auto& decisions = state.at("decisions");
    REQUIRE(decisions.size() == 3);
    CHECK(
        decisions[0].dump() == R"({"id":"d1","summary":"use ULIDs","source":"declared","turn":1})");
    CHECK(decisions[1].at("id") == "d2");
    CHECK(decisions[1].at("source") == "declared");
    CHECK(decisions[2].at("id") == "mine");
    CHECK(decisions[2].at("source") == "inferred");
    CHECK(state.at("blockers").at(0).at("id") == "b1");
    CHECK(state.at("validation").dump() == R"({"lint":"dirty","tests":"green"})");
    REQUIRE(state.at("files").size() == 3);
    CHECK(state.at("files")[0].at("status") == "deleted");
    CHECK(state.at("files")[1].at("path") == "b.cpp");
    CHECK(state.at("next_task") == "write the docs");
    const auto lines = run.script.timeline();
    CHECK(lines.at(2).at("payload").at("id") == "d1");
    CHECK(lines.at(11).at("kind") == "compaction");
    CHECK(lines.at(11).at("payload").at("after") == 2);
}

TEST_CASE("a note between turns is kept for the packet under the last turn") {
    RunningSession run;
    run.tell(prompt("p"));
    run.tell(layout::TurnEnd{});
    const recorder::Step step = run.tell(note("decision", "\"stop here\""));
    CHECK(step.turn == 1);
    run.tell(note("next", "\"ship it\""));
    run.tell(note("anything", "null"));
    run.tell(checkpoint("manual"));
    const auto packet = run.script.json("resume.json");
    CHECK(packet.at("decisions").at(0).at("summary") == "stop here");
    CHECK(packet.at("decisions").at(0).at("turn") == 1);
    CHECK(packet.at("next_task") == "ship it");
}

TEST_CASE("a note of a known kind with a payload it cannot have is refused with the right form") {
    RunningSession run;
    run.tell(prompt("p"));
    struct Example {
        std::string kind;
        std::string payload;
    };
    for (const Example& example : std::vector<Example>{
             {"decision", ""},
             {"blocker", "7"},
             {"validation", "\"green\""},
             {"file", R"({"status":"added"})"},
             {"next", "{}"},
             {"decision", "\"" + std::string(70'000, 'x') + "\""}}) {
        CAPTURE(example.kind);
        const layout::Refusal refusal = run.refused(note(example.kind, example.payload));
        CHECK(refusal.code == layout::WireError::bad_field);
        CHECK(refusal.message.find("payload") != std::string::npos);
    }
}

TEST_CASE("an update touches what it names and nulls clear") {
    RunningSession run;
    layout::SessionUpdate update;
    update.name.emplace("night run");
    update.labels = Names{"bug"};
    update.unread = true;
    run.tell(update);
    CHECK(run.script.effects == Names{"append events.jsonl", "replace_synced meta.json"});
    CHECK(run.script.timeline().back().at("fields") == Names{"name", "labels", "unread"});
    auto meta = run.script.json("meta.json");
    CHECK(meta.at("name") == "night run");
    CHECK(meta.at("labels").at(0) == "bug");
    CHECK(meta.at("unread") == true);
    layout::SessionUpdate clear;
    clear.name.emplace(std::nullopt);
    run.tell(clear);
    meta = run.script.json("meta.json");
    CHECK(meta.at("name").is_null());
    CHECK(meta.at("unread") == true);
}

TEST_CASE("attachments get a name of their own and bad names are refused") {
    RunningSession run;
    const recorder::Step one = run.tell(layout::SessionAttachment{.name = "a.png", .bytes = "1"});
    CHECK(one.fields == R"("file":"attachments/a.png")");
    run.tell(layout::SessionAttachment{.name = "a.png", .bytes = "2"});
    const recorder::Step three = run.tell(layout::SessionAttachment{.name = "a.png", .bytes = "3"});
    CHECK(three.fields == R"("file":"attachments/a-3.png")");
    CHECK(run.script.files.at("attachments/a-2.png") == "2");
    CHECK(run.script.effects == Names{"replace_synced attachments/a-3.png", "append events.jsonl"});
    CHECK(run.script.timeline().back().at("sha256") == layout::sha256_hex("3"));
    const layout::Refusal refusal =
        run.refused(layout::SessionAttachment{.name = "../x", .bytes = ""});
    CHECK(refusal.code == layout::WireError::bad_field);

    const std::string longest(255, 'n');
    run.tell(layout::SessionAttachment{.name = longest, .bytes = "1"});
    run.tell(layout::SessionAttachment{.name = longest, .bytes = "2"});
    CHECK(run.script.files.contains("attachments/" + std::string(253, 'n') + "-2"));
}

TEST_CASE("a checkpoint seals the turn and writes the packet before meta.json names it") {
    RunningSession run;
    run.tell(prompt("p"));
    run.tell(output("so far"));
    layout::SessionCheckpoint body = checkpoint("rate_limit");
    body.decisions = {R"([{"summary":"one"},{"summary":"two"}])"};
    body.blockers = {R"([{"summary":"quota"}])"};
    body.validation_state = {R"({"tests":"green"})"};
    body.next_task = "go on";
    body.limit = {R"({"kind":"usage","resets_at":"2027-01-15T09:00:00.000Z"})"};
    const recorder::Step step = run.tell(body);
    CHECK(step.turn == 1);
    CHECK(
        run.script.effects
        == Names{
            "append events.jsonl",
            "settle turns/001-prompt.md",
            "settle turns/001-output.md",
            "replace_synced turns/001-state.json",
            "replace_synced resume.json",
            "replace_synced meta.json"});
    const auto state = run.script.json("turns/001-state.json");
    CHECK(state.at("status") == "interrupted");
    CHECK(state.at("stop_reason") == "rate_limit");
    CHECK(state.at("limit").at("kind") == "usage");
    const auto meta = run.script.json("meta.json");
    CHECK(meta.at("status") == "checkpointed");
    CHECK(meta.at("checkpoint_reason") == "rate_limit");
    CHECK(meta.at("ended_at").is_string());
    const auto packet = run.script.json("resume.json");
    CHECK(packet.at("turn_count") == 1);
    CHECK(packet.at("decisions").at(1).at("id") == "d2");
    CHECK(packet.at("blockers").at(0).at("source") == "declared");
    CHECK(packet.at("validation_state").at("tests").at("value") == "green");
    CHECK(packet.at("next_task") == "go on");
    CHECK(packet.at("limit").at("kind") == "usage");
    CHECK(packet.at("last_turn").at("output_tail") == "so far");
    CHECK(
        run.script.types()
        == Names{"session.start", "turn.start", "turn.output", "turn.end", "session.checkpoint"});
}

TEST_CASE("a second checkpoint needs force and then rewrites the packet") {
    RunningSession run;
    run.tell(checkpoint("manual"));
    const std::optional<layout::Timestamp> ended_at = run.session.meta().ended_at;
    const layout::Refusal refusal = run.refused(checkpoint("again"));
    CHECK(refusal.code == layout::WireError::ended);
    CHECK(refusal.message.find("force") != std::string::npos);
    layout::SessionCheckpoint forced = checkpoint("again");
    forced.force = true;
    forced.next_task = "later";
    run.tell(forced);
    CHECK(run.script.json("resume.json").at("checkpoint_reason") == "again");
    CHECK(run.session.meta().ended_at == ended_at);
    CHECK(run.script.json("resume.json").at("next_task") == "later");
    run.tell(layout::SessionEnd{});
    CHECK(run.refused(forced).code == layout::WireError::ended);
}

TEST_CASE("the end of a session seals its turn and takes the packet away after meta.json") {
    RunningSession run;
    run.tell(prompt("p"));
    layout::SessionEnd end;
    end.exit_code = 3;
    run.tell(end);
    CHECK(run.script.json("turns/001-state.json").at("status") == "failed");
    CHECK(run.script.json("meta.json").at("exit_code") == 3);
    CHECK(run.script.json("meta.json").at("status") == "completed");
    CHECK(run.refused(end).code == layout::WireError::ended);

    RunningSession stopped;
    stopped.tell(checkpoint("manual"));
    stopped.tell(layout::SessionEnd{});
    CHECK(
        stopped.script.effects
        == Names{"append events.jsonl", "replace_synced meta.json", "remove resume.json"});
    CHECK(stopped.script.json("meta.json").at("checkpoint_reason").is_null());
}

TEST_CASE("a new owner reads where the session stands") {
    RunningSession run;
    run.tell(prompt("p"), 1);
    const recorder::StepResult result = run.session.attach({}, "9 9 9", 42, {run.now_ms});
    const recorder::Step step = run.took(std::get<recorder::Step>(result));
    CHECK(step.fields == R"("last_seq":1,"turn":1,"status":"active")");
    CHECK(step.turn == 0);
    CHECK(run.script.effects == Names{"claim", "append events.jsonl"});
    CHECK(run.script.claim.owner == "9 9 9");
    CHECK(run.session.meta().pid == 42);
    CHECK(run.session.meta_lags());
    run.tell(output("x"), 2);
    run.took(run.session.catch_up_meta({run.now_ms}));
    CHECK(run.script.timeline().back().at("seq") == 3);
}

TEST_CASE("an ended session is reopened only on request and loses its packet then") {
    RunningSession run;
    run.tell(prompt("p"));
    run.tell(checkpoint("manual"));
    CHECK(
        std::get<layout::Refusal>(run.session.attach({}, "o", std::nullopt, {run.now_ms})).code
        == layout::WireError::ended);
    const layout::SessionAttach reopen{.reopen = true, .pid = std::nullopt};
    const recorder::Step step =
        run.took(std::get<recorder::Step>(run.session.attach(reopen, "o", {}, {run.now_ms})));
    CHECK(
        run.script.effects
        == Names{"claim", "append events.jsonl", "replace_synced meta.json", "remove resume.json"});
    CHECK(step.fields == R"("last_seq":0,"turn":null,"status":"active")");
    const auto meta = run.script.json("meta.json");
    CHECK(meta.at("status") == "active");
    CHECK(meta.at("ended_at").is_null());
    CHECK(meta.at("checkpoint_reason").is_null());
    CHECK(run.script.timeline().back().at("reopen") == true);
    CHECK(run.tell(prompt("again")).turn == 2);
}

TEST_CASE("a lost owner leaves an interrupted turn and a packet") {
    RunningSession run;
    run.tell(prompt("p"), 1);
    run.tell(output("half a sent"), 2);
    run.took(run.session.abandon("crash", {run.now_ms}));
    CHECK(run.script.json("turns/001-state.json").at("status") == "interrupted");
    CHECK(run.script.json("turns/001-state.json").at("stop_reason") == "crash");
    CHECK(run.script.json("meta.json").at("checkpoint_reason") == "crash");
    CHECK_FALSE(run.script.json("resume.json").contains("next_task"));
    CHECK(run.session.last_client_seq() == 2);
    CHECK(run.session.abandon("crash", {run.now_ms}).change.empty());
}

TEST_CASE("meta.json catches up once and is then left alone") {
    RunningSession run;
    run.tell(prompt("p"), 1);
    run.tell(output("x"), 2);
    run.took(run.session.catch_up_meta({run.now_ms}));
    CHECK(run.script.effects == Names{"append events.jsonl", "replace_synced meta.json"});
    const auto capture = run.script.json("meta.json").at("capture");
    CHECK(capture.at("last_seq") == 2);
    CHECK(run.script.json("meta.json").at("current_turn") == 1);
    CHECK_FALSE(run.session.meta_lags());
    CHECK(run.session.catch_up_meta({run.now_ms}).change.empty());
    run.tell(output("y"), 3);
    CHECK(run.session.meta_lags());
}

TEST_CASE("conflicts and deferrals and gaps stand in meta.json and the timeline") {
    RunningSession run;
    run.took(run.session.note_conflict("events.jsonl", "recovered/events.jsonl", {run.now_ms}));
    run.took(run.session.note_conflict("events.jsonl", "recovered/events.jsonl", {run.now_ms}));
    run.took(run.session.note_deferral({{run.now_ms}, {run.now_ms + 5}, "full"}, {run.now_ms}));
    run.took(run.session.note_gap({run.now_ms}));
    const auto capture = run.script.json("meta.json").at("capture");
    CHECK(capture.at("conflicts").size() == 1);
    CHECK(capture.at("deferred").at("reason") == "full");
    CHECK(capture.at("gaps") == 1);
    CHECK(
        run.script.types()
        == Names{
            "session.start",
            "recorder.conflict",
            "recorder.conflict",
            "recorder.deferred",
            "recorder.gap"});
    CHECK(run.session.last_event_seq() == 4);
}

TEST_CASE("the quoted end of a long output begins and ends with whole characters") {
    RunningSession run;
    run.tell(prompt("p"));
    std::string all;
    for (int chunk = 0; chunk < 700; ++chunk) {
        const std::string text = "ab€" + std::to_string(chunk);
        run.tell(output(text));
        all += text;
    }
    run.tell(output("\xe2\x82"));
    run.tell(checkpoint("manual"));
    const auto packet = run.script.json("resume.json");
    const auto tail = packet.at("last_turn").at("output_tail").get<std::string>();
    CHECK(tail.size() <= recorder::output_tail_bytes_max);
    CHECK(tail.size() > recorder::output_tail_bytes_max - 8);
    CHECK(tail.ends_with("699\xef\xbf\xbd"));
    CHECK(all.find(tail.substr(0, 1000)) != std::string::npos);
}

}  // namespace relay::tests
