// SPDX-License-Identifier: Apache-2.0
#include "cli/systemd_checkup.hpp"

#include "cli/agent_process.hpp"
#include "cli/captured_program.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>
#include <utility>

namespace relay::cli {

namespace {

using layout::Result;

constexpr std::chrono::milliseconds answer_time{3'000};
constexpr std::size_t answer_bytes_max = 64 << 10;
constexpr std::string_view check = "systemd";
constexpr std::string_view socket_name = "agent-relayd.socket";

std::vector<CheckupFinding> one(std::string what, std::string mend) {
    return {{std::string(check), std::move(what), std::move(mend)}};
}

void read_property(UnitState& unit, std::string_view name, std::string_view value) {
    if (name == "LoadState") {
        unit.load = value;
    } else if (name == "ActiveState") {
        unit.active = value;
    } else if (name == "UnitFileState") {
        unit.unit_file = value;
    } else if (name == "Result") {
        unit.result = value;
    } else if (name == "MainPID") {
        // What is no number stays 0: no process.
        std::from_chars(value.data(), value.data() + value.size(), unit.main_pid);
    }
}

std::vector<CheckupFinding> judge_process(const UnitStates& units, std::int64_t daemon_pid) {
    if (daemon_pid > 0 && daemon_pid != units.service.main_pid) {
        return one(
            "agent-relayd.socket is enabled, and the daemon (pid " + std::to_string(daemon_pid)
                + ") was started by somebody else",
            "agent-relay daemon stop && systemctl --user restart agent-relayd.socket");
    }
    return one(
        daemon_pid > 0 ? "agent-relayd.socket is enabled and its service runs the daemon"
                       : "agent-relayd.socket is enabled and listens",
        "");
}

}  // namespace

UnitStates read_unit_states(std::string_view shown) {
    UnitStates units;
    UnitState unit;
    bool is_socket = false;
    const auto keep = [&] {
        (is_socket ? units.socket : units.service) = std::exchange(unit, {});
        is_socket = false;
    };
    while (!shown.empty()) {
        const std::size_t end = std::min(shown.find('\n'), shown.size());
        const std::string_view line = shown.substr(0, end);
        shown.remove_prefix(std::min(end + 1, shown.size()));
        const std::size_t equals = line.find('=');
        if (line.empty()) {
            keep();
        } else if (equals != std::string_view::npos) {
            const std::string_view name = line.substr(0, equals);
            const std::string_view value = line.substr(equals + 1);
            is_socket = is_socket || (name == "Id" && value == socket_name);
            read_property(unit, name, value);
        }
    }
    if (!unit.load.empty()) {
        keep();
    }
    return units;
}

std::vector<CheckupFinding> judge_units(const UnitStates& units, std::int64_t daemon_pid) {
    const UnitState& socket = units.socket;
    if (socket.load.empty() || socket.load == "not-found") {
        return one("no unit is installed; the daemon is started when it is needed", "");
    }
    if (socket.load == "masked" || units.service.load == "masked") {
        return one(
            "the units of agent-relayd are masked: nothing can start them",
            "systemctl --user unmask agent-relayd.socket agent-relayd.service");
    }
    if (socket.load != "loaded") {
        return one(
            "agent-relayd.socket cannot be loaded (" + socket.load + ")",
            "systemctl --user daemon-reload  # then: systemctl --user status agent-relayd.socket");
    }
    for (const auto& [name, unit] :
         {std::pair{"agent-relayd.service", &units.service}, {"agent-relayd.socket", &socket}}) {
        if (unit->active == "failed") {
            return one(
                std::string(name) + " has failed (" + unit->result + ")",
                "systemctl --user reset-failed 'agent-relayd.*' && systemctl --user restart "
                "agent-relayd.socket  # why it failed: journalctl --user -u agent-relayd -n 20");
        }
    }
    const bool enabled = socket.unit_file.starts_with("enabled");
    const bool listens = socket.active == "active";
    if (enabled && !listens) {
        return one(
            "agent-relayd.socket is enabled and does not listen",
            daemon_pid > 0 ? "agent-relay daemon stop && systemctl --user start agent-relayd.socket"
                           : "systemctl --user start agent-relayd.socket");
    }
    if (!enabled && listens) {
        return one(
            "agent-relayd.socket listens now and not after the next login: it is not enabled",
            "systemctl --user enable agent-relayd.socket");
    }
    if (!enabled) {
        return one(
            "agent-relayd.socket is installed and not enabled; the daemon is started when it is "
            "needed, or by systemd after: systemctl --user enable --now agent-relayd.socket",
            "");
    }
    return judge_process(units, daemon_pid);
}

std::vector<CheckupFinding> check_systemd(
    const CheckupPlaces& places, const layout::Environment& environment, std::int64_t daemon_pid) {
    const std::string runtime = environment("XDG_RUNTIME_DIR").value_or("");
    // The units serve the usual socket; whoever uses another one has no use for them.
    if (runtime.empty() || ::access((runtime + "/systemd/private").c_str(), F_OK) != 0
        || places.socket != runtime + "/agent-relay/relay.sock") {
        return {};
    }
    const Result<std::string> program =
        find_program("systemctl", environment("PATH").value_or("/usr/bin:/bin"));
    if (!program.ok()) {
        return {};
    }
    Question question;
    question.program = program.value();
    question.words = {
        "systemctl",
        "--user",
        "show",
        "--property=Id,LoadState,ActiveState,UnitFileState,Result,MainPID",
        std::string(socket_name),
        "agent-relayd.service"};
    for (const char* const name : {"XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "PATH"}) {
        if (const std::optional<std::string> value = environment(name)) {
            question.environment.push_back(std::string(name) + "=" + *value);
        }
    }
    question.output_bytes_max = answer_bytes_max;
    question.deadline = std::chrono::steady_clock::now() + answer_time;
    const Result<std::string> shown = ask_program(question);
    if (!shown.ok()) {
        return {};  // no manager, or one that does not talk to us
    }
    return judge_units(read_unit_states(shown.value()), daemon_pid);
}

}  // namespace relay::cli
