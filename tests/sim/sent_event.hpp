// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/event.hpp"

#include <optional>
#include <string>

namespace relay::tests {

// An event as its client keeps it until it is acknowledged, and longer: it may have to be sent again.
struct Sent {
    enum class Kind {
        start,
        turn,
        output,
        stderr_log,
        note,
        tool,
        end_turn,
        update,
        attachment,
        checkpoint,
        end,
    };
    Kind kind = Kind::start;
    std::string text;  // unique among all events of the run
    bool flag = false;
};

// The event for the wire. Its views point into `sent`.
inline layout::EventBody body_of(const Sent& sent) {
    switch (sent.kind) {
    case Sent::Kind::turn:
        return layout::TurnStart{.prompt = sent.text, .model = std::nullopt};
    case Sent::Kind::output:
    case Sent::Kind::stderr_log: {
        layout::TurnBytes bytes;
        bytes.stream =
            sent.kind == Sent::Kind::output ? layout::Stream::output : layout::Stream::stderr_log;
        bytes.channel = sent.flag ? layout::Channel::reasoning : layout::Channel::text;
        bytes.bytes = sent.text;
        return bytes;
    }
    case Sent::Kind::note:
        return layout::TurnNote{
            .kind = sent.flag ? "decision" : "remark",
            .payload = {R"({"summary":")" + sent.text + R"("})"}};
    case Sent::Kind::tool: {
        layout::TurnTool tool;
        tool.tool_id = sent.text;
        tool.name = "bash";
        tool.status = sent.flag ? "ok" : "started";
        return tool;
    }
    case Sent::Kind::end_turn: {
        layout::TurnEnd end;
        end.next_task = sent.text;
        if (sent.flag) {
            end.diff = sent.text;
        }
        return end;
    }
    case Sent::Kind::update: {
        layout::SessionUpdate update;
        update.name = sent.text;
        return update;
    }
    case Sent::Kind::attachment:
        return layout::SessionAttachment{.name = "a.txt", .bytes = sent.text};
    case Sent::Kind::checkpoint: {
        layout::SessionCheckpoint checkpoint;
        checkpoint.reason = "manual";
        checkpoint.next_task = sent.text;
        checkpoint.force = true;
        return checkpoint;
    }
    case Sent::Kind::start:
    case Sent::Kind::end:
        break;
    }
    return layout::SessionEnd{};
}

}  // namespace relay::tests
