// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace relay::cli {

// Takes out of a stream what was meant for a terminal and not for a reader: colours, movements, titles, questions.
// Sequences may come in pieces. What is drawn on the alternate screen, as editors and pagers do, is left
// out: it is no text in any order. One thread at a time.
class EscapeFilter {
public:
    enum class Source {
        pipe,  // everything else stays as it is
        terminal,  // line ends are those of a terminal, too: CR LF is one, and so is a lone CR, which a progress
        // bar begins its line anew with; backspaces and bells are left out
    };
    explicit EscapeFilter(Source source) : source_(source) {}

    // Appends to `text` what is left of `bytes`.
    void filter(std::string_view bytes, std::string& text);

    // filter() would append all of `bytes`.
    [[nodiscard]] bool leaves_alone(std::string_view bytes) const;

private:
    enum class State { text, escape, escape_more, control, string, string_escape };

    void step(char byte, std::string& text);
    void end_control(char final);
    void emit(std::string_view bytes, std::string& text);
    void emit_from_terminal(char byte, std::string& text);

    Source source_;
    State state_ = State::text;
    std::string parameters_;  // of a control sequence; at most a few
    bool alternate_ = false;
    bool carriage_returned_ = false;
    bool line_is_empty_ = true;
};

}  // namespace relay::cli
