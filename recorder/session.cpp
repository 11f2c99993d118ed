// SPDX-License-Identifier: Apache-2.0
#include "recorder/session.hpp"

#include "layout/json_writer.hpp"
#include "layout/session_paths.hpp"
#include "layout/timeline.hpp"
#include "layout/utf8.hpp"
#include "recorder/notes.hpp"
#include "recorder/resume_builder.hpp"

#include <cassert>
#include <type_traits>
#include <utility>

namespace relay::recorder {

namespace {

using layout::EffectKind;
using layout::JsonObject;
using layout::RawJson;
using layout::Refusal;
using layout::Result;
using layout::SessionStatus;
using layout::Timestamp;
using layout::WireError;

constexpr std::size_t objective_bytes_max = 2048;
constexpr std::size_t preview_characters_max = 120;
constexpr std::size_t attachment_name_bytes_max = 255;
constexpr std::size_t attachment_extension_bytes_max = 32;
constexpr std::size_t conflicts_max = 64;  // meta.json stays small
constexpr std::size_t tail_kept_bytes = output_tail_bytes_max + 4;
constexpr std::size_t tail_room_bytes = 2 * tail_kept_bytes;
constexpr std::size_t change_overhead_bytes = 128;  // headers of a change with one or two effects

template<typename Body>
constexpr std::string_view type_of() {
    if constexpr (std::is_same_v<Body, layout::TurnStart>) {
        return "turn.start";
    } else if constexpr (std::is_same_v<Body, layout::TurnBytes>) {
        return "turn.output";  // or turn.stderr
    } else if constexpr (std::is_same_v<Body, layout::TurnTool>) {
        return "turn.tool";
    } else if constexpr (std::is_same_v<Body, layout::TurnNote>) {
        return "turn.note";
    } else if constexpr (std::is_same_v<Body, layout::TurnEnd>) {
        return "turn.end";
    } else if constexpr (std::is_same_v<Body, layout::SessionAttachment>) {
        return "session.attachment";
    } else {
        return {};
    }
}

// Payloads stand in full up to a bound; beyond it the line says how large they were.
void add_payload(JsonObject& object, std::string& out, std::string_view key, const RawJson& json) {
    if (json.empty()) {
        return;
    }
    if (json.text.size() <= layout::timeline_payload_bytes_max) {
        object.raw(key, json.text);
        return;
    }
    object.key(key);
    JsonObject omitted(out, JsonObject::Form::compact);
    omitted.integer("bytes", static_cast<std::int64_t>(json.text.size()));
    omitted.boolean("omitted", true);
    omitted.finish();
}

void add_items(
    JsonObject& object,
    std::string& out,
    std::string_view key,
    const std::vector<KnownItem>& items) {
    if (!items.empty()) {
        add_payload(object, out, key, {join_items({items.begin(), items.end()})});
    }
}

void add_string(JsonObject& object, std::string_view key, const std::optional<std::string>& value) {
    if (value) {
        object.string(key, *value);
    }
}

void add_integer(
    JsonObject& object, std::string_view key, const std::optional<std::int64_t>& value) {
    if (value) {
        object.integer(key, *value);
    }
}

Refusal bad_field(std::string message) {
    return {.code = WireError::bad_field, .message = std::move(message), .id = {}};
}

void add_replaced(layout::ChangeWriter& writer, std::string_view name, std::string_view data) {
    writer.add({.kind = EffectKind::replace_synced, .name = name, .data = data, .offset = 0});
}

void add_settled(layout::ChangeWriter& writer, std::string_view name) {
    writer.add({.kind = EffectKind::settle, .name = name, .data = {}, .offset = 0});
}

std::vector<std::string> changed_fields(const layout::SessionUpdate& body) {
    const std::pair<const char*, bool> fields[] = {
        {"name", body.name.has_value()},
        {"labels", body.labels.has_value()},
        {"flagged", body.flagged.has_value()},
        {"archived", body.archived.has_value()},
        {"unread", body.unread.has_value()},
        {"stage", body.stage.has_value()},
        {"model", body.model.has_value()},
        {"extra", body.extra.has_value()},
    };
    std::vector<std::string> changed;
    for (const auto& [name, present] : fields) {
        if (present) {
            changed.emplace_back(name);
        }
    }
    return changed;
}

template<typename Value>
void patch(Value& target, const std::optional<Value>& update) {
    if (update) {
        target = *update;
    }
}

}  // namespace

void GrowingFile::grow(std::string_view more) {
    bytes += static_cast<std::int64_t>(more.size());
    hash.update(more);
}

void GrowingFile::keep_tail(std::string_view more) {
    if (more.size() >= tail_kept_bytes) {
        tail.assign(more.substr(more.size() - tail_kept_bytes));
        return;
    }
    if (tail.size() + more.size() > tail_room_bytes) {
        tail.erase(0, tail.size() - tail_kept_bytes);
    }
    tail.append(more);
}

std::optional<Refusal> Session::refuse_first_seq(std::optional<std::int64_t> seq) {
    if (!seq || *seq == 1) {
        return std::nullopt;
    }
    return Refusal{
        .code = WireError::seq_gap,
        .message = "session.start is the first event of its session: its seq must be 1 or absent, "
                   "got "
                   + std::to_string(*seq),
        .id = {}};
}

Session::Session(SessionState state) : state_(std::move(state)) {
    state_.claim.create = false;
    name_streams();
}

Session
Session::begin(SessionState state, std::optional<std::int64_t> seq, Timestamp now, Step& first) {
    layout::Claim claim = state.claim;
    claim.create = true;
    state.client_seq = seq.value_or(0);
    // An unnumbered session.start takes 0, so that the client's numbers and the timeline's agree
    // whether a client begins to count with it or after it.
    state.event_seq = seq ? 1 : 0;
    layout::Meta& meta = state.meta;
    meta.status = SessionStatus::active;
    meta.started_at = now;
    meta.updated_at = now;
    meta.capture.last_event_at = now;
    meta.capture.last_seq = state.client_seq;

    Session session(std::move(state));
    const Arrival arrival{seq, now};
    std::string lines;
    layout::TimelineLine line(
        lines, session.state_.event_seq, now, "session.start", session.state_.client_seq);
    JsonObject& object = line.object();
    object.string("agent", session.meta().agent);
    object.string("cwd", session.meta().cwd);
    object.strings("command", session.meta().command);
    object.string("slug", session.meta().slug);
    if (!session.state_.lineage.empty()) {
        object.strings("lineage", session.state_.lineage);
    }
    line.finish();

    first = session.step(arrival, 0);
    layout::ChangeWriter writer(first.change, session.header(arrival));
    writer.add_claim(claim);
    session.write_timeline(writer, lines);
    session.write_meta(writer);
    if (!session.meta().ephemeral) {
        writer.add({.kind = EffectKind::link_latest, .name = {}, .data = {}, .offset = 0});
    }
    writer.finish();
    first.fields = "\"slug\":";
    layout::append_json_string(first.fields, session.meta().slug);
    first.fields += ",\"path\":";
    layout::append_json_string(first.fields, session.directory());
    return session;
}

Refusal Session::refuse_ended(std::string_view type) const {
    return {
        .code = WireError::ended,
        .message = std::string(type) + ": session " + id().text() + " is "
                   + std::string(layout::name_of(state_.meta.status))
                   + "; session.attach with \"reopen\":true continues it",
        .id = {}};
}

std::optional<Refusal> Session::refuse(const layout::Event& event) const {
    if (event.seq && *event.seq != state_.client_seq + 1) {
        return Refusal{
            .code = WireError::seq_gap,
            .message = "seq " + std::to_string(*event.seq) + " leaves a gap: the next one is "
                       + std::to_string(state_.client_seq + 1),
            .id = {}};
    }
    return std::visit(
        [this](const auto& body) -> std::optional<Refusal> {
            using Body = std::decay_t<decltype(body)>;
            std::string_view type = type_of<Body>();
            if constexpr (std::is_same_v<Body, layout::TurnBytes>) {
                type = body.stream == layout::Stream::output ? "turn.output" : "turn.stderr";
            }
            if (!type.empty() && !active()) {
                return refuse_ended(type);
            }
            constexpr bool within_turn =
                std::is_same_v<
                    Body,
                    layout::
                        TurnBytes> || std::is_same_v<Body, layout::TurnTool> || std::is_same_v<Body, layout::TurnEnd>;
            if (within_turn && !state_.turn) {
                return Refusal{
                    .code = WireError::no_open_turn,
                    .message = std::string(type) + ": session " + id().text()
                               + " has no open turn; send turn.start first",
                    .id = {}};
            }
            return std::nullopt;
        },
        event.body);
}

StepResult Session::handle(const layout::Event& event, Timestamp now) {
    if (event.seq && *event.seq <= state_.client_seq) {
        Step repeated;
        repeated.turn = open_turn();
        repeated.seq = event.seq;
        repeated.duplicate = true;
        return repeated;
    }
    const auto with_id = [&event](Refusal refusal) {
        refusal.id = event.id;
        return refusal;
    };
    if (std::optional<Refusal> refusal = refuse(event)) {
        return with_id(std::move(*refusal));
    }
    const Arrival arrival{event.seq, now};
    StepResult result = std::visit(
        [&](const auto& body) -> StepResult {
            if constexpr (requires { take(body, arrival); }) {
                return take(body, arrival);
            } else {
                return Refusal{WireError::internal, "no event of a running session", {}};
            }
        },
        event.body);
    if (Refusal* const refusal = std::get_if<Refusal>(&result)) {
        return with_id(std::move(*refusal));
    }
    return result;
}

bool Session::accepts(const layout::Event& event) const {
    return !(event.seq && *event.seq <= state_.client_seq) && !refuse(event);
}

std::string_view Session::written_end(layout::Stream stream) const {
    if (!state_.turn) {
        return {};
    }
    const bool is_output = stream == layout::Stream::output;
    return is_output ? state_.turn->output.tail : state_.turn->stderr_log.tail;
}

void Session::count_redactions(std::int64_t count) {
    state_.meta.capture.redactions += count;
    meta_lags_ = meta_lags_ || count > 0;
}

std::int64_t Session::number(const Arrival& arrival) {
    if (arrival.seq) {
        state_.client_seq = *arrival.seq;
        state_.meta.capture.last_seq = *arrival.seq;
    }
    state_.meta.capture.last_event_at = arrival.now;
    return number_own(arrival.now);
}

std::int64_t Session::number_own(Timestamp now) {
    state_.meta.updated_at = now;
    return ++state_.event_seq;
}

Step Session::step(const Arrival& arrival, std::int64_t turn) const {
    Step step;
    step.turn = turn;
    step.seq = arrival.seq ? *arrival.seq : state_.event_seq;
    return step;
}

layout::ChangeHeader Session::header(const Arrival& arrival) const {
    return {
        .session = id(),
        .client_seq = arrival.seq.value_or(0),
        .event_seq = state_.event_seq,
    };
}

std::int64_t Session::current_or_last_turn() const {
    return state_.turn ? state_.turn->number : state_.meta.turn_count;
}

void Session::append_pending(std::string& lines) {
    for (const layout::StreamRun& run : state_.uncovered) {
        layout::append_stream_line(lines, run);
    }
    state_.uncovered.clear();
    if (pending_) {
        layout::append_stream_line(lines, *pending_);
        pending_.reset();
    }
}

void Session::write_timeline(layout::ChangeWriter& writer, std::string_view lines) {
    writer.add({
        .kind = EffectKind::append,
        .name = layout::timeline_file,
        .data = lines,
        .offset = state_.timeline_bytes,
    });
    state_.timeline_bytes += static_cast<std::int64_t>(lines.size());
}

void Session::write_meta(layout::ChangeWriter& writer) {
    add_replaced(writer, layout::meta_file, layout::encode_meta(state_.meta));
    meta_lags_ = false;
}

void Session::write_resume(layout::ChangeWriter& writer, Timestamp now) const {
    const layout::ResumePacket packet =
        build_resume(state_.meta, state_.knowledge, state_.lineage, now);
    add_replaced(writer, layout::resume_file, layout::encode_resume(packet));
}

void Session::name_streams() {
    if (state_.turn) {
        output_name_ = layout::output_file(state_.turn->number);
        stderr_name_ = layout::stderr_file(state_.turn->number);
    }
}

void Session::open(const layout::TurnStart& body, layout::FileSeal prompt, Timestamp now) {
    layout::Meta& meta = state_.meta;
    OpenTurn& turn = state_.turn.emplace();
    turn.number = meta.turn_count + 1;
    turn.started_at = now;
    turn.model = body.model ? body.model : meta.model;
    turn.prompt = std::move(prompt);
    turn.output.tail.reserve(tail_room_bytes);
    name_streams();
    meta.current_turn = turn.number;
    if (body.model) {
        meta.model = body.model;
    }
    if (!meta.objective && !body.prompt.empty()) {
        meta.objective = std::string(layout::utf8_prefix(body.prompt, objective_bytes_max));
        meta.preview = layout::one_line(body.prompt, preview_characters_max);
    }
}

StepResult Session::take(const layout::TurnStart& body, const Arrival& arrival) {
    std::string lines;
    append_pending(lines);
    const bool supersedes = state_.turn.has_value();
    layout::TurnEnd superseded;
    superseded.status = "interrupted";
    superseded.stop_reason = "superseded";
    if (supersedes) {
        const Arrival own{std::nullopt, arrival.now};
        append_end_line(lines, superseded, number_own(arrival.now), own);
    }
    const std::int64_t seq = number(arrival);
    const std::int64_t turn = state_.meta.turn_count + (supersedes ? 2 : 1);
    const layout::FileSeal prompt{
        static_cast<std::int64_t>(body.prompt.size()), layout::sha256_hex(body.prompt)};
    layout::TimelineLine line(lines, seq, arrival.now, "turn.start", arrival.seq.value_or(0));
    JsonObject& object = line.object();
    object.integer("turn", turn);
    add_string(object, "model", body.model ? body.model : state_.meta.model);
    object.key("prompt");
    JsonObject seal_object(lines, JsonObject::Form::compact);
    seal_object.integer("bytes", prompt.bytes);
    seal_object.string("sha256", prompt.sha256);
    seal_object.finish();
    line.finish();

    Step result = step(arrival, turn);
    layout::ChangeWriter writer(result.change, header(arrival));
    if (supersedes) {
        seal(writer, superseded, arrival.now);
    }
    open(body, prompt, arrival.now);
    writer.add({
        .kind = EffectKind::replace,
        .name = layout::prompt_file(turn),
        .data = body.prompt,
        .offset = 0,
    });
    // Empty, so that `tail -f` finds the file before the first word comes.
    writer.add({.kind = EffectKind::append, .name = output_name_, .data = {}, .offset = 0});
    write_timeline(writer, lines);
    meta_lags_ = true;
    if (supersedes) {
        write_meta(writer);
    }
    writer.finish();
    return result;
}

StepResult Session::take(const layout::TurnBytes& body, const Arrival& arrival) {
    OpenTurn& turn = *state_.turn;
    const bool extends = pending_ && pending_->stream == body.stream
                         && pending_->channel == body.channel && pending_->turn == turn.number;
    std::string lines;
    if (!extends) {
        append_pending(lines);
    }
    const std::int64_t seq = number(arrival);
    const bool is_output = body.stream == layout::Stream::output;
    GrowingFile& file = is_output ? turn.output : turn.stderr_log;

    Step result = step(arrival, turn.number);
    result.change.reserve(
        change_overhead_bytes + output_name_.size() + body.bytes.size() + lines.size());
    layout::ChangeWriter writer(result.change, header(arrival));
    if (!lines.empty()) {
        write_timeline(writer, lines);
    }
    // Nothing at all is recorded as nothing more in output.md, which exists; an empty stderr.log must
    // not come into being by it.
    const bool to_output = is_output || body.bytes.empty();
    writer.add({
        .kind = EffectKind::append,
        .name = to_output ? output_name_ : stderr_name_,
        .data = body.bytes,
        .offset = to_output ? turn.output.bytes : turn.stderr_log.bytes,
    });
    writer.finish();

    if (!extends) {
        pending_ = layout::StreamRun{
            .stream = body.stream,
            .channel = body.channel,
            .turn = turn.number,
            .offset = file.bytes,
            .bytes = 0,
            .seq = 0,
            .at = {}};
    }
    pending_->bytes += static_cast<std::int64_t>(body.bytes.size());
    pending_->seq = seq;
    pending_->at = arrival.now;
    file.grow(body.bytes);
    file.keep_tail(body.bytes);
    meta_lags_ = true;
    return result;
}

StepResult Session::take(const layout::TurnTool& body, const Arrival& arrival) {
    OpenTurn& turn = *state_.turn;
    std::string lines;
    append_pending(lines);
    const std::int64_t seq = number(arrival);
    layout::TimelineLine line(lines, seq, arrival.now, "turn.tool", arrival.seq.value_or(0));
    JsonObject& object = line.object();
    object.integer("turn", turn.number);
    object.string("tool_id", body.tool_id);
    object.string("name", body.name);
    object.string("status", body.status);
    add_string(object, "summary", body.summary);
    add_payload(object, lines, "input", body.input);
    add_payload(object, lines, "output", body.output);
    line.finish();
    keep_tool(body, arrival.now, turn);

    Step result = step(arrival, turn.number);
    layout::ChangeWriter writer(result.change, header(arrival));
    write_timeline(writer, lines);
    writer.finish();
    meta_lags_ = true;
    return result;
}

StepResult Session::take(const layout::TurnNote& body, const Arrival& arrival) {
    const std::int64_t turn = current_or_last_turn();
    const Result<Note> note = read_note(body, turn, state_.knowledge);
    if (!note.ok()) {
        return bad_field("turn.note: " + note.error().context);
    }
    std::string lines;
    append_pending(lines);
    const std::int64_t seq = number(arrival);
    layout::TimelineLine line(lines, seq, arrival.now, "turn.note", arrival.seq.value_or(0));
    line.object().integer("turn", turn);
    line.object().string("kind", body.kind);
    add_payload(line.object(), lines, "payload", note.value().payload);
    line.finish();
    keep_note(note.value(), turn, state_.knowledge, state_.turn ? &*state_.turn : nullptr);

    Step result = step(arrival, turn);
    layout::ChangeWriter writer(result.change, header(arrival));
    write_timeline(writer, lines);
    writer.finish();
    meta_lags_ = true;
    return result;
}

void Session::append_end_line(
    std::string& lines,
    const layout::TurnEnd& end,
    std::int64_t seq,
    const Arrival& arrival) const {
    layout::TimelineLine line(lines, seq, arrival.now, "turn.end", arrival.seq.value_or(0));
    JsonObject& object = line.object();
    object.integer("turn", state_.turn->number);
    object.string("status", turn_status(end));
    add_string(object, "stop_reason", end.stop_reason);
    if (end.tokens) {
        object.key("tokens");
        layout::append_tokens(lines, *end.tokens);
    }
    if (end.cost_usd) {
        object.number("cost_usd", *end.cost_usd);
    }
    add_integer(object, "exit_code", end.exit_code);
    add_string(object, "error", end.error);
    line.finish();
}

StepResult Session::take(const layout::TurnEnd& body, const Arrival& arrival) {
    if (body.limit.text.size() > item_bytes_max) {
        return bad_field(
            "turn.end: field \"limit\" has " + std::to_string(body.limit.text.size())
            + " bytes; at most " + std::to_string(item_bytes_max) + " are kept");
    }
    std::string lines;
    append_pending(lines);
    append_end_line(lines, body, number(arrival), arrival);

    Step result = step(arrival, state_.turn->number);
    layout::ChangeWriter writer(result.change, header(arrival));
    write_timeline(writer, lines);
    seal(writer, body, arrival.now);
    write_meta(writer);
    writer.finish();
    return result;
}

void Session::seal(layout::ChangeWriter& writer, const layout::TurnEnd& end, Timestamp now) {
    OpenTurn turn = std::move(*state_.turn);
    state_.turn.reset();
    // The exit code of an agent that was told to end is no trouble of the work's.
    const bool told = turn_status(end) == "interrupted";
    const std::optional<std::int64_t> exit_code = told ? std::nullopt : end.exit_code;
    if (std::optional<KnownItem> blocker =
            observed_blocker(exit_code, end.error, turn.number, state_.knowledge)) {
        turn.blockers.push_back(std::move(blocker->json));
    }
    layout::TurnState state = describe_turn(turn, end, now);
    state.prompt = std::move(turn.prompt);
    state.output = {turn.output.bytes, turn.output.hash.hex()};
    if (turn.stderr_log.bytes > 0) {
        state.stderr_log = layout::FileSeal{turn.stderr_log.bytes, turn.stderr_log.hash.hex()};
    }
    const std::string_view diff = end.diff.value_or(std::string_view());
    if (!diff.empty()) {
        state.diff =
            layout::FileSeal{static_cast<std::int64_t>(diff.size()), layout::sha256_hex(diff)};
    }
    write_seal(writer, state, diff);

    layout::Meta& meta = state_.meta;
    ++meta.turn_count;
    meta.current_turn.reset();
    if (end.tokens) {
        meta.tokens.add(*end.tokens);
    }
    if (end.cost_usd) {
        meta.cost_usd = meta.cost_usd.value_or(0.0) + *end.cost_usd;
    }
    absorb(state, state_.knowledge);
    state_.knowledge.last_turn = layout::ResumePacket::LastTurn{
        .turn = state.turn,
        .status = state.status,
        .prompt_file = layout::prompt_file(state.turn),
        .output_file = layout::output_file(state.turn),
        .output_tail = quote_tail(turn.output.tail)};
}

void Session::write_seal(
    layout::ChangeWriter& writer, const layout::TurnState& state, std::string_view diff) {
    const std::string diff_name = layout::diff_file(state.turn);
    if (state.diff) {
        writer.add({.kind = EffectKind::replace, .name = diff_name, .data = diff, .offset = 0});
    }
    add_settled(writer, layout::prompt_file(state.turn));
    add_settled(writer, layout::output_file(state.turn));
    if (state.stderr_log) {
        add_settled(writer, layout::stderr_file(state.turn));
    }
    if (state.diff) {
        add_settled(writer, diff_name);
    }
    std::optional<std::string>& chain = state_.meta.chain;
    layout::SealedState sealed =
        layout::encode_turn_state(state, chain ? std::string_view(*chain) : layout::chain_origin);
    add_replaced(writer, layout::state_file(state.turn), sealed.text);
    chain = std::move(sealed.chain);
}

StepResult Session::take(const layout::SessionUpdate& body, const Arrival& arrival) {
    layout::Meta& meta = state_.meta;
    patch(meta.name, body.name);
    patch(meta.model, body.model);
    patch(meta.stage, body.stage);
    patch(meta.labels, body.labels);
    patch(meta.flagged, body.flagged);
    patch(meta.archived, body.archived);
    patch(meta.unread, body.unread);
    patch(meta.extra, body.extra);

    std::string lines;
    append_pending(lines);
    const std::int64_t seq = number(arrival);
    layout::TimelineLine line(lines, seq, arrival.now, "session.update", arrival.seq.value_or(0));
    line.object().strings("fields", changed_fields(body));
    line.finish();

    Step result = step(arrival, 0);
    layout::ChangeWriter writer(result.change, header(arrival));
    write_timeline(writer, lines);
    write_meta(writer);
    writer.finish();
    return result;
}

std::string Session::free_attachment_name(std::string_view name) const {
    std::string candidate(name);
    std::string_view stem = name;
    std::string_view extension;
    const std::size_t dot = name.rfind('.');
    if (dot != std::string_view::npos && name.size() - dot <= attachment_extension_bytes_max) {
        stem = name.substr(0, dot);
        extension = name.substr(dot);
    }
    for (std::int64_t attempt = 2; state_.attachments.contains(candidate); ++attempt) {
        const std::string suffix = "-" + std::to_string(attempt) + std::string(extension);
        candidate = layout::utf8_prefix(stem, attachment_name_bytes_max - suffix.size());
        candidate += suffix;
    }
    return candidate;
}

StepResult Session::take(const layout::SessionAttachment& body, const Arrival& arrival) {
    if (const Result<std::string> good = layout::attachment_file(body.name); !good.ok()) {
        return bad_field("field \"name\": " + good.error().context);
    }
    std::string name = free_attachment_name(body.name);
    const std::string file = layout::attachment_file(name).value();
    std::string lines;
    append_pending(lines);
    const std::int64_t seq = number(arrival);
    layout::TimelineLine line(
        lines, seq, arrival.now, "session.attachment", arrival.seq.value_or(0));
    JsonObject& object = line.object();
    object.string("name", body.name);
    object.string("file", file);
    object.integer("bytes", static_cast<std::int64_t>(body.bytes.size()));
    object.string("sha256", layout::sha256_hex(body.bytes));
    line.finish();

    Step result = step(arrival, 0);
    result.fields = "\"file\":";
    layout::append_json_string(result.fields, file);
    layout::ChangeWriter writer(result.change, header(arrival));
    add_replaced(writer, file, body.bytes);
    write_timeline(writer, lines);
    writer.finish();
    state_.attachments.insert(std::move(name));
    meta_lags_ = true;
    return result;
}

StepResult Session::take(const layout::SessionCheckpoint& body, const Arrival& arrival) {
    if (state_.meta.status == SessionStatus::completed) {
        return refuse_ended("session.checkpoint");
    }
    if (state_.meta.status == SessionStatus::checkpointed && !body.force) {
        return Refusal{
            .code = WireError::ended,
            .message = "session " + id().text()
                       + " is checkpointed already and has a resume.json; \"force\":true rewrites "
                         "it, session.attach with \"reopen\":true continues the session",
            .id = {}};
    }
    const Result<Declared> declared = read_declared(body, current_or_last_turn(), state_.knowledge);
    if (!declared.ok()) {
        return bad_field("session.checkpoint: " + declared.error().context);
    }
    return checkpoint(body.reason, declared.value(), arrival, /*by_client=*/true);
}

Step Session::abandon(std::string_view reason, Timestamp now) {
    if (!active()) {
        return {};
    }
    return checkpoint(reason, {}, {std::nullopt, now}, /*by_client=*/false);
}

Step Session::checkpoint(
    std::string_view reason, const Declared& declared, const Arrival& arrival, bool by_client) {
    const Timestamp now = arrival.now;
    const std::int64_t turn = current_or_last_turn();
    const bool seals = state_.turn.has_value();
    layout::TurnEnd end;
    end.status = "interrupted";
    end.stop_reason = reason;
    end.limit = declared.limit;

    std::string lines;
    append_pending(lines);
    if (seals) {
        append_end_line(lines, end, number_own(now), {std::nullopt, now});
    }
    const std::int64_t seq = by_client ? number(arrival) : number_own(now);
    layout::TimelineLine line(lines, seq, now, "session.checkpoint", arrival.seq.value_or(0));
    JsonObject& object = line.object();
    object.integer("turn", turn);
    object.string("reason", reason);
    add_items(object, lines, "decisions", declared.decisions);
    add_items(object, lines, "blockers", declared.blockers);
    add_payload(object, lines, "validation_state", join_values(declared.validation));
    add_string(object, "next_task", declared.next_task);
    add_payload(object, lines, "limit", declared.limit);
    line.finish();

    Step result = step(arrival, seals ? turn : 0);
    layout::ChangeWriter writer(result.change, header(arrival));
    write_timeline(writer, lines);
    if (seals) {
        seal(writer, end, now);
    }
    keep_declared(declared, turn, state_.knowledge);
    layout::Meta& meta = state_.meta;
    if (meta.status == SessionStatus::active) {
        meta.ended_at = now;
    }
    meta.status = SessionStatus::checkpointed;
    meta.checkpoint_reason = reason;
    // Whoever reads "checkpointed" in meta.json finds the packet.
    write_resume(writer, now);
    write_meta(writer);
    writer.finish();
    return result;
}

StepResult Session::take(const layout::SessionEnd& body, const Arrival& arrival) {
    if (state_.meta.status == SessionStatus::completed) {
        return refuse_ended("session.end");
    }
    const bool has_packet = state_.meta.status == SessionStatus::checkpointed;
    const std::int64_t turn = current_or_last_turn();
    const bool seals = state_.turn.has_value();
    layout::TurnEnd end;
    end.exit_code = body.exit_code;
    end.error = body.error;

    std::string lines;
    append_pending(lines);
    if (seals) {
        append_end_line(lines, end, number_own(arrival.now), {std::nullopt, arrival.now});
    }
    const std::int64_t seq = number(arrival);
    layout::TimelineLine line(lines, seq, arrival.now, "session.end", arrival.seq.value_or(0));
    if (seals) {
        line.object().integer("turn", turn);
    }
    add_integer(line.object(), "exit_code", body.exit_code);
    add_string(line.object(), "error", body.error);
    line.finish();

    Step result = step(arrival, seals ? turn : 0);
    layout::ChangeWriter writer(result.change, header(arrival));
    write_timeline(writer, lines);
    if (seals) {
        seal(writer, end, arrival.now);
    } else if (
        std::optional<KnownItem> blocker =
            observed_blocker(body.exit_code, body.error, turn, state_.knowledge)) {
        keep_blocker(std::move(*blocker), state_.knowledge);
    }
    layout::Meta& meta = state_.meta;
    meta.status = SessionStatus::completed;
    meta.ended_at = arrival.now;
    meta.exit_code = body.exit_code;
    meta.error = body.error;
    meta.checkpoint_reason.reset();
    write_meta(writer);
    // After meta.json, so that nobody reads "checkpointed" and finds no packet.
    if (has_packet) {
        writer.add(
            {.kind = EffectKind::remove, .name = layout::resume_file, .data = {}, .offset = 0});
    }
    writer.finish();
    return result;
}

StepResult Session::attach(
    const layout::SessionAttach& attach,
    std::string owner,
    std::optional<std::int64_t> pid,
    Timestamp now) {
    const bool reopens = !active();
    if (reopens && !attach.reopen) {
        return refuse_ended("session.attach");
    }
    layout::Meta& meta = state_.meta;
    const bool has_packet = meta.status == SessionStatus::checkpointed;
    state_.claim.owner = std::move(owner);
    if (pid) {
        meta.pid = pid;
    }
    std::string lines;
    append_pending(lines);
    const Arrival arrival{std::nullopt, now};
    layout::TimelineLine line(lines, number(arrival), now, "session.attach");
    if (reopens) {
        line.object().boolean("reopen", true);
    }
    line.finish();

    Step result = step(arrival, 0);
    layout::ChangeWriter writer(result.change, header(arrival));
    writer.add_claim(state_.claim);
    write_timeline(writer, lines);
    meta_lags_ = true;
    if (reopens) {
        meta.status = SessionStatus::active;
        meta.ended_at.reset();
        meta.checkpoint_reason.reset();
        meta.exit_code.reset();
        meta.error.reset();
        write_meta(writer);
    }
    if (has_packet) {
        writer.add(
            {.kind = EffectKind::remove, .name = layout::resume_file, .data = {}, .offset = 0});
    }
    writer.finish();
    result.fields = "\"last_seq\":" + std::to_string(state_.client_seq)
                    + ",\"turn\":" + (state_.turn ? std::to_string(state_.turn->number) : "null")
                    + ",\"status\":\"" + std::string(layout::name_of(meta.status)) + "\"";
    return result;
}

Step Session::catch_up_timeline(Timestamp now) {
    Step result;
    if (!timeline_lags()) {
        return result;
    }
    std::string lines;
    append_pending(lines);
    layout::ChangeWriter writer(result.change, header({std::nullopt, now}));
    write_timeline(writer, lines);
    writer.finish();
    return result;
}

Step Session::catch_up_meta(Timestamp now) {
    if (!meta_lags_) {
        return catch_up_timeline(now);
    }
    std::string lines;
    append_pending(lines);
    Step result;
    layout::ChangeWriter writer(result.change, header({std::nullopt, now}));
    if (!lines.empty()) {
        write_timeline(writer, lines);
    }
    write_meta(writer);
    writer.finish();
    return result;
}

Step Session::write_own(std::string_view lines, Timestamp now) {
    const Arrival own{std::nullopt, now};
    Step result = step(own, 0);
    layout::ChangeWriter writer(result.change, header(own));
    write_timeline(writer, lines);
    write_meta(writer);
    writer.finish();
    return result;
}

Step Session::note_conflict(std::string_view file, std::string_view kept, Timestamp now) {
    std::vector<layout::CaptureConflict>& conflicts = state_.meta.capture.conflicts;
    std::erase_if(
        conflicts, [file](const layout::CaptureConflict& known) { return known.file == file; });
    if (conflicts.size() >= conflicts_max) {
        conflicts.erase(conflicts.begin());
    }
    conflicts.push_back({std::string(file), std::string(kept), now});
    std::string lines;
    append_pending(lines);
    layout::TimelineLine line(lines, number_own(now), now, "recorder.conflict");
    line.object().string("file", file);
    line.object().string("kept", kept);
    line.finish();
    return write_own(lines, now);
}

Step Session::note_deferral(const layout::CaptureDeferral& deferral, Timestamp now) {
    state_.meta.capture.deferred = deferral;
    std::string lines;
    append_pending(lines);
    layout::TimelineLine line(lines, number_own(now), now, "recorder.deferred");
    line.object().timestamp("from", deferral.from);
    line.object().timestamp("until", deferral.until);
    line.object().string("reason", deferral.reason);
    line.finish();
    return write_own(lines, now);
}

Step Session::note_gap(Timestamp now) {
    ++state_.meta.capture.gaps;
    std::string lines;
    append_pending(lines);
    layout::TimelineLine line(lines, number_own(now), now, "recorder.gap");
    line.object().integer("gaps", state_.meta.capture.gaps);
    line.finish();
    return write_own(lines, now);
}

}  // namespace relay::recorder
