// SPDX-License-Identifier: Apache-2.0
#include "cli/checkup.hpp"
#include "cli/client.hpp"
#include "cli/run_options.hpp"

#include <nlohmann/json.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <vector>

namespace relay::cli {

namespace {

using layout::Result;
using nlohmann::json;

constexpr std::chrono::milliseconds answer_timeout{3'000};
constexpr std::string_view daemon_check = "daemon";

std::string text_of(const json& object, const char* name) {
    const auto member = object.is_object() ? object.find(name) : object.end();
    return object.is_object() && member != object.end() && member->is_string()
               ? member->get<std::string>()
               : std::string();
}

void check_version(
    const json& status, std::string_view version, std::vector<CheckupFinding>& findings) {
    const std::string its = text_of(status, "version");
    if (its == version) {
        findings.push_back({"version", "daemon and command line are both " + its, ""});
    } else {
        findings.push_back(
            {"version",
             "the daemon is " + (its.empty() ? "of an unknown version" : its)
                 + ", the command line " + std::string(version),
             "agent-relay daemon restart"});
    }
}

void check_troubles(const json& status, std::vector<CheckupFinding>& findings) {
    const json errors = status.value("errors", json::object());
    for (const char* const part : {"journal", "checkpoint"}) {
        const std::string sentence = text_of(errors, part);
        if (!sentence.empty()) {
            findings.push_back(
                {"journal",
                 "the daemon's " + std::string(part) + " failed: " + sentence,
                 "agent-relay daemon restart"});
        }
    }
    const json volumes = status.value("volumes", json::array());
    std::size_t well = 0;
    for (const json& volume : volumes) {
        if (text_of(volume, "state") == "well") {
            ++well;
            continue;
        }
        const std::string anchor = text_of(volume, "anchor");
        findings.push_back(
            {"volume",
             text_of(volume, "name") + " (" + anchor + ") takes nothing since "
                 + text_of(volume, "since") + ": " + text_of(volume, "reason")
                 + "; events wait in the journal and go there by themselves once it does",
             "df -h " + as_typed({anchor}) + "  # then make room, or mount it writable"});
    }
    if (well == volumes.size()) {
        findings.push_back(
            {"volume",
             well == 1 ? "the one in use takes what it is given"
                       : "all " + std::to_string(well) + " in use take what they are given",
             ""});
    }
}

bool is_something_else(const std::string& socket) {
    struct stat status {};
    return ::lstat(socket.c_str(), &status) == 0 && !S_ISSOCK(status.st_mode);
}

void check_socket(const std::string& socket, std::vector<CheckupFinding>& findings) {
    struct stat status {};
    if (::lstat(socket.c_str(), &status) != 0) {
        return;  // the daemon's finding says it
    }
    const std::size_t before = findings.size();
    check_permissions("socket", socket, findings);
    // A socket's directory is private only if it is its own: /run/user/1000/agent-relay, not /tmp.
    const std::string directory = socket.substr(0, socket.rfind('/'));
    if (directory.ends_with("/agent-relay") || directory.ends_with("/state")) {
        check_permissions("socket", directory, findings);
    }
    if (findings.size() == before) {
        findings.push_back({"socket", socket + " is yours alone", ""});
    }
}

}  // namespace

DaemonCheckup check_daemon(const CheckupPlaces& places, std::string_view version) {
    DaemonCheckup checkup;
    if (is_something_else(places.socket)) {
        checkup.findings.push_back(
            {"socket",
             places.socket + " is no socket, so no daemon can listen there",
             "rm " + as_typed({places.socket}) + " && agent-relay daemon start"});
        return checkup;
    }
    Result<Client> client = Client::connect(places.socket, answer_timeout);
    Result<std::string> answer =
        client.ok() ? client.value().ask(R"({"type":"status","id":1})", "1", answer_timeout)
                    : Result<std::string>(client.error());
    const json status =
        answer.ok() ? json::parse(answer.value(), nullptr, /*allow_exceptions=*/false) : json();
    if (!answer.ok()) {
        const bool absent = answer.error().code == layout::Errc::not_found;
        checkup.findings.push_back(
            {std::string(daemon_check),
             absent ? "no daemon answers at " + places.socket
                    : "the daemon cannot be reached: " + answer.error().context,
             absent ? "agent-relay daemon start" : "agent-relay daemon restart"});
    } else if (text_of(status, "type") != "ack") {
        checkup.findings.push_back(
            {std::string(daemon_check),
             "what answers at " + places.socket + " is no agent-relayd: " + answer.value(),
             "agent-relay daemon restart"});
    } else {
        checkup.answers = true;
        const auto pid = status.find("pid");
        checkup.pid =
            pid != status.end() && pid->is_number_integer() ? pid->get<std::int64_t>() : 0;
        checkup.findings.push_back(
            {std::string(daemon_check),
             "answers at " + places.socket + " (pid " + status.value("pid", json(0)).dump() + ")",
             ""});
        check_version(status, version, checkup.findings);
        check_troubles(status, checkup.findings);
    }
    check_socket(places.socket, checkup.findings);
    return checkup;
}

}  // namespace relay::cli
