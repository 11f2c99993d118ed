// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.hpp"
#include "cli/flag_table.hpp"
#include "cli/human_text.hpp"
#include "cli/index_file.hpp"
#include "cli/index_notes.hpp"
#include "cli/index_rebuild.hpp"
#include "cli/known_names.hpp"
#include "cli/progress.hpp"
#include "cli/session_choice.hpp"
#include "cli/terminal_text.hpp"
#include "layout/json_writer.hpp"
#include "layout/session_reader.hpp"

#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace relay::cli {

const std::string_view index_help =
    R"(agent-relay index: what makes list and search fast among very many sessions

usage: agent-relay index [status|rebuild|remove] [flags]        without a word: status

examples:
  agent-relay index rebuild                 reads every session once; some minutes for a hundred thousand
  agent-relay index                         is there one, and of how many sessions?
  agent-relay index remove                  nothing is lost: the files of the sessions are the truth

The index lies in index.sqlite in the cache directory. list and search use it when it is there, believe it only as
far as the files have not changed since, and add to it what they had to read themselves, a little each time; from a
thousand sessions on list makes one. Missing, old, damaged or locked, it makes them slower, never wrong. It holds what
was recorded, in another form, so its file is yours alone; scrub and delete leave in it what they take from the
sessions until it is rebuilt or removed.

flags:
  --store DIR      rebuild: also the sessions of this store, beside all that sessions were ever recorded in

--json prints one line: {"v":1,"path":…,"state":"ready","bytes":…,"sessions":…,"listed":…,"searchable":…}; state is "ready",
"missing" or "unusable"; sessions is how many the stores have, listed and searchable how many of them the index knows.

exit status: 0 done, 1 failed, 2 wrong usage
)";

