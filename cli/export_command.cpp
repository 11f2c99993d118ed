// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.hpp"
#include "cli/durable_change.hpp"
#include "cli/flag_table.hpp"
#include "cli/session_choice.hpp"
#include "cli/session_export.hpp"
#include "cli/terminal_text.hpp"
#include "layout/session_reader.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace relay::cli {

const std::string_view export_help = R"(agent-relay export: a session as one document

usage: agent-relay export [<session>[:<turn>]] --format md|html|jsonl [--out FILE]        without a session: @latest

examples:
  agent-relay export TWFTA9 --format md > session.md
  agent-relay export parser --format html --out parser.html     one file, to be opened in any browser
  agent-relay export @latest:3 --format md                      its third turn alone
  agent-relay export @latest --format jsonl | jq -r 'select(.type == "turn.output") | .text'

formats:
  md       Markdown; what was recorded stands in fences
  html     one page without scripts, links or anything from elsewhere; what was recorded is text in it
  jsonl    {"v":1,"type":"session","meta":…}, the events as agent-relay watch --json prints them, then a line a turn as
           agent-relay show --json prints them

Needs no daemon and changes nothing. A document is written whole or not at all; --out replaces a file. Control characters of
recorded text are shown in md and html, "\x1b"; jsonl has them as JSON has.

flags:
  --format md|html|jsonl
                   one of the above
  --out FILE       there instead of standard output
  --store DIR      look for the session in this store

exit status: 0 written, 1 failed, 2 wrong usage or ambiguous, 3 no such session or turn, 5 damaged: written without what could
not be read
)";

namespace {

using layout::Done;
using layout::Errc;
using layout::Error;
using layout::Result;
using layout::Status;

using Writer = std::vector<std::string> (*)(const ExportedSession&, std::ostream&);

struct ExportFlags {
    std::string session = "@latest";
    std::string store;
    std::string format;
    std::string out;
    Writer writer = nullptr;
};

Status parse_flags(const std::vector<std::string>& arguments, ExportFlags& flags) {
    const std::vector<Flag> known{
        text_flag("--format", "md, html or jsonl", flags.format),
        text_flag("--out", "a file", flags.out),
        text_flag("--store", "a directory", flags.store),
    };
    const Result<std::vector<std::string>> words = take_flags(arguments, known);
    if (!words.ok()) {
        return words.error();
    }
    if (words.value().size() > 1) {
        return Error{
            Errc::invalid, 0, "export takes one session, not also \"" + words.value()[1] + "\""};
    }
    if (!words.value().empty()) {
        flags.session = words.value().front();
    }
    flags.writer = flags.format == "md"      ? export_markdown
                   : flags.format == "html"  ? export_html
                   : flags.format == "jsonl" ? export_jsonl
                                             : nullptr;
    if (flags.writer == nullptr) {
        return Error{
            Errc::invalid,
            0,
            flags.format.empty() ? "export needs --format: md, html or jsonl"
                                 : "--format is md, html or jsonl, got \"" + flags.format + "\""};
    }
    return Done{};
}

Result<ExportedSession> find_session(const ExportFlags& flags, const Surroundings& surroundings) {
    const Result<SearchPlaces> places = find_search_places(surroundings.environment, flags.store);
    if (!places.ok()) {
        return places.error();
    }
    const Result<ChosenSession> chosen = choose_session(flags.session, places.value());
    if (!chosen.ok()) {
        return chosen.error();
    }
    Result<layout::Meta> meta = layout::read_meta(chosen.value().directory);
    if (!meta.ok()) {
        return Error{Errc::corrupt, 0, meta.error().context};
    }
    Result<std::vector<std::int64_t>> turns = layout::list_turns(chosen.value().directory);
    if (!turns.ok()) {
        return Error{Errc::corrupt, 0, turns.error().context};
    }
    ExportedSession session{
        chosen.value().directory, std::move(meta.value()), std::move(turns.value())};
    if (const std::optional<std::int64_t> turn = chosen.value().turn) {
        if (std::find(session.turns.begin(), session.turns.end(), *turn) == session.turns.end()) {
            return Error{
                Errc::not_found,
                0,
                "session " + session.meta.id.text() + " has no turn " + std::to_string(*turn)};
        }
        session.turns = {*turn};
    }
    return session;
}

// A device or a link would be replaced, not written to.
Status write_out(const std::string& path, const std::string& text) {
    struct stat found {};
    if (::lstat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode)) {
        return Error{
            Errc::unsafe, 0, "\"" + path + "\" is no regular file; use standard output instead"};
    }
    return write_atomically(path.find('/') == std::string::npos ? "./" + path : path, text);
}

}  // namespace

ExitCode export_command(const CommandLine& line, const Surroundings& surroundings) {
    ExportFlags flags;
    if (const Status parsed = parse_flags(line.arguments, flags); !parsed.ok()) {
        return complain_usage(surroundings, "export", parsed.error().context);
    }
    const Result<ExportedSession> session = find_session(flags, surroundings);
    if (!session.ok()) {
        const bool damaged = session.error().code == Errc::corrupt;
        return complain(
            surroundings,
            damaged ? ExitCode::damaged : choice_code(session.error()),
            session.error().context);
    }
    std::vector<std::string> faults;
    if (flags.out.empty() && !surroundings.out_is_terminal) {
        faults = flags.writer(session.value(), surroundings.out);
    } else {
        std::ostringstream text;
        faults = flags.writer(session.value(), text);
        if (flags.out.empty()) {
            surroundings.out << (flags.format == "jsonl" ? harmless_lines(text.str()) : text.str());
        } else if (const Status written = write_out(flags.out, text.str()); !written.ok()) {
            return complain(surroundings, ExitCode::failed, written.error().context);
        }
    }
    for (const std::string& fault : faults) {
        static_cast<void>(complain(
            surroundings,
            ExitCode::damaged,
            "session " + session.value().meta.id.text() + " is damaged: " + fault
                + "; see agent-relay verify " + session.value().meta.id.text()));
    }
    return faults.empty() ? ExitCode::ok : ExitCode::damaged;
}

}  // namespace relay::cli
