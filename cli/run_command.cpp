// SPDX-License-Identifier: Apache-2.0
#include "cli/run_command.hpp"

#include "cli/adapters/adapter.hpp"
#include "cli/agent_process.hpp"
#include "cli/agent_table.hpp"
#include "cli/command_line.hpp"
#include "cli/current_directory.hpp"
#include "cli/daemon_starter.hpp"
#include "cli/git_changes.hpp"
#include "cli/handoff_request.hpp"
#include "cli/local_settings.hpp"
#include "cli/recorded_run.hpp"
#include "cli/run_assignment.hpp"
#include "cli/run_commentary.hpp"
#include "cli/session_choice.hpp"
#include "cli/signal_mail.hpp"
#include "layout/store.hpp"
#include "layout/ulid.hpp"

#include <signal.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace relay::cli {

const std::string_view run_help = R"(agent-relay run: run an agent or any command and record it

usage: agent-relay run [flags] -- <command> [arguments]
       agent-relay run [flags] <agent> ["prompt"]

examples:
  agent-relay run -- make test                    recorded; you see and get what you would without it
  agent-relay run -- ./my-agent.py --fix | tee log
  agent-relay run claude-code "fix the failing test"
  agent-relay run c                               no prompt, at a terminal: the agent as you know it
  git diff | agent-relay run x "review this"      standard input is the agent's
  agent-relay run --resume codex                  go on with the newest session that stopped short
  agent-relay run g --prompts-file steps.txt --max-turns 5
                                                  a turn for each line
  ./planner | agent-relay run g --prompts-file -  a turn for each line that comes

agents: claude-code (c), codex (x), gemini (g), opencode (o), aider (a), and yours in config.toml:
  [agents.mine]
  binary = "my-agent"             # in PATH, or a path
  extra_args = ["--fast"]
  aliases = ["m"]
  prompt = "argument"             # or "stdin", or a flag that goes before it: "--message", "--message="

The agent never waits for the recorder. The daemon is started when there is none; while it is away, events wait in
memory and then in a spool file, which the next agent-relay call delivers, each event once. At a terminal
the agent has a terminal; in a pipe its bytes go through unchanged. Signals reach the agent first.

An agent can say what should be known of its work, in lines of its output or from any process below it:
  RELAY_STATE: {"decisions":["use sqlite"],"blockers":[],"validation":{"tests":"pass"},"next_task":"write docs"}
  agent-relay note decision "use sqlite"          finds the session in $AGENT_RELAY_SESSION

With --resume the agent's first prompt tells what the earlier session was about, what it decided and where it
stopped; a command finds it on its standard input. The new session names the old one as its parent.

flags:
  --resume [--from SESSION]    go on with that session, or the newest that stopped short
  --name NAME, --label LABEL   of the session; labels may repeat
  --store auto|repo|user       where it is kept
  --prompts-file FILE          one prompt a line, one turn a prompt; - reads each when its turn comes
  --max-turns N                stop after so many; with prompts left the session is checkpointed, not completed
  --watch                      tell on standard error what is recorded: turns, decisions, blockers, how it ended
  --no-color                   ask the agent for no colours (NO_COLOR=1 in its environment)
  --no-session                 record nothing
  --no-diff                    do not ask git what a turn changed
  --raw                        keep colours and other escape sequences in output.md
  --config FILE                instead of the usual configuration
  --passthrough-exit           with an agent: its own exit status

exit status: of a command its own, 128 + n after signal n; of an agent 0 completed, 1 failed, 2 checkpointed;
126 it cannot be run, 127 it is not installed
)";

const std::string_view resume_help = R"(agent-relay resume: go on with a session that stopped short

usage: agent-relay resume <session> [flags] [<agent> ["prompt"]]
       agent-relay resume <session> [flags] -- <command> [arguments]

examples:
  agent-relay resume TWFTA9                       with the agent that began it
  agent-relay resume @latest codex                with another one
  agent-relay resume parser codex "only the docs are missing"
  agent-relay resume TWFTA9 -- ./my-agent.py      the packet is its standard input

The same as agent-relay run --resume --from <session>; flags and agents are those of run.

exit status: as of run; 2 also when the name fits several sessions, 3 there is no such session, or it has not
stopped short
)";

