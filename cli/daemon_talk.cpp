// SPDX-License-Identifier: Apache-2.0
#include "cli/daemon_talk.hpp"

#include "cli/daemon_starter.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <utility>

namespace relay::cli {

namespace {

using layout::Errc;
using layout::Error;
using layout::Result;
using nlohmann::json;
using std::chrono::milliseconds;

constexpr milliseconds reach_timeout{20'000};   // a daemon that recovers a long journal first
constexpr milliseconds answer_timeout{60'000};  // a slow disk under load, not a dead daemon

}  // namespace

Result<DaemonTalk> DaemonTalk::begin(const CommandLine& line, const Surroundings& surroundings) {
    const Result<DaemonPlace> place = find_place(line, surroundings);
    if (!place.ok()) {
        return place.error();
    }
    Result<Client> client = reach_daemon(place.value(), reach_timeout, [] { return false; });
    if (!client.ok()) {
        return Error{
            Errc::closed,
            0,
            "agent-relayd is needed for this and cannot be reached: " + client.error().context
                + "; see agent-relay daemon status"};
    }
    return DaemonTalk(std::move(client.value()));
}

Result<json> DaemonTalk::ask(nlohmann::ordered_json request) {
    const std::string id = std::to_string(++requests_);
    request["id"] = requests_;
    const Result<std::string> answer = client_.ask(
        request.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace),
        id,
        answer_timeout);
    if (!answer.ok()) {
        return Error{Errc::closed, 0, "no answer from agent-relayd: " + answer.error().context};
    }
    json said = json::parse(answer.value(), nullptr, /*allow_exceptions=*/false);
    if (!said.is_object()) {
        return Error{Errc::closed, 0, "agent-relayd answers what is no JSON: " + answer.value()};
    }
    if (said.value("type", "") == "ack") {
        return said;
    }
    const bool unknown = said.value("code", "") == "unknown_session";
    return Error{
        unknown ? Errc::not_found : Errc::invalid, 0, said.value("message", answer.value())};
}

ExitCode talk_code(const Error& error) {
    return error.code == Errc::closed      ? ExitCode::daemon_unreachable
           : error.code == Errc::not_found ? ExitCode::no_such_session
                                           : ExitCode::failed;
}

}  // namespace relay::cli
