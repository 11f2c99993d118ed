// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/result.hpp"
#include "layout/ulid.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace relay::cli {

// Which turns a search has to look through to find all that looking through everything would find. A session is left
// out, or only some of its turns are kept, when the index knows all of its turns, its turns/ has the same stamp as when
// they were read, and the others lack three bytes of what is searched for. Every other one is kept whole. The content
// of sealed files that somebody changed in place, without replacing them, is not noticed.
struct SearchPlan {
    // The sessions to look through, by sessions/ directory, newest first; an error is that of listing.
    std::map<std::string, layout::Result<std::vector<layout::Ulid>>> sessions;
    // By session directory, ascending; whoever is not there is looked through whole.
    std::unordered_map<std::string, std::vector<std::int64_t>> turns;
    // Those that the index does not know, newest first.
    std::vector<std::pair<std::string, layout::Ulid>> unknown;
    std::size_t in_stores = 0;
};

// For lines that have all of the words. Without an index that helps, the plan is everything.
[[nodiscard]] SearchPlan plan_search(
    const std::string& index_directory,
    const std::vector<std::string>& words,
    const std::vector<std::string>& sessions_directories);

// Notes some of what the index did not know; does nothing when the stores are small and there is no index.
void note_unknown(const std::string& index_directory, const SearchPlan& plan);

}  // namespace relay::cli
