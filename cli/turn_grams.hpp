// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// What the index knows of a text: which three bytes stand side by side in it, in small letters. A line that has a word
// has all the threes of that word, so a turn that lacks one of them need not be looked through. The reverse does not
// hold: what has them all is looked through.

namespace relay::cli {

// Collects the threes of texts, each once. One thread at a time.
class GramCollector {
public:
    GramCollector();

    // The next piece of the text; threes go across pieces.
    void add(std::string_view piece);
    // What comes next stands not beside what came before.
    void part();
    // "616263 626364 …", as FTS5 takes them; begins anew.
    [[nodiscard]] std::string take();

private:
    std::vector<std::uint64_t> seen_;  // a bit for each of 2^24
    std::vector<std::uint32_t> grams_;
    std::uint32_t last_ = 0;  // the last bytes
    int filled_ = 0;          // how many of them there are
};

// What a turn must have to have a line with all the words, as a query of FTS5. None when the words are too short to
// tell.
[[nodiscard]] std::optional<std::string> gram_query(const std::vector<std::string>& words);

// The texts of a session's turns as an index takes them.
struct TurnGrams {
    std::int64_t turn = 0;
    std::string grams;
};
// Errc::busy when a turn is open, or its files are not what its seal says: they may still change, and must be read
// anew each time. Other errors are those of reading.
[[nodiscard]] layout::Result<std::vector<TurnGrams>>
read_grams(const std::string& session_directory, GramCollector& collector);

}  // namespace relay::cli
