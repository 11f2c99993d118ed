// SPDX-License-Identifier: Apache-2.0
#include "recorder/session_loader.hpp"

#include "layout/documents.hpp"
#include "layout/json_parser.hpp"
#include "layout/session_paths.hpp"
#include "layout/zstd_stream.hpp"
#include "recorder/notes.hpp"

#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace relay::recorder {

namespace {

using Json = simdjson::dom::object;
using layout::RawJson;
using layout::Stream;
using layout::Timestamp;

constexpr std::size_t piece_bytes = 65536;
constexpr std::int64_t document_bytes_max = std::int64_t{64} * 1024 * 1024;
constexpr std::size_t line_bytes_max = std::size_t{4} * 1024 * 1024;  // ours are far shorter
constexpr std::size_t line_depth_max = 128;
// What was said between turns stands only in the timeline. The newest of it is enough: the packet
// keeps a dozen of each.
constexpr std::size_t remark_bytes_max = std::size_t{8} * 1024 * 1024;

// Our version when the user's stands in its place.
Result<std::unique_ptr<File>> open_ours(Directory& directory, std::string_view name) {
    Result<std::unique_ptr<File>> recovered =
        directory.open_file(layout::recovered_file(name), OpenMode::existing);
    if (recovered.ok() || recovered.error().code != Errc::not_found) {
        return recovered;
    }
    return directory.open_file(name, OpenMode::existing);
}

// Hands the file's bytes on in pieces. The number of bytes.
Result<std::int64_t> read_through(File& file, const std::function<void(std::string_view)>& take) {
    const auto piece = std::make_unique_for_overwrite<char[]>(piece_bytes);
    std::int64_t offset = 0;
    for (;;) {
        const Result<std::size_t> got = file.read(offset, piece.get(), piece_bytes);
        if (!got.ok()) {
            return got.error();
        }
        take(std::string_view(piece.get(), got.value()));
        offset += static_cast<std::int64_t>(got.value());
        if (got.value() < piece_bytes) {
            return offset;
        }
    }
}

Result<std::string> read_document(Directory& directory, std::string_view name) {
    const Result<std::unique_ptr<File>> file = open_ours(directory, name);
    if (!file.ok()) {
        return file.error();
    }
    const Result<FileStat> stat = file.value()->stat();
    if (!stat.ok()) {
        return stat.error();
    }
    if (stat.value().size > document_bytes_max) {
        return Error{Errc::corrupt, 0, std::string(name) + ": larger than any we write"};
    }
    std::string text;
    const Result<std::int64_t> bytes =
        read_through(*file.value(), [&text](std::string_view piece) { text += piece; });
    if (!bytes.ok()) {
        return bytes.error();
    }
    return text;
}

// None when there is no such directory; a disk that refuses must not pass for an empty one.
Result<std::vector<std::string>> names_in(Directory& directory, std::string_view name) {
    const Result<std::unique_ptr<Directory>> below = directory.open_directory(name);
    if (!below.ok()) {
        if (below.error().code == Errc::io || below.error().code == Errc::no_space) {
            return below.error();
        }
        return std::vector<std::string>();
    }
    return below.value()->list();
}

// n of "<n><rest>", 0 when the name is of another form.
std::int64_t turn_in(std::string_view name, std::string_view rest) {
    std::int64_t turn = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), turn);
    const std::string_view after(end, static_cast<std::size_t>(name.data() + name.size() - end));
    return error == std::errc() && after == rest && turn > 0 ? turn : 0;
}

std::optional<std::string> optional_string(Json object, std::string_view key) {
    const auto found = layout::find_member(object, key);
    std::string_view text;
    if (!found || found->get(text) != simdjson::SUCCESS) {
        return std::nullopt;
    }
    return std::string(text);
}

std::string string_of(Json object, std::string_view key) {
    return optional_string(object, key).value_or(std::string());
}

std::optional<std::int64_t> optional_integer(Json object, std::string_view key) {
    const auto found = layout::find_member(object, key);
    std::int64_t number = 0;
    if (!found || found->get(number) != simdjson::SUCCESS) {
        return std::nullopt;
    }
    return number;
}

