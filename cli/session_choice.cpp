// SPDX-License-Identifier: Apache-2.0
#include "cli/session_choice.hpp"

#include "cli/current_directory.hpp"
#include "cli/session_scan.hpp"
#include "layout/session_reader.hpp"
#include "layout/store.hpp"
#include "layout/store_registry.hpp"

#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <memory>
#include <utility>

namespace relay::cli {

namespace {

using layout::Errc;
using layout::Error;
using layout::Result;
using layout::Ulid;

constexpr std::size_t suffix_characters_min = 3;
constexpr std::size_t prefix_characters_min = 8;
constexpr std::size_t id_characters = 26;
constexpr std::size_t candidates_named_max = 8;

bool is_directory(const std::string& path) {
    struct stat found {};
    return ::stat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode);
}

std::optional<std::string> canonical(const std::string& path) {
    struct Release {
        void operator()(char* memory) const { ::free(memory); }
    };
    const std::unique_ptr<char, Release> real{::realpath(path.c_str(), nullptr)};
    return real ? std::optional<std::string>(real.get()) : std::nullopt;
}

Result<SearchPlaces> places_in(const std::string& store) {
    const std::optional<std::string> root = canonical(store);
    if (!root || !is_directory(*root)) {
        return Error{
            Errc::not_found,
            0,
            "there is no store \"" + store
                + "\"; name a repository, a .agent-relay or a directory of sessions"};
    }
    SearchPlaces places;
    for (const char* const below : {"/.agent-relay/sessions", "/sessions"}) {
        if (places.nearest.empty() && is_directory(*root + below)) {
            places.nearest = *root + below;
        }
    }
    if (places.nearest.empty()) {
        places.nearest = *root;
    }
    return places;
}

// A word without its ":turn".
struct Reference {
    std::string_view session;
    std::optional<std::int64_t> turn;
};

Reference split_turn(std::string_view word) {
    const std::size_t colon = word.rfind(':');
    if (colon == std::string_view::npos || colon == 0) {
        return {word, std::nullopt};
    }
    std::int64_t turn = 0;
    const std::string_view digits = word.substr(colon + 1);
    const auto [rest, failure] =
        std::from_chars(digits.data(), digits.data() + digits.size(), turn);
    if (failure != std::errc{} || rest != digits.data() + digits.size() || turn < 1) {
        return {word, std::nullopt};
    }
    return {word.substr(0, colon), turn};
}

// The characters of a part of an id as ids are written; empty when it can be none.
std::string id_characters_of(std::string_view part) {
    constexpr std::string_view alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    std::string characters;
    for (const char given : part) {
        char character =
            given >= 'a' && given <= 'z' ? static_cast<char>(given - 'a' + 'A') : given;
        if (character == 'O') {
            character = '0';
        } else if (character == 'I' || character == 'L') {
            character = '1';
        }
        if (alphabet.find(character) == std::string_view::npos) {
            return {};
        }
        characters += character;
    }
    return characters;
}

struct Candidate {
    Ulid id;
    std::string directory;
};
using Candidates = std::vector<Candidate>;

Candidates named(std::string_view word, const std::string& place) {
    const auto fits = [word](const layout::Meta& meta) {
        return meta.slug == word || meta.name == word;
    };
    ScanRequest request;
    request.sessions_directories = {place};
    request.wanted = fits;
    // A slug begins with the date of its session, so most of the store need not be read.
    const std::string date(word.substr(0, word.find('-')));
    request.wanted_id = [&date](const Ulid& id) {
        return layout::format_slug_date(id.time()) == date;
    };
    SessionScan scan = scan_sessions(request);
    if (scan.sessions.empty()) {
        request.wanted_id = nullptr;
        scan = scan_sessions(request);
    }
    Candidates candidates;
    candidates.reserve(scan.sessions.size());
    for (ScannedSession& session : scan.sessions) {
        candidates.push_back({session.meta.id, std::move(session.directory)});
    }
    return candidates;
}

Candidates partly_named(std::string_view word, const std::string& place) {
    Candidates candidates;
    const std::string part = id_characters_of(word);
    if (part.size() < suffix_characters_min || part.size() >= id_characters) {
        return candidates;
    }
    const Result<std::vector<Ulid>> ids = layout::list_sessions(place);
    for (const Ulid& id : ids.ok() ? ids.value() : std::vector<Ulid>()) {
        const std::string text = id.text();
        if (text.ends_with(part)
            || (part.size() >= prefix_characters_min && text.starts_with(part))) {
            candidates.push_back({id, place + "/" + text});
        }
    }
    return candidates;
}

Candidates find_in(std::string_view word, const std::string& place) {
    if (const std::optional<Ulid> id = Ulid::parse(word)) {
        const std::string directory = place + "/" + id->text();
        return is_directory(directory) ? Candidates{{*id, directory}} : Candidates{};
    }
    Candidates exact = named(word, place);
    return exact.empty() ? partly_named(word, place) : exact;
}

Error ambiguous(std::string_view word, const Candidates& candidates) {
    std::string sentence = "\"" + std::string(word) + "\" fits several sessions:";
    for (std::size_t at = 0; at < std::min(candidates.size(), candidates_named_max); ++at) {
        const Candidate& candidate = candidates[at];
        sentence += (at == 0 ? " " : ", ") + candidate.id.text();
        const Result<layout::Meta> meta = layout::read_meta(candidate.directory);
        sentence += meta.ok() ? " (" + meta.value().slug + ")" : "";
    }
    if (candidates.size() > candidates_named_max) {
        sentence += " and " + std::to_string(candidates.size() - candidates_named_max) + " more";
    }
    return {Errc::invalid, 0, sentence + "; give more of one's id"};
}

Result<ChosenSession> one_of(std::string_view word, const Candidates& candidates) {
    if (candidates.size() > 1) {
        return ambiguous(word, candidates);
    }
    return ChosenSession{candidates.front().id, candidates.front().directory, std::nullopt};
}

Result<ChosenSession> choose_running(const std::string& place) {
    ScanRequest request;
    request.sessions_directories = {place};
    request.wanted = [](const layout::Meta& meta) {
        return meta.status == layout::SessionStatus::active;
    };
    SessionScan scan = scan_sessions(request);
    Candidates candidates;
    candidates.reserve(scan.sessions.size());
    for (ScannedSession& session : scan.sessions) {
        candidates.push_back({session.meta.id, std::move(session.directory)});
    }
    if (candidates.empty()) {
        return Error{
            Errc::not_found,
            0,
            "no session is running in " + place + "; agent-relay list shows what there is"};
    }
    return one_of("@running", candidates);
}

// The newest is 1. Sessions that do not want to be the latest are passed over.
Result<ChosenSession> choose_newest(std::int64_t number, const std::string& place) {
    const Result<std::vector<Ulid>> ids = layout::list_sessions(place);
    if (!ids.ok()) {
        return ids.error();
    }
    std::int64_t seen = 0;
    for (const Ulid& id : ids.value()) {
        const std::string directory = place + "/" + id.text();
        const Result<layout::Meta> meta = layout::read_meta(directory);
        if (meta.ok() && !meta.value().ephemeral && ++seen == number) {
            return ChosenSession{id, directory, std::nullopt};
        }
    }
    return Error{
        Errc::not_found,
        0,
        seen == 0 ? "no session is recorded in " + place
                        + "; agent-relay list --all-repos looks in every store"
                  : "only " + std::to_string(seen) + (seen == 1 ? " session is" : " sessions are")
                        + " recorded in " + place};
}

Result<ChosenSession> choose_by_rank(std::string_view word, const std::string& place) {
    if (word == "@running") {
        return choose_running(place);
    }
    std::int64_t number = word == "@latest" ? 1 : 0;
    if (number == 0) {
        const char* const end = word.data() + word.size();
        const auto [rest, failure] = std::from_chars(word.data() + 1, end, number);
        if (failure != std::errc{} || rest != end || number < 1) {
            return Error{
                Errc::invalid,
                0,
                "\"" + std::string(word)
                    + "\" is none of @latest, @running, @1, @2 …; see agent-relay --help"};
        }
    }
    return choose_newest(number, place);
}

Result<ChosenSession> choose_directory(std::string_view word) {
    const std::optional<std::string> directory = canonical(std::string(word));
    if (!directory || !is_directory(*directory)) {
        return Error{
            Errc::not_found,
            0,
            "there is no directory \"" + std::string(word)
                + "\"; agent-relay list shows what sessions there are"};
    }
    ChosenSession chosen;
    chosen.directory = *directory;
    const std::string name = directory->substr(directory->rfind('/') + 1);
    if (const Result<layout::Meta> meta = layout::read_meta(*directory); meta.ok()) {
        chosen.id = meta.value().id;
    } else if (const std::optional<Ulid> id = Ulid::parse(name)) {
        chosen.id = *id;  // damaged: the command that reads it says how
    } else if (meta.error().code == Errc::not_found) {
        return Error{
            Errc::not_found,
            0,
            "\"" + std::string(word) + "\" is no session: it holds no meta.json"};
    } else {
        return meta.error();
    }
    return chosen;
}

// "parser:last" names no turn.
std::string turn_hint(std::string_view word) {
    const std::size_t colon = word.rfind(':');
    return colon == std::string_view::npos || colon == 0
               ? ""
               : "; a turn is a number, as in " + std::string(word.substr(0, colon)) + ":3";
}

Result<ChosenSession> choose_by_name(std::string_view word, const SearchPlaces& places) {
    Candidates candidates = find_in(word, places.nearest);
    for (const std::string& place : places.farther) {
        if (!candidates.empty()) {
            break;
        }
        candidates = find_in(word, place);
    }
    if (!candidates.empty()) {
        return one_of(word, candidates);
    }
    if (is_directory(std::string(word) + "/turns") || canonical(std::string(word) + "/meta.json")) {
        return choose_directory(word);
    }
    return Error{
        Errc::not_found,
        0,
        "there is no session \"" + std::string(word) + "\" in " + places.nearest
            + (places.farther.empty() ? "" : " or any other store") + turn_hint(word)
            + "; agent-relay list shows what there is"};
}

// A whole word that means something else, too: "feature/parser", "parser:2".
Candidates given_as_name(std::string_view word, const SearchPlaces& places) {
    for (const std::string& place : places.all()) {
        if (Candidates candidates = named(word, place); !candidates.empty()) {
            return candidates;
        }
    }
    return {};
}

}  // namespace

