// SPDX-License-Identifier: Apache-2.0
#include "tests/end_to_end/script.hpp"

#include "layout/base64.hpp"
#include "tests/end_to_end/recording.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <sstream>
#include <string_view>

namespace relay::tests {

namespace {

enum class Kind { session_start, turn_start, output, stderr_log, tool, note, attachment, turn_end };

Kind kind_of(std::int64_t seq) {
    if (seq == 1) {
        return Kind::session_start;
    }
    switch ((seq - 2) % Script::events_a_turn) {
    case 0:
        return Kind::turn_start;
    case 3:
        return Kind::stderr_log;
    case 5:
        return Kind::tool;
    case 7:
        return Kind::note;
    case 9:
        return Kind::attachment;
    case Script::events_a_turn - 1:
        return Kind::turn_end;
    default:
        return Kind::output;
    }
}

std::string stem_of(std::int64_t seq) {
    const std::string turn = std::to_string((seq - 2) / Script::events_a_turn + 1);
    return "turns/" + std::string(turn.size() < 3 ? 3 - turn.size() : 0, '0') + turn;
}

std::string attachment_of(std::int64_t seq) {
    return "piece-" + std::to_string(seq) + ".txt";
}

bool is_document(std::string_view name) {
    return name == "meta.json" || name == "resume.json" || name.ends_with("-state.json");
}

bool grows(std::string_view name) {
    return name.ends_with("-output.md") || name.ends_with("-stderr.log");
}

// Numbers grow, and the runs of each stream follow one another without a gap.
std::string difference_of_timeline(const std::string& text, Look look) {
    std::istringstream lines(text);
    std::int64_t last = 0;
    std::map<std::string, std::int64_t> lengths;
    for (std::string line; std::getline(lines, line);) {
        const Json parsed = Json::parse(line, nullptr, /*allow_exceptions=*/false);
        if (lines.eof() && look == Look::as_they_lie && !parsed.is_object()) {
            break;
        }
        bool right = parsed.is_object() && parsed.value("seq", std::int64_t{0}) > last;
        if (right && parsed.contains("offset")) {
            const std::string stream =
                parsed.value("type", "") + std::to_string(parsed.value("turn", std::int64_t{0}));
            right = parsed["offset"] == lengths[stream];
            lengths[stream] += parsed.value("bytes", std::int64_t{0});
        }
        if (!right) {
            return "events.jsonl: after " + std::to_string(last) + " comes " + line.substr(0, 200)
                   + "\n";
        }
        last = parsed.value("seq", std::int64_t{0});
    }
    return "";
}

}  // namespace

Json Script::line(std::int64_t seq) const {
    Json line = event("", session_, {{"seq", seq}, {"id", seq}});
    switch (kind_of(seq)) {
    case Kind::session_start:
        line.update({{"type", "session.start"}, {"agent", "custom"}, {"cwd", cwd_}});
        break;
    case Kind::turn_start:
        line.update({{"type", "turn.start"}, {"prompt", text(seq)}});
        break;
    case Kind::output:
        line.update({{"type", "turn.output"}, {"text", text(seq)}});
        break;
    case Kind::stderr_log:
        line.update({{"type", "turn.stderr"}, {"text", text(seq)}});
        break;
    case Kind::tool:
        line.update(
            {{"type", "turn.tool"},
             {"tool_id", line["id"].dump()},
             {"name", "t"},
             {"status", "ok"}});
        break;
    case Kind::note:
        line.update({{"type", "turn.note"}, {"kind", "decision"}, {"payload", line["id"].dump()}});
        break;
    case Kind::attachment:
        line.update(
            {{"type", "session.attachment"},
             {"name", attachment_of(seq)},
             {"data", layout::encode_base64(text(seq))}});
        break;
    case Kind::turn_end:
        line["type"] = "turn.end";
        break;
    }
    return line;
}

Json Script::last_line(std::int64_t seq) const {
    Json line = event("session.end", session_, {{"seq", seq}, {"id", seq}});
    if (name_ % 2 != 0) {
        line.update({{"type", "session.checkpoint"}, {"reason", "manual"}});
    }
    return line;
}

std::string Script::text(std::int64_t seq) const {
    Random random(static_cast<std::uint64_t>(seq * 1000 + name_));
    const std::size_t bytes = random.chance(20) ? random.below(60'000) : random.below(300);
    return "[" + std::to_string(name_) + ":" + std::to_string(seq) + ":"
           + std::string(bytes, static_cast<char>('a' + name_ % 26)) + "]\n";
}

std::map<std::string, std::string> Script::files(std::int64_t seq) const {
    std::map<std::string, std::string> all;
    for (std::int64_t at = 2; at <= seq; ++at) {
        const std::string stem = stem_of(at);
        switch (kind_of(at)) {
        case Kind::turn_start:
            all[stem + "-prompt.md"] = text(at);
            break;
        case Kind::output:
            all[stem + "-output.md"] += text(at);
            break;
        case Kind::stderr_log:
            all[stem + "-stderr.log"] += text(at);
            break;
        case Kind::attachment:
            all["attachments/" + attachment_of(at)] = text(at);
            break;
        case Kind::turn_end:
            all[stem + "-state.json"];
            break;
        case Kind::session_start:
        case Kind::tool:
        case Kind::note:
            break;
        }
    }
    return all;
}

std::string differences(
    const std::string& directory,
    const Script& script,
    std::int64_t acked,
    std::int64_t sent,
    Look look) {
    std::string all;
    const std::map<std::string, std::string> least = script.files(acked);
    const std::map<std::string, std::string> most = script.files(sent);
    for (const auto& [name, bytes] : least) {
        if (!exists(directory + "/" + name)) {
            all += name + " is missing\n";
        }
    }
    if (acked > 0 && !exists(directory + "/meta.json")) {
        all += "meta.json is missing\n";
    }
    for (const std::string& name : tree_of(directory)) {
        const std::string path = directory + "/" + name;
        const bool hidden = name.find("/.") != std::string::npos || name.starts_with('.');
        if (name.ends_with('/') || (hidden && look == Look::as_they_lie)) {
            continue;
        }
        const std::string text = read_text(path);
        if (is_document(name)) {
            if (!Json::parse(text, nullptr, /*allow_exceptions=*/false).is_object()) {
                all += name + " is no JSON object but " + std::to_string(text.size()) + " bytes\n";
            }
            continue;
        }
        if (name == "events.jsonl") {
            all += difference_of_timeline(text, look);
            continue;
        }
        const auto found = most.find(name);
        // A turn has its output from its start on.
        const bool begun = text.empty() && name.ends_with("-output.md")
                           && most.contains(name.substr(0, name.size() - 9) + "prompt.md");
        if (found == most.end() && begun) {
            continue;
        }
        if (found == most.end()) {
            all += name + " should not be there\n";
            continue;
        }
        const auto acknowledged = least.find(name);
        const std::size_t needed =
            !grows(name) ? found->second.size()
                         : (acknowledged == least.end() ? 0 : acknowledged->second.size());
        if (text.size() < needed || !found->second.starts_with(text)) {
            const auto [ours, theirs] =
                std::mismatch(text.begin(), text.end(), found->second.begin(), found->second.end());
            all += name + " has " + std::to_string(text.size()) + " bytes, the first "
                   + std::to_string(ours - text.begin()) + " of them right; acked are "
                   + std::to_string(needed) + " of " + std::to_string(found->second.size()) + "\n";
        }
    }
    if (exists(directory + "/meta.json")) {
        std::istringstream findings(damage_of(directory));
        for (std::string finding; std::getline(findings, finding);) {
            // A recovery that was interrupted leaves meta.json behind its seals until the next one.
            if (look == Look::after_recovery || !finding.starts_with("meta.json: ")) {
                all += finding + "\n";
            }
        }
    }
    return all;
}

}  // namespace relay::tests
