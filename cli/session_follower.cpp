// SPDX-License-Identifier: Apache-2.0
#include "cli/session_follower.hpp"

#include "cli/human_text.hpp"
#include "layout/input_file.hpp"
#include "layout/json_depth.hpp"
#include "layout/json_writer.hpp"
#include "layout/session_paths.hpp"
#include "layout/session_reader.hpp"
#include "layout/turn_input.hpp"
#include "layout/utf8.hpp"

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

namespace relay::cli {

namespace {

using Json = nlohmann::json;
using layout::Done;
using layout::Errc;
using layout::InputFile;
using layout::Result;
using layout::Status;
using layout::TurnInput;

constexpr std::size_t read_bytes = std::size_t{256} * 1024;
constexpr std::int64_t piece_bytes_max = 1 << 20;  // of a stream, handed over at once
constexpr std::int64_t prompt_bytes_max = 256 << 20;
constexpr std::size_t line_bytes_max = 64 << 20;  // several times the longest event
constexpr std::size_t depth_max = 128;
constexpr std::size_t said_characters_max = 500;

std::string text_member(const Json& object, const char* key) {
    const auto member = object.find(key);
    return member != object.end() && member->is_string() ? member->get<std::string>() : "";
}

std::int64_t number_member(const Json& object, const char* key, std::int64_t otherwise) {
    const auto member = object.find(key);
    return member != object.end() && member->is_number_integer() ? member->get<std::int64_t>()
                                                                 : otherwise;
}

std::string dumped(const Json& value) {
    return value.is_string() ? value.get<std::string>()
                             : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void append_part(std::string& sentence, std::string_view part) {
    if (!part.empty()) {
        sentence += sentence.empty() ? "" : ", ";
        sentence += part;
    }
}

std::string tool_said(const Json& line) {
    std::string said = text_member(line, "name") + " " + text_member(line, "status");
    const std::string summary = text_member(line, "summary");
    return summary.empty() ? said : said + ": " + summary;
}

std::string note_said(const Json& line) {
    const auto payload = line.find("payload");
    if (payload == line.end()) {
        return {};
    }
    for (const char* const key : {"summary", "text", "task", "path"}) {
        if (payload->is_object() && !text_member(*payload, key).empty()) {
            return text_member(*payload, key);
        }
    }
    return dumped(*payload);
}

std::string end_said(const Json& line) {
    std::string said = text_member(line, "status");
    if (const auto tokens = line.find("tokens"); tokens != line.end() && tokens->is_object()) {
        const std::int64_t total = number_member(*tokens, "total", -1);
        const std::int64_t sum =
            number_member(*tokens, "input", 0) + number_member(*tokens, "output", 0);
        append_part(said, count_text(total >= 0 ? total : sum) + " tokens");
    }
    if (const auto cost = line.find("cost_usd"); cost != line.end() && cost->is_number()) {
        append_part(said, cost_text(cost->get<double>()));
    }
    if (const auto code = line.find("exit_code"); code != line.end() && code->is_number_integer()) {
        append_part(said, exit_text(code->get<std::int64_t>(), text_member(line, "error")));
    }
    append_part(said, text_member(line, "error"));
    return said;
}

std::string update_said(const Json& line) {
    std::string said;
    const auto fields = line.find("fields");
    if (fields != line.end() && fields->is_array()) {
        for (const Json& field : *fields) {
            append_part(said, dumped(field));
        }
    }
    return said;
}

std::string said_by(const std::string& type, const Json& line) {
    if (type == "session.start") {
        return text_member(line, "agent") + " in " + text_member(line, "cwd");
    }
    if (type == "turn.tool") {
        return tool_said(line);
    }
    if (type == "turn.note") {
        return text_member(line, "kind") + ": " + note_said(line);
    }
    if (type == "turn.end" || type == "session.end") {
        return end_said(line);
    }
    if (type == "session.attach") {
        return line.contains("reopen") ? "reopened" : "";
    }
    if (type == "session.update") {
        return update_said(line);
    }
    if (type == "session.attachment") {
        return text_member(line, "file");
    }
    if (type == "recorder.conflict") {
        return text_member(line, "file") + " was changed by hand; the record goes on in "
               + text_member(line, "kept");
    }
    if (type == "recorder.deferred") {
        return "the disk refused writes until " + text_member(line, "until") + ": "
               + text_member(line, "reason");
    }
    if (type == "recorder.scrub") {
        return "a secret was overwritten by agent-relay scrub";
    }
    if (type == "recorder.gap") {
        return "acknowledged events are missing before this";
    }
    return text_member(line, "reason");
}

// The recorder's own version goes before one that the user has changed.
Result<InputFile> open_timeline(const std::string& directory) {
    Result<InputFile> own =
        InputFile::open(AT_FDCWD, directory + "/" + layout::recovered_file(layout::timeline_file));
    return own.ok()
               ? std::move(own)
               : InputFile::open(AT_FDCWD, directory + "/" + std::string(layout::timeline_file));
}

}  // namespace

SessionFollower::SessionFollower(std::string session_directory)
    : directory_(std::move(session_directory)) {
}

// The user's version of a changed file stays at its name; ours goes on under recovered/.
std::string SessionFollower::place_of(const std::string& file) const {
    const auto kept = kept_.find(file);
    return directory_ + "/" + (kept == kept_.end() ? file : kept->second);
}

bool SessionFollower::wanted(const Moment& moment) {
    begun_ = begun_ || moment.turn.value_or(0) >= first_turn_;
    return begun_;
}

void SessionFollower::see_stream(
    Moment moment, const std::string& file, std::int64_t bytes, const See& see) {
    const std::string path = place_of(file);
    auto& [opened, stream] = streams_[moment.type];
    if (!stream || opened != path) {
        Result<TurnInput> found = TurnInput::open(AT_FDCWD, path);
        if (!found.ok()) {
            return;
        }
        opened = path;
        stream = std::make_unique<TurnInput>(std::move(found.value()));
    }
    const std::int64_t end = moment.offset + bytes;
    while (moment.offset < end) {
        moment.text.resize(
            static_cast<std::size_t>(std::min(end - moment.offset, piece_bytes_max)));
        const Result<std::size_t> got =
            stream->read_at(moment.offset, moment.text.data(), moment.text.size());
        if (!got.ok() || got.value() == 0) {
            break;  // shortened by hand or damaged: what is there was handed over
        }
        moment.text.resize(got.value());
        see(moment);
        moment.offset += static_cast<std::int64_t>(got.value());
    }
}

void SessionFollower::see_line(std::string_view text, const See& see) {
    const Json line = layout::json_depth(text) > depth_max
                          ? Json(Json::value_t::discarded)
                          : Json::parse(text, nullptr, /*allow_exceptions=*/false);
    Moment moment;
    moment.type = line.is_object() ? text_member(line, "type") : "";
    if (moment.type.empty()) {
        ++damaged_lines_;
        return;
    }
    moment.seq = number_member(line, "seq", 0);
    moment.at = layout::parse_timestamp(text_member(line, "at")).value_or(layout::Timestamp{});
    if (const std::int64_t turn = number_member(line, "turn", 0); turn > 0) {
        moment.turn = turn;
    }
    const bool reopens =
        moment.type == "session.attach" && line.contains("reopen") && line["reopen"] == true;
    at_rest_ = moment.type == "session.end" || moment.type == "session.checkpoint"
               || (at_rest_ && !reopens && !moment.type.starts_with("turn."));
    if (moment.type == "turn.start") {
        last_turn_ = moment.turn.value_or(last_turn_);
    } else if (moment.type == "recorder.conflict") {
        kept_[text_member(line, "file")] = text_member(line, "kept");
    }
    if (!wanted(moment)) {
        return;
    }
    moment.channel = text_member(line, "channel");
    moment.line = text;
    const bool output = moment.type == "turn.output";
    if (output || moment.type == "turn.stderr") {
        moment.offset = std::max<std::int64_t>(number_member(line, "offset", 0), 0);
        const std::int64_t turn = moment.turn.value_or(0);
        const std::string file = output ? layout::output_file(turn) : layout::stderr_file(turn);
        see_stream(std::move(moment), file, number_member(line, "bytes", 0), see);
        return;
    }
    if (moment.type == "turn.start") {
        Result<std::string> prompt = layout::read_turn_file(
            place_of(layout::prompt_file(moment.turn.value_or(0))), prompt_bytes_max);
        moment.text = prompt.ok() ? std::move(prompt.value()) : "";
    }
    moment.said = layout::one_line(said_by(moment.type, line), said_characters_max);
    see(moment);
}

Status SessionFollower::read(const See& see) {
    Status read = read_timeline(see);
    streams_.clear();
    return read;
}

Status SessionFollower::read_timeline(const See& see) {
    const Result<InputFile> timeline = open_timeline(directory_);
    if (!timeline.ok()) {
        return timeline.error().code == Errc::not_found ? Status(Done{}) : timeline.error();
    }
    std::string buffer(read_bytes, '\0');
    for (;;) {
        const ssize_t got = timeline.value().read_at(offset_, buffer.data(), buffer.size());
        if (got < 0) {
            return layout::input_error(
                directory_ + "/" + std::string(layout::timeline_file), errno);
        }
        if (got == 0) {
            return Done{};
        }
        offset_ += got;
        rest_.append(buffer, 0, static_cast<std::size_t>(got));
        std::size_t begin = 0;
        for (std::size_t end = rest_.find('\n'); end != std::string::npos;
             end = rest_.find('\n', begin)) {
            see_line(std::string_view(rest_).substr(begin, end - begin), see);
            begin = end + 1;
        }
        rest_.erase(0, begin);
        if (rest_.size() > line_bytes_max) {
            rest_.clear();
            ++damaged_lines_;
        }
    }
}

Moment moment_of_event(std::string_view members) {
    const Json event = Json::parse(members, nullptr, /*allow_exceptions=*/false);
    Moment moment;
    if (event.is_object()) {
        moment.type = text_member(event, "type");
        moment.text = text_member(event, "prompt");
        moment.said = layout::one_line(said_by(moment.type, event), said_characters_max);
    }
    return moment;
}

std::string moment_json(const Moment& moment, std::string_view session) {
    const bool stream = moment.type == "turn.output" || moment.type == "turn.stderr";
    std::string out;
    if (!stream) {
        out = moment.line;
        out.resize(out.find_last_of('}') == std::string::npos ? 0 : out.find_last_of('}'));
        out += ",\"session\":";
        layout::append_json_string(out, session);
        if (moment.type == "turn.start") {
            out += ",\"text\":";
            layout::append_json_string(out, moment.text);
        }
        return out + "}";
    }
    layout::JsonObject object(out, layout::JsonObject::Form::compact);
    object.integer("seq", moment.seq);
    object.timestamp("at", moment.at);
    object.string("type", moment.type);
    object.integer_or_null("turn", moment.turn);
    if (!moment.channel.empty()) {
        object.string("channel", moment.channel);
    }
    object.integer("offset", moment.offset);
    object.integer("bytes", std::ssize(moment.text));
    object.string("session", session);
    object.string("text", moment.text);
    object.finish();
    return out;
}

}  // namespace relay::cli
