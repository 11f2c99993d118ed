// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.hpp"
#include "cli/consent.hpp"
#include "cli/daemon_talk.hpp"
#include "cli/flag_table.hpp"
#include "cli/human_text.hpp"
#include "cli/index_forgetting.hpp"
#include "cli/journal_settling.hpp"
#include "cli/run_options.hpp"
#include "cli/screen.hpp"
#include "cli/session_choice.hpp"
#include "cli/terminal_text.hpp"
#include "cli/trash.hpp"
#include "layout/json_writer.hpp"
#include "layout/session_reader.hpp"

#include <algorithm>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace relay::cli {

const std::string_view delete_help =
    R"(agent-relay delete: move sessions to the trash, and back

usage: agent-relay delete <session>... [--yes] [--now]
       agent-relay delete --undo <session>...
       agent-relay delete --list

examples:
  agent-relay delete TWFTA9 parser          asks, then moves them to the trash of their store
  agent-relay delete --list                 what is in the trash
  agent-relay delete --undo parser          back where it was
  agent-relay delete --now --yes parser     for good; also one that is in the trash
  agent-relay delete --list --json | jq -r .session | xargs agent-relay delete --now --yes

A session in the trash is whole and as it was, in trash/ beside sessions/; no other command sees it. A session that runs
is refused. The daemon is asked first to finish what it still has to write.

flags:
  --yes, -y          do not ask; needed where nobody can be asked
  --now              remove for good instead
  --undo             bring sessions back from the trash
  --list             show what is in the trash; --all-repos: of every store
  --store DIR        look in this store

--json prints a line a session: {"v":1,"session":…,"action":"trashed","path":…}; action is trashed, removed or restored, path
where it lies now or null. Of --list: {"v":1,"session":…,"slug":…,"name":…,"deleted_at":…,"from":…,"path":…}.

exit status: 0 done, 1 failed, refused or not agreed to, 2 wrong usage, ambiguous or nobody to ask, 3 no such session,
4 daemon unreachable
)";