namespace {

using layout::Errc;
using layout::Error;
using layout::Result;

constexpr ExitCode cannot_run{126};
constexpr ExitCode not_installed{127};
std::vector<std::string>
environment_for_agent(const std::string& session, const std::string& socket, bool no_color) {
    std::vector<std::string> kept;
    for (char** variable = ::environ; variable != nullptr && *variable != nullptr; ++variable) {
        const std::string_view text = *variable;
        const bool ours = text.starts_with("AGENT_RELAY_SESSION=")
                          || (!socket.empty() && text.starts_with("AGENT_RELAY_SOCKET="))
                          || (no_color && text.starts_with("NO_COLOR="));
        if (!ours) {
            kept.emplace_back(text);
        }
    }
    if (!session.empty()) {
        kept.push_back("AGENT_RELAY_SESSION=" + session);
    }
    if (!socket.empty()) {
        kept.push_back("AGENT_RELAY_SOCKET=" + socket);
    }
    if (no_color) {
        kept.emplace_back("NO_COLOR=1");
    }
    return kept;
}

// What is gone on with, or the `run` that this one runs below.
std::string parent_of(const RunAssignment& assignment, const Surroundings& surroundings) {
    if (assignment.resumed) {
        return assignment.resumed->parent_json();
    }
    const std::string outer = surroundings.environment("AGENT_RELAY_SESSION").value_or("");
    return layout::Ulid::parse(outer) ? R"({"session":")" + outer + R"(","relation":"subagent"})"
                                      : "";
}

Result<RunConfig> load_run_config(
    const RunOptions& options, const std::string& cwd, const Surroundings& surroundings) {
    const Result<LocalSettings> local =
        load_local_settings(surroundings.environment, cwd, options.config_file);
    if (!local.ok()) {
        return local.error();
    }
    if (options.command.empty()) {
        name_ignored(local.value(), surroundings);
    }
    return make_run_config(local.value().settings, local.value().repository_root);
}

std::string path_of(const Surroundings& surroundings) {
    return surroundings.environment("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
}

std::string not_there(const Error& error, const std::string& agent) {
    return error.context + "; install " + agent + " or name its binary in [agents." + agent + "]";
}

// With --no-session: nobody listens.
class Nowhere final : public EventSink {
public:
    void event(std::string) override {}
    void bytes(AgentStream, std::string_view) override {}
};

// One `run`, from the first agent to the last word.
class Run {
public:
    Run(const CommandLine& line,
        const RunOptions& options,
        RunAssignment& assignment,
        const Surroundings& surroundings)
        : line_(line), options_(options), assignment_(assignment), surroundings_(surroundings) {}

    ExitCode execute();

private:
    [[nodiscard]] layout::Status prepare();
    [[nodiscard]] std::string path() const { return path_of(surroundings_); }
    [[nodiscard]] Result<AgentLaunch> launch(const std::optional<std::string>& prompt) const;
    [[nodiscard]] Result<AgentEnd> turn(const std::optional<std::string>& prompt, bool is_last);
    [[nodiscard]] bool is_handed_over();
    [[nodiscard]] ExitCode finish(const AgentEnd& last);
    [[nodiscard]] ExitCode complain_start(const Error& error) const;

    const CommandLine& line_;
    const RunOptions& options_;
    RunAssignment& assignment_;
    const Surroundings& surroundings_;
    SignalMail mail_;
    Nowhere nowhere_;
    std::optional<RunCommentary> commentary_;  // before what talks to it
    std::optional<RecordedRun> recording_;
    std::optional<GitChanges> changes_;
    std::string socket_ = line_.socket;  // for clients below the agent
    std::string state_directory_;
    bool output_failed_ = false;
    std::optional<std::string> stop_reason_;  // of a session that stops short; none: a signal's
    std::optional<std::string> next_task_;    // of one that does; what it was to do next
};

layout::Status Run::prepare() {
    if (!options_.record) {
        return layout::Done{};
    }
    const Result<DaemonPlace> place = find_place(line_, surroundings_);
    const Result<std::string> cwd = current_directory();
    if (!place.ok()) {
        return place.error();
    }
    if (!cwd.ok()) {
        return cwd.error();
    }
    RunPlan plan{
        assignment_.agent,
        assignment_.command,
        cwd.value(),
        options_.name,
        options_.labels,
        options_.store.empty() ? assignment_.store : options_.store,
        parent_of(assignment_, surroundings_)};
    if (assignment_.entry != nullptr) {
        plan.command = call_agent(*assignment_.entry, assignment_.prompts.front()->text).words;
    }
    if (options_.diff) {
        if (std::optional<GitChanges> watched = GitChanges::watch(cwd.value(), path())) {
            changes_.emplace(std::move(*watched));
        }
    }
    socket_ = place.value().socket;
    state_directory_ = place.value().state_directory;
    recording_.emplace(std::move(plan), place.value());
    if (assignment_.watch) {
        commentary_.emplace(surroundings_);
        recording_->set_listener(
            [this](const std::string& members) { commentary_->tell(members); });
    }
    return layout::Done{};
}

Result<AgentLaunch> Run::launch(const std::optional<std::string>& prompt) const {
    AgentLaunch launch;
    launch.words = assignment_.command;
    if (assignment_.entry == nullptr && assignment_.resumed) {
        launch.input = AgentInput::text;
        launch.input_text = assignment_.resumed->prompt;
    }
    if (assignment_.entry != nullptr) {
        AgentCall call = call_agent(*assignment_.entry, prompt);
        launch.words = std::move(call.words);
        if (call.input_text) {
            launch.input = AgentInput::text;
            launch.input_text = std::move(*call.input_text);
        } else if ((prompt && ::isatty(STDIN_FILENO) == 1) || (prompt && !options_.prompt)) {
            // Agents that find something open there wait for its end.
            launch.input = AgentInput::nothing;
        }
    }
    Result<std::string> program = find_program(launch.words.front(), path());
    if (!program.ok()) {
        return program.error();
    }
    launch.program = std::move(program.value());
    launch.environment = environment_for_agent(
        recording_ ? recording_->session() : "", socket_, line_.no_color || assignment_.no_color);
    return launch;
}

Result<AgentEnd> Run::turn(const std::optional<std::string>& prompt, bool is_last) {
    const Result<AgentLaunch> launched = launch(prompt);
    if (!launched.ok()) {
        return launched.error();
    }
    if (changes_) {
        changes_->begin();
    }
    Result<AgentProcess> agent = AgentProcess::start(launched.value(), mail_);
    if (!agent.ok()) {
        return agent.error();
    }
    EventSink* sink = &nowhere_;
    if (recording_) {
        recording_->begin_turn(prompt.value_or(""));
        sink = &recording_->sink();
    }
    const std::unique_ptr<Adapter> adapter =
        make_adapter(assignment_.format, *sink, {agent.value().has_terminal(), options_.raw});
    AgentListener listener;
    if (recording_) {
        listener.output = [&adapter](std::string_view bytes) {
            adapter->output(bytes);
        };
        listener.error = [&adapter](std::string_view bytes) {
            adapter->error(bytes);
        };
    }
    const AgentEnd end = agent.value().attend(
        mail_,
        listener,
        is_last ? AgentProcess::OutputAfter::none : AgentProcess::OutputAfter::some);
    if (end.output_is_stuck) {
        static_cast<void>(finish(end));
        ::_exit(end.exit_status());
    }
    if (end.output_refusal != 0) {
        output_failed_ = true;
        complain(
            surroundings_,
            ExitCode::failed,
            "what the agent printed could not be written: "
                + std::system_category().message(end.output_refusal));
    }
    const TurnFacts facts = adapter->finish(end);
    if (recording_) {
        recording_->end_turn(facts, end, changes_ ? changes_->end() : "");
    }
    return end;
}

ExitCode Run::complain_start(const Error& error) const {
    const bool absent = error.code == Errc::not_found;
    return complain(
        surroundings_,
        absent ? not_installed : cannot_run,
        absent && assignment_.entry != nullptr ? not_there(error, assignment_.agent)
                                               : error.context);
}

ExitCode Run::finish(const AgentEnd& last) {
    const bool checkpointed = last.interrupted || stop_reason_;
    if (recording_) {
        if (checkpointed) {
            recording_->checkpoint(stop_reason_.value_or("manual"), next_task_);
        } else {
            recording_->end(last);
        }
        const std::string trouble = recording_->finish();
        if (!trouble.empty()) {
            complain(surroundings_, ExitCode::failed, trouble);
        }
    }
    // As it would have been the agent's failure without us.
    const int status = last.exit_status() == 0 && output_failed_ ? 1 : last.exit_status();
    if (assignment_.passthrough_exit) {
        return ExitCode{status};
    }
    if (checkpointed) {
        return ExitCode{2};
    }
    return status == 0 ? ExitCode::ok : ExitCode::failed;
}

// Somebody asked for it since the last look.
bool Run::is_handed_over() {
    if (recording_ && !stop_reason_) {
        stop_reason_ = take_handoff_request(state_directory_, recording_->session());
    }
    return stop_reason_.has_value();
}

ExitCode Run::execute() {
    // An agent does not fail because nobody can record it.
    if (const layout::Status prepared = prepare(); !prepared.ok()) {
        complain(
            surroundings_,
            ExitCode::failed,
            "this run is not recorded: " + prepared.error().context);
    }
    AgentEnd last;
    bool first = true;
    while (const TurnPrompt* const prompt = assignment_.prompts.front()) {
        const Result<AgentEnd> end = turn(prompt->text, assignment_.prompts.is_last());
        if (!end.ok() && first) {
            return complain_start(end.error());
        }
        if (!end.ok()) {
            static_cast<void>(complain_start(end.error()));  // earlier turns decide the exit status
            break;
        }
        first = false;
        last = end.value();
        const bool done = !last.interrupted && last.exit_status() == 0;
        if (is_handed_over() && done) {
            next_task_ = assignment_.prompts.known_next();
        }
        if (stop_reason_ || !done) {
            break;
        }
        const Result<bool> goes_on =
            assignment_.prompts.advance(mail_, [this, &last](const SignalMail::Letter& letter) {
                last.interrupted =
                    letter.number == SIGINT || letter.number == SIGTERM || letter.number == SIGHUP;
                return !is_handed_over() && !last.interrupted;
            });
        if (!goes_on.ok()) {
            static_cast<void>(complain(surroundings_, ExitCode::failed, goes_on.error().context));
        }
        if (!goes_on.ok() || !goes_on.value()) {
            break;
        }
        const TurnPrompt* const beyond = assignment_.prompts.beyond_limit();
        if (recording_ && beyond != nullptr) {
            stop_reason_ = "max_turns";
            next_task_ = beyond->text;
        }
    }
    return finish(last);
}

}  // namespace

ExitCode run_agent(
    const RunOptions& options,
    std::optional<ResumableSession> earlier,
    const CommandLine& line,
    const Surroundings& surroundings) {
    const Result<std::string> here = current_directory();
    const std::string cwd = here.ok() ? here.value() : "";  // Run says so if it matters
    Result<RunConfig> config = load_run_config(options, cwd, surroundings);
    if (!config.ok() && options.command.empty()) {
        return complain(surroundings, ExitCode::usage, config.error().context);
    }
    if (!config.ok()) {
        // A command needs nothing of it; it goes where the daemon puts it.
        static_cast<void>(complain(
            surroundings,
            ExitCode::ok,
            config.error().context + "; this command runs as if nothing were configured"));
        config = RunConfig{};
    }
    Result<RunAssignment> assignment = assign_run(options, config.value(), std::move(earlier));
    if (!assignment.ok()) {
        return complain_usage(surroundings, "run", assignment.error().context);
    }
    Nowhere nowhere;
    if (make_adapter(assignment.value().format, nowhere, {}) == nullptr) {
        return complain(
            surroundings,
            ExitCode::usage,
            "agents." + assignment.value().agent + ".format is \"" + assignment.value().format
                + "\", which this version does not know; \"plain\" is");
    }
    return Run(line, options, assignment.value(), surroundings).execute();
}

layout::Status check_agent(const std::string& name, const Surroundings& surroundings) {
    RunOptions options;
    options.agent = name;
    const Result<std::string> here = current_directory();
    const Result<RunConfig> config =
        load_run_config(options, here.ok() ? here.value() : "", surroundings);
    if (!config.ok()) {
        return config.error();
    }
    const Result<RunAssignment> assignment =
        assign_run(options, config.value(), ResumableSession{});
    if (!assignment.ok()) {
        return assignment.error();
    }
    const AgentEntry& entry = *assignment.value().entry;
    const Result<std::string> program = find_program(entry.binary, path_of(surroundings));
    if (!program.ok()) {
        return Error{program.error().code, 0, not_there(program.error(), entry.name)};
    }
    return layout::Done{};
}

ExitCode run_agent_command(const CommandLine& line, const Surroundings& surroundings) {
    const Result<RunOptions> options = parse_run_options(line.arguments);
    if (!options.ok()) {
        return complain_usage(surroundings, "run", options.error().context);
    }
    if (!options.value().resume) {
        return run_agent(options.value(), std::nullopt, line, surroundings);
    }
    const Result<std::string> directory =
        find_resumable(options.value().resume_from, surroundings.environment);
    if (!directory.ok()) {
        return complain(surroundings, choice_code(directory.error()), directory.error().context);
    }
    Result<ResumableSession> earlier =
        read_resumable(directory.value(), options.value().prompt.value_or(""));
    if (!earlier.ok()) {
        return complain(surroundings, ExitCode::no_such_session, earlier.error().context);
    }
    return run_agent(options.value(), std::move(earlier.value()), line, surroundings);
}

ExitCode resume_command(const CommandLine& line, const Surroundings& surroundings) {
    if (line.arguments.empty() || line.arguments.front().starts_with('-')) {
        return complain_usage(surroundings, "resume", "resume needs a session");
    }
    CommandLine run = line;
    run.arguments = {"--resume", "--from"};
    run.arguments.insert(run.arguments.end(), line.arguments.begin(), line.arguments.end());
    return run_agent_command(run, surroundings);
}

}  // namespace relay::cli