RawJson raw_of(Json object, std::string_view key) {
    const auto found = layout::find_member(object, key);
    return found && !found->is_null() ? RawJson{layout::compact_json(*found)} : RawJson{};
}

// None for the note about its size that stands in place of a large one.
RawJson array_of(Json object, std::string_view key) {
    const auto found = layout::find_member(object, key);
    return found && found->is_array() ? RawJson{layout::compact_json(*found)} : RawJson{};
}

Timestamp time_of(Json object, Timestamp otherwise) {
    return layout::parse_timestamp(string_of(object, "at")).value_or(otherwise);
}

// Until the next one is parsed.
std::optional<Json> parse_line(std::string_view line) {
    const Result<Json> json = layout::parse_json_object(line, line_depth_max);
    return json.ok() ? std::optional(json.value()) : std::nullopt;
}

// The number and type at the beginning of a line, without parsing all of it.
struct LineHead {
    std::int64_t seq = 0;
    std::string_view type;
};

std::optional<LineHead> head_of(std::string_view line) {
    constexpr std::string_view begin = "{\"seq\":";
    constexpr std::string_view type_key = ",\"type\":\"";
    constexpr std::size_t type_at_max = 96;
    if (!line.starts_with(begin) || !line.ends_with('}')) {
        return std::nullopt;
    }
    LineHead head;
    const char* const digits = line.data() + begin.size();
    if (std::from_chars(digits, line.data() + line.size(), head.seq).ec != std::errc()) {
        return std::nullopt;
    }
    const std::size_t key = line.substr(0, type_at_max).find(type_key);
    if (key == std::string_view::npos) {
        return std::nullopt;
    }
    const std::size_t at = key + type_key.size();
    const std::size_t end = line.find('"', at);
    if (end == std::string_view::npos) {
        return std::nullopt;
    }
    head.type = line.substr(at, end - at);
    return head;
}

// Cuts pieces into whole lines. What follows the last newline is never handed on.
class LineCutter {
public:
    explicit LineCutter(std::function<void(std::string_view)> take) : take_(std::move(take)) {}

    void add(std::string_view piece) {
        for (;;) {
            const std::size_t end = piece.find('\n');
            if (end == std::string_view::npos) {
                hold(piece);
                return;
            }
            if (held_.empty() && !overlong_) {
                take_(piece.substr(0, end));
            } else {
                hold(piece.substr(0, end));
                if (!overlong_) {
                    take_(held_);
                }
                held_.clear();
                overlong_ = false;
            }
            piece.remove_prefix(end + 1);
        }
    }

private:
    void hold(std::string_view part) {
        overlong_ = overlong_ || held_.size() + part.size() > line_bytes_max;
        if (overlong_) {
            held_.clear();
        } else {
            held_ += part;
        }
    }

    std::function<void(std::string_view)> take_;
    std::string held_;
    bool overlong_ = false;
};

class SessionLoader {
public:
    SessionLoader(Directory& directory, SessionState& state)
        : directory_(directory), state_(state) {}

    [[nodiscard]] Status load();

private:
    // A line that was written while no turn was open.
    struct Remark {
        std::int64_t turn = 0;  // the turn before it
        std::string line;
    };

    [[nodiscard]] Status list_turns();
    [[nodiscard]] Status scan_timeline();
    void scan_line(std::string_view line);
    void scan_turn_line(const LineHead& head, std::string_view line);
    void remember(std::string_view line);

    [[nodiscard]] Status fold_states();
    [[nodiscard]] Status fold_state(std::int64_t turn);
    void fold_remark(const Remark& remark);
    void recall_tail();
    void recall_compressed_tail(layout::ResumePacket::LastTurn& last);

    void begin_turn(Json line);
    void add_tool(Json line);
    void cover(Stream stream, Json line);
    [[nodiscard]] Status finish_turn();
    [[nodiscard]] Status read_stream(const std::string& name, GrowingFile& stream);
    void uncover(Stream stream, std::int64_t covered, std::int64_t bytes);

    Directory& directory_;
    SessionState& state_;