namespace {

using layout::Done;
using layout::Errc;
using layout::Error;
using layout::Meta;
using layout::Result;
using layout::Status;

struct DeleteFlags {
    std::vector<std::string> words;
    std::string store;
    bool all_repos = false;
    bool yes = false;
    bool now = false;
    bool undo = false;
    bool list = false;
};

Status parse_flags(const std::vector<std::string>& arguments, DeleteFlags& flags) {
    const std::vector<Flag> known{
        switch_flag("--yes", flags.yes),
        switch_flag("-y", flags.yes),
        switch_flag("--now", flags.now),
        switch_flag("--undo", flags.undo),
        switch_flag("--list", flags.list),
        switch_flag("--all-repos", flags.all_repos),
        text_flag("--store", "a directory", flags.store),
    };
    Result<std::vector<std::string>> words = take_flags(arguments, known);
    if (!words.ok()) {
        return words.error();
    }
    flags.words = std::move(words.value());
    if ((flags.now ? 1 : 0) + (flags.undo ? 1 : 0) + (flags.list ? 1 : 0) > 1) {
        return Error{Errc::invalid, 0, "delete takes one of --now, --undo and --list"};
    }
    if (flags.list != flags.words.empty()) {
        return Error{
            Errc::invalid,
            0,
            flags.list ? "delete --list takes no session" : "delete needs a session"};
    }
    return Done{};
}

// The same places, but their trash.
SearchPlaces trashes_of(const SearchPlaces& places) {
    SearchPlaces trashes;
    const auto trash = [](const std::string& sessions) {
        const Result<std::string> found = trash_beside(sessions);
        return found.ok() ? found.value() : std::string();
    };
    trashes.nearest = trash(places.nearest);
    for (const std::string& sessions : places.farther) {
        if (std::string found = trash(sessions); !found.empty()) {
            trashes.farther.push_back(std::move(found));
        }
    }
    return trashes;
}

// What a person calls it.
std::string title_of(const ChosenSession& session) {
    const Result<Meta> meta = layout::read_meta(session.directory);
    const std::string name =
        meta.ok() ? meta.value().name.value_or(meta.value().slug) : "unreadable";
    return short_id(session.id) + " (" + name + ")";
}

Result<ChosenSession>
choose(const std::string& word, const DeleteFlags& flags, const SearchPlaces& places) {
    if (!flags.undo) {
        Result<ChosenSession> session = choose_whole_session(word, places);
        const bool maybe_trashed =
            !session.ok() && flags.now && session.error().code == Errc::not_found;
        if (!maybe_trashed) {
            return session;
        }
    }
    Result<ChosenSession> trashed = choose_whole_session(word, trashes_of(places));
    if (!trashed.ok() && trashed.error().code == Errc::not_found) {
        return Error{
            Errc::not_found,
            0,
            "there is no session \"" + word + "\" in the trash"
                + (flags.now ? " or beside it"
                             : "; agent-relay delete --list shows what is in it")};
    }
    return trashed;
}

struct Deed {
    layout::Ulid session;
    std::string title;                // as it was before
    std::string_view action;          // trashed, removed or restored
    std::optional<std::string> path;  // where it is now
    std::string store{};              // as it was named, if it was
};

void tell(const Deed& deed, const CommandLine& line, const Surroundings& surroundings) {
    if (line.json) {
        std::string text;
        layout::JsonObject object(text, layout::JsonObject::Form::compact);
        object.integer("v", 1);
        object.string("session", deed.session.text());
        object.string("action", deed.action);
        object.string_or_null("path", deed.path);
        object.finish();
        surroundings.out << (surroundings.out_is_terminal ? harmless_json(text) : text) << '\n';
        return;
    }
    const std::string after =
        deed.action == "trashed"
            ? " is in the trash; back with: agent-relay delete --undo " + short_id(deed.session)
                  + (deed.store.empty() ? "" : " --store " + as_typed({deed.store}))
        : deed.action == "removed" ? " is removed"
                                   : " is back";
    surroundings.out << harmless(deed.title + after) << '\n';
}

ExitCode code_of(const Error& error) {
    return error.code == Errc::not_found ? ExitCode::no_such_session
           : error.code == Errc::invalid ? ExitCode::usage
                                         : ExitCode::failed;
}

ExitCode treat(
    const ChosenSession& session,
    const DeleteFlags& flags,
    const CommandLine& line,
    const Surroundings& surroundings) {
    const std::string title = title_of(session);
    if (flags.now) {
        if (const Status removed = remove_for_good(session.directory); !removed.ok()) {
            return complain(surroundings, code_of(removed.error()), removed.error().context);
        }
        tell({session.id, title, "removed", std::nullopt}, line, surroundings);
        return ExitCode::ok;
    }
    const Result<std::string> place =
        flags.undo ? restore_from_trash(session.directory) : move_to_trash(session.directory);
    if (!place.ok()) {
        return complain(surroundings, code_of(place.error()), place.error().context);
    }
    tell(
        {session.id, title, flags.undo ? "restored" : "trashed", place.value(), flags.store},
        line,
        surroundings);
    return ExitCode::ok;
}

ExitCode agree(
    const std::vector<ChosenSession>& sessions,
    const DeleteFlags& flags,
    const Surroundings& surroundings) {
    std::string which;
    for (const ChosenSession& session : sessions) {
        which += (which.empty() ? "" : ", ") + title_of(session);
    }
    switch (ask_consent(
        (flags.now ? "Remove for good: " : "Move to the trash: ") + which + "?", surroundings)) {
    case Consent::given:
        return ExitCode::ok;
    case Consent::refused:
        return complain(surroundings, ExitCode::failed, "nothing was deleted");
    case Consent::nobody_to_ask:
        break;
    }
    return complain_usage(
        surroundings, "delete", "delete asks first, and there is no terminal to ask at; say --yes");
}

ExitCode show_trash(
    const SearchPlaces& places,
    const DeleteFlags& flags,
    const CommandLine& line,
    const Surroundings& surroundings) {
    const SearchPlaces trashes = trashes_of(places);
    std::vector<std::vector<Cell>> rows;
    for (const std::string& trash :
         flags.all_repos ? trashes.all() : std::vector<std::string>{trashes.nearest}) {
        const Result<std::vector<TrashedSession>> sessions = list_trash(trash);
        if (!sessions.ok()) {
            return complain(surroundings, ExitCode::failed, sessions.error().context);
        }
        for (const TrashedSession& session : sessions.value()) {
            const Result<Meta> meta = layout::read_meta(session.directory);
            const auto slug =
                meta.ok() ? std::optional<std::string>(meta.value().slug) : std::nullopt;
            const auto name = meta.ok() ? meta.value().name : std::nullopt;
            if (line.json) {
                std::string text;
                layout::JsonObject object(text, layout::JsonObject::Form::compact);
                object.integer("v", 1);
                object.string("session", session.id.text());
                object.string_or_null("slug", slug);
                object.string_or_null("name", name);
                object.timestamp_or_null("deleted_at", session.deleted_at);
                object.string("from", session.from);
                object.string("path", session.directory);
                object.finish();
                surroundings.out << (surroundings.out_is_terminal ? harmless_json(text) : text)
                                 << '\n';
                continue;
            }
            rows.push_back(
                {{short_id(session.id), Tone::cyan},
                 {harmless(name.value_or(slug.value_or("unreadable"))), Tone::bold},
                 {session.deleted_at ? age_text(*session.deleted_at, now()) : "-"},
                 {harmless(meta.ok() ? meta.value().preview.value_or("") : "")}});
        }
    }
    if (!line.json && rows.empty()) {
        return complain(surroundings, ExitCode::ok, "the trash is empty");
    }
    if (!line.json) {
        const Pages pages(surroundings);
        pages.surroundings().out << print_table(
            {{"ID"},
             {"NAME", Column::Side::left, 12},
             {"DELETED", Column::Side::right},
             {"PREVIEW", Column::Side::left, 7, /*screen_min=*/60}},
            rows,
            look_at_screen(surroundings));
    }
    return ExitCode::ok;
}

}  // namespace

