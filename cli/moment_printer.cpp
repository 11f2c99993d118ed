// SPDX-License-Identifier: Apache-2.0
#include "cli/moment_printer.hpp"

#include "cli/human_text.hpp"
#include "cli/terminal_text.hpp"

#include <algorithm>
#include <ostream>
#include <utility>

namespace relay::cli {

namespace {

struct Words {
    std::string text;
    Tone tone = Tone::plain;
};

Words words_of(const Moment& moment) {
    const std::string turn = moment.turn ? "turn " + std::to_string(*moment.turn) + " " : "";
    if (moment.type == "turn.tool") {
        return {"  tool " + moment.said, Tone::blue};
    }
    if (moment.type == "turn.note") {
        const bool blocks = moment.said.starts_with("blocker");
        return {"  " + moment.said, blocks ? Tone::red : Tone::green};
    }
    if (moment.type == "turn.end") {
        return {"── " + turn + moment.said, Tone::dim};
    }
    if (moment.type == "session.start") {
        return {"── " + moment.said + ", " + clock_text(moment.at), Tone::dim};
    }
    if (moment.type == "session.checkpoint") {
        return {"── checkpointed: " + moment.said, Tone::yellow};
    }
    if (moment.type == "session.end") {
        return {"── ended" + (moment.said.empty() ? "" : ": " + moment.said), Tone::dim};
    }
    return {"  " + moment.type + (moment.said.empty() ? "" : ": " + moment.said), Tone::dim};
}

}  // namespace

MomentPrinter::MomentPrinter(std::ostream& out, Style style)
    : out_(out), style_(std::move(style)), flow_(out, style_.text) {
}

void MomentPrinter::show_words(const Moment& moment) {
    if (moment.type == "turn.start") {
        flow_.space();
        flow_.say(
            "── turn " + std::to_string(moment.turn.value_or(0)) + ", " + clock_text(moment.at),
            Tone::dim);
        flow_.stream(moment.text, "> ", Tone::cyan);
        flow_.space();
    } else if (moment.type == "turn.output") {
        flow_.stream(moment.text, "", moment.channel.empty() ? Tone::plain : Tone::dim);
    } else if (moment.type == "turn.stderr") {
        flow_.stream(moment.text, "! ", Tone::red);
    } else if (moment.type != "session.attach" || !moment.said.empty()) {
        const Words words = words_of(moment);
        flow_.say(words.text, words.tone);
    }
}

// A filter looks at the text of the moment, not at the names of its members.
void MomentPrinter::show_line(const Moment& moment) {
    const std::string& filter = style_.text.filter;
    const auto same = [](char left, char right) {
        return std::tolower(static_cast<unsigned char>(left))
               == std::tolower(static_cast<unsigned char>(right));
    };
    const auto holds = [&](const std::string& text) {
        return std::search(text.begin(), text.end(), filter.begin(), filter.end(), same)
               != text.end();
    };
    if (!filter.empty() && !holds(moment.text) && !holds(moment.said)) {
        return;
    }
    const std::string line = moment_json(moment, style_.session);
    out_ << (style_.harmless_json ? harmless_json(line) : line) << '\n';
}

void MomentPrinter::show(const Moment& moment) {
    if (style_.json) {
        show_line(moment);
    } else {
        show_words(moment);
    }
    out_.flush();
}

void MomentPrinter::finish() {
    if (!style_.json) {
        flow_.finish();
    }
    out_.flush();
}

}  // namespace relay::cli
