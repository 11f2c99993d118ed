// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/journal_change.hpp"
#include "layout/session_paths.hpp"
#include "recorder/session.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace relay::tests {

// The files of a session as its changes leave them, in memory. Checks that every append continues its
// file exactly.
class SessionScript {
public:
    using Json = nlohmann::ordered_json;

    // "append turns/001-output.md", "claim", … of the last change.
    std::vector<std::string> effects;
    std::map<std::string, std::string> files;
    layout::ChangeHeader header;
    layout::Claim claim;

    void apply(const recorder::Step& step) {
        effects.clear();
        layout::ChangeReader changes(step.change);
        while (const auto change = changes.next()) {
            header = change->header;
            layout::EffectReader reader(*change);
            while (const auto effect = reader.next()) {
                apply(*effect);
            }
            REQUIRE_FALSE(reader.damaged());
        }
        REQUIRE_FALSE(changes.damaged());
    }

    [[nodiscard]] Json json(const std::string& name) const {
        REQUIRE(files.contains(name));
        return Json::parse(files.at(name));
    }

    // The timeline's lines, parsed.
    [[nodiscard]] std::vector<Json> timeline() const {
        std::vector<Json> lines;
        const auto found = files.find("events.jsonl");
        std::string rest = found == files.end() ? std::string() : found->second;
        for (std::size_t end = 0; (end = rest.find('\n')) != std::string::npos;) {
            lines.push_back(Json::parse(rest.substr(0, end)));
            rest.erase(0, end + 1);
        }
        CHECK(rest.empty());
        return lines;
    }

    [[nodiscard]] std::vector<std::string> types() const {
        std::vector<std::string> types;
        for (const Json& line : timeline()) {
            types.push_back(line.at("type").get<std::string>());
        }
        return types;
    }

private:
    void apply(const layout::Effect& effect) {
        const std::string name(effect.name);
        switch (effect.kind) {
        case layout::EffectKind::claim:
            effects.emplace_back(effect.offset == 1 ? "create" : "claim");
            claim = layout::decode_claim(effect).value();
            return;
        case layout::EffectKind::append: {
            effects.push_back("append " + name);
            std::string& file = files[name];
            REQUIRE_MESSAGE(static_cast<std::int64_t>(file.size()) == effect.offset, name);
            file += effect.data;
            return;
        }
        case layout::EffectKind::replace:
            effects.push_back("replace " + name);
            files[name] = effect.data;
            return;
        case layout::EffectKind::replace_synced:
            effects.push_back("replace_synced " + name);
            files[name] = effect.data;
            return;
        case layout::EffectKind::remove:
            effects.push_back("remove " + name);
            files.erase(name);
            return;
        case layout::EffectKind::link_latest:
            effects.emplace_back("link_latest");
            return;
        case layout::EffectKind::settle:
            effects.push_back("settle " + name);
            CHECK_MESSAGE(files.contains(name), name);
            return;
        }
    }
};

// A session that is spoken to and whose files follow at once. The clock moves a second an event.
class RunningSession {
public:
    SessionScript script;
    recorder::Step first;
    std::int64_t now_ms = 1'800'000'000'000;

    explicit RunningSession(std::optional<std::int64_t> seq = std::nullopt, bool ephemeral = false)
        : session(recorder::Session::begin(fresh_state(ephemeral), seq, {now_ms}, first)) {
        script.apply(first);
    }

    static recorder::SessionState fresh_state(bool ephemeral = false) {
        recorder::SessionState state;
        state.meta.id = layout::Ulid::parse("01J9X3M7K5VBHQEN6T2F4D8RPZ").value();
        state.meta.slug = "270115-quiet-harbor";
        state.meta.agent = "codex";
        state.meta.cwd = "/repo";
        state.meta.command = {"codex", "exec"};
        state.meta.ephemeral = ephemeral;
        state.claim.anchor = "/repo";
        state.claim.below = ".agent-relay";
        state.claim.is_repo = true;
        state.claim.owner = "1 2 3";
        return state;
    }

    recorder::StepResult
    send(layout::EventBody body, std::optional<std::int64_t> seq = std::nullopt) {
        now_ms += 1000;
        layout::Event event;
        event.id = "7";
        event.session = session.id();
        event.seq = seq;
        event.body = std::move(body);
        return session.handle(event, {now_ms});
    }

    recorder::Step tell(layout::EventBody body, std::optional<std::int64_t> seq = std::nullopt) {
        recorder::StepResult result = send(std::move(body), seq);
        if (const auto* refusal = std::get_if<layout::Refusal>(&result)) {
            FAIL(refusal->message);
        }
        return took(std::get<recorder::Step>(std::move(result)));
    }

    recorder::Step took(recorder::Step step) {
        script.apply(step);
        return step;
    }

    layout::Refusal refused(layout::EventBody body, std::optional<std::int64_t> seq = {}) {
        const recorder::StepResult result = send(std::move(body), seq);
        REQUIRE(std::holds_alternative<layout::Refusal>(result));
        return std::get<layout::Refusal>(result);
    }

    recorder::Session session;
};

inline layout::TurnStart prompt(std::string_view text) {
    return {.prompt = text, .model = std::nullopt};
}

inline layout::TurnBytes
output(std::string_view text, layout::Channel channel = layout::Channel::text) {
    return {.stream = layout::Stream::output, .channel = channel, .bytes = text};
}

inline layout::TurnBytes errors(std::string_view text) {
    return {.stream = layout::Stream::stderr_log, .channel = layout::Channel::text, .bytes = text};
}

inline layout::TurnNote note(std::string kind, std::string payload) {
    return {.kind = std::move(kind), .payload = {std::move(payload)}};
}

inline layout::TurnTool tool(std::string id, std::string status) {
    layout::TurnTool call;
    call.tool_id = std::move(id);
    call.name = "bash";
    call.status = std::move(status);
    return call;
}

inline layout::SessionCheckpoint checkpoint(std::string reason) {
    layout::SessionCheckpoint body;
    body.reason = std::move(reason);
    return body;
}

}  // namespace relay::tests
