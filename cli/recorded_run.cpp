// SPDX-License-Identifier: Apache-2.0
#include "cli/recorded_run.hpp"

#include "layout/json_writer.hpp"
#include "layout/utf8.hpp"

#include <unistd.h>

#include <chrono>
#include <functional>
#include <utility>

namespace relay::cli {

namespace {

using layout::JsonObject;
using layout::Result;

// A recorder that makes no progress for so long is not worth waiting for: the spool file keeps the rest.
constexpr std::chrono::milliseconds patience{3'000};
constexpr std::chrono::milliseconds patience_altogether{60'000};
constexpr std::chrono::milliseconds reach_timeout{10'000};
constexpr std::size_t prompt_bytes_max = 4 << 20;
constexpr std::size_t command_bytes_max = 100 << 10;  // the daemon takes 128 KiB
constexpr std::size_t command_words_max = 4096;
constexpr std::size_t agent_bytes_max = 128;
constexpr std::size_t next_task_bytes_max = 16 << 10;

std::vector<std::string> bounded(const std::vector<std::string>& words) {
    std::vector<std::string> kept;
    std::size_t bytes = 0;
    for (const std::string& word : words) {
        const std::string_view part = layout::utf8_prefix(word, command_bytes_max - bytes);
        kept.emplace_back(part);
        bytes += part.size();
        if (part.size() < word.size() || kept.size() == command_words_max) {
            break;
        }
    }
    return kept;
}

std::string start_members(const RunPlan& plan) {
    std::string members;
    JsonObject object(members, JsonObject::Form::compact);
    object.string("type", "session.start");
    object.string(
        "agent",
        layout::utf8_prefix(layout::one_line(plan.agent, agent_bytes_max), agent_bytes_max));
    object.string("cwd", plan.cwd);
    object.strings("command", bounded(plan.command));
    if (!plan.name.empty()) {
        object.string("name", plan.name);
    }
    if (!plan.labels.empty()) {
        object.strings("labels", plan.labels);
    }
    if (!plan.store.empty()) {
        object.string("store", plan.store);
    }
    if (!plan.parent.empty()) {
        object.raw("parent", plan.parent);
    }
    object.finish();
    return members;
}

}  // namespace

RecordedRun::RecordedRun(RunPlan plan, const DaemonPlace& place)
    : outbox_(delivery::new_session_id(), place.spool_directory()),
      courier_(
          outbox_,
          place.socket,
          ::getpid(),
          delivery::Courier::Origin::own,
          [place](const std::function<bool()>& cancelled) {
              return reach_daemon(place, reach_timeout, cancelled);
          }),
      plan_(std::move(plan)) {
}

void RecordedRun::Sink::event(std::string members) {
    if (listener) {
        listener(members);
    }
    outbox.event(std::move(members));
}

void RecordedRun::begin_turn(const std::string& prompt) {
    if (!begun_) {
        sink_.event(start_members(plan_));
    }
    std::string members;
    JsonObject object(members, JsonObject::Form::compact);
    object.string("type", "turn.start");
    object.string("prompt", layout::utf8_prefix(prompt, prompt_bytes_max));
    object.finish();
    sink_.event(std::move(members));
    if (!begun_) {
        courier_.start();
        begun_ = true;
    }
}

void RecordedRun::end_turn(
    const TurnFacts& facts, const AgentEnd& end, const std::string& changes) {
    std::string members;
    JsonObject object(members, JsonObject::Form::compact);
    object.string("type", "turn.end");
    object.string("status", facts.status);
    if (!facts.stop_reason.empty()) {
        object.string("stop_reason", facts.stop_reason);
    }
    object.integer("exit_code", end.exit_status());
    if (!facts.error.empty()) {
        object.string("error", facts.error);
    }
    object.finish();
    for (const std::string& more : {facts.members, changes}) {
        if (!more.empty()) {
            members.back() = ',';
            members += more + "}";
        }
    }
    sink_.event(std::move(members));
}

void RecordedRun::checkpoint(
    const std::string& reason, const std::optional<std::string>& next_task) {
    std::string members;
    JsonObject object(members, JsonObject::Form::compact);
    object.string("type", "session.checkpoint");
    object.string("reason", reason);
    if (next_task) {
        object.string("next_task", layout::utf8_prefix(*next_task, next_task_bytes_max));
    }
    object.finish();
    sink_.event(std::move(members));
}

void RecordedRun::end(const AgentEnd& last) {
    std::string members;
    JsonObject object(members, JsonObject::Form::compact);
    object.string("type", "session.end");
    object.integer("exit_code", last.exit_status());
    if (!last.exited()) {
        object.string(
            "error", "the agent was ended by signal " + std::to_string(last.exit_status() - 128));
    } else if (last.exit_status() != 0) {
        object.string(
            "error", "the agent ended with exit status " + std::to_string(last.exit_status()));
    }
    object.finish();
    sink_.event(std::move(members));
}

std::string RecordedRun::finish() {
    if (!begun_) {
        return "";
    }
    static_cast<void>(courier_.finish(patience, patience_altogether));  // close() knows better
    Result<std::string> left_in = std::string();
    const bool all = outbox_.close(left_in);
    if (courier_.hopeless()) {
        return "the session is not recorded: " + courier_.trouble();
    }
    if (all) {
        return "";
    }
    if (!left_in.ok()) {
        return "the end of session " + session()
               + " is lost: agent-relayd cannot be reached, and neither can its spool: "
               + left_in.error().context;
    }
    return "agent-relayd cannot be reached (" + courier_.trouble() + "); session " + session()
           + " waits in " + left_in.value() + " and is delivered by the next agent-relay call";
}

}  // namespace relay::cli
