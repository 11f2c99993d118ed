// SPDX-License-Identifier: Apache-2.0
#include "recorder/resume_builder.hpp"

#include "layout/json_writer.hpp"
#include "recorder/notes.hpp"

namespace relay::recorder {

namespace {

std::string touched_files(const Knowledge& knowledge) {
    std::string text = "[";
    for (const auto& [path, status] : knowledge.touched_files) {
        if (text.size() > 1) {
            text += ',';
        }
        layout::JsonObject file(text, layout::JsonObject::Form::compact);
        file.string("path", path);
        file.string("status", status);
        file.finish();
    }
    text += ']';
    return text;
}

std::string validation_state(const Knowledge& knowledge) {
    std::string text;
    layout::JsonObject object(text, layout::JsonObject::Form::compact);
    for (const auto& [name, item] : knowledge.validation) {
        object.raw(name, item.text);
    }
    object.finish();
    return text;
}

}  // namespace

layout::ResumePacket build_resume(
    const layout::Meta& meta,
    const Knowledge& knowledge,
    const std::vector<std::string>& lineage,
    layout::Timestamp now) {
    layout::ResumePacket packet;
    packet.session_id = meta.id.text();
    packet.previous_agent = meta.agent;
    packet.checkpoint_reason = meta.checkpoint_reason.value_or(std::string());
    packet.turn_count = meta.turn_count;
    packet.decisions.text = join_items(knowledge.decisions);
    packet.blockers.text = join_items(knowledge.blockers);
    packet.touched_files.text = touched_files(knowledge);
    packet.validation_state.text = validation_state(knowledge);
    packet.next_task = knowledge.next_task;
    packet.created_at = now;
    packet.objective = meta.objective;
    packet.working_tree = meta.repo;
    packet.dirty = knowledge.dirty;
    packet.last_turn = knowledge.last_turn;
    packet.tokens = meta.tokens;
    packet.cost_usd = meta.cost_usd;
    packet.limit = knowledge.limit;
    packet.lineage = lineage;
    packet.lineage.push_back(packet.session_id);
    return packet;
}

}  // namespace relay::recorder