    std::set<std::int64_t> sealed_;
    std::int64_t open_ = 0;  // number of the open turn
    std::string open_mark_;  // what every line of the open turn holds
    std::deque<Remark> remarks_;
    std::size_t remark_bytes_ = 0;
    std::vector<std::string> open_notes_;
    std::size_t open_note_bytes_ = 0;
    std::int64_t turn_before_ = 0;
    bool within_turn_ = false;
    std::int64_t last_line_seq_ = 0;
    std::int64_t output_covered_ = 0;
    std::int64_t stderr_covered_ = 0;
};

Status SessionLoader::load() {
    const Result<std::string> text = read_document(directory_, layout::meta_file);
    if (!text.ok()) {
        return text.error();
    }
    Result<layout::Meta> meta = layout::decode_meta(text.value());
    if (!meta.ok()) {
        return meta.error();
    }
    state_.meta = std::move(meta.value());
    if (state_.meta.parent) {
        state_.lineage.push_back(state_.meta.parent->session);
    }
    state_.client_seq = std::max(state_.client_seq, state_.meta.capture.last_seq);
    state_.meta.capture.last_seq = state_.client_seq;
    if (Status listed = list_turns(); !listed.ok()) {
        return listed;
    }
    if (Status scanned = scan_timeline(); !scanned.ok()) {
        return scanned;
    }
    if (Status folded = fold_states(); !folded.ok()) {
        return folded;
    }
    if (Status finished = finish_turn(); !finished.ok()) {
        return finished;
    }
    state_.meta.current_turn.reset();
    if (state_.turn) {
        state_.meta.current_turn = state_.turn->number;
    }
    Result<std::vector<std::string>> attachments =
        names_in(directory_, layout::attachments_directory);
    if (!attachments.ok()) {
        return attachments.error();
    }
    for (std::string& name : attachments.value()) {
        if (!layout::is_temporary_name(name)) {
            state_.attachments.insert(std::move(name));
        }
    }
    return layout::Done{};
}

Status SessionLoader::list_turns() {
    std::set<std::int64_t> prompts;
    for (const std::string_view place : {layout::turns_directory, layout::recovered_directory}) {
        const Result<std::vector<std::string>> names = names_in(directory_, place);
        if (!names.ok()) {
            return names.error();
        }
        for (const std::string& name : names.value()) {
            if (const std::int64_t turn = turn_in(name, "-state.json"); turn > 0) {
                sealed_.insert(turn);
            } else if (const std::int64_t begun = turn_in(name, "-prompt.md"); begun > 0) {
                prompts.insert(begun);
            }
        }
    }
    const std::int64_t last = sealed_.empty() ? 0 : *sealed_.rbegin();
    const std::int64_t next = std::max(last, state_.meta.turn_count) + 1;
    if (prompts.contains(next)) {
        open_ = next;
        open_mark_ = "\"turn\":" + std::to_string(next) + ",";
        OpenTurn& turn = state_.turn.emplace();
        turn.number = next;
        turn.started_at = state_.meta.updated_at;
        turn.model = state_.meta.model;
    }
    return layout::Done{};
}

Status SessionLoader::scan_timeline() {
    const Result<std::unique_ptr<File>> file = open_ours(directory_, layout::timeline_file);
    if (!file.ok()) {
        // A deleted timeline costs what only it knew; the session itself goes on.
        return file.error().code == Errc::not_found ? Status(layout::Done{}) : file.error();
    }
    LineCutter cutter([this](std::string_view line) { scan_line(line); });
    const Result<std::int64_t> bytes =
        read_through(*file.value(), [&cutter](std::string_view piece) { cutter.add(piece); });
    if (!bytes.ok()) {
        return bytes.error();
    }
    state_.timeline_bytes = bytes.value();
    state_.event_seq = std::max(state_.event_seq, last_line_seq_);
    return layout::Done{};
}

