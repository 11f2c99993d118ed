// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.hpp"
#include "cli/flag_table.hpp"
#include "cli/human_text.hpp"
#include "cli/screen.hpp"
#include "cli/session_choice.hpp"
#include "cli/session_filter.hpp"
#include "cli/terminal_text.hpp"
#include "cli/text_flow.hpp"
#include "layout/json_depth.hpp"
#include "layout/json_writer.hpp"
#include "layout/meta_skim.hpp"
#include "layout/session_paths.hpp"
#include "layout/session_reader.hpp"
#include "layout/turn_input.hpp"

#include <nlohmann/json.hpp>

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace relay::cli {

const std::string_view show_help = R"help(agent-relay show: a session as it can be read

usage: agent-relay show [<session>[:<turn>]] [flags]        without a session: @latest

examples:
  agent-relay show                              the newest session, all of it
  agent-relay show TWFTA9:3                     its third turn
  agent-relay show 261116-minty-guitar --output > answer.md
  agent-relay show @running:2 --state | jq .tokens
  cd "$(agent-relay show @latest --path)"

one thing alone, as it lies on disk (of every turn unless one is named):
  --prompt         what was asked
  --output         what came back
  --stderr         what was written to standard error
  --diff           what changed in the work tree
  --state          the seal of a turn, NNN-state.json; without a turn meta.json
  --path           the session's directory; with another of these, the path of that file

  --store DIR      look for the session in this store

--json prints a line for the session, {"v":1,"type":"session","path":…,"meta":{…}}, and one a turn,
{"v":1,"type":"turn","turn":1,"prompt":…,"output":…,"stderr":null,"diff":null,"state":{…}}; state is null while it runs.

exit status: 0 shown, 1 failed, 2 wrong usage or ambiguous, 3 no such session or turn, 5 damaged
)help";

namespace {

using Json = nlohmann::json;
using layout::Errc;
using layout::Error;
using layout::Meta;
using layout::Result;
using layout::Status;
using layout::TurnInput;
using layout::TurnState;

constexpr std::int64_t state_bytes_max = 64 << 20;
constexpr std::int64_t json_text_bytes_max = std::int64_t{1} << 30;
constexpr std::size_t depth_max = 128;
constexpr std::size_t files_max = 50;  // of a turn; the patch has all

struct ShowFlags {
    std::string session = "@latest";
    StoreFlags stores;
    bool prompt = false;
    bool output = false;
    bool stderr_log = false;
    bool diff = false;
    bool state = false;
    bool path = false;
};

Status parse_flags(const std::vector<std::string>& arguments, ShowFlags& flags) {
    const std::vector<Flag> known{
        switch_flag("--prompt", flags.prompt),
        switch_flag("--output", flags.output),
        switch_flag("--stderr", flags.stderr_log),
        switch_flag("--diff", flags.diff),
        switch_flag("--state", flags.state),
        switch_flag("--path", flags.path),
        text_flag("--store", "a directory", flags.stores.store),
    };
    const Result<std::vector<std::string>> words = take_flags(arguments, known);
    if (!words.ok()) {
        return words.error();
    }
    if (words.value().size() > 1) {
        return Error{
            Errc::invalid, 0, "show takes one session, not also \"" + words.value()[1] + "\""};
    }
    if (!words.value().empty()) {
        flags.session = words.value().front();
    }
    const int chosen = (flags.prompt ? 1 : 0) + (flags.output ? 1 : 0) + (flags.stderr_log ? 1 : 0)
                       + (flags.diff ? 1 : 0) + (flags.state ? 1 : 0);
    if (chosen > 1) {
        return Error{
            Errc::invalid, 0, "show prints one of --prompt, --output, --stderr, --diff, --state"};
    }
    return layout::Done{};
}

// A session on disk, and the part of it that was asked for.
struct Shown {
    ChosenSession session;
    Meta meta;
    std::vector<std::int64_t> turns;

