// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/result.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Finding lines in large files.

namespace relay::cli {

// What a line must have. Small letters in the pattern stand for both cases; with a capital in it, every
// letter stands for itself. Only the letters of ASCII have cases here. One thread at a time: each takes
// a copy of its own.
class TextPattern {
public:
    // All of the words, anywhere in the line.
    [[nodiscard]] static layout::Result<TextPattern> words(std::vector<std::string> words);
    // An extended regular expression of POSIX, as in grep -E. Errc::invalid says what is wrong with it.
    [[nodiscard]] static layout::Result<TextPattern> regex(std::string expression);

    TextPattern(const TextPattern& other);
    TextPattern(TextPattern&&) noexcept;
    TextPattern& operator=(const TextPattern&) = delete;
    TextPattern& operator=(TextPattern&&) = delete;
    ~TextPattern();

    struct Span {
        std::size_t begin = 0;
        std::size_t size = 0;
    };
    // The first place in the line: of the longest word, or of the expression.
    [[nodiscard]] std::optional<Span> find(std::string_view line) const;

    // The first place in `lines` at or after `from` that may be in a line with a match; lines before it have
    // none. Many times as fast as asking each line.
    [[nodiscard]] std::optional<std::size_t>
    next_candidate(std::string_view lines, std::size_t from) const;

private:
    struct Expression;
    TextPattern();

    std::vector<std::string>
        words_;  // longest first; in small letters when the case does not count
    bool any_case_ = true;
    std::unique_ptr<Expression> expression_;
};

struct LineHit {
    std::int64_t line = 0;    // from 1
    std::string text;         // of the line around the match, at most 400 bytes of valid UTF-8
    TextPattern::Span match;  // in `text`
};

// Looks at every line of a turn's file, as TurnInput reads it; a line of more than a mebibyte is looked at in pieces. Ends when
// `see` returns false. Errc::not_found when there is no such file.
[[nodiscard]] layout::Status search_file(
    const std::string& path,
    const TextPattern& pattern,
    const std::function<bool(LineHit hit)>& see);

}  // namespace relay::cli