void SessionLoader::scan_line(std::string_view line) {
    const std::optional<LineHead> head = head_of(line);
    if (!head) {
        return;
    }
    last_line_seq_ = std::max(last_line_seq_, head->seq);
    if (head->type.starts_with("turn.")) {
        scan_turn_line(*head, line);
    } else if (head->type == "session.checkpoint" || head->type == "session.end") {
        remember(line);
    } else if (head->type == "session.start") {
        const std::optional<Json> json = parse_line(line);
        const auto lineage = json ? layout::find_member(*json, "lineage") : std::nullopt;
        simdjson::dom::array ancestors;
        if (!lineage || lineage->get(ancestors) != simdjson::SUCCESS) {
            return;
        }
        state_.lineage.clear();
        for (const simdjson::dom::element ancestor : ancestors) {
            std::string_view id;
            if (ancestor.get(id) == simdjson::SUCCESS) {
                state_.lineage.emplace_back(id);
            }
        }
    }
}

void SessionLoader::scan_turn_line(const LineHead& head, std::string_view line) {
    if (head.type == "turn.start") {
        const std::optional<Json> json = parse_line(line);
        turn_before_ = json ? optional_integer(*json, "turn").value_or(0) : 0;
        within_turn_ = true;
        if (open_ != 0 && turn_before_ == open_) {
            begin_turn(*json);
        }
    } else if (head.type == "turn.end") {
        within_turn_ = false;
    } else if (head.type == "turn.note" && !within_turn_) {
        remember(line);
    } else if (
        open_ != 0 && within_turn_ && turn_before_ == open_
        && line.find(open_mark_) != std::string_view::npos) {
        if (head.type == "turn.note") {
            // Like the running turn: what no longer fits in the seal is in the timeline alone.
            if (open_note_bytes_ + line.size() <= 2 * turn_detail_bytes_max) {
                open_note_bytes_ += line.size();
                open_notes_.emplace_back(line);
            }
        } else if (const std::optional<Json> json = parse_line(line)) {
            if (head.type == "turn.tool") {
                add_tool(*json);
            } else if (head.type == "turn.output") {
                cover(Stream::output, *json);
            } else if (head.type == "turn.stderr") {
                cover(Stream::stderr_log, *json);
            }
        }
    }
}

void SessionLoader::remember(std::string_view line) {
    remarks_.push_back({turn_before_, std::string(line)});
    remark_bytes_ += line.size();
    while (remark_bytes_ > remark_bytes_max) {
        remark_bytes_ -= remarks_.front().line.size();
        remarks_.pop_front();
    }
}

Status SessionLoader::fold_states() {
    const auto fold_remarks_up_to = [this](std::int64_t turn) {
        while (!remarks_.empty() && remarks_.front().turn <= turn) {
            fold_remark(remarks_.front());
            remarks_.pop_front();
        }
    };
    fold_remarks_up_to(0);
    for (const std::int64_t turn : sealed_) {
        if (Status folded = fold_state(turn); !folded.ok()) {
            return folded;
        }
        fold_remarks_up_to(turn);
    }
    fold_remarks_up_to(std::numeric_limits<std::int64_t>::max());
    // Also when a seal cannot be read: its number is taken.
    if (!sealed_.empty()) {
        state_.meta.turn_count = std::max(state_.meta.turn_count, *sealed_.rbegin());
    }
    recall_tail();
    return layout::Done{};
}

Status SessionLoader::fold_state(std::int64_t turn) {
    const Result<std::string> text = read_document(directory_, layout::state_file(turn));
    if (!text.ok()) {
        const bool refused = text.error().code == Errc::io || text.error().code == Errc::no_space;
        return refused ? Status(text.error()) : Status(layout::Done{});
    }
    const Result<layout::TurnState> decoded = layout::decode_turn_state(text.value());
    if (!decoded.ok()) {
        return layout::Done{};
    }
    const layout::TurnState& state = decoded.value();
    absorb(state, state_.knowledge);
    state_.knowledge.last_turn = layout::ResumePacket::LastTurn{
        .turn = turn,
        .status = state.status,
        .prompt_file = layout::prompt_file(turn),
        .output_file = layout::output_file(turn),
        .output_tail = {}};
    layout::Meta& meta = state_.meta;
    if (turn <= meta.turn_count) {
        return layout::Done{};
    }
    // The seal got there and meta.json did not: the totals follow the seals.
    meta.turn_count = turn;
    if (state.tokens) {
        meta.tokens.add(*state.tokens);
    }
    if (state.cost_usd) {
        meta.cost_usd = meta.cost_usd.value_or(0.0) + *state.cost_usd;
    }
    const Result<layout::ChainCheck> chain =
        layout::check_chain(text.value(), meta.chain.value_or(std::string(layout::chain_origin)));
    if (chain.ok()) {
        meta.chain = chain.value().stated;
    }
    return layout::Done{};
}

