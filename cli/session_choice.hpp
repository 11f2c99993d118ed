// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command_line.hpp"
#include "layout/documents.hpp"
#include "layout/result.hpp"
#include "layout/ulid.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// From what a person types to one session. Reads names and meta.json alone; needs no daemon.

namespace relay::cli {

// Where to look, as sessions/ directories.
struct SearchPlaces {
    std::string nearest;  // of the store in which this directory's sessions are recorded
    std::vector<std::string> farther;  // of every other store that the daemon remembers
    std::string of_user{};  // of the user store, which is among the above; empty when one was named

    [[nodiscard]] std::vector<std::string> all() const;
};

// The stores around the current directory. A `store` that is not empty names one instead, alone: the root
// of a store, a repository that has one, or a directory of sessions.
[[nodiscard]] layout::Result<SearchPlaces>
find_search_places(const layout::Environment& environment, const std::string& store);

struct ChosenSession {
    layout::Ulid id;
    std::string directory;             // absolute; holds a meta.json, whole or not
    std::optional<std::int64_t> turn;  // of "session:turn"; it may not exist
};

// A session by
//
//     01M7J690Z2TM97TN46F1TWFTA9     its whole id, in either case
//     261116-minty-guitar            its slug
//     parser                         its name
//     TWFTA9                         the last 3 or more characters of its id
//     01M7J690                       the first 8 or more
//     @latest, @1, @2                the newest one, the newest, the one before
//     @running                       the one that is active
//     .agent-relay/latest, ./x       a directory
//
// each with ":3" after it for its third turn. Id, slug and name go before parts of an id; the nearest store
// goes before the others, which "@" does not look at. What is no directory and no turn may be a name:
// "feature/parser". Errc::not_found when there is none; Errc::invalid when the word can be none, or when several
// fit, with those in the sentence.
[[nodiscard]] layout::Result<ChosenSession>
choose_session(std::string_view word, const SearchPlaces& places);

// The newest one that `wanted` admits: of the nearest store, or else of the user's. Errc::not_found, with
// nothing to say, when there is none.
[[nodiscard]] layout::Result<ChosenSession> newest_session(
    const SearchPlaces& places, const std::function<bool(const layout::Meta& meta)>& wanted);

// A session that is meant as a whole: like choose_session(), but Errc::invalid for one with ":turn".
[[nodiscard]] layout::Result<ChosenSession>
choose_whole_session(std::string_view word, const SearchPlaces& places);

// Whether a session of this name is found by it: not "@x", ".", an id or nothing at all.
[[nodiscard]] bool can_be_name(std::string_view name);

// What a command ends with when no session could be chosen: no_such_session, usage or failed.
[[nodiscard]] ExitCode choice_code(const layout::Error& error);

// The six characters that people are shown of an id: its end, because its beginning is the time.
[[nodiscard]] std::string short_id(const layout::Ulid& id);

}  // namespace relay::cli
