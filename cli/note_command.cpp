// SPDX-License-Identifier: Apache-2.0
#include "cli/client.hpp"
#include "cli/command_line.hpp"
#include "cli/daemon_starter.hpp"
#include "cli/emit_fields.hpp"
#include "cli/session_choice.hpp"
#include "cli/terminal_text.hpp"
#include "layout/ulid.hpp"

#include <nlohmann/json.hpp>

#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace relay::cli {

const std::string_view note_help = R"(agent-relay note: say what should be known of the work

usage: agent-relay note decision|blocker "summary" [--why TEXT] [--id ID]
       agent-relay note validation <name>=<result>...
       agent-relay note next "what to do next"
       agent-relay note file <path> [--status added|modified|deleted]
       agent-relay note <kind> [words]

examples:
  agent-relay note decision "keep the old parser" --why "users rely on it"
  agent-relay note blocker "no network in the sandbox" --id net
  agent-relay note validation tests=pass lint=fail
  agent-relay note next "write the migration"

The note goes to the session that this process runs in ($AGENT_RELAY_SESSION, set by agent-relay run), or to
--session. It is in the turn's state.json and in resume.json as declared.

flags:
  --session SESSION  the session, by any name
  --why TEXT         the reason of a decision or blocker
  --id ID            a later decision or blocker with the same one replaces the earlier
  --status added|modified|deleted
                     what happened to a file

--json prints the daemon's answer.

exit status: 0 recorded, 1 refused, 2 wrong usage, 3 no such session, 4 daemon unreachable
)";