    [[nodiscard]] std::string file(const std::string& name) const {
        return session.directory + "/" + name;
    }
};

// The whole file in pieces; false when there is none or it cannot be read.
bool pass_on(const std::string& path, const std::function<void(std::string_view piece)>& take) {
    Result<TurnInput> file = TurnInput::open(AT_FDCWD, path);
    if (!file.ok()) {
        return false;
    }
    std::string piece(std::size_t{64} * 1024, '\0');
    for (;;) {
        const Result<std::size_t> got = file.value().read(piece.data(), piece.size());
        if (!got.ok() || got.value() == 0) {
            return got.ok();
        }
        take(std::string_view(piece).substr(0, got.value()));
    }
}

std::string file_of(std::int64_t turn, const ShowFlags& flags) {
    return flags.prompt       ? layout::prompt_file(turn)
           : flags.output     ? layout::output_file(turn)
           : flags.stderr_log ? layout::stderr_file(turn)
           : flags.diff       ? layout::diff_file(turn)
                              : layout::state_file(turn);
}

// -- one thing alone

void print_path(const std::string& path, const Surroundings& surroundings) {
    surroundings.out << (surroundings.out_is_terminal ? harmless(path) : path) << '\n';
}

ExitCode show_raw(const Shown& shown, const ShowFlags& flags, const Surroundings& surroundings) {
    std::vector<std::string> files;
    if (flags.state && !shown.session.turn) {
        files.emplace_back(layout::meta_file);
    } else {
        files.reserve(shown.turns.size());
        for (const std::int64_t turn : shown.turns) {
            files.push_back(file_of(turn, flags));
        }
    }
    if (flags.path) {
        for (const std::string& file : files) {
            const Result<TurnInput> found = TurnInput::open(AT_FDCWD, shown.file(file));
            const bool compressed = found.ok() && found.value().compressed();
            print_path(shown.file(compressed ? layout::compressed_file(file) : file), surroundings);
        }
        return ExitCode::ok;
    }
    bool any = false;
    const Pages pages(surroundings);
    std::ostream& out = pages.surroundings().out;
    TextFlow flow(out, {});
    for (const std::string& file : files) {
        any = pass_on(
                  shown.file(file),
                  [&](std::string_view piece) {
                      if (surroundings.out_is_terminal) {
                          flow.stream(piece, "", Tone::plain);
                      } else {
                          out << piece;
                      }
                  })
              || any;
        if (surroundings.out_is_terminal) {
            flow.finish();
        }
    }
    if (!any && shown.session.turn) {
        return complain(
            surroundings,
            ExitCode::no_such_session,
            "turn " + std::to_string(*shown.session.turn) + " of " + shown.session.id.text()
                + " has no " + files.front());
    }
    return ExitCode::ok;
}

// -- JSON

void put_text(layout::JsonObject& object, std::string_view key, const std::string& path) {
    const Result<std::string> text = layout::read_turn_file(path, json_text_bytes_max);
    object.string_or_null(key, text.ok() ? std::optional<std::string>(text.value()) : std::nullopt);
}

void put_document(layout::JsonObject& object, std::string_view key, const std::string& path) {
    const Result<std::string> text = layout::read_file(path, state_bytes_max);
    const bool whole =
        text.ok() && layout::json_depth(text.value()) <= depth_max && Json::accept(text.value());
    object.raw(key, whole ? layout::minified_json(text.value()) : "null");
}

void show_json(const Shown& shown, const Surroundings& surroundings) {
    const auto print = [&surroundings](const std::string& line) {
        surroundings.out << (surroundings.out_is_terminal ? harmless_json(line) : line) << '\n';
    };
    std::string line;
    layout::JsonObject session(line, layout::JsonObject::Form::compact);
    session.integer("v", 1);
    session.string("type", "session");
    session.string("path", shown.session.directory);
    put_document(session, "meta", shown.file(std::string(layout::meta_file)));
    session.finish();
    print(line);
    for (const std::int64_t turn : shown.turns) {
        line.clear();
        layout::JsonObject object(line, layout::JsonObject::Form::compact);
        object.integer("v", 1);
        object.string("type", "turn");
        object.integer("turn", turn);
        put_text(object, "prompt", shown.file(layout::prompt_file(turn)));
        put_text(object, "output", shown.file(layout::output_file(turn)));
        put_text(object, "stderr", shown.file(layout::stderr_file(turn)));
        put_text(object, "diff", shown.file(layout::diff_file(turn)));
        put_document(object, "state", shown.file(layout::state_file(turn)));
        object.finish();
        print(line);
    }
}

// -- for people

std::string tokens_text(const layout::Tokens& tokens) {
    std::string text;
    const auto add = [&text](const std::optional<std::int64_t>& count, std::string_view name) {
        if (count) {
            text += (text.empty() ? "" : ", ") + count_text(*count) + " " + std::string(name);
        }
    };
    add(tokens.input, "in");
    add(tokens.output, "out");
    add(tokens.cache_read, "cache read");
    add(tokens.cache_write, "cache written");
    add(tokens.reasoning, "reasoning");
    add(tokens.total, "in all");
    return text;
}

void show_facts(const Shown& shown, TextFlow& flow) {
    const Meta& meta = shown.meta;
    const auto fact = [&flow](std::string_view name, const std::string& value) {
        if (!value.empty()) {
            std::string label(name);
            label.resize(std::max<std::size_t>(label.size(), 10), ' ');
            flow.say(label + value, Tone::plain);
        }
    };
    flow.say(meta.name ? *meta.name + " (" + meta.slug + ")" : meta.slug, Tone::bold);
    fact("id", meta.id.text());
    fact("agent", meta.agent + (meta.model ? ", " + *meta.model : ""));
    const std::string exit =
        meta.exit_code ? exit_text(*meta.exit_code, meta.error.value_or("")) : "";
    fact(
        "status",
        std::string(layout::name_of(meta.status))
            + (meta.checkpoint_reason ? ": " + *meta.checkpoint_reason : "")
            + (meta.error ? ": " + *meta.error : "") + (exit.empty() ? "" : ", " + exit));
    fact(
        "time",
        clock_text(meta.started_at) + ", "
            + duration_text(meta.ended_at.value_or(meta.updated_at).ms - meta.started_at.ms));
    fact("where", meta.cwd + (meta.repo && meta.repo->branch ? ", " + *meta.repo->branch : ""));
    fact(
        "turns",
        std::to_string(meta.turn_count)
            + (meta.current_turn ? ", and " + std::to_string(*meta.current_turn) + " runs" : ""));
    fact("tokens", tokens_text(meta.tokens));
    fact("cost", meta.cost_usd ? cost_text(*meta.cost_usd) : "");
    std::string labels;
    for (const std::string& label : meta.labels) {
        labels += (labels.empty() ? "" : ", ") + label;
    }
    fact("labels", labels);
    fact("stage", meta.stage.value_or(""));
    fact(
        "parent",
        meta.parent ? meta.parent->session
                          + (meta.parent->turn ? ":" + std::to_string(*meta.parent->turn) : "")
                          + " (" + meta.parent->relation + ")"
                    : "");
    for (const layout::CaptureConflict& conflict : meta.capture.conflicts) {
        fact("changed", conflict.file + " by hand; the recorder's version is " + conflict.kept);
    }
}

Json parsed(const layout::RawJson& value) {
    return layout::json_depth(value.text) > depth_max
               ? Json()
               : Json::parse(value.text, nullptr, /*allow_exceptions=*/false);
}

// A string as it is, anything else as JSON.
std::string text_of(const Json& value) {
    return value.is_string() ? value.get<std::string>()
                             : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Decisions and blockers of a seal, one a line.
void show_items(const layout::RawJson& items, std::string_view name, Tone tone, TextFlow& flow) {
    const Json list = parsed(items);
    for (const Json& item : list.is_array() ? list : Json::array()) {
        const bool told = item.is_object() && item.contains("summary");
        flow.say("  " + std::string(name) + ": " + text_of(told ? item["summary"] : item), tone);
    }
}

void show_validation(const layout::RawJson& validation, TextFlow& flow) {
    const Json values = parsed(validation);
    std::string text;
    if (!values.is_object()) {
        return;
    }
    for (const auto& [name, value] : values.items()) {
        text += (text.empty() ? "" : ", ") + name + " " + text_of(value);
    }
    if (!text.empty()) {
        flow.say("  validation: " + text, Tone::green);
    }
}

// What the turn changed, a file a line.
void show_files(const layout::RawJson& files, TextFlow& flow) {
    const Json list = parsed(files);
    const auto count = [](const Json& file, const char* key, const char* sign) {
        const bool known = file.contains(key) && file[key].is_number_integer();
        return known ? sign + std::to_string(file[key].get<std::int64_t>()) : "";
    };
    std::size_t shown = 0;
    for (const Json& file : list.is_array() ? list : Json::array()) {
        if (!file.is_object() || !file.contains("path")) {
            continue;
        }
        if (++shown > files_max) {
            flow.say("  and more; --diff shows the patch", Tone::yellow);
            return;
        }
        flow.say(
            "  " + text_of(file.value("status", Json("changed"))) + " " + text_of(file["path"])
                + count(file, "added", " +") + count(file, "removed", " -"),
            Tone::yellow);
    }
}

void show_state(const TurnState& state, TextFlow& flow) {
    for (const layout::ToolCall& tool : state.tools) {
        flow.say(
            "  tool " + tool.name + " " + tool.status + (tool.summary ? ": " + *tool.summary : ""),
            Tone::blue);
    }
    show_items(state.decisions, "decision", Tone::green, flow);
    show_items(state.blockers, "blocker", Tone::red, flow);
    show_validation(state.validation, flow);
    if (state.next_task) {
        flow.say("  next: " + *state.next_task, Tone::green);
    }
    show_files(state.files, flow);
    std::string end = "── turn " + std::to_string(state.turn) + " " + state.status + ", "
                      + duration_text(state.duration_ms);
    const std::string tokens = state.tokens ? tokens_text(*state.tokens) : "";
    end += tokens.empty() ? "" : ", " + tokens;
    end += state.cost_usd ? ", " + cost_text(*state.cost_usd) : "";
    end += state.stop_reason ? ", " + *state.stop_reason : "";
    end += state.error ? ", " + *state.error : "";
    flow.say(end, state.status == "failed" ? Tone::red : Tone::dim);
}

// What is wrong with the turn; empty: nothing.
std::string show_turn(const Shown& shown, std::int64_t turn, TextFlow& flow) {
    const auto stream = [&](const std::string& name, std::string_view mark, Tone tone) {
        return pass_on(
            shown.file(name), [&](std::string_view piece) { flow.stream(piece, mark, tone); });
    };
    flow.space();
    flow.say("── turn " + std::to_string(turn), Tone::dim);
    std::string fault;
    if (!stream(layout::prompt_file(turn), "> ", Tone::cyan)) {
        fault = layout::prompt_file(turn) + " cannot be read";
    }
    flow.space();
    if (!stream(layout::output_file(turn), "", Tone::plain)) {
        fault = layout::output_file(turn) + " cannot be read";
    }
    flow.finish();
    static_cast<void>(stream(layout::stderr_file(turn), "! ", Tone::red));  // most turns have none
    const Result<std::string> text =
        layout::read_file(shown.file(layout::state_file(turn)), state_bytes_max);
    if (!text.ok()) {
        const bool unsealed = text.error().code == Errc::not_found && turn > shown.meta.turn_count;
        flow.say(
            "── turn " + std::to_string(turn) + (unsealed ? " runs" : " has lost its end"),
            unsealed ? Tone::green : Tone::red);
        return unsealed ? fault : text.error().context;
    }
    const Result<TurnState> state = layout::decode_turn_state(text.value());
    if (!state.ok()) {
        return layout::state_file(turn) + ": " + state.error().context;
    }
    show_state(state.value(), flow);
    return fault;
}

ExitCode show_conversation(const Shown& shown, const Surroundings& surroundings) {
    std::vector<std::string> faults;
    // Looked at again, because a session that runs may have begun another one since.
    const Result<std::vector<std::int64_t>> turns = layout::list_turns(shown.session.directory);
    if (turns.ok() && std::ssize(turns.value()) < shown.meta.turn_count) {
        faults.push_back(
            "meta.json counts " + std::to_string(shown.meta.turn_count) + " turns, and "
            + std::to_string(turns.value().size()) + " of them are there");
    }
    {
        const Pages pages(surroundings);
        std::ostream& out = pages.surroundings().out;
        TextFlow flow(out, {look_at_screen(surroundings), "", ""});
        if (!shown.session.turn) {
            show_facts(shown, flow);
        }
        for (const std::int64_t turn : shown.turns) {
            if (!out) {
                break;  // the user has left the pager
            }
            if (std::string fault = show_turn(shown, turn, flow); !fault.empty()) {
                faults.push_back(std::move(fault));
            }
        }
        flow.finish();
    }
    for (const std::string& fault : faults) {
        static_cast<void>(complain(
            surroundings,
            ExitCode::damaged,
            "session " + shown.session.id.text() + " is damaged: " + fault
                + "; see agent-relay verify \"" + shown.session.directory + "\""));
    }
    return faults.empty() ? ExitCode::ok : ExitCode::damaged;
}

// What was chosen, with its documents. A session without a readable meta.json is shown by its files alone
// only as far as one thing is asked for raw.
Result<Shown> find_shown(const ShowFlags& flags, const Surroundings& surroundings) {
    const Result<SearchPlaces> places =
        find_search_places(surroundings.environment, flags.stores.store);
    if (!places.ok()) {
        return places.error();
    }
    Result<ChosenSession> session = choose_session(flags.session, places.value());
    if (!session.ok()) {
        return session.error();
    }
    Shown shown;
    shown.session = std::move(session.value());
    Result<std::vector<std::int64_t>> turns = layout::list_turns(shown.session.directory);
    if (!turns.ok()) {
        return turns.error();
    }
    shown.turns = std::move(turns.value());
    if (const std::optional<std::int64_t> turn = shown.session.turn) {
        if (std::find(shown.turns.begin(), shown.turns.end(), *turn) == shown.turns.end()) {
            return Error{
                Errc::not_found,
                0,
                "session " + shown.session.id.text() + " has no turn " + std::to_string(*turn)
                    + (shown.turns.empty()
                           ? "; it has none yet"
                           : "; its last one is " + std::to_string(shown.turns.back()))};
        }
        shown.turns = {*turn};
    }
    return shown;
}

}  // namespace

ExitCode show_command(const CommandLine& line, const Surroundings& surroundings) {
    ShowFlags flags;
    if (const Status parsed = parse_flags(line.arguments, flags); !parsed.ok()) {
        return complain_usage(surroundings, "show", parsed.error().context);
    }
    Result<Shown> shown = find_shown(flags, surroundings);
    if (!shown.ok()) {
        return complain(surroundings, choice_code(shown.error()), shown.error().context);
    }
    if (flags.prompt || flags.output || flags.stderr_log || flags.diff || flags.state) {
        return show_raw(shown.value(), flags, surroundings);
    }
    if (flags.path) {
        print_path(shown.value().session.directory, surroundings);
        return ExitCode::ok;
    }
    Result<Meta> meta = layout::read_meta(shown.value().session.directory);
    if (!meta.ok()) {
        const bool newer = meta.error().code == Errc::invalid;
        return complain(
            surroundings,
            newer ? ExitCode::failed : ExitCode::damaged,
            meta.error().context + "; its files are in " + shown.value().session.directory);
    }
    shown.value().meta = std::move(meta.value());
    if (line.json) {
        show_json(shown.value(), surroundings);
        return ExitCode::ok;
    }
    return show_conversation(shown.value(), surroundings);
}

}  // namespace relay::cli