std::vector<std::string> SearchPlaces::all() const {
    std::vector<std::string> places{nearest};
    places.insert(places.end(), farther.begin(), farther.end());
    return places;
}

Result<SearchPlaces>
find_search_places(const layout::Environment& environment, const std::string& store) {
    if (!store.empty()) {
        return places_in(store);
    }
    const Result<layout::UserDirectories> user = layout::user_directories(environment);
    if (!user.ok()) {
        return user.error();
    }
    const Result<std::string> here = current_directory();
    if (!here.ok()) {
        return here.error();
    }
    const Result<layout::Placement> placement =
        layout::place_session(here.value(), layout::StorePreference::automatic, user.value());
    if (!placement.ok()) {
        return placement.error();
    }
    SearchPlaces places;
    places.nearest = placement.value().store.sessions();
    places.of_user = layout::user_store(user.value()).sessions();
    for (const layout::Store& known : layout::known_stores(user.value())) {
        if (known.sessions() != places.nearest) {
            places.farther.push_back(known.sessions());
        }
    }
    return places;
}

Result<ChosenSession> choose_session(std::string_view word, const SearchPlaces& places) {
    const Reference reference = split_turn(word);
    const std::string_view session = reference.session;
    if (session.empty()) {
        return Error{Errc::invalid, 0, "an empty word names no session"};
    }
    const bool is_path =
        session.find('/') != std::string_view::npos || session == "." || session == "..";
    Result<ChosenSession> chosen = is_path ? choose_directory(session)
                                   : session.starts_with('@')
                                       ? choose_by_rank(session, places.nearest)
                                       : choose_by_name(session, places);
    if (chosen.ok()) {
        chosen.value().turn = reference.turn;
    } else if (chosen.error().code == Errc::not_found && (is_path || reference.turn)) {
        const Candidates candidates = given_as_name(word, places);
        return candidates.empty() ? chosen : one_of(word, candidates);
    }
    return chosen;
}

