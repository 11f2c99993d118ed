// SPDX-License-Identifier: Apache-2.0
#include "cli/text_search.hpp"

#include "layout/turn_input.hpp"
#include "layout/utf8.hpp"

#include <fcntl.h>
#include <regex.h>
#include <string.h>

#include <algorithm>
#include <array>
#include <utility>

namespace relay::cli {

namespace {

using layout::Errc;
using layout::Error;
using layout::Result;
using layout::Status;

constexpr std::size_t block_bytes = 1 << 20;
constexpr std::size_t shown_bytes_max = 400;
constexpr std::size_t shown_before_match_max = 120;

bool has_capital(std::string_view text) {
    return std::any_of(
        text.begin(), text.end(), [](char byte) { return byte >= 'A' && byte <= 'Z'; });
}

// Without a branch, so that the compiler does many at once.
void make_small(std::string_view from, std::string& into) {
    into.resize(from.size());
    for (std::size_t at = 0; at < from.size(); ++at) {
        const auto byte = static_cast<unsigned char>(from[at]);
        const bool capital = static_cast<unsigned char>(byte - 'A') < 26;
        into[at] = static_cast<char>(byte | (capital ? 0x20 : 0));
    }
}

std::size_t position_of(std::string_view text, std::string_view word, std::size_t from) {
    if (from >= text.size()) {
        return std::string_view::npos;
    }
    const void* const found =
        ::memmem(text.data() + from, text.size() - from, word.data(), word.size());
    return found == nullptr
               ? std::string_view::npos
               : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

// The part of a line that is shown, as valid UTF-8, and where the match is in it.
LineHit hit_in(std::int64_t number, std::string_view line, TextPattern::Span match) {
    if (line.ends_with('\r')) {
        line.remove_suffix(1);
    }
    match.begin = std::min(match.begin, line.size());
    match.size = std::min(match.size, line.size() - match.begin);
    std::string_view before = line.substr(0, match.begin);
    const bool cut = line.size() > shown_bytes_max && before.size() > shown_before_match_max;
    if (cut) {
        before = layout::utf8_suffix(before, shown_before_match_max);
    }
    const std::string_view middle =
        layout::utf8_prefix(line.substr(match.begin, match.size), shown_bytes_max / 2);
    const std::string_view rest = line.substr(match.begin + middle.size());
    const std::size_t left = shown_bytes_max - before.size() - middle.size();
    const std::string_view after = layout::utf8_prefix(rest, left);
    LineHit hit;
    hit.line = number;
    hit.text = (cut ? "…" : "") + layout::to_utf8(before);
    hit.match.begin = hit.text.size();
    hit.text += layout::to_utf8(middle);
    hit.match.size = hit.text.size() - hit.match.begin;
    hit.text += layout::to_utf8(after);
    hit.text += after.size() < rest.size() ? "…" : "";
    return hit;
}

// Looks at the lines of one block after the other and counts them.
class LineSearch {
public:
    LineSearch(const TextPattern& pattern, const std::function<bool(LineHit hit)>& see)
        : pattern_(pattern), see_(see) {}

    // `block` ends with a line's end, or is the last one, or is a piece of a long line. False: enough.
    bool look_at(std::string_view block) {
        std::size_t counted = 0;  // number_ is that of the line here
        std::size_t from = 0;
        while (const auto candidate = pattern_.next_candidate(block, from)) {
            const std::size_t newline = block.substr(0, *candidate).rfind('\n');
            const std::size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
            const std::size_t end = std::min(block.find('\n', *candidate), block.size());
            const std::string_view line = block.substr(begin, end - begin);
            if (const std::optional<TextPattern::Span> match = pattern_.find(line)) {
                number_ += std::count(
                    block.begin() + static_cast<std::ptrdiff_t>(counted),
                    block.begin() + static_cast<std::ptrdiff_t>(begin),
                    '\n');
                counted = begin;
                if (!see_(hit_in(number_, line, *match))) {
                    return false;
                }
            }
            from = end + 1;
        }
        number_ +=
            std::count(block.begin() + static_cast<std::ptrdiff_t>(counted), block.end(), '\n');
        return true;
    }

private:
    const TextPattern& pattern_;
    const std::function<bool(LineHit hit)>& see_;
    std::int64_t number_ = 1;
};

}  // namespace

struct TextPattern::Expression {
    explicit Expression(std::string given) : text(std::move(given)) {
        const int flags = REG_EXTENDED | (has_capital(text) ? 0 : REG_ICASE);
        failure = ::regcomp(&compiled, text.c_str(), flags);
    }
    Expression(const Expression&) = delete;
    Expression& operator=(const Expression&) = delete;
    ~Expression() {
        if (failure == 0) {
            ::regfree(&compiled);
        }
    }

