// SPDX-License-Identifier: Apache-2.0
#include "recorder/notes.hpp"
#include "recorder/resume_builder.hpp"
#include "tests/recorder/session_script.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <string>

namespace relay::tests {

TEST_CASE("the packet names its lineage with the session itself last") {
    layout::Meta meta = RunningSession::fresh_state().meta;
    meta.checkpoint_reason = "manual";
    meta.repo = layout::Repo{"/repo", "main", "abc"};
    meta.objective = "the task";
    const layout::ResumePacket packet = recorder::build_resume(meta, {}, {"ROOT", "PARENT"}, {5});
    CHECK(
        packet.lineage == std::vector<std::string>{"ROOT", "PARENT", "01J9X3M7K5VBHQEN6T2F4D8RPZ"});
    CHECK(packet.previous_agent == "codex");
    CHECK(packet.checkpoint_reason == "manual");
    CHECK(packet.working_tree == meta.repo);
    CHECK(packet.objective == "the task");
    CHECK(packet.created_at.ms == 5);
    CHECK(packet.decisions.text == "[]");
    CHECK(packet.touched_files.text == "[]");
    CHECK(packet.validation_state.text == "{}");
    CHECK_FALSE(packet.next_task.has_value());
    CHECK_FALSE(packet.last_turn.has_value());
}

TEST_CASE("the packet holds the newest twelve decisions and the newest word on an id") {
    RunningSession run;
    for (int turn = 1; turn <= 5; ++turn) {
        run.tell(prompt("p"));
        for (int decision = 0; decision < 3; ++decision) {
            run.tell(note("decision", "\"turn " + std::to_string(turn) + "\""));
        }
        run.tell(note("blocker", R"({"id":"net","summary":")" + std::to_string(turn) + "\"}"));
        run.tell(layout::TurnEnd{});
    }
    run.tell(checkpoint("manual"));
    const auto packet = run.script.json("resume.json");
    REQUIRE(packet.at("decisions").size() == recorder::max_decisions);
    CHECK(packet.at("decisions").front().at("id") == "d4");
    CHECK(packet.at("decisions").front().at("turn") == 2);
    CHECK(packet.at("decisions").back().at("id") == "d15");
    REQUIRE(packet.at("blockers").size() == 1);
    CHECK(packet.at("blockers")[0].at("summary") == "5");
}

TEST_CASE("the packet says of the work tree what the last turn that told has said") {
    layout::Meta meta = RunningSession::fresh_state().meta;
    meta.repo = layout::Repo{"/repo", "main", "abc"};
    recorder::Knowledge knowledge;
    const auto after_turn = [&](std::optional<bool> told) {
        layout::TurnState state;
        state.dirty = told;
        recorder::absorb(state, knowledge);
        return recorder::build_resume(meta, knowledge, {}, {5}).dirty;
    };
    CHECK_FALSE(after_turn(std::nullopt).has_value());
    CHECK(after_turn(true) == true);
    CHECK(after_turn(std::nullopt) == true);
    CHECK(after_turn(false) == false);
}

TEST_CASE("the packet gathers files and validation over the turns") {
    RunningSession run;
    run.tell(prompt("p"));
    layout::TurnEnd first;
    first.files = {R"([{"path":"b","status":"added"},{"path":"a"}])"};
    first.validation = {R"({"tests":"red","lint":"clean"})"};
    first.limit = {R"({"kind":"usage"})"};
    first.next_task = "mend";
    run.tell(first);
    run.tell(prompt("p"));
    layout::TurnEnd second;
    second.files = {R"([{"path":"b","status":"deleted"}])"};
    second.validation = {R"({"tests":"green"})"};
    run.tell(second);
    run.tell(checkpoint("manual"));
    const auto packet = run.script.json("resume.json");
    CHECK(
        packet.at("touched_files").dump()
        == R"([{"path":"a","status":"modified"},{"path":"b","status":"deleted"}])");
    const auto& validation = packet.at("validation_state");
    CHECK(validation.at("tests").dump() == R"({"value":"green","source":"declared","turn":2})");
    CHECK(validation.at("lint").at("turn") == 1);
    CHECK(packet.at("next_task") == "mend");
    CHECK(packet.at("limit").is_null());
    CHECK(packet.at("last_turn").at("turn") == 2);
    CHECK(packet.at("last_turn").at("output_file") == "turns/002-output.md");
}

}  // namespace relay::tests
