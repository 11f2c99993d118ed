// SPDX-License-Identifier: Apache-2.0
#include "cli/client.hpp"
#include "cli/command_line.hpp"
#include "cli/daemon_starter.hpp"
#include "cli/file_events.hpp"
#include "cli/handoff_request.hpp"
#include "cli/run_command.hpp"
#include "cli/session_choice.hpp"
#include "cli/terminal_text.hpp"
#include "layout/input_file.hpp"
#include "layout/session_reader.hpp"

#include <nlohmann/json.hpp>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <system_error>
#include <vector>

namespace relay::cli {

const std::string_view handoff_help =
    R"(agent-relay handoff: stop a session so that another agent can go on

usage: agent-relay handoff [--session SESSION] [--now] [--reason WORDS] [--to AGENT [--no-launch]]

examples:
  agent-relay handoff                             the running session here, at the end of its turn
  agent-relay handoff --now --to codex            end the agent now and go on with codex
  agent-relay handoff --now --reason "out of credit" --session TWFTA9

The session is --session, else $AGENT_RELAY_SESSION, else the newest running one of this directory's store. It is checkpointed:
resume.json in its directory tells the next agent where to go on. With --now an agent below agent-relay run is
sent SIGTERM first; a session of another client is cut as it is. Prints the command that goes on.

flags:
  --session SESSION  another one
  --now              end the agent now, not at the end of its turn
  --reason WORDS     why; stands in resume.json and in list --json
  --to AGENT         starts this agent here when the packet is there
  --no-launch        with --to: only print the command

--json prints {"v":1,"session":…,"written":true,"resume":"…/resume.json","next":"agent-relay resume …"}.

exit status: 0 written or asked for, 1 no running session, 2 it is checkpointed already, wrong usage or ambiguous,
3 no such session
)";

