// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.hpp"
#include "cli/current_directory.hpp"
#include "cli/daemon_talk.hpp"
#include "cli/run_command.hpp"
#include "cli/session_choice.hpp"
#include "cli/terminal_text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace relay::cli {

const std::string_view fork_help = R"(agent-relay fork: begin anew from any turn of a session

usage: agent-relay fork <session>[:<turn>] [flags] [<agent> ["prompt"]]
       agent-relay fork <session>[:<turn>] [flags] -- <command> [arguments]

examples:
  agent-relay fork TWFTA9:3                           its own agent, as if nothing had come after turn 3
  agent-relay fork TWFTA9:3 codex "try it without a database"
  agent-relay fork @latest -- ./my-agent.py           from its last turn; the packet is standard input
  agent-relay fork TWFTA9:3 --no-launch --name plan-b     only record it; go on with agent-relay resume plan-b

The new session names the old one and the turn as its parent; nothing is copied, and the old one does not change. The first
prompt tells what was known when that turn ended. Without a turn it is the last one that has ended, also of a session
that still runs. The working tree stays as it is: bring it to where you want it first.

flags: those of run, and
  --no-launch      start no agent: the new session is checkpointed at once

With --no-launch, --json prints {"v":1,"session":…,"path":…,"parent":{"session":…,"turn":3,"relation":"fork"},"next":…}.

exit status: as of run; with --no-launch 0 recorded, 4 daemon unreachable; 2 wrong usage or ambiguous, 3 no such
session or turn
)";

const std::string_view clone_help = R"(agent-relay clone: a second session that goes on where one is

usage: agent-relay clone <session> [flags]
       agent-relay clone <session> [flags] <agent> ["prompt"]
       agent-relay clone <session> [flags] -- <command> [arguments]

examples:
  agent-relay clone TWFTA9 --name plan-b      recorded, checkpointed, to be gone on with later
  agent-relay resume plan-b                   now
  agent-relay clone @latest codex             both at once

Like agent-relay fork from the last turn that has ended, with a relation of its own, and without starting an agent
unless one is named. Nothing is copied: the new session refers to the old one, which does not change.

flags: those of run

Without an agent, --json prints {"v":1,"session":…,"path":…,"parent":{"session":…,"turn":3,"relation":"clone"},"next":…}.

exit status: 0 recorded, 4 daemon unreachable; with an agent as of run; 2 wrong usage or ambiguous, 3 no such session
)";

