// SPDX-License-Identifier: Apache-2.0
#include "cli/session_export.hpp"

#include "cli/human_text.hpp"
#include "cli/session_follower.hpp"
#include "cli/terminal_text.hpp"
#include "layout/json_depth.hpp"
#include "layout/json_writer.hpp"
#include "layout/meta_skim.hpp"
#include "layout/session_paths.hpp"
#include "layout/session_reader.hpp"
#include "layout/turn_input.hpp"
#include "layout/utf8.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>
#include <ostream>
#include <string_view>
#include <utility>

namespace relay::cli {

namespace {

using layout::Errc;
using layout::Meta;
using layout::Result;
using layout::TurnState;
using Json = nlohmann::json;
using Faults = std::vector<std::string>;

constexpr std::int64_t text_bytes_max = std::int64_t{1} << 30;
constexpr std::int64_t state_bytes_max = 64 << 20;
constexpr std::size_t depth_max = 128;

// A turn's file; none when there is none, and a fault when it cannot be read.
std::optional<std::string>
read_part(const ExportedSession& session, const std::string& file, Faults& faults) {
    Result<std::string> text =
        layout::read_turn_file(session.directory + "/" + file, text_bytes_max);
    if (text.ok()) {
        return std::move(text.value());
    }
    if (text.error().code != Errc::not_found) {
        faults.push_back(file + " cannot be read: " + text.error().context);
    }
    return std::nullopt;
}

std::optional<TurnState>
read_state(const ExportedSession& session, std::int64_t turn, Faults& faults) {
    const std::optional<std::string> text = read_part(session, layout::state_file(turn), faults);
    if (!text) {
        return std::nullopt;
    }
    Result<TurnState> state = layout::decode_turn_state(*text);
    if (!state.ok()) {
        faults.push_back(layout::state_file(turn) + ": " + state.error().context);
        return std::nullopt;
    }
    return std::move(state.value());
}

struct Fact {
    std::string_view name;
    std::string value;
};

std::vector<Fact> facts_of(const Meta& meta) {
    std::vector<Fact> facts{
        {"Session", meta.id.text()},
        {"Slug", meta.slug},
        {"Agent", meta.agent + (meta.model ? ", " + *meta.model : "")},
        {"Status",
         std::string(layout::name_of(meta.status))
             + (meta.checkpoint_reason ? ": " + *meta.checkpoint_reason : "")
             + (meta.error ? ": " + *meta.error : "")},
        {"Directory", meta.cwd},
        {"Started", layout::format_timestamp(meta.started_at)},
        {"Ended", meta.ended_at ? layout::format_timestamp(*meta.ended_at) : ""},
        {"Branch", meta.repo && meta.repo->branch ? *meta.repo->branch : ""},
        {"Commit", meta.repo && meta.repo->head ? *meta.repo->head : ""},
        {"Cost", meta.cost_usd ? cost_text(*meta.cost_usd) : ""},
        {"Goes on from",
         meta.parent ? meta.parent->session
                           + (meta.parent->turn ? ":" + std::to_string(*meta.parent->turn) : "")
                           + " (" + meta.parent->relation + ")"
                     : ""},
    };
    std::erase_if(facts, [](const Fact& fact) { return fact.value.empty(); });
    return facts;
}

std::string title_of(const Meta& meta) {
    return meta.name.value_or(meta.preview.value_or(meta.slug));
}

std::string summary_of(const TurnState& state) {
    std::string text = state.status + ", " + duration_text(state.duration_ms);
    if (state.tokens && state.tokens->total) {
        text += ", " + count_text(*state.tokens->total) + " tokens";
    }
    text += state.cost_usd ? ", " + cost_text(*state.cost_usd) : "";
    text += state.error ? ", " + *state.error : "";
    return text;
}

// Tools, decisions, blockers and the next task, one line each.
std::vector<std::string> points_of(const TurnState& state) {
    std::vector<std::string> points;
    for (const layout::ToolCall& tool : state.tools) {
        points.push_back(
            "tool " + tool.name + " " + tool.status + (tool.summary ? ": " + *tool.summary : ""));
    }
    const auto add = [&points](std::string_view name, const layout::RawJson& items) {
        const Json parsed = layout::json_depth(items.text) > depth_max
                                ? Json()
                                : Json::parse(items.text, nullptr, /*allow_exceptions=*/false);
        for (const Json& item : parsed.is_array() ? parsed : Json::array()) {
            const auto summary = item.is_object() ? item.find("summary") : item.end();
            const bool told = item.is_object() && summary != item.end() && summary->is_string();
            points.push_back(
                std::string(name) + ": "
                + (told ? summary->get<std::string>()
                        : item.dump(-1, ' ', false, Json::error_handler_t::replace)));
        }
    };
    add("decision", state.decisions);
    add("blocker", state.blockers);
    if (state.next_task) {
        points.push_back("next: " + *state.next_task);
    }
    return points;
}

struct Section {
    std::string_view title;
    std::string (*file)(std::int64_t turn);
    std::string_view language;
};

constexpr Section sections[] = {
    {"Prompt", layout::prompt_file, "text"},
    {"Output", layout::output_file, "text"},
    {"Standard error", layout::stderr_file, "text"},
    {"Changes", layout::diff_file, "diff"},
};

// -- Markdown

// A line of recorded text outside a fence: what Markdown or HTML would take for its own is escaped.
std::string as_markdown(std::string_view text) {
    constexpr std::string_view special = "\\`*_{}[]<>()#+-.!|~&";
    std::string out;
    for (const char character : harmless(text)) {
        if (special.find(character) != std::string_view::npos) {
            out += '\\';
        }
        out += character;
    }
    return out;
}

// Longer than any run of backquotes in it.
std::string fence_for(std::string_view text) {
    std::size_t longest = 0;
    std::size_t run = 0;
    for (const char character : text) {
        run = character == '`' ? run + 1 : 0;
        longest = std::max(longest, run);
    }
    return std::string(std::max<std::size_t>(3, longest + 1), '`');
}

void put_fenced(std::string_view recorded, std::string_view language, std::ostream& out) {
    const std::string text = harmless_lines(recorded);
    const std::string fence = fence_for(text);
    out << fence << language << '\n' << text << (text.ends_with('\n') ? "" : "\n") << fence << "\n";
}

// -- HTML

std::string as_html(std::string_view recorded) {
    std::string out;
    for (const char character : harmless_lines(recorded)) {
        switch (character) {
        case '&':
            out += "&amp;";
            break;
        case '<':
            out += "&lt;";
            break;
        case '>':
            out += "&gt;";
            break;
        case '"':
            out += "&quot;";
            break;
        case '\'':
            out += "&#39;";
            break;
        default:
            out += character;
        }
    }
    return out;
}

// The policy forbids what a mistake of ours might let through.
constexpr std::string_view html_head = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body { font: 16px/1.5 sans-serif; margin: 2em auto; max-width: 60em; padding: 0 1em; color: #222; background: #fff; }
h2 { border-top: 1px solid #ccc; padding-top: 1em; }
th { text-align: left; padding-right: 1.5em; font-weight: normal; color: #666; vertical-align: top; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #f6f6f6; padding: .8em; border-radius: 4px; }
pre.prompt { border-left: 4px solid #2a7ae2; }
pre.error { border-left: 4px solid #c22; }
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #1b1b1b; } pre { background: #272727; } th { color: #999; }
}
</style>
)";

std::string_view class_of(const Section& section) {
    return section.title == "Prompt"           ? "prompt"
           : section.title == "Standard error" ? "error"
                                               : "text";
}

// -- JSON lines

void put_document(
    layout::JsonObject& object, std::string_view key, const std::optional<std::string>& text) {
    const bool whole = text && layout::json_depth(*text) <= depth_max && Json::accept(*text);
    object.raw(key, whole ? layout::minified_json(*text) : "null");
}

}  // namespace

Faults export_markdown(const ExportedSession& session, std::ostream& out) {
    Faults faults;
    out << "# " << as_markdown(title_of(session.meta)) << "\n\n";
    for (const Fact& fact : facts_of(session.meta)) {
        out << "- " << fact.name << ": " << as_markdown(fact.value) << '\n';
    }
    for (const std::int64_t turn : session.turns) {
        out << "\n## Turn " << turn << '\n';
        for (const Section& section : sections) {
            const auto text = read_part(session, section.file(turn), faults);
            if (text && !text->empty()) {
                out << "\n### " << section.title << "\n\n";
                put_fenced(*text, section.language, out);
            }
        }
        const std::optional<TurnState> state = read_state(session, turn, faults);
        out << "\n### Result\n\n" << as_markdown(state ? summary_of(*state) : "it runs") << '\n';
        const std::vector<std::string> points =
            state ? points_of(*state) : std::vector<std::string>();
        out << (points.empty() ? "" : "\n");
        for (const std::string& point : points) {
            out << "- " << as_markdown(point) << '\n';
        }
    }
    return faults;
}

Faults export_html(const ExportedSession& session, std::ostream& out) {
    Faults faults;
    out << html_head << "<title>" << as_html(title_of(session.meta))
        << "</title>\n</head>\n<body>\n"
        << "<h1>" << as_html(title_of(session.meta)) << "</h1>\n<table>\n";
    for (const Fact& fact : facts_of(session.meta)) {
        out << "<tr><th>" << fact.name << "</th><td>" << as_html(fact.value) << "</td></tr>\n";
    }
    out << "</table>\n";
    for (const std::int64_t turn : session.turns) {
        out << "<h2 id=\"turn-" << turn << "\">Turn " << turn << "</h2>\n";
        for (const Section& section : sections) {
            const auto text = read_part(session, section.file(turn), faults);
            if (text && !text->empty()) {
                // The newline behind <pre> is none of the text.
                out << "<h3>" << section.title << "</h3>\n<pre class=\"" << class_of(section)
                    << "\">\n"
                    << as_html(*text) << "</pre>\n";
            }
        }
        const std::optional<TurnState> state = read_state(session, turn, faults);
        out << "<h3>Result</h3>\n<p>" << as_html(state ? summary_of(*state) : "it runs")
            << "</p>\n";
        const std::vector<std::string> points =
            state ? points_of(*state) : std::vector<std::string>();
        if (!points.empty()) {
            out << "<ul>\n";
            for (const std::string& point : points) {
                out << "<li>" << as_html(point) << "</li>\n";
            }
            out << "</ul>\n";
        }
    }
    out << "</body>\n</html>\n";
    return faults;
}

Faults export_jsonl(const ExportedSession& session, std::ostream& out) {
    Faults faults;
    std::string line;
    layout::JsonObject head(line, layout::JsonObject::Form::compact);
    head.integer("v", 1);
    head.string("type", "session");
    put_document(head, "meta", read_part(session, std::string(layout::meta_file), faults));
    head.finish();
    out << line << '\n';
    SessionFollower follower(session.directory);
    const layout::Status read = follower.read(
        [&](const Moment& moment) { out << moment_json(moment, session.meta.id.text()) << '\n'; });
    if (!read.ok()) {
        faults.push_back(read.error().context);
    }
    if (follower.damaged_lines() > 0) {
        faults.push_back(
            std::to_string(follower.damaged_lines()) + " lines of events.jsonl are no JSON");
    }
    for (const std::int64_t turn : session.turns) {
        line.clear();
        layout::JsonObject object(line, layout::JsonObject::Form::compact);
        object.integer("v", 1);
        object.string("type", "turn");
        object.integer("turn", turn);
        object.string_or_null("prompt", read_part(session, layout::prompt_file(turn), faults));
        object.string_or_null("output", read_part(session, layout::output_file(turn), faults));
        object.string_or_null("stderr", read_part(session, layout::stderr_file(turn), faults));
        object.string_or_null("diff", read_part(session, layout::diff_file(turn), faults));
        put_document(object, "state", read_part(session, layout::state_file(turn), faults));
        object.finish();
        out << line << '\n';
    }
    return faults;
}

}  // namespace relay::cli
