// SPDX-License-Identifier: Apache-2.0
#include "cli/client.hpp"
#include "cli/command_line.hpp"
#include "cli/daemon_process.hpp"
#include "cli/prometheus_text.hpp"
#include "cli/status_text.hpp"
#include "cli/terminal_text.hpp"

#include <nlohmann/json.hpp>

#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <optional>
#include <ostream>
#include <string>

namespace relay::cli {

const std::string_view daemon_help = R"(agent-relay daemon: start, stop or ask the recorder

usage: agent-relay daemon start [-- <flags of agent-relayd>]
       agent-relay daemon stop | restart [-- <flags of agent-relayd>] | status [--prometheus]

examples:
  agent-relay daemon start                          does nothing when one is running already
  agent-relay daemon start -- --idle-exit 10min     hand flags on to agent-relayd
  agent-relay daemon status --json | jq .sessions
  agent-relay daemon status --prometheus > /var/lib/node_exporter/agent_relay.prom
  agent-relay daemon stop                           asks it to stop and waits until it is gone

start runs the agent-relayd beside agent-relay, or the one in PATH, apart from this terminal; what it has
to say goes to daemon.log in the state directory (~/.local/state/agent-relay). Sessions that are being recorded
outlive stop and restart: they go on when their agents come back.

flags of status:
  --prometheus       the same counters in the text format of Prometheus

--json prints {"v":1,"running":true,"pid":4711,"socket":"…/relay.sock"}; of status what the daemon answers.

exit status: 0 done, 1 failed, 2 wrong usage, 4 not running (status) or no answer
)";

