// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/screen.hpp"

#include <iosfwd>
#include <string>
#include <string_view>

namespace relay::cli {

// Prints recorded streams and what is said about them so that each line belongs to one of them, harmless
// and as it comes: a character that arrives in two pieces is printed whole. One thread at a time.
class TextFlow {
public:
    struct Style {
        Screen screen;
        std::string
            before_lines;    // stands before every line, such as a session's id; harmless already
        std::string filter;  // only lines that hold this, in any case of its letters; empty: all
    };

    TextFlow(std::ostream& out, Style style);

    // A piece of a stream. `mark` stands before each of its lines; a piece of the same mark and tone goes on
    // in the line that the last one left open.
    void stream(std::string_view bytes, std::string_view mark, Tone tone);

    // One line of our own words; ends a stream's line first.
    void say(std::string_view words, Tone tone);

    // An empty line, unless the last one is or nothing was printed yet.
    void space();

    // Ends the line that is open.
    void finish();

private:
    void add(std::string_view whole);
    void end_line();
    void print_line(std::string_view line);
    [[nodiscard]] bool by_lines() const;

    std::ostream& out_;
    Style style_;
    std::string mark_;
    Tone tone_ = Tone::plain;
    std::string pending_;     // the beginning of a character
    std::string line_;        // held back until its end, when lines are looked at as a whole
    bool line_open_ = false;  // something of a line was printed or is held
    bool spaced_ = true;
};

// Where the whole characters of `bytes` end: at most three bytes before its own end.
[[nodiscard]] std::size_t whole_characters(std::string_view bytes);

}  // namespace relay::cli
