// SPDX-License-Identifier: Apache-2.0
#include "layout/event_redaction.hpp"

#include "layout/utf8.hpp"

#include <type_traits>
#include <utility>
#include <variant>

namespace relay::layout {

namespace {

class EventRedaction {
public:
    EventRedaction(const Redactor& redactor, RedactedEvent& result)
        : redactor_(redactor), result_(result) {}

    void operator()(SessionStart& body) {
        hide(body.agent, body.command, body.name, body.model, body.user, body.labels, body.extra);
    }
    void operator()(TurnStart& body) { hide(body.prompt, body.model); }
    void operator()(TurnTool& body) {
        hide(body.tool_id, body.name, body.summary, body.input, body.output);
    }
    void operator()(TurnNote& body) { hide(body.kind, body.payload); }
    void operator()(TurnEnd& body) {
        hide(
            body.stop_reason,
            body.files,
            body.validation,
            body.diff,
            body.next_task,
            body.limit,
            body.error,
            body.extra);
    }
    void operator()(SessionUpdate& body) {
        hide(body.name, body.model, body.stage, body.labels, body.extra);
    }
    void operator()(SessionAttachment& body) {
        hide(body.name);
        if (is_utf8(body.bytes)) {
            hide(body.bytes);
        }
    }
    void operator()(SessionCheckpoint& body) {
        hide(
            body.reason,
            body.decisions,
            body.blockers,
            body.validation_state,
            body.next_task,
            body.limit);
    }
    void operator()(SessionEnd& body) { hide(body.error); }

private:
    void hide_one(std::string& text) { static_cast<void>(redactor_.redact(text, result_.count)); }
    void hide_one(RawJson& json) {
        static_cast<void>(redactor_.redact_json(json.text, result_.count));
    }
    void hide_one(std::string_view& text) {
        std::string hidden;
        if (redactor_.judge({.text = text}, hidden, result_.count) == Redactor::Verdict::changed) {
            text = result_.texts.emplace_back(std::move(hidden));
        }
    }
    template<typename Text>
    void hide_one(std::vector<Text>& texts) {
        for (Text& text : texts) {
            hide_one(text);
        }
    }
    template<typename Text>
    void hide_one(std::optional<Text>& text) {
        if (text) {
            hide_one(*text);
        }
    }
    template<typename... Texts>
    void hide(Texts&... texts) {
        (hide_one(texts), ...);
    }

    const Redactor& redactor_;
    RedactedEvent& result_;
};

}  // namespace

std::optional<RedactedEvent> redact_event(const Redactor& redactor, const Event& event) {
    std::optional<RedactedEvent> result(std::in_place);
    result->event = event;
    EventRedaction redaction(redactor, *result);
    std::visit(
        [&redaction](auto& body) {
            if constexpr (requires { redaction(body); }) {
                redaction(body);
            }
        },
        result->event.body);
    if (result->count == 0) {
        result.reset();
    }
    return result;
}

}  // namespace relay::layout
