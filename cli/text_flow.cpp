// SPDX-License-Identifier: Apache-2.0
#include "cli/text_flow.hpp"

#include "cli/terminal_text.hpp"

#include <algorithm>
#include <ostream>
#include <utility>

namespace relay::cli {

namespace {

char lower(char character) {
    return character >= 'A' && character <= 'Z' ? static_cast<char>(character - 'A' + 'a')
                                                : character;
}

bool holds(std::string_view text, std::string_view wanted) {
    const auto same = [](char left, char right) {
        return lower(left) == lower(right);
    };
    return std::search(text.begin(), text.end(), wanted.begin(), wanted.end(), same) != text.end();
}

}  // namespace

std::size_t whole_characters(std::string_view bytes) {
    for (std::size_t back = 1; back <= std::min<std::size_t>(3, bytes.size()); ++back) {
        const auto byte = static_cast<unsigned char>(bytes[bytes.size() - back]);
        if (byte < 0x80) {
            break;
        }
        if (byte >= 0xc0) {
            const std::size_t size = byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
            return size > back ? bytes.size() - back : bytes.size();
        }
    }
    return bytes.size();
}

TextFlow::TextFlow(std::ostream& out, Style style) : out_(out), style_(std::move(style)) {
}

bool TextFlow::by_lines() const {
    return !style_.filter.empty() || !style_.before_lines.empty();
}

void TextFlow::print_line(std::string_view line) {
    if (!style_.filter.empty() && !holds(line, style_.filter)) {
        return;
    }
    out_ << style_.before_lines << style_.screen.paint(tone_, mark_ + std::string(line)) << '\n';
    spaced_ = false;
}

void TextFlow::end_line() {
    if (by_lines()) {
        print_line(line_);
        line_.clear();
    } else {
        out_ << '\n';
    }
    line_open_ = false;
    spaced_ = false;
}

void TextFlow::add(std::string_view whole) {
    while (!whole.empty()) {
        const std::size_t end = std::min(whole.find('\n'), whole.size());
        const std::string_view piece = whole.substr(0, end);
        const bool ends = end < whole.size();
        if (by_lines()) {
            line_ += piece;
        } else {
            out_ << style_.screen.paint(tone_, (line_open_ ? "" : mark_) + std::string(piece));
        }
        line_open_ = true;
        if (ends) {
            end_line();
        }
        whole.remove_prefix(end + (ends ? 1 : 0));
    }
}

void TextFlow::stream(std::string_view bytes, std::string_view mark, Tone tone) {
    if (mark_ != mark || tone_ != tone) {
        finish();
        mark_ = mark;
        tone_ = tone;
    }
    pending_ += bytes;
    // A carriage return is looked at together with what follows it.
    std::size_t whole = whole_characters(pending_);
    if (whole == pending_.size() && pending_.ends_with('\r')) {
        --whole;
    }
    const std::string now = pending_.substr(0, whole);
    pending_.erase(0, whole);
    add(harmless_lines(now));
}

void TextFlow::say(std::string_view words, Tone tone) {
    finish();
    mark_.clear();
    tone_ = tone;
    print_line(harmless(words));
}

void TextFlow::space() {
    finish();
    if (!spaced_ && style_.filter.empty() && style_.before_lines.empty()) {
        out_ << '\n';
        spaced_ = true;
    }
}

void TextFlow::finish() {
    const std::string rest = std::exchange(pending_, {});
    if (rest != "\r") {
        add(harmless_lines(rest));
    }
    if (line_open_) {
        end_line();
    }
}

}  // namespace relay::cli