namespace {

using layout::Errc;
using layout::Error;
using layout::Result;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds connect_timeout{5'000};
constexpr milliseconds answer_timeout{60'000};
constexpr milliseconds end_timeout{15'000};  // of an agent that was asked to end
// A session that run has just begun may reach the files after its agent's first words.
constexpr milliseconds begin_timeout{5'000};
constexpr int begin_pause_ms = 20;

struct HandoffOptions {
    std::string session;
    std::string reason = "handoff";
    std::string to;
    bool now = false;
    bool launch = true;
};

Result<HandoffOptions> parse(const std::vector<std::string>& arguments) {
    HandoffOptions options;
    for (std::size_t at = 0; at < arguments.size(); ++at) {
        const std::string& argument = arguments[at];
        if (argument == "--now" || argument == "--no-launch") {
            (argument == "--now" ? options.now : options.launch) = argument == "--now";
            continue;
        }
        const std::size_t equals = std::min(argument.find('='), argument.size());
        const std::string flag = argument.substr(0, equals);
        std::string* const into = flag == "--session"  ? &options.session
                                  : flag == "--reason" ? &options.reason
                                  : flag == "--to"     ? &options.to
                                                       : nullptr;
        if (into == nullptr) {
            return Error{Errc::invalid, 0, "handoff does not know \"" + argument + "\""};
        }
        into->clear();
        if (equals < argument.size()) {
            *into = argument.substr(equals + 1);
        } else if (at + 1 < arguments.size()) {
            *into = arguments[++at];
        }
        if (into->empty() || into->size() > 1000) {
            return Error{Errc::invalid, 0, flag + " needs a value of at most 1000 bytes"};
        }
    }
    return options;
}

struct Found {
    std::string directory;
    layout::Meta meta;
};

// By name, or without one the newest that runs here.
Result<Found> find_session(const std::string& wanted, const Surroundings& surroundings) {
    const Result<SearchPlaces> places = find_search_places(surroundings.environment, "");
    if (!places.ok()) {
        return places.error();
    }
    const auto runs = [](const layout::Meta& meta) {
        return meta.status == layout::SessionStatus::active;
    };
    Result<ChosenSession> chosen = wanted.empty() ? newest_session(places.value(), runs)
                                                  : choose_whole_session(wanted, places.value());
    if (!chosen.ok()) {
        return chosen.error();
    }
    Result<layout::Meta> meta = layout::read_meta(chosen.value().directory);
    if (!meta.ok()) {
        Error error = meta.error();
        error.code = Errc::io;  // there is such a session, but it cannot be read
        return error;
    }
    return Found{std::move(chosen.value().directory), std::move(meta.value())};
}

// An `agent-relay run` that listens to requests and signals.
bool is_driven_by_run(const layout::Meta& meta) {
    if (!meta.pid || *meta.pid < 2) {
        return false;
    }
    std::array<char, 4096> program{};
    const std::string link = "/proc/" + std::to_string(*meta.pid) + "/exe";
    const ssize_t size = ::readlink(link.c_str(), program.data(), program.size() - 1);
    const std::string path(program.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    return path.substr(path.rfind('/') + 1) == "agent-relay";
}

// A prompt without its seal. meta.json may say so a second later.
bool has_open_turn(const std::string& directory) {
    Result<layout::InputDirectory> turns = layout::InputDirectory::open(
        AT_FDCWD, directory + "/turns", layout::InputDirectory::Links::refuse);
    if (!turns.ok()) {
        return false;
    }
    std::set<std::string> sealed;
    std::set<std::string> begun;
    const auto entries = turns.value().entries();
    if (!entries.ok()) {
        return false;
    }
    for (const layout::InputDirectory::Entry& entry : entries.value()) {
        const std::string number = entry.name.substr(0, entry.name.find('-'));
        (entry.name.ends_with("-state.json") ? sealed : begun).insert(number);
    }
    return !std::includes(sealed.begin(), sealed.end(), begun.begin(), begun.end());
}

Error still_runs(const Found& found) {
    return Error{
        Errc::busy,
        0,
        "the agent of session " + found.meta.id.text() + " (pid " + std::to_string(*found.meta.pid)
            + ") was asked to end and still runs; the packet is written when it ends"};
}

// True when the session is checkpointed, false when it has ended otherwise. Errc::busy at the limit, Errc::gone when the
// user does not want to wait any more.
Result<bool> await_packet(const Found& found, const std::optional<milliseconds>& limit) {
    Result<FileEvents> events = FileEvents::open();
    if (!events.ok()) {
        return events.error();
    }
    if (const Result<int> watched = events.value().watch(found.directory); !watched.ok()) {
        return watched.error();
    }
    const steady_clock::time_point began = steady_clock::now();
    while (!events.value().interrupted()) {
        const Result<layout::Meta> meta = layout::read_meta(found.directory);
        if (meta.ok() && meta.value().status != layout::SessionStatus::active) {
            return meta.value().status == layout::SessionStatus::checkpointed;
        }
        if (!meta.ok() && meta.error().code == Errc::not_found) {
            return meta.error();
        }
        const auto waited = std::chrono::duration_cast<milliseconds>(steady_clock::now() - began);
        if (limit && waited >= *limit) {
            return still_runs(found);
        }
        const auto seen = events.value().wait(limit ? std::optional(*limit - waited) : limit);
        if (!seen.ok()) {
            return seen.error();
        }
    }
    return Error{
        Errc::gone,
        0,
        "session " + found.meta.id.text()
            + " stops at the end of its turn, but nobody waits for it"};
}

// By the daemon, without asking the session's client.
layout::Status cut(const Found& found, const std::string& reason, const std::string& socket) {
    Result<Client> client = Client::connect(socket, connect_timeout);
    if (!client.ok()) {
        return Error{client.error().code, 0, unreachable(socket, client.error())};
    }
    const nlohmann::ordered_json request{
        {"type", "session.checkpoint"},
        {"id", 1},
        {"session", found.meta.id.text()},
        {"reason", reason},
        {"force", true}};
    const Result<std::string> answer = client.value().ask(
        request.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
        "1",
        answer_timeout);
    if (!answer.ok()) {
        return answer.error();
    }
    const auto said = nlohmann::json::parse(answer.value(), nullptr, false);
    if (said.is_object() && said.value("type", "") == "ack") {
        return layout::Done{};
    }
    return Error{
        Errc::io, 0, said.is_object() ? said.value("message", answer.value()) : answer.value()};
}

void tell(
    const Found& found,
    const HandoffOptions& options,
    bool written,
    const CommandLine& line,
    const Surroundings& surroundings) {
    const std::string id = found.meta.id.text();
    const std::string next =
        "agent-relay resume " + id + " " + (options.to.empty() ? "<agent>" : options.to);
    if (line.json) {
        nlohmann::ordered_json shown{{"v", 1}, {"session", id}, {"written", written}};
        shown["resume"] =
            written ? nlohmann::ordered_json(found.directory + "/resume.json") : nullptr;
        shown["next"] = next;
        surroundings.out << shown.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
                         << '\n';
        return;
    }
    surroundings.out
        << (written ? "session " + id + " is checkpointed; go on with:\n  "
                    : "session " + id + " stops at the end of its turn; then go on with:\n  ")
        << harmless(next) << '\n';
}

// Nobody is stopped for an agent that cannot begin.
layout::Status check_next(const HandoffOptions& options, const Surroundings& surroundings) {
    return options.to.empty() || !options.launch ? layout::Status(layout::Done{})
                                                 : check_agent(options.to, surroundings);
}

ExitCode hand_over(
    const Found& found,
    const HandoffOptions& options,
    const CommandLine& line,
    const Surroundings& surroundings) {
    const Result<DaemonPlace> place = find_place(line, surroundings);
    if (!place.ok()) {
        return complain(surroundings, ExitCode::failed, place.error().context);
    }
    const bool by_run = is_driven_by_run(found.meta);
    if (!by_run && !options.now && has_open_turn(found.directory)) {
        return complain(
            surroundings,
            ExitCode::failed,
            "session " + found.meta.id.text()
                + " is in a turn and not below agent-relay run, so nobody stops it at the turn's "
                  "end; "
                  "cut it as it is with: agent-relay handoff --now --session "
                + found.meta.id.text());
    }
    layout::Status done =
        by_run
            ? request_handoff(place.value().state_directory, found.meta.id.text(), options.reason)
            : cut(found, options.reason, place.value().socket);
    if (!done.ok()) {
        return complain(surroundings, ExitCode::failed, done.error().context);
    }
    const auto pid = static_cast<pid_t>(by_run ? *found.meta.pid : 0);
    // Between two turns it waits for the next prompt, and any letter makes it look for a request.
    if (by_run && ::kill(pid, options.now ? SIGTERM : SIGCONT) != 0) {
        return complain(
            surroundings,
            ExitCode::failed,
            "end the agent of session " + found.meta.id.text() + ": "
                + std::system_category().message(errno));
    }
    const bool launches = !options.to.empty() && options.launch;
    bool written = !by_run;
    if (by_run && (options.now || launches)) {
        const Result<bool> there =
            await_packet(found, options.now ? std::optional(end_timeout) : std::nullopt);
        if (!there.ok()) {
            const bool left = there.error().code == Errc::gone;
            return complain(
                surroundings,
                left ? ExitCode::interrupted : ExitCode::failed,
                there.error().context);
        }
        written = there.value();
    }
    tell(found, options, written, line, surroundings);
    if (written && launches) {
        CommandLine next = line;
        next.arguments = {"--resume", "--from", found.meta.id.text(), options.to};
        surroundings.out.flush();
        return run_agent_command(next, surroundings);
    }
    return ExitCode::ok;
}

}  // namespace

ExitCode handoff_command(const CommandLine& line, const Surroundings& surroundings) {
    const Result<HandoffOptions> options = parse(line.arguments);
    if (!options.ok()) {
        return complain_usage(surroundings, "handoff", options.error().context);
    }
    std::string wanted = options.value().session;
    const std::string around = surroundings.environment("AGENT_RELAY_SESSION").value_or("");
    const bool below_run = wanted.empty() && !around.empty();
    if (below_run) {
        wanted = around;
    }
    Result<Found> found = find_session(wanted, surroundings);
    const steady_clock::time_point deadline = steady_clock::now() + begin_timeout;
    while (below_run && !found.ok() && found.error().code == Errc::not_found
           && steady_clock::now() < deadline) {
        ::poll(nullptr, 0, begin_pause_ms);
        found = find_session(wanted, surroundings);
    }
    if (!found.ok() && wanted.empty() && found.error().code == Errc::not_found) {
        return complain(
            surroundings,
            ExitCode::failed,
            "no session is running here; agent-relay list --status active --all-repos shows those "
            "that run elsewhere");
    }
    if (!found.ok()) {
        return complain(surroundings, choice_code(found.error()), found.error().context);
    }
    const std::string id = found.value().meta.id.text();
    switch (found.value().meta.status) {
    case layout::SessionStatus::active:
        if (const layout::Status ready = check_next(options.value(), surroundings); !ready.ok()) {
            return complain(
                surroundings,
                ExitCode::failed,
                ready.error().context + "; session " + id + " goes on as it was");
        }
        return hand_over(found.value(), options.value(), line, surroundings);
    case layout::SessionStatus::checkpointed:
        tell(found.value(), options.value(), /*written=*/true, line, surroundings);
        return complain(
            surroundings, ExitCode::usage, "session " + id + " was checkpointed before");
    case layout::SessionStatus::completed:
        break;
    }
    return complain(
        surroundings,
        ExitCode::failed,
        "session " + id + " has ended; nothing is left to hand over");
}

}  // namespace relay::cli
