// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.hpp"
#include "cli/daemon_talk.hpp"
#include "cli/durable_change.hpp"
#include "cli/flag_table.hpp"
#include "cli/human_text.hpp"
#include "cli/index_forgetting.hpp"
#include "cli/journal_settling.hpp"
#include "cli/progress.hpp"
#include "cli/run_options.hpp"
#include "cli/screen.hpp"
#include "cli/session_filter.hpp"
#include "cli/session_scan.hpp"
#include "cli/terminal_text.hpp"
#include "cli/trash.hpp"
#include "cli/turn_compression.hpp"
#include "layout/json_writer.hpp"

#include <algorithm>
#include <filesystem>
#include <ostream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace relay::cli {

const std::string_view prune_help =
    R"(agent-relay prune: remove or compress old sessions by rules

usage: agent-relay prune [--older-than TIME] [--keep NUMBER] [flags]

examples:
  agent-relay prune --older-than 90d                  shows what would go, and does nothing
  agent-relay prune --older-than 90d --yes            moves it to the trash; agent-relay delete --undo brings it back
  agent-relay prune --keep 100 --older-than 30d --yes     but never the hundred newest
  agent-relay prune --agent codex --status completed --keep 10
  agent-relay prune --compress --older-than 7d --yes      keeps everything, in a quarter of the room

Nothing is pruned by itself, and nothing without --yes. Sessions that run and sessions that cannot be read are never touched.
Compressed sessions are shown, searched, verified and gone on with like any others. What was done is added, a line a session, to
prune.log in the store.

rules, at least one:
  --older-than TIME  not touched since then: 12h, 30d, 8w, 2026-01-31
  --keep NUMBER      the newest so many of each store stay; counted among those that the flags below admit

which sessions, the flags of agent-relay list:
  --status, --agent, --label, --stage, --flagged, --unread, --archived, --all, --since, --repo, --all-repos, --store

what to do:
  --compress         compress the turns of these sessions instead of removing them
  --now              remove for good, not to the trash
  --yes, -y          do it

--json prints a line a session: {"v":1,"session":…,"slug":…,"action":"trash","done":false,"bytes":…,"bytes_after":null,"path":…};
action is trash, remove or compress.

exit status: 0 shown or done, also when there are none; 1 some could not be done, 2 wrong usage, 4 daemon unreachable
)";

