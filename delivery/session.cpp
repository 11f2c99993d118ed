// SPDX-License-Identifier: Apache-2.0
#include "delivery/agent_relay.hpp"
#include "delivery/courier.hpp"
#include "delivery/outbox.hpp"
#include "delivery/spool_delivery.hpp"
#include "layout/json_depth.hpp"
#include "layout/json_writer.hpp"
#include "layout/settings.hpp"
#include "layout/store.hpp"
#include "layout/utf8.hpp"

#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

namespace agent_relay {

namespace {

using relay::delivery::AgentStream;
using relay::delivery::Courier;
using relay::delivery::Outbox;
using relay::layout::JsonObject;
using relay::layout::Result;
using std::chrono::milliseconds;

constexpr std::size_t nesting_max = 64;

// What a client must not say by itself: the outbox gives numbers, and the session is this one.
constexpr std::array<std::string_view, 4> reserved{"type", "session", "seq", "id"};

// The members of a JSON object on one line, without the braces; "" for an empty object and for no text. Nothing when it is no
// object.
std::optional<std::string> members_of(std::string_view text) {
    if (text.empty()) {
        return "";
    }
    if (relay::layout::json_depth(text) > nesting_max) {
        return std::nullopt;
    }
    const auto object = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    const bool is_ours = std::any_of(reserved.begin(), reserved.end(), [&object](auto key) {
        return object.is_object() && object.contains(key);
    });
    if (!object.is_object() || is_ours) {
        return std::nullopt;
    }
    std::string members(text.substr(text.find('{') + 1, text.rfind('}') - text.find('{') - 1));
    // Between tokens alone: a string has none that is not escaped.
    std::replace(members.begin(), members.end(), '\n', ' ');
    std::replace(members.begin(), members.end(), '\r', ' ');
    return object.empty() ? "" : members;
}

// `event` is a finished object.
void add_members(std::string& event, std::string_view members) {
    if (!members.empty()) {
        event.back() = ',';
        event.append(members).append("}");
    }
}

void add_string(JsonObject& object, std::string_view key, const std::string& value) {
    if (!value.empty()) {
        object.string(key, value);
    }
}

std::string current_directory() {
    std::array<char, 4096> here{};
    return ::getcwd(here.data(), here.size()) == nullptr ? "/" : here.data();
}

std::string start_event(const SessionStart& start) {
    std::string event;
    JsonObject object(event, JsonObject::Form::compact);
    object.string("type", "session.start");
    object.string("agent", start.agent);
    object.string("cwd", start.cwd.empty() ? current_directory() : start.cwd);
    if (!start.command.empty()) {
        object.strings("command", start.command);
    }
    add_string(object, "name", start.name);
    add_string(object, "model", start.model);
    if (!start.labels.empty()) {
        object.strings("labels", start.labels);
    }
    add_string(object, "store", start.store);
    object.finish();
    return event;
}

std::string text_event(std::string_view type, std::string_view key, std::string_view text) {
    std::string event;
    JsonObject object(event, JsonObject::Form::compact);
    object.string("type", type);
    object.string(key, text);
    object.finish();
    return event;
}

bool may_be_said(std::string_view type) {
    const bool lasts = type == "session.update" || type == "session.attachment";
    return lasts || (type.starts_with("turn.") && relay::layout::is_utf8(type));
}

Result<Places> filled_in(Places places) {
    const relay::layout::Environment environment = relay::layout::process_environment();
    if (places.socket.empty()) {
        relay::layout::ConfigSources sources = relay::layout::usual_sources(environment);
        sources.reader = relay::layout::ConfigReader::daemon;
        const auto settings = relay::layout::load_settings(sources);
        if (!settings.ok()) {
            return settings.error();
        }
        auto socket = relay::layout::configured_socket(settings.value(), environment);
        if (!socket.ok()) {
            return socket.error();
        }
        places.socket = std::move(socket.value());
    }
    if (places.spool_directory.empty()) {
        const auto user = relay::layout::user_directories(environment);
        if (!user.ok()) {
            return user.error();
        }
        places.spool_directory = user.value().state + "/spool";
    }
    return places;
}

}  // namespace

struct Session::Parts {
    Parts(const Places& places, std::string complaint)
        : outbox(relay::delivery::new_session_id(), places.spool_directory),
          courier(outbox, places.socket, ::getpid(), Courier::Origin::own),
          unusable(std::move(complaint)) {}

    Delivery finish(std::string last_event, milliseconds most);

