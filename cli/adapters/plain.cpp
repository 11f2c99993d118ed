// SPDX-License-Identifier: Apache-2.0
#include "cli/adapters/plain.hpp"

#include "layout/utf8.hpp"

#include <nlohmann/json.hpp>

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <utility>

namespace relay::cli {

namespace {

using nlohmann::json;

constexpr std::string_view state_word = "RELAY_STATE:";
constexpr std::string_view status_word = "RELAY_STATUS:";
constexpr std::size_t line_bytes_max = 256 << 10;
constexpr std::size_t payload_bytes_max = 60 << 10;  // the daemon takes 64 KiB
constexpr std::size_t items_max = 64;

// How many bytes at the end of `text` are the beginning of a character whose rest has not come.
std::size_t unfinished_bytes(std::string_view text) {
    const std::size_t look_back = std::min<std::size_t>(text.size(), 3);
    for (std::size_t back = 1; back <= look_back; ++back) {
        const auto byte = static_cast<unsigned char>(text[text.size() - back]);
        if (byte >= 0xc0) {
            const std::size_t needed = byte >= 0xf0 ? 4U : byte >= 0xe0 ? 3U : 2U;
            return needed > back ? back : 0;
        }
        if (byte < 0x80) {
            return 0;
        }
    }
    return 0;
}

void add_note(std::vector<std::string>& notes, std::string_view kind, const json& payload) {
    std::string members = R"({"type":"turn.note","kind":")" + std::string(kind) + R"(","payload":)"
                          + payload.dump(-1, ' ', false, json::error_handler_t::replace) + "}";
    if (members.size() <= payload_bytes_max) {
        notes.push_back(std::move(members));
    }
}

bool is_item(const json& value) {
    return value.is_string()
           || (value.is_object() && value.contains("summary") && value["summary"].is_string());
}

// A list, or its one item; of a long one the end, which is newest.
json newest(const json& value) {
    json items = value.is_array() ? value : json::array({value});
    if (items.size() > items_max) {
        items.erase(items.begin(), items.end() - static_cast<std::ptrdiff_t>(items_max));
    }
    return items;
}

void add_items(std::vector<std::string>& notes, std::string_view kind, const json& value) {
    for (const json& item : newest(value)) {
        if (is_item(item)) {
            add_note(notes, kind, item);
        }
    }
}

void add_files(std::vector<std::string>& notes, const json& value) {
    for (const json& item : newest(value)) {
        const bool named = item.is_object() && item.contains("path") && item["path"].is_string();
        if (item.is_string() || named) {
            add_note(notes, "file", item);
        }
    }
}

// Several spellings, because agents write what they remember.
void add_known(std::vector<std::string>& notes, const json& object) {
    for (const auto& [key, value] : object.items()) {
        if (key == "decisions" || key == "decision") {
            add_items(notes, "decision", value);
        } else if (key == "blockers" || key == "blocker") {
            add_items(notes, "blocker", value);
        } else if ((key == "validation" || key == "validation_state") && value.is_object()) {
            add_note(notes, "validation", value);
        } else if (key == "files" || key == "touched_files") {
            add_files(notes, value);
        } else if (
            (key == "next_task" || key == "next")
            && (value.is_string()
                || (value.is_object() && (value.contains("task") || value.contains("summary"))))) {
            add_note(notes, "next", value);
        }
    }
}

}  // namespace

std::vector<std::string> declared_notes(std::string_view line) {
    std::vector<std::string> notes;
    const bool is_state = line.starts_with(state_word);
    if (!is_state && !line.starts_with(status_word)) {
        return notes;
    }
    line.remove_prefix(is_state ? state_word.size() : status_word.size());
    const json object = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object()) {
        return notes;
    }
    add_note(notes, is_state ? "state" : "status", object);
    add_known(notes, object);
    return notes;
}

PlainAdapter::PlainAdapter(EventSink& sink, const AdapterSettings& settings)
    : sink_(sink),
      raw_(settings.raw),
      output_(
          AgentStream::output,
          settings.from_terminal ? EscapeFilter::Source::terminal : EscapeFilter::Source::pipe),
      error_(AgentStream::error, EscapeFilter::Source::pipe) {
}

void PlainAdapter::output(std::string_view bytes) {
    take(output_, bytes);
}

void PlainAdapter::error(std::string_view bytes) {
    take(error_, bytes);
}

void PlainAdapter::take(TextStream& stream, std::string_view bytes) {
    // The common case goes without a copy.
    if (stream.text.empty() && (raw_ || stream.filter.leaves_alone(bytes))) {
        const std::size_t whole = bytes.size() - unfinished_bytes(bytes);
        pass_on(stream, bytes.substr(0, whole));
        stream.text = bytes.substr(whole);
        return;
    }
    if (raw_) {
        stream.text += bytes;
    } else {
        stream.filter.filter(bytes, stream.text);
    }
    const std::size_t whole = stream.text.size() - unfinished_bytes(stream.text);
    pass_on(stream, std::string_view(stream.text).substr(0, whole));
    stream.text.erase(0, whole);
}

void PlainAdapter::pass_on(const TextStream& stream, std::string_view text) {
    if (!text.empty()) {
        sink_.bytes(stream.stream, text);
    }
    if (!text.empty() && stream.stream == AgentStream::output) {
        look_for_facts(text);
    }
}

void PlainAdapter::end_line() {
    if (!line_is_plain_) {
        if (line_.ends_with('\r')) {
            line_.pop_back();
        }
        for (std::string& note : declared_notes(line_)) {
            sink_.event(std::move(note));
        }
    }
    line_.clear();
    line_is_plain_ = false;
}

// Most output declares nothing, and costs one search a chunk.
void PlainAdapter::look_for_facts(std::string_view text) {
    constexpr std::string_view beginning = "RELAY_STAT";
    if (line_.empty() && text.find(beginning) == std::string_view::npos) {
        const std::size_t newline = text.rfind('\n');
        if (newline == std::string_view::npos && line_is_plain_) {
            return;
        }
        const std::string_view tail = text.substr(newline + 1);
        line_is_plain_ = !beginning.starts_with(tail);
        line_ = line_is_plain_ ? "" : tail;
        return;
    }
    while (!text.empty()) {
        const std::size_t newline = std::min(text.find('\n'), text.size());
        if (!line_is_plain_) {
            line_ += text.substr(0, newline);
            const std::size_t known = std::min(line_.size(), beginning.size());
            line_is_plain_ = std::string_view(line_).substr(0, known) != beginning.substr(0, known)
                             || line_.size() > line_bytes_max;
        }
        if (line_is_plain_) {
            line_.clear();
        }
        if (newline == text.size()) {
            return;
        }
        end_line();
        text.remove_prefix(newline + 1);
    }
}

TurnFacts PlainAdapter::finish(const AgentEnd& end) {
    end_line();
    for (TextStream* const stream : {&output_, &error_}) {
        sink_.bytes(stream->stream, stream->text);
        stream->text.clear();
    }
    TurnFacts facts;
    facts.status = end.interrupted          ? "interrupted"
                   : end.exit_status() == 0 ? "completed"
                                            : "failed";
    if (WIFSIGNALED(end.wait_status)) {
        facts.stop_reason = "signal " + std::to_string(WTERMSIG(end.wait_status));
        facts.error = end.interrupted ? ""
                                      : "the agent was ended by signal "
                                            + std::to_string(WTERMSIG(end.wait_status));
    }
    return facts;
}

}  // namespace relay::cli
