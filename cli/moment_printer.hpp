// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/session_follower.hpp"
#include "cli/text_flow.hpp"

#include <iosfwd>
#include <string>

namespace relay::cli {

// Shows what happens in a session, to people or as JSON lines. Whatever was shown is written to `out` and
// flushed when show() returns.
class MomentPrinter {
public:
    struct Style {
        TextFlow::Style text;
        std::string session;  // its id, for JSON
        bool json = false;
        bool harmless_json = false;  // `out` is a terminal
    };

    MomentPrinter(std::ostream& out, Style style);

    void show(const Moment& moment);
    // Ends an open line.
    void finish();

private:
    void show_words(const Moment& moment);
    void show_line(const Moment& moment);

    std::ostream& out_;
    Style style_;
    TextFlow flow_;
};

}  // namespace relay::cli