bool can_be_name(std::string_view name) {
    const bool blank = name.find_first_not_of(" \t\n") == std::string_view::npos;
    return !blank && !name.starts_with('@') && name != "." && name != ".." && !Ulid::parse(name);
}

Result<ChosenSession> newest_session(
    const SearchPlaces& places, const std::function<bool(const layout::Meta& meta)>& wanted) {
    ScanRequest request;
    request.wanted = wanted;
    for (const std::string& place : {places.nearest, places.of_user}) {
        if (place.empty()) {
            continue;
        }
        request.sessions_directories = {place};
        SessionScan scan = scan_sessions(request);
        if (!scan.sessions.empty()) {
            ScannedSession& newest = scan.sessions.front();
            return ChosenSession{newest.meta.id, std::move(newest.directory), std::nullopt};
        }
    }
    return Error{Errc::not_found, 0, {}};
}

Result<ChosenSession> choose_whole_session(std::string_view word, const SearchPlaces& places) {
    Result<ChosenSession> chosen = choose_session(word, places);
    if (chosen.ok() && chosen.value().turn) {
        return Error{
            Errc::invalid,
            0,
            "\"" + std::string(word)
                + "\" names a turn, but this is about whole sessions; only show and fork take one"};
    }
    return chosen;
}

ExitCode choice_code(const Error& error) {
    if (error.code == Errc::not_found) {
        return ExitCode::no_such_session;
    }
    return error.code == Errc::invalid ? ExitCode::usage : ExitCode::failed;
}

std::string short_id(const Ulid& id) {
    return id.text().substr(id_characters - 6);
}

}  // namespace relay::cli