    Outbox outbox;
    Courier courier;
    const std::string unusable;  // why nothing can be recorded from the beginning
    std::mutex mutex;            // what follows
    std::optional<Delivery> delivery;
};

Session::Session(const SessionStart& start, Places places) {
    const std::optional<std::string> more = members_of(start.more);
    const Result<Places> found = filled_in(std::move(places));
    std::string unusable = found.ok() ? "" : found.error().context;
    if (!more) {
        unusable = "SessionStart::more is no JSON object without type, session, seq and id";
    }
    parts_ = std::make_unique<Parts>(found.ok() ? found.value() : Places{}, std::move(unusable));
    if (!parts_->unusable.empty()) {
        parts_->outbox.abandon();
        return;
    }
    std::string event = start_event(start);
    add_members(event, *more);
    parts_->outbox.event(std::move(event));
    parts_->courier.start();
}

Session::~Session() {
    if (!parts_->delivery && parts_->unusable.empty()) {
        static_cast<void>(parts_->courier.finish(milliseconds(0), milliseconds(0)));
        Result<std::string> left_in = std::string();
        // Nobody is left to be told.
        static_cast<void>(parts_->outbox.close(left_in));
    }
}

const std::string& Session::id() const {
    return parts_->outbox.session();
}

void Session::begin_turn(std::string_view prompt) {
    parts_->outbox.event(text_event("turn.start", "prompt", prompt));
}

void Session::output(std::string_view bytes) {
    parts_->outbox.bytes(AgentStream::output, bytes);
}

void Session::error_output(std::string_view bytes) {
    parts_->outbox.bytes(AgentStream::error, bytes);
}

bool Session::end_turn(const TurnEnd& end) {
    const std::optional<std::string> more = members_of(end.more);
    if (!more) {
        return false;
    }
    std::string event;
    JsonObject object(event, JsonObject::Form::compact);
    object.string("type", "turn.end");
    object.string("status", end.status.empty() ? "completed" : end.status);
    add_string(object, "stop_reason", end.stop_reason);
    if (end.exit_code) {
        object.integer("exit_code", *end.exit_code);
    }
    add_string(object, "error", end.error);
    object.finish();
    add_members(event, *more);
    parts_->outbox.event(std::move(event));
    return true;
}

bool Session::event(std::string_view type, std::string_view members) {
    const std::optional<std::string> more = members_of(members);
    if (!more || !may_be_said(type)) {
        return false;
    }
    std::string event;
    JsonObject object(event, JsonObject::Form::compact);
    object.string("type", type);
    object.finish();
    add_members(event, *more);
    parts_->outbox.event(std::move(event));
    return true;
}

bool Session::wait(milliseconds most) const {
    return parts_->outbox.wait_empty(most);
}

Delivery Session::Parts::finish(std::string last_event, milliseconds most) {
    const std::scoped_lock lock(mutex);
    if (delivery) {
        return *delivery;
    }
    delivery.emplace();
    if (!unusable.empty()) {
        delivery->trouble = unusable;
        return *delivery;
    }
    outbox.event(std::move(last_event));
    static_cast<void>(courier.finish(most, most));  // close() knows better
    Result<std::string> left_in = std::string();
    const bool all = outbox.close(left_in);
    delivery->recorded = all && !courier.hopeless();
    if (!delivery->recorded) {
        const std::string& trouble = courier.trouble();
        delivery->trouble =
            trouble.empty() ? "agent-relayd has not answered everything in time" : trouble;
    }
    if (!all && left_in.ok()) {
        delivery->spool_file = left_in.value();
    } else if (!all) {
        delivery->trouble += "; the rest is lost: " + left_in.error().context;
    }
    return *delivery;
}

Delivery Session::end(int exit_code, milliseconds most) {
    std::string event;
    JsonObject object(event, JsonObject::Form::compact);
    object.string("type", "session.end");
    object.integer("exit_code", exit_code);
    object.finish();
    return parts_->finish(std::move(event), most);
}

Delivery Session::checkpoint(std::string_view reason, milliseconds most) {
    return parts_->finish(text_event("session.checkpoint", "reason", reason), most);
}

std::size_t deliver_left_behind(milliseconds most, const Places& places) {
    const Result<Places> found = filled_in(places);
    if (!found.ok()) {
        return 0;
    }
    return relay::delivery::deliver_left_behind(
               found.value().spool_directory, found.value().socket, most, most)
        .delivered;
}

}  // namespace agent_relay
