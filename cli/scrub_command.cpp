// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.hpp"
#include "cli/daemon_talk.hpp"
#include "cli/flag_table.hpp"
#include "cli/human_text.hpp"
#include "cli/index_forgetting.hpp"
#include "cli/journal_settling.hpp"
#include "cli/session_choice.hpp"
#include "cli/session_scrub.hpp"
#include "cli/terminal_text.hpp"
#include "layout/json_writer.hpp"

#include <ostream>
#include <string>
#include <vector>

namespace relay::cli {

const std::string_view scrub_help =
    R"(agent-relay scrub: overwrite a secret in a session that was recorded

usage: agent-relay scrub <session> --pattern PATTERN [--dry-run]

examples:
  agent-relay scrub @latest --pattern 'hunter[0-9]+' --dry-run     what would be overwritten, and where
  agent-relay scrub TWFTA9 --pattern "$LEAKED"                     from a variable: not in the shell's history
  agent-relay verify TWFTA9                                        the chain of seals is whole again

Every match in every file of the session becomes [REDACTED:scrub] and stars, as many bytes as there were. Prompts, outputs,
patches, attachments and compressed turns are rewritten, and of documents and the timeline the strings; then hashes and
seals are made anew, meta.json counts the matches, and the timeline says that it was done and how often, not what for. A
scrub that is interrupted is finished by the next one. A session that runs is refused.

Secrets of well-known shapes never get this far: see redact.enabled in agent-relay config. Copies elsewhere are yours to find:
exports, backups, sessions that went on from this one, and the journal, which keeps what it held until it is written over.

flags:
  --pattern PATTERN  a regular expression of RE2; (?i) at its beginning ignores case
  --dry-run          say what would be done, and do nothing
  --store DIR        look in this store

--json prints {"v":1,"session":…,"matches":3,"done":true,"files":[{"file":"turns/001-output.md","matches":2},…]}

exit status: 0 done, or nothing was found; 1 failed or refused, 2 wrong usage or ambiguous, 3 no such session,
4 daemon unreachable
)";

namespace {

using layout::Errc;
using layout::Error;
using layout::Result;
using layout::Status;

struct ScrubFlags {
    std::string session;
    std::string pattern;
    std::string store;
    bool dry_run = false;
};

Result<ScrubFlags> parse_flags(const std::vector<std::string>& arguments) {
    ScrubFlags flags;
    const std::vector<Flag> known{
        text_flag("--pattern", "a regular expression", flags.pattern),
        switch_flag("--dry-run", flags.dry_run),
        text_flag("--store", "a directory", flags.store),
    };
    const Result<std::vector<std::string>> words = take_flags(arguments, known);
    if (!words.ok()) {
        return words.error();
    }
    if (words.value().size() != 1) {
        return Error{Errc::invalid, 0, "scrub needs one session"};
    }
    if (flags.pattern.empty()) {
        return Error{Errc::invalid, 0, "scrub needs --pattern"};
    }
    flags.session = words.value().front();
    return flags;
}

void print_json(
    const ChosenSession& chosen,
    const Scrub& scrub,
    bool dry_run,
    const Surroundings& surroundings) {
    std::string line;
    layout::JsonObject object(line, layout::JsonObject::Form::compact);
    object.integer("v", 1);
    object.string("session", chosen.id.text());
    object.integer("matches", scrub.matches);
    object.boolean("done", !dry_run);
    object.key("files");
    line += '[';
    for (const ScrubbedFile& file : scrub.files) {
        line += line.back() == '[' ? "" : ",";
        layout::JsonObject entry(line, layout::JsonObject::Form::compact);
        entry.string("file", file.name);
        entry.integer("matches", file.matches);
        entry.finish();
    }
    line += ']';
    object.finish();
    surroundings.out << (surroundings.out_is_terminal ? harmless_json(line) : line) << '\n';
}

void print_text(
    const ChosenSession& chosen,
    const Scrub& scrub,
    bool dry_run,
    const Surroundings& surroundings) {
    for (const ScrubbedFile& file : scrub.files) {
        surroundings.out << harmless(file.name) << ": " << file.matches << '\n';
    }
    const std::string where = " in session " + short_id(chosen.id);
    surroundings.out
        << (scrub.matches == 0 ? "no match" + where + "; nothing was changed"
                               : counted(scrub.matches, "place") + (dry_run ? " would be" : "")
                                     + " overwritten" + where)
        << '\n';
}

}  // namespace

ExitCode scrub_command(const CommandLine& line, const Surroundings& surroundings) {
    const Result<ScrubFlags> flags = parse_flags(line.arguments);
    if (!flags.ok()) {
        return complain_usage(surroundings, "scrub", flags.error().context);
    }
    const Result<SearchPlaces> places =
        find_search_places(surroundings.environment, flags.value().store);
    if (!places.ok()) {
        return complain(surroundings, ExitCode::failed, places.error().context);
    }
    const Result<ChosenSession> chosen =
        choose_whole_session(flags.value().session, places.value());
    if (!chosen.ok()) {
        return complain(surroundings, choice_code(chosen.error()), chosen.error().context);
    }
    const bool dry_run = flags.value().dry_run;
    if (!dry_run) {
        const Status settled = settle_journal(flags.value().store, line, surroundings);
        if (!settled.ok()) {
            return complain(
                surroundings,
                talk_code(settled.error()),
                settled.error().context + "; nothing was scrubbed");
        }
    }
    const Result<Scrub> scrub =
        scrub_session(chosen.value().directory, flags.value().pattern, dry_run);
    if (!scrub.ok()) {
        const bool wrong = scrub.error().code == Errc::invalid;
        return complain(
            surroundings, wrong ? ExitCode::usage : ExitCode::failed, scrub.error().context);
    }
    if (!dry_run) {
        forget_in_index(surroundings);
    }
    if (scrub.value().finished_earlier) {
        static_cast<void>(complain(
            surroundings, ExitCode::ok, "a scrub that had been interrupted was finished first"));
    }
    if (line.json) {
        print_json(chosen.value(), scrub.value(), dry_run, surroundings);
    } else {
        print_text(chosen.value(), scrub.value(), dry_run, surroundings);
    }
    return ExitCode::ok;
}

}  // namespace relay::cli
