// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/adapters/adapter.hpp"
#include "cli/escape_filter.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace relay::cli {

// A program that just prints: its output is the output, its errors are stderr, its process is the turn. What it
// wants to be known it says in lines of its own output, which stay there:
//
//     RELAY_STATE: {"decisions":[…],"blockers":[…],"validation":{…},"files":[…],"next_task":"…"}
//     RELAY_STATUS: {"state":"working","message":"…"}
//
// Each member of RELAY_STATE becomes notes of its kind; RELAY_STATUS becomes one of kind `status`, and its
// `next_task`, `decision` and `blocker`, if it has them, likewise. A line that is no JSON object is only text.
class PlainAdapter final : public Adapter {
public:
    PlainAdapter(EventSink& sink, const AdapterSettings& settings);

    void output(std::string_view bytes) override;
    void error(std::string_view bytes) override;
    [[nodiscard]] TurnFacts finish(const AgentEnd& end) override;

private:
    // One stream on its way to its file: without escape sequences, in whole characters.
    struct TextStream {
        TextStream(AgentStream named, EscapeFilter::Source source)
            : stream(named), filter(source) {}

        AgentStream stream;
        EscapeFilter filter;
        std::string text;  // filtered and not sent: the beginning of a character
    };

    void take(TextStream& stream, std::string_view bytes);
    void pass_on(const TextStream& stream, std::string_view text);
    void look_for_facts(std::string_view text);
    void end_line();

    EventSink& sink_;
    const bool raw_;
    TextStream output_;
    TextStream error_;
    std::string line_;            // of the output, as long as it may become a declaration
    bool line_is_plain_ = false;  // it cannot any more
};

// The notes that one declared line leads to, each the members of a turn.note. Empty when it declares nothing.
[[nodiscard]] std::vector<std::string> declared_notes(std::string_view line);

}  // namespace relay::cli