namespace {

using layout::Errc;
using layout::Error;
using layout::Result;
using layout::Status;

struct IndexFlags {
    std::string verb = "status";
    std::string store;
};

Status parse_flags(const std::vector<std::string>& arguments, IndexFlags& flags) {
    const std::vector<Flag> known{text_flag("--store", "a directory", flags.store)};
    const Result<std::vector<std::string>> words = take_flags(arguments, known);
    if (!words.ok()) {
        return words.error();
    }
    if (words.value().size() > 1) {
        return Error{
            Errc::invalid,
            0,
            "index does one thing at a time, not also \"" + words.value()[1] + "\""};
    }
    if (!words.value().empty()) {
        flags.verb = words.value().front();
    }
    if (flags.verb != "status" && flags.verb != "rebuild" && flags.verb != "remove") {
        return Error{
            Errc::invalid,
            0,
            "index does not know \"" + flags.verb + "\"; it knows status, rebuild and remove"};
    }
    return layout::Done{};
}

Result<std::vector<IndexedStore>>
find_stores(const std::string& also, const layout::Environment& environment) {
    const Result<SearchPlaces> known = find_search_places(environment, "");
    if (!known.ok()) {
        return known.error();
    }
    std::vector<std::string> directories = known.value().all();
    if (!also.empty()) {
        const Result<SearchPlaces> named = find_search_places(environment, also);
        if (!named.ok()) {
            return named.error();
        }
        std::erase(directories, named.value().nearest);
        directories.push_back(named.value().nearest);
    }
    std::vector<IndexedStore> stores;
    for (const std::string& directory : directories) {
        const std::optional<FileStamp> stamp = names_stamp(directory);
        Result<std::vector<layout::Ulid>> ids = layout::list_sessions(directory);
        if (ids.ok()) {  // readers name a store that cannot be read
            stores.push_back({directory, stamp, std::move(ids.value())});
        }
    }
    return stores;
}

std::size_t sessions_of(const std::vector<IndexedStore>& stores) {
    std::size_t sessions = 0;
    for (const IndexedStore& store : stores) {
        sessions += store.ids.size();
    }
    return sessions;
}

struct IndexState {
    std::string_view name = "ready";
    std::int64_t listed = 0;
    std::int64_t searchable = 0;
};

IndexState look_at_index(const std::string& cache_directory) {
    IndexState state;
    Result<IndexFile> file = IndexFile::open(cache_directory, Database::Access::read);
    if (!file.ok()) {
        state.name = file.error().code == Errc::not_found ? "missing" : "unusable";
        return state;
    }
    const Result<std::int64_t> listed =
        file.value().database().integer("SELECT count(*) FROM card");
    const Result<std::int64_t> searchable =
        file.value().database().integer("SELECT count(*) FROM text");
    if (!listed.ok() || !searchable.ok()) {
        state.name = "unusable";
        return state;
    }
    state.listed = listed.value();
    state.searchable = searchable.value();
    return state;
}

void print_state(
    const std::string& cache_directory,
    std::size_t sessions,
    const CommandLine& line,
    const Surroundings& surroundings) {
    const IndexState state = look_at_index(cache_directory);
    const std::string path = index_path(cache_directory);
    if (line.json) {
        std::string out;
        layout::JsonObject object(out, layout::JsonObject::Form::compact);
        object.integer("v", 1);
        object.string("path", path);
        object.string("state", state.name);
        object.integer("bytes", index_bytes(cache_directory));
        object.integer("sessions", static_cast<std::int64_t>(sessions));
        object.integer("listed", state.listed);
        object.integer("searchable", state.searchable);
        object.finish();
        surroundings.out << (surroundings.out_is_terminal ? harmless_json(out) : out) << '\n';
        return;
    }
    surroundings.out << harmless(path) << ": ";
    if (state.name == "missing") {
        surroundings.out << "there is none; agent-relay index rebuild makes it\n";
    } else if (state.name == "unusable") {
        surroundings.out
            << "cannot be used and is passed over; agent-relay index rebuild mends it\n";
    } else {
        surroundings.out << count_text(index_bytes(cache_directory)) << "B, of "
                         << counted(static_cast<std::int64_t>(sessions), "session") << " "
                         << state.listed << " for list and " << state.searchable << " for search\n";
    }
}

Status rebuild(
    const std::string& cache_directory,
    const std::vector<IndexedStore>& stores,
    const Surroundings& surroundings) {
    Result<StagedIndex> staged = StagedIndex::create(cache_directory);
    if (!staged.ok()) {
        return staged.error().code == Errc::busy
                   ? Error{Errc::busy, 0, "another agent-relay index rebuild is at work in " + cache_directory + "; wait for it"}
                   : staged.error();
    }
    {
        Progress progress(surroundings, "indexed", sessions_of(stores));
        const Result<RebuildCount> filled =
            fill_index(staged.value().database(), stores, [&progress](std::size_t done) {
                progress.reach(done);
            });
        if (!filled.ok()) {
            return filled.error();
        }
    }
    return StagedIndex::publish(std::move(staged.value()));
}

}  // namespace

ExitCode index_command(const CommandLine& line, const Surroundings& surroundings) {
    IndexFlags flags;
    if (const Status parsed = parse_flags(line.arguments, flags); !parsed.ok()) {
        return complain_usage(surroundings, "index", parsed.error().context);
    }
    const std::string cache_directory = index_directory(surroundings.environment);
    if (cache_directory.empty()) {
        return complain(
            surroundings,
            ExitCode::failed,
            "there is no place for an index: set HOME, XDG_CACHE_HOME or AGENT_RELAY_HOME");
    }
    const Result<std::vector<IndexedStore>> stores =
        find_stores(flags.store, surroundings.environment);
    if (!stores.ok()) {
        return complain(surroundings, ExitCode::failed, stores.error().context);
    }
    Status done = layout::Done{};
    if (flags.verb == "rebuild") {
        done = rebuild(cache_directory, stores.value(), surroundings);
    } else if (flags.verb == "remove") {
        done = remove_index(cache_directory, IfOpen::wait);
    }
    if (!done.ok()) {
        return complain(
            surroundings,
            ExitCode::failed,
            "the index in \"" + cache_directory + "\" could not be made or removed: "
                + done.error().context + "; list and search go on without it");
    }
    print_state(cache_directory, sessions_of(stores.value()), line, surroundings);
    return ExitCode::ok;
}

}  // namespace relay::cli