namespace {

using layout::Errc;
using layout::Error;
using layout::Result;
using nlohmann::ordered_json;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds answer_timeout{5'000};
constexpr milliseconds start_timeout{10'000};
constexpr milliseconds stop_timeout{30'000};
// How long a start whose own daemon gave up waits for another one that won the race to answer.
constexpr milliseconds lost_race_timeout{2'000};

// The running daemon, as it described itself.
struct Running {
    std::string answer;  // the line
    ordered_json status;
    std::int64_t pid = 0;  // 0 when it did not say
};

Result<Running> ask_status(Client& client, milliseconds timeout) {
    Result<std::string> answer = client.ask(R"({"type":"status","id":1})", "1", timeout);
    if (!answer.ok()) {
        return answer.error();
    }
    Running running{std::move(answer.value()), {}, 0};
    running.status = ordered_json::parse(running.answer, nullptr, /*allow_exceptions=*/false);
    if (running.status.value("type", "") != "ack") {
        return Error{Errc::io, 0, "the daemon refused to tell its status: " + running.answer};
    }
    const auto pid = running.status.find("pid");
    if (pid != running.status.end() && pid->is_number_integer()) {
        running.pid = pid->get<std::int64_t>();
    }
    return running;
}

Result<Running> find_running(const std::string& socket, milliseconds timeout) {
    Result<Client> client = Client::connect(socket, timeout);
    return client.ok() ? ask_status(client.value(), timeout) : Result<Running>(client.error());
}

std::string described(const Running& running) {
    return running.pid == 0 ? "" : " (pid " + std::to_string(running.pid) + ")";
}

// What became of the daemon: in words, or for scripts.
struct Outcome {
    std::string words;
    bool running = false;
    std::int64_t pid = 0;
    std::string socket;
};

ExitCode tell(const Outcome& outcome, bool json, const Surroundings& surroundings) {
    if (!json) {
        surroundings.out << harmless(outcome.words) << '\n';
        return ExitCode::ok;
    }
    ordered_json shown{{"v", 1}, {"running", outcome.running}};
    shown["pid"] = outcome.pid == 0 ? ordered_json() : ordered_json(outcome.pid);
    shown["socket"] = outcome.socket;
    const std::string line = shown.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
    surroundings.out << (surroundings.out_is_terminal ? harmless_json(line) : line) << '\n';
    return ExitCode::ok;
}

void pause_briefly() {
    const timespec pause{0, 20'000'000};
    ::nanosleep(&pause, nullptr);
}

// 78 is a wrong configuration, 2 wrong flags, 126 and 127 a program that cannot be run: no other daemon
// has anything to do with those.
bool lost_no_race(int wait_status) {
    constexpr std::array hopeless{2, 78, 126, 127};
    return WIFEXITED(wait_status)
           && std::find(hopeless.begin(), hopeless.end(), WEXITSTATUS(wait_status))
                  != hopeless.end();
}

ExitCode
report_dead_start(const StartedDaemon& daemon, int wait_status, const Surroundings& surroundings) {
    const std::string how = WIFSIGNALED(wait_status)
                                ? "was killed by signal " + std::to_string(WTERMSIG(wait_status))
                                : "exited with status " + std::to_string(WEXITSTATUS(wait_status));
    const auto words = daemon.last_words();
    const ExitCode code = complain(
        surroundings,
        ExitCode::failed,
        "agent-relayd " + how + (words.empty() ? " and said nothing" : "; its last words:"));
    for (const std::string& line : words) {
        surroundings.err << "  " << harmless(line) << '\n';
    }
    return code;
}

// Until some daemon answers: ours, or the one that won the race for the lock.
ExitCode await_answer(
    StartedDaemon& daemon,
    const std::string& socket,
    const std::string& log_file,
    bool json,
    const Surroundings& surroundings) {
    steady_clock::time_point deadline = steady_clock::now() + start_timeout;
    bool alive = true;
    while (true) {
        const std::optional<int> exit_status = daemon.exit_status();
        const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
        const Result<Running> running =
            find_running(socket, std::clamp(left, milliseconds(1), answer_timeout));
        if (running.ok()) {
            return tell(
                {"agent-relayd is running" + described(running.value()) + " at " + socket,
                 true,
                 running.value().pid,
                 socket},
                json,
                surroundings);
        }
        if (running.error().code == Errc::unsafe || running.error().code == Errc::invalid) {
            return complain(surroundings, ExitCode::daemon_unreachable, running.error().context);
        }
        if (exit_status.has_value() && alive) {
            alive = false;
            deadline = std::min(deadline, steady_clock::now() + lost_race_timeout);
        }
        const bool over = steady_clock::now() >= deadline;
        if (!alive && (over || lost_no_race(*exit_status))) {
            return report_dead_start(daemon, *exit_status, surroundings);
        }
        if (over) {
            return complain(
                surroundings,
                ExitCode::daemon_unreachable,
                "agent-relayd (pid " + std::to_string(daemon.pid())
                    + ") runs but does not answer at " + socket + "; see " + log_file);
        }
        pause_briefly();
    }
}

ExitCode
start(const CommandLine& line, const std::string& socket, const Surroundings& surroundings) {
    const Result<Running> running = find_running(socket, answer_timeout);
    if (running.ok()) {
        return tell(
            {"agent-relayd is running already" + described(running.value()) + " at " + socket,
             true,
             running.value().pid,
             socket},
            line.json,
            surroundings);
    }
    const Result<std::string> program = find_daemon(surroundings.environment);
    if (!program.ok()) {
        return complain(surroundings, ExitCode::failed, program.error().context);
    }
    const auto directories = layout::user_directories(surroundings.environment);
    if (!directories.ok()) {
        return complain(surroundings, ExitCode::failed, directories.error().context);
    }
    std::vector<std::string> arguments;
    if (!line.socket.empty()) {
        arguments = {"--socket", socket};
    }
    const auto separator = std::find(line.arguments.begin(), line.arguments.end(), "--");
    if (separator != line.arguments.end()) {
        arguments.insert(arguments.end(), separator + 1, line.arguments.end());
    }
    const std::string log_file = directories.value().state + "/daemon.log";
    Result<StartedDaemon> daemon = StartedDaemon::start(program.value(), arguments, log_file);
    if (!daemon.ok()) {
        return complain(surroundings, ExitCode::failed, daemon.error().context);
    }
    return await_answer(daemon.value(), socket, log_file, line.json, surroundings);
}

// The daemon's process, pinned. It is asked once more after that, because its number may have passed to
// another process between the first answer and the pinning.
Result<PinnedProcess> pin_daemon(Client& client, std::int64_t& pid) {
    Result<Running> running = ask_status(client, answer_timeout);
    if (!running.ok()) {
        return running.error();
    }
    pid = running.value().pid;
    if (pid < 2 || pid > std::numeric_limits<pid_t>::max()) {
        return Error{Errc::io, 0, "the daemon does not say which process it is; stop it by hand"};
    }
    Result<PinnedProcess> process = PinnedProcess::pin(static_cast<pid_t>(pid));
    if (!process.ok()) {
        return process;
    }
    const Result<Running> still = ask_status(client, answer_timeout);
    if (!still.ok()) {
        return still.error();
    }
    if (still.value().pid != pid) {
        return Error{Errc::io, 0, "the daemon was replaced by another one meanwhile; try again"};
    }
    return process;
}

ExitCode stop(const std::string& socket, Outcome& outcome, const Surroundings& surroundings) {
    outcome.socket = socket;
    std::optional<PinnedProcess> process;
    std::int64_t pid = 0;
    {
        Result<Client> client = Client::connect(socket, answer_timeout);
        if (!client.ok() && client.error().code == Errc::not_found) {
            return complain(
                surroundings, ExitCode::ok, "agent-relayd is not running, nothing to stop");
        }
        if (!client.ok()) {
            return complain(
                surroundings, ExitCode::daemon_unreachable, unreachable(socket, client.error()));
        }
        Result<PinnedProcess> pinned = pin_daemon(client.value(), pid);
        if (!pinned.ok()) {
            return complain(
                surroundings, ExitCode::daemon_unreachable, unreachable(socket, pinned.error()));
        }
        process.emplace(std::move(pinned.value()));
    }
    const Result<bool> gone = process->terminate(stop_timeout);
    if (!gone.ok()) {
        return complain(surroundings, ExitCode::failed, gone.error().context);
    }
    if (!gone.value()) {
        return complain(
            surroundings,
            ExitCode::failed,
            "agent-relayd (pid " + std::to_string(pid) + ") still runs "
                + std::to_string(stop_timeout.count() / 1000) + " s after SIGTERM");
    }
    outcome.words = "agent-relayd (pid " + std::to_string(pid) + ") has stopped";
    outcome.pid = pid;
    return ExitCode::ok;
}

ExitCode
status(const CommandLine& line, const std::string& socket, const Surroundings& surroundings) {
    const Result<Running> running = find_running(socket, answer_timeout);
    if (!running.ok()) {
        return complain(
            surroundings, ExitCode::daemon_unreachable, unreachable(socket, running.error()));
    }
    if (line.arguments.size() > 1) {
        surroundings.out << prometheus_text(running.value().status);
    } else if (line.json) {
        const std::string& answer = running.value().answer;
        surroundings.out << (surroundings.out_is_terminal ? harmless_json(answer) : answer) << '\n';
    } else {
        surroundings.out << "agent-relayd is running" << described(running.value()) << " at "
                         << harmless(socket) << '\n'
                         << status_text(running.value().status);
    }
    return ExitCode::ok;
}

}  // namespace

ExitCode daemon_command(const CommandLine& line, const Surroundings& surroundings) {
    constexpr std::string_view forms = "daemon needs one of start, stop, restart, status";
    const std::string action = line.arguments.empty() ? "" : line.arguments.front();
    const bool starts = action == "start" || action == "restart";
    if (!starts && action != "stop" && action != "status") {
        return complain_usage(
            surroundings,
            "daemon",
            std::string(forms) + (action.empty() ? "" : ", got \"" + action + "\""));
    }
    const bool is_known =
        line.arguments.size() == 2 && action == "status" && line.arguments[1] == "--prometheus";
    if (line.arguments.size() > 1 && !is_known && !(starts && line.arguments[1] == "--")) {
        return complain_usage(
            surroundings,
            "daemon",
            "daemon " + action + " does not know \"" + line.arguments[1] + "\"");
    }
    const Result<std::string> socket = find_socket(line, surroundings);
    if (!socket.ok()) {
        return complain(surroundings, ExitCode::usage, socket.error().context);
    }
    if (action == "status") {
        return status(line, socket.value(), surroundings);
    }
    if (action != "start") {
        Outcome outcome;
        const ExitCode stopped = stop(socket.value(), outcome, surroundings);
        if (stopped != ExitCode::ok) {
            return stopped;
        }
        // Of a restart scripts hear the end alone.
        if (line.json ? action == "stop" : !outcome.words.empty()) {
            static_cast<void>(tell(outcome, line.json, surroundings));
        }
        if (action == "stop") {
            return ExitCode::ok;
        }
    }
    return start(line, socket.value(), surroundings);
}

}  // namespace relay::cli