void SessionLoader::fold_remark(const Remark& remark) {
    const std::optional<Json> json = parse_line(remark.line);
    if (!json) {
        return;
    }
    const std::string type = string_of(*json, "type");
    Knowledge& knowledge = state_.knowledge;
    if (type == "turn.note") {
        const layout::TurnNote said{string_of(*json, "kind"), raw_of(*json, "payload")};
        const Result<Note> note = read_note(said, remark.turn, knowledge);
        if (note.ok()) {
            keep_note(note.value(), remark.turn, knowledge, nullptr);
        }
    } else if (type == "session.checkpoint") {
        layout::SessionCheckpoint said;
        said.decisions = array_of(*json, "decisions");
        said.blockers = array_of(*json, "blockers");
        said.validation_state = raw_of(*json, "validation_state");
        said.next_task = optional_string(*json, "next_task");
        said.limit = raw_of(*json, "limit");
        const Result<Declared> declared = read_declared(said, remark.turn, knowledge);
        if (declared.ok()) {
            keep_declared(declared.value(), remark.turn, knowledge);
        }
    } else if (!layout::find_member(*json, "turn")) {
        // session.end; the turn that it sealed, if any, has the blocker already.
        if (std::optional<KnownItem> blocker = observed_blocker(
                optional_integer(*json, "exit_code"),
                optional_string(*json, "error"),
                remark.turn,
                knowledge)) {
            keep_blocker(std::move(*blocker), knowledge);
        }
    }
}

void SessionLoader::recall_tail() {
    if (!state_.knowledge.last_turn) {
        return;
    }
    layout::ResumePacket::LastTurn& last = *state_.knowledge.last_turn;
    const Result<std::unique_ptr<File>> file = open_ours(directory_, last.output_file);
    if (!file.ok()) {
        recall_compressed_tail(last);
        return;
    }
    const Result<FileStat> stat = file.value()->stat();
    if (!stat.ok()) {
        return;
    }
    std::string tail(output_tail_bytes_max + 4, '\0');
    const auto room = static_cast<std::int64_t>(tail.size());
    const std::int64_t from = std::max<std::int64_t>(0, stat.value().size - room);
    const Result<std::size_t> got = file.value()->read(from, tail.data(), tail.size());
    if (got.ok()) {
        tail.resize(got.value());
        last.output_tail = quote_tail(tail);
    }
}

// A session that its user had compressed and that goes on now.
void SessionLoader::recall_compressed_tail(layout::ResumePacket::LastTurn& last) {
    const Result<std::unique_ptr<File>> file =
        directory_.open_file(layout::compressed_file(last.output_file), OpenMode::existing);
    if (!file.ok()) {
        return;
    }
    layout::ZstdReader reader(
        [&file,
         offset = std::int64_t{0}](char* into, std::size_t size) mutable -> Result<std::size_t> {
            Result<std::size_t> got = file.value()->read(offset, into, size);
            offset += got.ok() ? static_cast<std::int64_t>(got.value()) : 0;
            return got;
        });
    std::string tail;
    std::string piece(piece_bytes, '\0');
    for (;;) {
        const Result<std::size_t> got = reader.read(piece.data(), piece.size());
        if (!got.ok()) {
            return;  // damaged: a packet without it is better than none
        }
        if (got.value() == 0) {
            break;
        }
        tail.append(piece, 0, got.value());
        tail.erase(0, tail.size() - std::min(tail.size(), output_tail_bytes_max + 4));
    }
    last.output_tail = quote_tail(tail);
}

