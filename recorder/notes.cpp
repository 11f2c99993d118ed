// SPDX-License-Identifier: Apache-2.0
#include "recorder/notes.hpp"

#include "layout/json_depth.hpp"
#include "layout/json_writer.hpp"
#include "layout/utf8.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <string_view>

namespace relay::recorder {

namespace {

using Json = nlohmann::ordered_json;
using layout::Errc;
using layout::Error;
using layout::RawJson;
using layout::Result;

constexpr std::size_t json_depth_max = 128;  // the decoder lets 64 in, our own wrapping adds a few
constexpr std::size_t touched_files_max = 4096;
constexpr std::size_t path_bytes_max = 4096;
constexpr std::size_t validation_names_max = 256;
constexpr std::size_t validation_bytes_max = 4096;
constexpr std::size_t summary_characters_max = 300;
constexpr std::size_t tool_overhead_bytes = 160;  // its member names and times in state.json
constexpr std::size_t note_overhead_bytes = 32;

std::optional<Json> parse(std::string_view text) {
    // As most lists of a turn are.
    if (text == "[]" || text == "{}") {
        return text == "[]" ? Json::array() : Json::object();
    }
    // The library prints and destroys a value by recursion.
    if (text.empty() || layout::json_depth(text) > json_depth_max) {
        return std::nullopt;
    }
    Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded()) {
        return std::nullopt;
    }
    return json;
}

std::string print(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

const Json* member(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found == object.end() ? nullptr : &*found;
}

std::string string_member(const Json& object, const char* key) {
    const Json* const value = member(object, key);
    return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

Error refuse(std::string sentence) {
    return {.code = Errc::invalid, .context = std::move(sentence)};
}

// n of "<letter>n", 0 when the id is of another form.
std::int64_t number_in(std::string_view id, char letter) {
    std::int64_t number = 0;
    if (id.size() < 2 || id.front() != letter) {
        return 0;
    }
    const char* const end = id.data() + id.size();
    const auto [stop, error] = std::from_chars(id.data() + 1, end, number);
    const bool plain = error == std::errc() && stop == end && number > 0;
    return plain && number < (std::int64_t{1} << 53) ? number : 0;
}

// The item with an id, its source and its turn. Keeps the client's members in their order.
KnownItem name_item(Json item, char letter, std::int64_t turn, std::int64_t& last) {
    KnownItem named;
    const Json* const id = member(item, "id");
    if (id != nullptr && id->is_string() && !id->get_ref<const std::string&>().empty()) {
        named.id = id->get<std::string>();
    } else if (id != nullptr && id->is_number_integer()) {
        named.id = print(*id);
    } else {
        named.id = letter + std::to_string(last + 1);
        Json with_id = Json::object();
        with_id["id"] = named.id;
        item.erase("id");
        for (auto& [key, value] : item.items()) {
            with_id[key] = std::move(value);
        }
        item = std::move(with_id);
    }
    last = std::max(last, number_in(named.id, letter));
    // A client may call its own item a guess, but never something that the recorder saw.
    const std::string source = string_member(item, "source");
    item.erase("source");
    item.erase("turn");
    item["source"] = source == "inferred" ? source : "declared";
    item["turn"] = turn;
    named.json.text = print(item);
    return named;
}

void keep_item(KnownItem item, char letter, std::vector<KnownItem>& items, std::int64_t& last) {
    last = std::max(last, number_in(item.id, letter));
    const auto same = std::find_if(
        items.begin(), items.end(), [&](const KnownItem& known) { return known.id == item.id; });
    if (same != items.end()) {
        items.erase(same);
    }
    items.push_back(std::move(item));
    if (items.size() > max_decisions) {
        items.erase(items.begin());
    }
}

void keep_file(const Json& file, Knowledge& knowledge) {
    const std::string path = string_member(file, "path");
    if (path.empty() || path.size() > path_bytes_max) {
        return;
    }
    const auto known = knowledge.touched_files.find(path);
    if (known == knowledge.touched_files.end()
        && knowledge.touched_files.size() >= touched_files_max) {
        return;
    }
    const std::string status = string_member(file, "status");
    knowledge.touched_files[path] = status.empty() ? "modified" : status;
}

void keep_values(const NamedValues& values, std::int64_t turn, Knowledge& knowledge) {
    for (const auto& [name, value] : values) {
        const bool known = knowledge.validation.contains(name);
        if (name.size() + value.text.size() > validation_bytes_max
            || (!known && knowledge.validation.size() >= validation_names_max)) {
            continue;
        }
        RawJson& item = knowledge.validation[name];
        item.text.clear();
        layout::JsonObject object(item.text, layout::JsonObject::Form::compact);
        object.raw("value", value.text);
        object.string("source", "declared");
        object.integer("turn", turn);
        object.finish();
    }
}

NamedValues values_of(const Json& object) {
    NamedValues values;
    for (const auto& [name, value] : object.items()) {
        values.emplace_back(name, RawJson{print(value)});
    }
    return values;
}

Result<Note> read_item_note(
    const Json& payload, Note::Kind kind, std::int64_t turn, const Knowledge& knowledge) {
    const bool decision = kind == Note::Kind::decision;
    Json item = Json::object();
    if (payload.is_string()) {
        item["summary"] = payload;
    } else if (payload.is_object()) {
        item = payload;
    } else {
        return refuse(
            std::string("field \"payload\" of a ") + (decision ? "decision" : "blocker")
            + " must be an object like {\"summary\":\"…\"} or a string");
    }
    std::int64_t last = decision ? knowledge.decision_number : knowledge.blocker_number;
    KnownItem named = name_item(std::move(item), decision ? 'd' : 'b', turn, last);
    Note note;
    note.kind = kind;
    note.payload = std::move(named.json);
    note.id = std::move(named.id);
    return note;
}

Result<Note> read_file_note(const Json& payload) {
    Json file = payload;
    if (payload.is_string()) {
        file = Json::object();
        file["path"] = payload;
        file["status"] = "modified";
    }
    Note note;
    note.kind = Note::Kind::file;
    note.text = file.is_object() ? string_member(file, "path") : std::string();
    if (note.text.empty()) {
        return refuse(
            "field \"payload\" of a file note must be {\"path\":\"…\",\"status\":\"…\"} or the "
            "path as a string");
    }
    note.payload.text = print(file);
    return note;
}

Result<Note> read_next_note(const Json& payload) {
    Note note;
    note.kind = Note::Kind::next;
    if (payload.is_string()) {
        note.text = payload.get<std::string>();
    } else if (payload.is_object()) {
        note.text = string_member(payload, "task");
        if (note.text.empty()) {
            note.text = string_member(payload, "summary");
        }
    }
    if (note.text.empty()) {
        return refuse(
            "field \"payload\" of a next note must be the task as a string or {\"task\":\"…\"}");
    }
    note.payload.text = print(payload);
    return note;
}

Result<Note> read_known_note(
    Note::Kind kind, const Json& payload, std::int64_t turn, const Knowledge& knowledge) {
    switch (kind) {
    case Note::Kind::decision:
    case Note::Kind::blocker:
        return read_item_note(payload, kind, turn, knowledge);
    case Note::Kind::file:
        return read_file_note(payload);
    case Note::Kind::next:
        return read_next_note(payload);
    case Note::Kind::validation:
    case Note::Kind::other:
        break;
    }
    if (!payload.is_object()) {
        return refuse(
            "field \"payload\" of a validation note must be an object like {\"tests\":\"green\"}");
    }
    Note note;
    note.kind = kind;
    note.payload.text = print(payload);
    note.values = values_of(payload);
    return note;
}

Note::Kind kind_named(std::string_view name) {
    constexpr std::pair<std::string_view, Note::Kind> kinds[] = {
        {"decision", Note::Kind::decision},
        {"blocker", Note::Kind::blocker},
        {"validation", Note::Kind::validation},
        {"file", Note::Kind::file},
        {"next", Note::Kind::next},
    };
    for (const auto& [known, kind] : kinds) {
        if (known == name) {
            return kind;
        }
    }
    return Note::Kind::other;
}

Error refuse_size(std::string_view what, std::size_t bytes) {
    return refuse(
        std::string(what) + " has " + std::to_string(bytes) + " bytes; at most "
        + std::to_string(item_bytes_max)
        + " are kept: send a short text here and the long one as an attachment");
}

// The elements of an array of objects, each with id, source and turn.
Result<std::vector<KnownItem>> read_items(
    std::string_view field,
    const RawJson& array,
    char letter,
    std::int64_t turn,
    std::int64_t last) {
    std::vector<KnownItem> items;
    if (array.empty()) {
        return items;
    }
    const std::optional<Json> json = parse(array.text);
    if (!json || !json->is_array()) {
        return refuse("field \"" + std::string(field) + "\" must be an array of objects");
    }
    for (const Json& element : *json) {
        if (!element.is_object()) {
            return refuse("field \"" + std::string(field) + "\" must be an array of objects");
        }
        items.push_back(name_item(element, letter, turn, last));
        if (items.back().json.text.size() > item_bytes_max) {
            return refuse_size(
                "an element of field \"" + std::string(field) + "\"",
                items.back().json.text.size());
        }
    }
    return items;
}

// Whether the turn's seal still has room for this many bytes; takes them.
bool take_room(OpenTurn& turn, std::size_t bytes) {
    if (turn.detail_bytes + bytes > turn_detail_bytes_max) {
        return false;
    }
    turn.detail_bytes += bytes;
    return true;
}

void keep_in_turn(const Note& note, OpenTurn& turn) {
    if (!take_room(turn, note.payload.text.size() + note_overhead_bytes)) {
        return;
    }
    switch (note.kind) {
    case Note::Kind::decision:
        turn.decisions.push_back(note.payload);
        return;
    case Note::Kind::blocker:
        turn.blockers.push_back(note.payload);
        return;
    case Note::Kind::file:
        turn.files.push_back(note.payload);
        return;
    case Note::Kind::next:
        turn.next_task = note.text;
        return;
    case Note::Kind::validation:
        for (const auto& [name, value] : note.values) {
            turn.validation[name] = value;
        }
        return;
    case Note::Kind::other:
        return;
    }
}

RawJson join(const std::vector<RawJson>& items) {
    RawJson array;
    if (items.empty()) {
        return array;
    }
    for (const RawJson& item : items) {
        array.text += array.empty() ? '[' : ',';
        array.text += item.text;
    }
    array.text += ']';
    return array;
}

// The files of the notes and of the turn's end; a later word on a path replaces an earlier one.
RawJson merge_files(const std::vector<RawJson>& noted, const RawJson& ended) {
    if (noted.empty()) {
        return ended;
    }
    Json merged = Json::array();
    std::map<std::string, std::size_t> places;
    const auto add = [&](const Json& file) {
        const std::string path = file.is_object() ? string_member(file, "path") : std::string();
        const auto [place, is_new] = places.try_emplace(path, merged.size());
        if (is_new || path.empty()) {
            merged.push_back(file);
        } else {
            merged[place->second] = file;
        }
    };
    for (const RawJson& note : noted) {
        if (const std::optional<Json> file = parse(note.text)) {
            add(*file);
        }
    }
    if (const std::optional<Json> files = parse(ended.text); files && files->is_array()) {
        for (const Json& file : *files) {
            add(file);
        }
    }
    return {print(merged)};
}

RawJson merge_validation(const std::map<std::string, RawJson>& noted, const RawJson& ended) {
    if (noted.empty()) {
        return ended;
    }
    std::map<std::string, RawJson> merged = noted;
    if (const std::optional<Json> values = parse(ended.text); values && values->is_object()) {
        for (auto& [name, value] : values_of(*values)) {
            merged[name] = value;
        }
    }
    return join_values({merged.begin(), merged.end()});
}

void absorb_items(
    const RawJson& array, char letter, std::vector<KnownItem>& items, std::int64_t& last) {
    const std::optional<Json> json = parse(array.text);
    if (!json || !json->is_array()) {
        return;
    }
    for (const Json& element : *json) {
        if (!element.is_object()) {
            continue;
        }
        const Json* const id = member(element, "id");
        std::string text;
        if (id != nullptr) {
            text = id->is_string() ? id->get<std::string>() : print(*id);
        }
        keep_item({std::move(text), {print(element)}}, letter, items, last);
    }
}

}  // namespace

Result<Note>
read_note(const layout::TurnNote& note, std::int64_t turn, const Knowledge& knowledge) {
    const Note::Kind kind = kind_named(note.kind);
    if (kind == Note::Kind::other) {
        Note other;
        other.payload = note.payload;
        return other;
    }
    const std::optional<Json> payload = parse(note.payload.text);
    if (!payload) {
        return refuse("a note of kind \"" + note.kind + "\" needs the field \"payload\"");
    }
    Result<Note> read = read_known_note(kind, *payload, turn, knowledge);
    if (read.ok() && read.value().payload.text.size() > item_bytes_max) {
        return refuse_size(
            "field \"payload\" of a " + note.kind + " note", read.value().payload.text.size());
    }
    return read;
}

void keep_note(const Note& note, std::int64_t turn, Knowledge& knowledge, OpenTurn* open) {
    if (open != nullptr) {
        // The item itself follows when the turn is sealed; its number is taken now.
        const bool decision = note.kind == Note::Kind::decision;
        const char letter = decision ? 'd' : 'b';
        std::int64_t& last = decision ? knowledge.decision_number : knowledge.blocker_number;
        last = std::max(last, number_in(note.id, letter));
        keep_in_turn(note, *open);
        return;
    }
    switch (note.kind) {
    case Note::Kind::decision:
        keep_item({note.id, note.payload}, 'd', knowledge.decisions, knowledge.decision_number);
        return;
    case Note::Kind::blocker:
        keep_item({note.id, note.payload}, 'b', knowledge.blockers, knowledge.blocker_number);
        return;
    case Note::Kind::file:
        if (const std::optional<Json> file = parse(note.payload.text)) {
            keep_file(*file, knowledge);
        }
        return;
    case Note::Kind::next:
        knowledge.next_task = note.text;
        return;
    case Note::Kind::validation:
        keep_values(note.values, turn, knowledge);
        return;
    case Note::Kind::other:
        return;
    }
}

Result<Declared> read_declared(
    const layout::SessionCheckpoint& checkpoint, std::int64_t turn, const Knowledge& knowledge) {
    Declared declared;
    Result<std::vector<KnownItem>> decisions =
        read_items("decisions", checkpoint.decisions, 'd', turn, knowledge.decision_number);
    if (!decisions.ok()) {
        return decisions.error();
    }
    declared.decisions = std::move(decisions.value());
    Result<std::vector<KnownItem>> blockers =
        read_items("blockers", checkpoint.blockers, 'b', turn, knowledge.blocker_number);
    if (!blockers.ok()) {
        return blockers.error();
    }
    declared.blockers = std::move(blockers.value());
    if (const std::optional<Json> values = parse(checkpoint.validation_state.text);
        values && values->is_object()) {
        declared.validation = values_of(*values);
    }
    declared.next_task = checkpoint.next_task;
    declared.limit = checkpoint.limit;
    if (declared.limit.text.size() > item_bytes_max) {
        return refuse_size("field \"limit\"", declared.limit.text.size());
    }
    return declared;
}

void keep_declared(const Declared& declared, std::int64_t turn, Knowledge& knowledge) {
    for (const KnownItem& item : declared.decisions) {
        keep_item(item, 'd', knowledge.decisions, knowledge.decision_number);
    }
    for (const KnownItem& item : declared.blockers) {
        keep_item(item, 'b', knowledge.blockers, knowledge.blocker_number);
    }
    keep_values(declared.validation, turn, knowledge);
    if (declared.next_task) {
        knowledge.next_task = declared.next_task;
    }
    if (!declared.limit.empty()) {
        knowledge.limit = declared.limit;
    }
}

std::optional<KnownItem> observed_blocker(
    const std::optional<std::int64_t>& exit_code,
    const std::optional<std::string>& error,
    std::int64_t turn,
    const Knowledge& knowledge) {
    const bool failed = exit_code.value_or(0) != 0;
    if (!failed && !error) {
        return std::nullopt;
    }
    const std::string code = failed ? "exit code " + std::to_string(*exit_code) : std::string();
    KnownItem blocker;
    blocker.id = "b" + std::to_string(knowledge.blocker_number + 1);
    layout::JsonObject object(blocker.json.text, layout::JsonObject::Form::compact);
    object.string("id", blocker.id);
    object.string("summary", error ? layout::one_line(*error, summary_characters_max) : code);
    if (error && failed) {
        object.string("evidence", code);
    }
    object.string("source", "observed");
    object.integer("turn", turn);
    object.finish();
    return blocker;
}

void keep_blocker(KnownItem blocker, Knowledge& knowledge) {
    keep_item(std::move(blocker), 'b', knowledge.blockers, knowledge.blocker_number);
}

void keep_tool(const layout::TurnTool& tool, layout::Timestamp at, OpenTurn& turn) {
    if (tool.status != "started") {
        const auto call = std::find_if(
            turn.tools.rbegin(), turn.tools.rend(), [&](const layout::ToolCall& known) {
                return known.id == tool.tool_id;
            });
        if (call != turn.tools.rend()) {
            call->status = tool.status;
            call->duration_ms = std::max<std::int64_t>(0, at.ms - call->started_at.ms);
            if (tool.summary && take_room(turn, tool.summary->size())) {
                call->summary = tool.summary;
            }
            return;
        }
    }
    const std::size_t bytes = tool.tool_id.size() + tool.name.size()
                              + tool.summary.value_or(std::string()).size() + tool_overhead_bytes;
    if (turn.tools.size() >= turn_tools_max || !take_room(turn, bytes)) {
        return;
    }
    layout::ToolCall call;
    call.id = tool.tool_id;
    call.name = tool.name;
    call.status = tool.status;
    call.started_at = at;
    call.summary = tool.summary;
    turn.tools.push_back(std::move(call));
}

std::string turn_status(const layout::TurnEnd& end) {
    if (end.status) {
        return *end.status;
    }
    return end.error || end.exit_code.value_or(0) != 0 ? "failed" : "completed";
}

layout::TurnState describe_turn(OpenTurn& turn, const layout::TurnEnd& end, layout::Timestamp now) {
    layout::TurnState state;
    state.turn = turn.number;
    state.status = turn_status(end);
    state.started_at = turn.started_at;
    state.ended_at = now;
    state.duration_ms = std::max<std::int64_t>(0, now.ms - turn.started_at.ms);
    state.stop_reason = end.stop_reason;
    state.model = turn.model;
    state.tokens = end.tokens;
    state.cost_usd = end.cost_usd;
    state.tools = std::move(turn.tools);
    state.files = merge_files(turn.files, end.files);
    state.dirty = end.dirty;
    state.validation = merge_validation(turn.validation, end.validation);
    state.decisions = join(turn.decisions);
    state.blockers = join(turn.blockers);
    state.next_task = end.next_task ? end.next_task : turn.next_task;
    state.exit_code = end.exit_code;
    state.error = end.error;
    state.limit = end.limit;
    state.extra = end.extra;
    return state;
}

void absorb(const layout::TurnState& state, Knowledge& knowledge) {
    absorb_items(state.decisions, 'd', knowledge.decisions, knowledge.decision_number);
    absorb_items(state.blockers, 'b', knowledge.blockers, knowledge.blocker_number);
    if (const std::optional<Json> values = parse(state.validation.text);
        values && values->is_object()) {
        keep_values(values_of(*values), state.turn, knowledge);
    }
    if (const std::optional<Json> files = parse(state.files.text); files && files->is_array()) {
        for (const Json& file : *files) {
            if (file.is_object()) {
                keep_file(file, knowledge);
            }
        }
    }
    if (state.next_task) {
        knowledge.next_task = state.next_task;
    }
    if (state.dirty) {
        knowledge.dirty = state.dirty;
    }
    // A limit belongs to the moment it was met: the next turn that ends without one is past it.
    knowledge.limit = state.limit.text == "null" ? RawJson{} : state.limit;
}

std::string quote_tail(std::string_view tail) {
    const std::string text = layout::to_utf8(layout::utf8_suffix(tail, output_tail_bytes_max));
    return std::string(layout::utf8_suffix(text, output_tail_bytes_max));
}

std::string join_items(const std::vector<KnownItem>& items) {
    std::string text = "[";
    for (const KnownItem& item : items) {
        if (text.size() > 1) {
            text += ',';
        }
        text += item.json.text;
    }
    text += ']';
    return text;
}

RawJson join_values(const NamedValues& values) {
    RawJson object;
    if (values.empty()) {
        return object;
    }
    layout::JsonObject writer(object.text, layout::JsonObject::Form::compact);
    for (const auto& [name, value] : values) {
        writer.raw(name, value.text);
    }
    writer.finish();
    return object;
}

}  // namespace relay::recorder