namespace {

using layout::Errc;
using layout::Error;
using layout::Result;
using nlohmann::ordered_json;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds connect_timeout{5'000};
constexpr milliseconds answer_timeout{60'000};
// A session that run has just begun may reach the daemon after its agent's first words.
constexpr milliseconds begin_timeout{5'000};
constexpr int begin_pause_ms = 20;

struct NoteOptions {
    std::string kind;
    std::vector<std::string> words;
    std::string session;
    std::string why;
    std::string id;
    std::string status;
};

Result<NoteOptions> parse(const std::vector<std::string>& arguments) {
    NoteOptions options;
    bool only_words = false;
    for (std::size_t at = 0; at < arguments.size(); ++at) {
        const std::string& argument = arguments[at];
        if (argument == "--" && !only_words) {
            only_words = true;
            continue;
        }
        if (only_words || !argument.starts_with("--")) {
            (options.kind.empty() ? options.kind : options.words.emplace_back()) = argument;
            continue;
        }
        const std::size_t equals = std::min(argument.find('='), argument.size());
        const std::string flag = argument.substr(0, equals);
        std::string* const into = flag == "--session"  ? &options.session
                                  : flag == "--why"    ? &options.why
                                  : flag == "--id"     ? &options.id
                                  : flag == "--status" ? &options.status
                                                       : nullptr;
        if (into == nullptr) {
            return Error{Errc::invalid, 0, "unknown flag \"" + argument + "\""};
        }
        if (equals < argument.size()) {
            *into = argument.substr(equals + 1);
        } else if (at + 1 < arguments.size()) {
            *into = arguments[++at];
        }
        if (into->empty()) {
            return Error{Errc::invalid, 0, flag + " needs a value"};
        }
    }
    return options;
}

std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) {
        text += (text.empty() ? "" : " ") + word;
    }
    return text;
}

Result<ordered_json> validation_payload(const std::vector<std::string>& words) {
    ordered_json payload = ordered_json::object();
    for (const std::string& word : words) {
        const std::size_t equals = word.find('=');
        if (equals == 0 || equals == std::string::npos) {
            return Error{
                Errc::invalid,
                0,
                "\"" + word + "\" is no result; write name=result, as tests=pass"};
        }
        payload[word.substr(0, equals)] = word.substr(equals + 1);
    }
    return payload;
}

Result<ordered_json> payload_of(const NoteOptions& options) {
    const std::string text = joined(options.words);
    constexpr std::array<std::string_view, 5> with_words{
        "decision", "blocker", "validation", "next", "file"};
    const bool needs_words =
        std::find(with_words.begin(), with_words.end(), options.kind) != with_words.end();
    if (needs_words && text.empty()) {
        return Error{Errc::invalid, 0, "note " + options.kind + " needs words"};
    }
    if (options.kind == "validation") {
        return validation_payload(options.words);
    }
    if (options.kind == "file") {
        const std::string status = options.status.empty() ? "modified" : options.status;
        return ordered_json{{"path", text}, {"status", status}};
    }
    if (options.kind == "next") {
        return ordered_json(text);
    }
    ordered_json payload = ordered_json::object();
    if (!text.empty()) {
        payload["summary"] = text;
    }
    if (!options.id.empty()) {
        payload["id"] = options.id;
    }
    if (!options.why.empty()) {
        payload["why"] = options.why;
    }
    return payload;
}

Result<std::string> send(Client& client, const std::string& line, bool may_be_early) {
    const steady_clock::time_point deadline = steady_clock::now() + begin_timeout;
    while (true) {
        Result<std::string> answer = client.ask(line, "1", answer_timeout);
        const bool early = answer.ok() && may_be_early
                           && exit_code_of(answer.value()) == ExitCode::no_such_session;
        if (!early || steady_clock::now() >= deadline) {
            return answer;
        }
        ::poll(nullptr, 0, begin_pause_ms);
    }
}

// An id is taken at its word: the session may be in a store that only the daemon knows of.
Result<std::string> id_of(const std::string& word, const Surroundings& surroundings) {
    if (layout::Ulid::parse(word)) {
        return word;
    }
    const Result<SearchPlaces> places = find_search_places(surroundings.environment, "");
    if (!places.ok()) {
        return places.error();
    }
    const Result<ChosenSession> chosen = choose_whole_session(word, places.value());
    return chosen.ok() ? Result<std::string>(chosen.value().id.text()) : chosen.error();
}

}  // namespace

ExitCode note_command(const CommandLine& line, const Surroundings& surroundings) {
    const Result<NoteOptions> options = parse(line.arguments);
    if (!options.ok()) {
        return complain_usage(surroundings, "note", options.error().context);
    }
    if (options.value().kind.empty()) {
        return complain_usage(
            surroundings, "note", "note needs a kind: decision, blocker, validation, next, file");
    }
    const Result<ordered_json> payload = payload_of(options.value());
    if (!payload.ok()) {
        return complain_usage(surroundings, "note", payload.error().context);
    }
    const std::string around = surroundings.environment("AGENT_RELAY_SESSION").value_or("");
    const bool below_run = options.value().session.empty();
    if (below_run && around.empty()) {
        return complain_usage(
            surroundings,
            "note",
            "no session: this process does not run below agent-relay run; name one with --session");
    }
    const Result<std::string> session =
        below_run ? around : id_of(options.value().session, surroundings);
    if (!session.ok()) {
        return complain(surroundings, choice_code(session.error()), session.error().context);
    }
    const Result<std::string> request = to_line(Fields{
        {"type", "turn.note"},
        {"id", 1},
        {"session", session.value()},
        {"kind", options.value().kind},
        {"payload", payload.value()}});
    const Result<DaemonPlace> place = find_place(line, surroundings);
    if (!request.ok() || !place.ok()) {
        return complain(
            surroundings,
            ExitCode::usage,
            request.ok() ? place.error().context : request.error().context);
    }
    // An agent below run may be faster than the daemon that run has just started.
    const std::string& socket = place.value().socket;
    Result<Client> client = below_run
                                ? reach_daemon(place.value(), connect_timeout, [] { return false; })
                                : Client::connect(socket, connect_timeout);
    if (!client.ok()) {
        return complain(
            surroundings, ExitCode::daemon_unreachable, unreachable(socket, client.error()));
    }
    const Result<std::string> answer = send(client.value(), request.value(), below_run);
    if (!answer.ok()) {
        return complain(
            surroundings,
            ExitCode::daemon_unreachable,
            "no answer from agent-relayd, so the note may or may not be recorded: "
                + answer.error().context);
    }
    const ExitCode code = exit_code_of(answer.value());
    if (line.json) {
        surroundings.out
            << (surroundings.out_is_terminal ? harmless_json(answer.value()) : answer.value())
            << '\n';
    } else if (code != ExitCode::ok) {
        const auto refusal = ordered_json::parse(answer.value(), nullptr, false);
        return complain(
            surroundings,
            code,
            refusal.is_object() ? refusal.value("message", answer.value()) : answer.value());
    }
    return code;
}

}  // namespace relay::cli
