// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.hpp"
#include "cli/current_directory.hpp"
#include "cli/run_command.hpp"
#include "cli/session_choice.hpp"
#include "layout/session_reader.hpp"

#include <string>
#include <utility>

namespace relay::cli {

const std::string_view continue_help =
    R"(agent-relay continue: go on with the newest session of this directory

usage: agent-relay continue [flags] ["prompt"]
       agent-relay continue [flags] -- <command> [arguments]

examples:
  agent-relay continue                      its own agent goes on where it stopped
  agent-relay -c "now write the docs"       the same in short, and it is told what to do now
  agent-relay continue -- ./my-agent.py     a command; the packet is its standard input

A new session begins, and names the old one as its parent. The first prompt tells what that was about, what it decided
and where it stopped; yours stands in it. Sessions of this very directory count, also those that completed;
archived ones, ephemeral ones and those of agents below agent-relay run do not. Another agent goes on with
agent-relay resume or agent-relay fork. Flags are those of run.

exit status: as of run; 3 no session of this directory, or it still runs
)";

namespace {

using layout::Errc;
using layout::Error;
using layout::Meta;
using layout::Result;

Result<RunOptions> parse(const std::vector<std::string>& arguments) {
    Result<RunOptions> options = parse_run_options(arguments);
    if (!options.ok()) {
        return options;
    }
    if (options.value().resume) {
        return Error{Errc::invalid, 0, "continue takes no --resume: it is what it does"};
    }
    if (options.value().prompt) {
        return Error{
            Errc::invalid,
            0,
            "continue takes one prompt, in quotes; another agent goes on with: agent-relay fork "
            "@latest "
                + options.value().agent};
    }
    // The first word of run is an agent; here it can only be the prompt.
    if (!options.value().agent.empty()) {
        options.value().prompt = std::exchange(options.value().agent, {});
    }
    if (options.value().prompt && !options.value().prompts_file.empty()) {
        return Error{Errc::invalid, 0, "continue takes a prompt or --prompts-file, got both"};
    }
    return options;
}

Result<std::string> find_newest_here(const Surroundings& surroundings) {
    const Result<SearchPlaces> places = find_search_places(surroundings.environment, "");
    if (!places.ok()) {
        return places.error();
    }
    const Result<std::string> here = current_directory();
    if (!here.ok()) {
        return here.error();
    }
    const std::string& cwd = here.value();
    const Result<ChosenSession> newest = newest_session(places.value(), [&cwd](const Meta& meta) {
        const bool below_another = meta.parent && meta.parent->relation == "subagent";
        return meta.cwd == cwd && !meta.archived && !meta.ephemeral && !below_another;
    });
    if (!newest.ok()) {
        return Error{
            Errc::not_found,
            0,
            "no session was recorded in \"" + cwd
                + "\"; agent-relay list shows those of the whole repository, and agent-relay fork "
                  "goes on from any"};
    }
    return newest.value().directory;
}

Result<ResumableSession> read_earlier(const std::string& directory, const std::string& request) {
    const Result<Meta> meta = layout::read_meta(directory);
    if (!meta.ok()) {
        return meta.error();
    }
    return meta.value().status == layout::SessionStatus::completed
               ? read_as_of(directory, std::nullopt, "resume", request)
               : read_resumable(directory, request);
}

}  // namespace

ExitCode continue_command(const CommandLine& line, const Surroundings& surroundings) {
    const Result<RunOptions> options = parse(line.arguments);
    if (!options.ok()) {
        return complain_usage(surroundings, "continue", options.error().context);
    }
    const Result<std::string> directory = find_newest_here(surroundings);
    if (!directory.ok()) {
        return complain(surroundings, choice_code(directory.error()), directory.error().context);
    }
    Result<ResumableSession> earlier =
        read_earlier(directory.value(), options.value().prompt.value_or(""));
    if (!earlier.ok()) {
        return complain(surroundings, ExitCode::no_such_session, earlier.error().context);
    }
    return run_agent(options.value(), std::move(earlier.value()), line, surroundings);
}

}  // namespace relay::cli