namespace {

using layout::Errc;
using layout::Error;
using layout::Result;
using nlohmann::json;
using nlohmann::ordered_json;

struct BranchFlags {
    std::string session;
    RunOptions run;
    bool launch = true;
};

Result<BranchFlags> parse(const CommandLine& line, std::string_view relation) {
    const std::string command(relation);
    BranchFlags flags;
    std::vector<std::string> rest = line.arguments;
    if (rest.empty() || rest.front().starts_with('-')) {
        return Error{Errc::invalid, 0, command + " needs a session"};
    }
    flags.session = rest.front();
    rest.erase(rest.begin());
    const auto flags_end = std::find(rest.begin(), rest.end(), "--");
    if (const auto found = std::find(rest.begin(), flags_end, "--no-launch"); found != flags_end) {
        flags.launch = false;
        rest.erase(found);
    }
    Result<RunOptions> options = parse_run_options(rest);
    if (!options.ok()) {
        return options.error();
    }
    flags.run = std::move(options.value());
    if (flags.run.resume) {
        return Error{Errc::invalid, 0, command + " takes no --resume: it is what it does"};
    }
    const bool names_one = !flags.run.agent.empty() || !flags.run.command.empty();
    if (!flags.launch && names_one) {
        return Error{
            Errc::invalid, 0, "--no-launch starts nothing, but somebody to start is named"};
    }
    if (!flags.run.record) {
        return Error{Errc::invalid, 0, command + " records a session; --no-session would not"};
    }
    flags.launch = flags.launch && (relation == "fork" || names_one);
    return flags;
}

ordered_json
start_request(const ResumableSession& earlier, const RunOptions& options, const std::string& cwd) {
    ordered_json request{{"type", "session.start"}, {"agent", earlier.agent}, {"cwd", cwd}};
    request["parent"] = ordered_json::parse(earlier.parent_json());
    if (!options.name.empty()) {
        request["name"] = options.name;
    }
    if (!options.labels.empty()) {
        request["labels"] = options.labels;
    }
    if (!options.store.empty()) {
        request["store"] = options.store;
    }
    return request;
}

// Its resume.json is to say what was known, for readers that do not look at the parent.
ordered_json
checkpoint_request(const std::string& session, const std::string& relation, const json& packet) {
    ordered_json request{
        {"type", "session.checkpoint"}, {"session", session}, {"reason", relation}};
    for (const char* const key : {"decisions", "blockers", "next_task"}) {
        if (packet.contains(key) && !packet[key].is_null()) {
            request[key] = packet[key];
        }
    }
    if (packet.contains("validation_state") && packet["validation_state"].is_object()) {
        for (const auto& [name, state] : packet["validation_state"].items()) {
            request["validation_state"][name] = state.contains("value") ? state["value"] : state;
        }
    }
    return request;
}

void tell(
    const json& started,
    const ResumableSession& earlier,
    const CommandLine& line,
    const Surroundings& surroundings) {
    const std::string id = started.value("session", "");
    const std::string next = "agent-relay resume " + id;
    if (line.json) {
        ordered_json shown{{"v", 1}, {"session", id}, {"path", started.value("path", "")}};
        shown["parent"] = ordered_json::parse(earlier.parent_json());
        shown["next"] = next;
        const std::string text = shown.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
        surroundings.out << (surroundings.out_is_terminal ? harmless_json(text) : text) << '\n';
        return;
    }
    surroundings.out << "session " << id << " is a " << earlier.relation << " of " << earlier.id
                     << (earlier.last_turn > 0 ? ":" + std::to_string(earlier.last_turn) : "")
                     << "; go on with:\n  " << next << '\n';
}

ExitCode record_only(
    const ResumableSession& earlier,
    const BranchFlags& flags,
    const std::optional<std::int64_t>& turn,
    const CommandLine& line,
    const Surroundings& surroundings) {
    const Result<json> packet = find_packet(earlier.directory, turn);
    const Result<std::string> cwd = current_directory();
    if (!packet.ok() || !cwd.ok()) {
        return complain(
            surroundings,
            ExitCode::failed,
            packet.ok() ? cwd.error().context : packet.error().context);
    }
    Result<DaemonTalk> daemon = DaemonTalk::begin(line, surroundings);
    if (!daemon.ok()) {
        return complain(surroundings, talk_code(daemon.error()), daemon.error().context);
    }
    const Result<json> started = daemon.value().ask(start_request(earlier, flags.run, cwd.value()));
    const Result<json> written =
        started.ok() ? daemon.value().ask(checkpoint_request(
            started.value().value("session", ""), earlier.relation, packet.value()))
                     : started;
    if (!written.ok()) {
        return complain(surroundings, talk_code(written.error()), written.error().context);
    }
    tell(started.value(), earlier, line, surroundings);
    return ExitCode::ok;
}

ExitCode
branch(std::string_view relation, const CommandLine& line, const Surroundings& surroundings) {
    const Result<BranchFlags> flags = parse(line, relation);
    if (!flags.ok()) {
        return complain_usage(surroundings, relation, flags.error().context);
    }
    const Result<SearchPlaces> places = find_search_places(surroundings.environment, "");
    if (!places.ok()) {
        return complain(surroundings, ExitCode::failed, places.error().context);
    }
    const std::string& word = flags.value().session;
    const Result<ChosenSession> chosen = relation == "fork"
                                             ? choose_session(word, places.value())
                                             : choose_whole_session(word, places.value());
    if (!chosen.ok()) {
        return complain(surroundings, choice_code(chosen.error()), chosen.error().context);
    }
    Result<ResumableSession> earlier = read_as_of(
        chosen.value().directory,
        chosen.value().turn,
        relation,
        flags.value().run.prompt.value_or(""));
    if (!earlier.ok()) {
        return complain(surroundings, choice_code(earlier.error()), earlier.error().context);
    }
    return flags.value().launch
               ? run_agent(flags.value().run, std::move(earlier.value()), line, surroundings)
               : record_only(
                   earlier.value(), flags.value(), chosen.value().turn, line, surroundings);
}

}  // namespace

ExitCode fork_command(const CommandLine& line, const Surroundings& surroundings) {
    return branch("fork", line, surroundings);
}

ExitCode clone_command(const CommandLine& line, const Surroundings& surroundings) {
    return branch("clone", line, surroundings);
}

}  // namespace relay::cli