ExitCode delete_command(const CommandLine& line, const Surroundings& surroundings) {
    DeleteFlags flags;
    if (const Status parsed = parse_flags(line.arguments, flags); !parsed.ok()) {
        return complain_usage(surroundings, "delete", parsed.error().context);
    }
    const Result<SearchPlaces> places = find_search_places(surroundings.environment, flags.store);
    if (!places.ok()) {
        return complain(surroundings, choice_code(places.error()), places.error().context);
    }
    if (flags.list) {
        return show_trash(places.value(), flags, line, surroundings);
    }
    std::vector<ChosenSession> sessions;
    for (const std::string& word : flags.words) {
        Result<ChosenSession> session = choose(word, flags, places.value());
        if (!session.ok()) {
            // Before anything is done: with a wrong name among them, the others may be wrong too.
            return complain(surroundings, choice_code(session.error()), session.error().context);
        }
        const bool twice =
            std::any_of(sessions.begin(), sessions.end(), [&session](const ChosenSession& known) {
                return known.directory == session.value().directory;
            });
        if (!twice) {
            sessions.push_back(std::move(session.value()));
        }
    }
    if (!flags.undo && !flags.yes) {
        if (const ExitCode agreed = agree(sessions, flags, surroundings); agreed != ExitCode::ok) {
            return agreed;
        }
    }
    if (const Status settled = settle_journal(flags.store, line, surroundings); !settled.ok()) {
        return complain(
            surroundings,
            talk_code(settled.error()),
            settled.error().context + "; nothing was changed");
    }
    ExitCode worst = ExitCode::ok;
    for (const ChosenSession& session : sessions) {
        worst = std::max(worst, treat(session, flags, line, surroundings));
    }
    if (flags.now) {
        forget_in_index(surroundings);
    }
    return worst;
}

}  // namespace relay::cli
