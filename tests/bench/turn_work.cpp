// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/turn_work.hpp"

#include <nlohmann/json.hpp>

namespace relay::tests {

namespace {

using Json = nlohmann::json;

std::string text_member(std::string_view key, std::size_t bytes) {
    return "\"" + std::string(key) + "\":" + Json(filler(bytes - 1) + "\n").dump() + "}";
}

std::string state_members() {
    Json files = Json::array();
    for (int index = 0; index < 4; ++index) {
        files.push_back(
            {{"path", "recorder/some_file_" + std::to_string(index) + ".cpp"},
             {"operation", "modified"},
             {"lines_added", 10 + index},
             {"lines_removed", index}});
    }
    Json fields{
        {"status", "completed"},
        {"stop_reason", "end_turn"},
        {"tokens", {{"input", 1200}, {"output", 340}, {"cache_read", 9000}, {"cache_write", 10}}},
        {"cost_usd", 0.0123},
        {"files", files},
        {"validation", {{"command", "ctest"}, {"passed", true}}}};
    const std::size_t rest = fields.dump().size() + std::string_view(R"(,"next_task":"")").size();
    fields["next_task"] = filler(state_bytes > rest ? state_bytes - rest : 1);
    return fields.dump().substr(1);
}

}  // namespace

std::string filler(std::size_t bytes) {
    constexpr std::string_view words =
        "the quick brown agent edits one file after another and tells us so; ";
    std::string text;
    while (text.size() < bytes) {
        text += words.substr(0, bytes - text.size());
    }
    return text;
}

std::string_view type_of(Step step) {
    switch (step) {
    case Step::prompt:
        return "turn.start";
    case Step::chunk:
        return "turn.output";
    case Step::standard_error:
        return "turn.stderr";
    case Step::end:
        break;
    }
    return "turn.end";
}

std::string members_of(Step step) {
    switch (step) {
    case Step::prompt:
        return text_member("prompt", prompt_bytes);
    case Step::chunk:
        return text_member("text", chunk_bytes);
    case Step::standard_error:
        return text_member("text", stderr_bytes);
    case Step::end:
        break;
    }
    return state_members();
}

Step TurnCursor::next() {
    switch (step_) {
    case Step::end:
        step_ = Step::prompt;
        break;
    case Step::prompt:
        step_ = Step::chunk;
        break;
    case Step::chunk:
        if (++chunks_ >= chunks_a_turn) {
            chunks_ = 0;
            step_ = Step::standard_error;
        }
        break;
    case Step::standard_error:
        step_ = Step::end;
        break;
    }
    return step_;
}

}  // namespace relay::tests