void SessionLoader::begin_turn(Json line) {
    OpenTurn& turn = *state_.turn;
    turn.started_at = time_of(line, turn.started_at);
    turn.model = optional_string(line, "model");
    const auto prompt = layout::find_member(line, "prompt");
    Json seal;
    if (prompt && prompt->get(seal) == simdjson::SUCCESS) {
        turn.prompt.bytes = optional_integer(seal, "bytes").value_or(0);
        turn.prompt.sha256 = string_of(seal, "sha256");
    }
}

void SessionLoader::add_tool(Json line) {
    layout::TurnTool tool;
    tool.tool_id = string_of(line, "tool_id");
    tool.name = string_of(line, "name");
    tool.status = string_of(line, "status");
    tool.summary = optional_string(line, "summary");
    keep_tool(tool, time_of(line, state_.turn->started_at), *state_.turn);
}

void SessionLoader::cover(Stream stream, Json line) {
    const std::int64_t offset = optional_integer(line, "offset").value_or(0);
    const std::int64_t bytes = optional_integer(line, "bytes").value_or(0);
    std::int64_t& covered = stream == Stream::output ? output_covered_ : stderr_covered_;
    covered = std::max(covered, offset + bytes);
}

Status SessionLoader::read_stream(const std::string& name, GrowingFile& stream) {
    const Result<std::unique_ptr<File>> file = open_ours(directory_, name);
    if (!file.ok()) {
        return file.error().code == Errc::not_found ? Status(layout::Done{}) : file.error();
    }
    const Result<std::int64_t> bytes =
        read_through(*file.value(), [&stream](std::string_view piece) {
            stream.grow(piece);
            stream.keep_tail(piece);
        });
    return bytes.ok() ? Status(layout::Done{}) : bytes.error();
}

Status SessionLoader::finish_turn() {
    if (!state_.turn) {
        return layout::Done{};
    }
    OpenTurn& turn = *state_.turn;
    for (const std::string& text : open_notes_) {
        const std::optional<Json> line = parse_line(text);
        if (!line) {
            continue;
        }
        const layout::TurnNote said{string_of(*line, "kind"), raw_of(*line, "payload")};
        const Result<Note> note = read_note(said, turn.number, state_.knowledge);
        if (note.ok()) {
            keep_note(note.value(), turn.number, state_.knowledge, &turn);
        }
    }
    if (turn.prompt.sha256.empty()) {
        GrowingFile prompt;
        if (Status read = read_stream(layout::prompt_file(open_), prompt); !read.ok()) {
            return read;
        }
        turn.prompt = {prompt.bytes, prompt.hash.hex()};
    }
    if (Status read = read_stream(layout::output_file(open_), turn.output); !read.ok()) {
        return read;
    }
    if (Status read = read_stream(layout::stderr_file(open_), turn.stderr_log); !read.ok()) {
        return read;
    }
    uncover(Stream::output, output_covered_, turn.output.bytes);
    uncover(Stream::stderr_log, stderr_covered_, turn.stderr_log.bytes);
    return layout::Done{};
}

void SessionLoader::uncover(Stream stream, std::int64_t covered, std::int64_t bytes) {
    if (bytes <= covered) {
        return;
    }
    // The lost line had the number of the last event; if another line has it, a new one is due.
    if (!state_.uncovered.empty() || state_.event_seq <= last_line_seq_) {
        ++state_.event_seq;
    }
    state_.uncovered.push_back(layout::StreamRun{
        .stream = stream,
        .channel = layout::Channel::text,
        .turn = open_,
        .offset = covered,
        .bytes = bytes - covered,
        .seq = state_.event_seq,
        .at = state_.meta.capture.last_event_at.value_or(state_.meta.updated_at)});
}

}  // namespace

Result<SessionState> load_session(
    Directory& directory,
    const layout::Claim& claim,
    std::int64_t client_seq,
    std::int64_t event_seq) {
    SessionState state;
    state.claim = claim;
    state.claim.create = false;
    state.client_seq = client_seq;
    state.event_seq = event_seq;
    SessionLoader loader(directory, state);
    if (const Status loaded = loader.load(); !loaded.ok()) {
        return loaded.error();
    }
    return state;
}

}  // namespace relay::recorder