namespace {

using layout::Done;
using layout::Errc;
using layout::Error;
using layout::Meta;
using layout::Result;
using layout::Status;

enum class Action { trash, remove, compress };

std::string_view name_of(Action action) {
    return action == Action::trash ? "trash" : action == Action::remove ? "remove" : "compress";
}

struct PruneFlags {
    SessionFilter filter;
    StoreFlags stores;
    std::optional<std::int64_t> keep;
    Action action = Action::trash;
    bool yes = false;
};

Status parse_flags(const std::vector<std::string>& arguments, PruneFlags& flags) {
    bool now = false;
    bool compress = false;
    std::vector<Flag> known = filter_flags(flags.filter);
    for (Flag& flag : store_flags(flags.stores)) {
        known.push_back(std::move(flag));
    }
    known.push_back(number_flag("--keep", "a number of at least 0", 0, flags.keep));
    known.push_back(switch_flag("--now", now));
    known.push_back(switch_flag("--compress", compress));
    known.push_back(switch_flag("--yes", flags.yes));
    known.push_back(switch_flag("-y", flags.yes));
    const Result<std::vector<std::string>> words = take_flags(arguments, known);
    if (!words.ok()) {
        return words.error();
    }
    if (!words.value().empty()) {
        return Error{
            Errc::invalid,
            0,
            "prune goes by rules, not by \"" + words.value().front()
                + "\"; one session is removed by agent-relay delete"};
    }
    if (!flags.filter.before && !flags.keep) {
        return Error{Errc::invalid, 0, "prune needs a rule: --older-than, --keep or both"};
    }
    if (now && compress) {
        return Error{Errc::invalid, 0, "prune takes one of --now and --compress"};
    }
    flags.action = now ? Action::remove : compress ? Action::compress : Action::trash;
    return Done{};
}

struct Candidate {
    Meta meta;
    std::string directory;
    std::int64_t bytes = 0;
};

std::int64_t bytes_below(const std::string& directory) {
    namespace fs = std::filesystem;
    std::int64_t bytes = 0;
    std::error_code failed;
    for (fs::recursive_directory_iterator entry(directory, failed), end; !failed && entry != end;
         entry.increment(failed)) {
        std::error_code none;
        if (entry->is_regular_file(none) && !entry->is_symlink(none)) {
            const auto size = entry->file_size(none);
            bytes += none ? 0 : static_cast<std::int64_t>(size);
        }
    }
    return bytes;
}

// What the rules mean of one store. The newest are counted before the age is looked at: they stay, however old.
void choose_in(
    const std::string& sessions,
    const PruneFlags& flags,
    std::vector<Candidate>& chosen,
    std::vector<SkippedSession>& skipped) {
    SessionFilter any_age = flags.filter;
    any_age.before.reset();
    ScanRequest request;
    request.sessions_directories = {sessions};
    request.wanted = [&any_age](const Meta& meta) {
        return any_age.admits(meta);
    };
    SessionScan scan = scan_sessions(request);
    skipped.insert(skipped.end(), scan.skipped.begin(), scan.skipped.end());
    std::int64_t rank = 0;
    for (ScannedSession& session : scan.sessions) {
        const bool kept = ++rank <= flags.keep.value_or(0);
        if (kept || session.meta.status == layout::SessionStatus::active
            || !flags.filter.admits(session.meta)) {
            continue;
        }
        const std::int64_t bytes = flags.action == Action::compress
                                       ? compressible_bytes(session.directory)
                                       : bytes_below(session.directory);
        if (flags.action != Action::compress || bytes > 0) {
            chosen.push_back({std::move(session.meta), std::move(session.directory), bytes});
        }
    }
}

void print_json(
    const Candidate& session,
    Action action,
    bool done,
    const std::optional<std::int64_t>& bytes_after,
    const Surroundings& surroundings) {
    std::string line;
    layout::JsonObject object(line, layout::JsonObject::Form::compact);
    object.integer("v", 1);
    object.string("session", session.meta.id.text());
    object.string("slug", session.meta.slug);
    object.string("action", name_of(action));
    object.boolean("done", done);
    object.integer("bytes", session.bytes);
    object.integer_or_null("bytes_after", bytes_after);
    object.string("path", session.directory);
    object.finish();
    surroundings.out << (surroundings.out_is_terminal ? harmless_json(line) : line) << '\n';
}

std::string volume_text(std::int64_t bytes) {
    return count_text(bytes) + "B";
}

std::string deed(Action action, bool done, std::int64_t sessions) {
    const std::string them = counted(sessions, "session");
    return action == Action::trash    ? (done ? "moved " : "move ") + them + " to the trash"
           : action == Action::remove ? (done ? "removed " : "remove ") + them + " for good"
                                      : (done ? "compressed " : "compress ") + them;
}

void preview(
    const std::vector<Candidate>& chosen,
    const PruneFlags& flags,
    const CommandLine& line,
    const Surroundings& surroundings) {
    std::int64_t bytes = 0;
    std::vector<std::vector<Cell>> rows;
    for (const Candidate& session : chosen) {
        bytes += session.bytes;
        if (line.json) {
            print_json(session, flags.action, /*done=*/false, std::nullopt, surroundings);
            continue;
        }
        rows.push_back(
            {{short_id(session.meta.id), Tone::cyan},
             {harmless(session.meta.name.value_or(session.meta.slug)), Tone::bold},
             {harmless(session.meta.agent)},
             {std::string(layout::name_of(session.meta.status))},
             {age_text(session.meta.updated_at, now())},
             {volume_text(session.bytes)}});
    }
    if (!line.json) {
        const Pages pages(surroundings);
        pages.surroundings().out << print_table(
            {{"ID"},
             {"NAME", Column::Side::left, 12},
             {"AGENT", Column::Side::left, 6, /*screen_min=*/52},
             {"STATUS", Column::Side::left, 9},
             {"AGE", Column::Side::right},
             {"SIZE", Column::Side::right}},
            rows,
            look_at_screen(surroundings));
    }
    static_cast<void>(complain(
        surroundings,
        ExitCode::ok,
        "prune would " + deed(flags.action, /*done=*/false, std::ssize(chosen)) + ", "
            + volume_text(bytes) + "; say --yes to do it"));
}

// One session: what is left of its bytes; none when they are gone.
Result<std::optional<std::int64_t>>
prune(const Candidate& session, Action action, const Surroundings& surroundings) {
    if (action == Action::compress) {
        const Result<Compression> done = compress_turns(session.directory);
        if (!done.ok()) {
            return done.error();
        }
        for (const std::string& file : done.value().left) {
            static_cast<void>(complain(
                surroundings,
                ExitCode::ok,
                file + " differs from its seal and stays as it is; see agent-relay verify "
                    + session.meta.id.text()));
        }
        return std::optional<std::int64_t>(
            session.bytes - done.value().bytes_before + done.value().bytes_after);
    }
    if (action == Action::remove) {
        const Status removed = remove_for_good(session.directory);
        return removed.ok() ? Result<std::optional<std::int64_t>>(std::optional<std::int64_t>())
                            : removed.error();
    }
    const Result<std::string> place = move_to_trash(session.directory);
    return place.ok() ? Result<std::optional<std::int64_t>>(std::optional<std::int64_t>())
                      : place.error();
}

Status write_log(
    const Candidate& session,
    Action action,
    const std::optional<std::int64_t>& bytes_after,
    const std::string& rule) {
    std::string line;
    layout::JsonObject object(line, layout::JsonObject::Form::compact);
    object.timestamp("at", now());
    object.string("action", name_of(action));
    object.string("session", session.meta.id.text());
    object.string("slug", session.meta.slug);
    object.integer("bytes", session.bytes);
    object.integer_or_null("bytes_after", bytes_after);
    object.string("rule", rule);
    object.finish();
    // Beside sessions/, which the directory lies in.
    const std::string sessions = session.directory.substr(0, session.directory.rfind('/'));
    return append_line(sessions.substr(0, sessions.rfind('/')) + "/prune.log", line);
}

ExitCode execute(
    const std::vector<Candidate>& chosen,
    const PruneFlags& flags,
    const CommandLine& line,
    const Surroundings& surroundings) {
    const std::string rule = as_typed(line.arguments);
    std::int64_t done = 0;
    std::int64_t bytes_before = 0;
    std::int64_t bytes_after = 0;
    ExitCode worst = ExitCode::ok;
    Progress progress(surroundings, "pruned", chosen.size());
    for (const Candidate& session : chosen) {
        const Result<std::optional<std::int64_t>> left = prune(session, flags.action, surroundings);
        const Status logged =
            left.ok() ? write_log(session, flags.action, left.value(), rule) : Status(Done{});
        if (!left.ok() || !logged.ok()) {
            progress.stop();
            worst = complain(
                surroundings,
                ExitCode::failed,
                left.ok() ? logged.error().context : left.error().context);
        }
        if (!left.ok()) {
            continue;
        }
        bytes_before += session.bytes;
        bytes_after += left.value().value_or(0);
        if (line.json) {
            print_json(session, flags.action, /*done=*/true, left.value(), surroundings);
        }
        progress.reach(static_cast<std::size_t>(++done));
    }
    progress.stop();
    if (!line.json) {
        surroundings.out << deed(flags.action, /*done=*/true, done) << ": "
                         << volume_text(bytes_before)
                         << (flags.action == Action::compress ? " to " + volume_text(bytes_after)
                                                              : "")
                         << '\n';
    }
    return worst;
}

}  // namespace