    std::string text;
    regex_t compiled{};
    int failure = 0;
};

TextPattern::TextPattern() = default;

TextPattern::TextPattern(TextPattern&&) noexcept = default;

TextPattern::~TextPattern() = default;

TextPattern::TextPattern(const TextPattern& other)
    : words_(other.words_),
      any_case_(other.any_case_),
      expression_(
          other.expression_ ? std::make_unique<Expression>(other.expression_->text) : nullptr) {
}

Result<TextPattern> TextPattern::words(std::vector<std::string> words) {
    std::erase(words, "");
    if (words.empty()) {
        return Error{Errc::invalid, 0, "there is nothing to search for"};
    }
    TextPattern pattern;
    pattern.any_case_ = std::none_of(words.begin(), words.end(), has_capital);
    pattern.words_ = std::move(words);
    std::stable_sort(
        pattern.words_.begin(), pattern.words_.end(), [](const auto& left, const auto& right) {
            return left.size() > right.size();
        });
    return pattern;
}

Result<TextPattern> TextPattern::regex(std::string expression) {
    if (expression.empty() || expression.find('\0') != std::string::npos) {
        return Error{Errc::invalid, 0, "there is nothing to search for"};
    }
    TextPattern pattern;
    pattern.expression_ = std::make_unique<Expression>(std::move(expression));
    if (pattern.expression_->failure != 0) {
        std::array<char, 256> reason{};
        ::regerror(
            pattern.expression_->failure,
            &pattern.expression_->compiled,
            reason.data(),
            reason.size());
        return Error{
            Errc::invalid,
            0,
            "\"" + pattern.expression_->text + "\" is no regular expression: " + reason.data()};
    }
    return pattern;
}

std::optional<TextPattern::Span> TextPattern::find(std::string_view line) const {
    if (expression_) {
        regmatch_t match{0, static_cast<regoff_t>(line.size())};
        if (::regexec(&expression_->compiled, line.data(), 1, &match, REG_STARTEND) != 0) {
            return std::nullopt;
        }
        return Span{
            static_cast<std::size_t>(match.rm_so),
            static_cast<std::size_t>(match.rm_eo - match.rm_so)};
    }
    std::string small;
    if (any_case_) {
        make_small(line, small);
        line = small;
    }
    for (const std::string& word : words_) {
        if (position_of(line, word, 0) == std::string_view::npos) {
            return std::nullopt;
        }
    }
    return Span{position_of(line, words_.front(), 0), words_.front().size()};
}

std::optional<std::size_t>
TextPattern::next_candidate(std::string_view lines, std::size_t from) const {
    if (from >= lines.size()) {
        return std::nullopt;
    }
    if (expression_) {
        return from;
    }
    // In pieces: a hit near the beginning must not cost the whole block again and again.
    constexpr std::size_t piece_bytes = std::size_t{32} * 1024;
    const std::string& word = words_.front();
    std::string small;
    for (std::size_t begin = from; begin < lines.size(); begin += piece_bytes) {
        std::string_view piece = lines.substr(begin, piece_bytes + word.size() - 1);
        if (any_case_) {
            make_small(piece, small);
            piece = small;
        }
        const std::size_t found = position_of(piece, word, 0);
        if (found != std::string_view::npos) {
            return begin + found;
        }
    }
    return std::nullopt;
}

Status search_file(
    const std::string& path,
    const TextPattern& pattern,
    const std::function<bool(LineHit hit)>& see) {
    Result<layout::TurnInput> file = layout::TurnInput::open(AT_FDCWD, path);
    if (!file.ok()) {
        return file.error();
    }
    LineSearch search(pattern, see);
    const auto expected = static_cast<std::size_t>(file.value().bytes_on_disk()) + 1;
    std::string block(std::min(block_bytes, expected), '\0');
    std::size_t filled = 0;
    for (;;) {
        if (filled == block.size() && block.size() < block_bytes) {
            block.resize(block_bytes);  // it grows while it is read, or was compressed
        }
        const Result<std::size_t> read =
            file.value().read(block.data() + filled, block.size() - filled);
        if (!read.ok()) {
            return read.error();
        }
        const std::size_t got = read.value();
        filled += got;
        const std::string_view seen = std::string_view(block).substr(0, filled);
        const std::size_t newline = seen.rfind('\n');
        const bool whole = got == 0 || (newline == std::string_view::npos && filled == block_bytes);
        const std::size_t end = whole                               ? filled
                                : newline == std::string_view::npos ? 0
                                                                    : newline + 1;
        if (!search.look_at(seen.substr(0, end)) || got == 0) {
            return layout::Done{};
        }
        block.erase(0, end);
        block.resize(block.size() + end);
        filled -= end;
    }
}

}  // namespace relay::cli