ExitCode prune_command(const CommandLine& line, const Surroundings& surroundings) {
    PruneFlags flags;
    if (const Status parsed = parse_flags(line.arguments, flags); !parsed.ok()) {
        return complain_usage(surroundings, "prune", parsed.error().context);
    }
    const Result<std::vector<std::string>> directories =
        sessions_directories(flags.stores, flags.filter, surroundings.environment);
    if (!directories.ok()) {
        return complain(surroundings, ExitCode::failed, directories.error().context);
    }
    for (const std::string& sessions : directories.value()) {
        if (const Result<std::string> trash = trash_beside(sessions); !trash.ok()) {
            return complain(surroundings, ExitCode::usage, trash.error().context);
        }
    }
    // First, so that the rules are about what the files say then.
    if (flags.yes) {
        if (const Status settled = settle_journal(flags.stores.store, line, surroundings);
            !settled.ok()) {
            return complain(
                surroundings,
                talk_code(settled.error()),
                settled.error().context + "; nothing was pruned");
        }
    }
    std::vector<Candidate> chosen;
    std::vector<SkippedSession> skipped;
    for (const std::string& sessions : directories.value()) {
        choose_in(sessions, flags, chosen, skipped);
    }
    name_skipped(skipped, surroundings);
    if (chosen.empty()) {
        if (!line.json) {
            static_cast<void>(
                complain(surroundings, ExitCode::ok, "no session is meant by these rules"));
        }
        return ExitCode::ok;
    }
    if (!flags.yes) {
        preview(chosen, flags, line, surroundings);
        return ExitCode::ok;
    }
    const ExitCode executed = execute(chosen, flags, line, surroundings);
    if (flags.action == Action::remove) {
        forget_in_index(surroundings);
    }
    return executed;
}

}  // namespace relay::cli
