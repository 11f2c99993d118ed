// SPDX-License-Identifier: Apache-2.0
#include "layout/event.hpp"

#include "layout/base64.hpp"
#include "layout/json_depth.hpp"
#include "layout/utf8.hpp"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>

namespace relay::layout {

namespace {

namespace dom = simdjson::dom;

constexpr std::size_t capacity_start_bytes = std::size_t{16} * 1024;
constexpr std::size_t capacity_kept_bytes_max = std::size_t{1024} * 1024;

constexpr std::size_t id_bytes_max = 256;
constexpr std::size_t agent_bytes_max = 128;
constexpr std::size_t name_bytes_max = 4096;
constexpr std::size_t path_bytes_max = 4096;  // PATH_MAX
constexpr std::size_t reason_bytes_max = 1024;
constexpr std::size_t sentence_bytes_max = std::size_t{16} * 1024;  // error, next_task, summary
constexpr std::size_t extra_bytes_max = std::size_t{16} * 1024;
constexpr std::size_t command_bytes_max = std::size_t{128} * 1024;  // meta.json repeats it all
constexpr std::size_t command_words_max = 4096;
constexpr std::size_t labels_max = 64;
constexpr std::size_t label_bytes_max = 256;
constexpr std::size_t raw_depth_max = 64;  // later readers of the files may recurse
constexpr std::size_t echo_characters_max = 64;
constexpr std::int64_t sessions_listed_max = 1000;
constexpr std::int64_t integer_max = std::numeric_limits<std::int64_t>::max();

std::string_view kind_of(dom::element value) {
    if (value.is_string()) {
        return "string";
    }
    if (value.is_array()) {
        return "array";
    }
    if (value.is_object()) {
        return "object";
    }
    if (value.is_bool()) {
        return "boolean";
    }
    return value.is_null() ? "null" : "number";
}

std::string in_quotes(std::string_view text) {
    return "\"" + one_line(text, echo_characters_max) + "\"";
}

// One member of a request: reads its value into a typed place, or says what is wrong with it.
class Field {
public:
    struct Buffers {
        std::string& complaint;
        std::string& decoded;  // of base64
    };

    Field(std::string_view key, dom::element value, Buffers buffers, std::string_view parent = {})
        : key_(key), value_(value), buffers_(buffers), parent_(parent) {}

    [[nodiscard]] bool is(std::string_view key) const { return key_ == key; }
    [[nodiscard]] bool is_null() const { return value_.is_null(); }

    [[nodiscard]] bool complain(std::string_view what) const;

    [[nodiscard]] bool view(std::string_view& into) const;
    [[nodiscard]] bool text(std::string& into, std::size_t bytes_max) const;
    [[nodiscard]] bool text(std::optional<std::string>& into, std::size_t bytes_max) const;
    [[nodiscard]] bool non_empty(std::string& into, std::size_t bytes_max) const;
    [[nodiscard]] bool patch(Patch<std::string>& into) const;
    [[nodiscard]] bool word(std::string& into, std::initializer_list<std::string_view> words) const;
    [[nodiscard]] bool path(std::string& into) const;
    [[nodiscard]] bool agent(std::string& into) const;
    [[nodiscard]] bool ulid(std::optional<Ulid>& into) const;
    [[nodiscard]] bool base64(std::string_view& into) const;

    [[nodiscard]] bool
    integer(std::int64_t& into, std::int64_t least, std::int64_t most = integer_max) const;
    [[nodiscard]] bool integer(std::optional<std::int64_t>& into, std::int64_t least) const;
    [[nodiscard]] bool amount(std::optional<double>& into) const;
    [[nodiscard]] bool boolean(bool& into) const;

    [[nodiscard]] bool labels(std::vector<std::string>& into) const;
    [[nodiscard]] bool command(std::vector<std::string>& into) const;
    [[nodiscard]] bool parent(Parent& into) const;
    [[nodiscard]] bool tokens(Tokens& into) const;
    [[nodiscard]] bool channel(Channel& into) const;

    [[nodiscard]] bool any_json(RawJson& into) const;
    [[nodiscard]] bool object(RawJson& into) const;
    [[nodiscard]] bool objects(RawJson& into) const;
    [[nodiscard]] bool extra(RawJson& into) const;

private:
    [[nodiscard]] bool wrong_kind(std::string_view right) const;
    [[nodiscard]] bool within(std::size_t bytes, std::size_t bytes_max) const;
    [[nodiscard]] bool strings(std::vector<std::string>& into) const;

    std::string_view key_;
    dom::element value_;
    Buffers buffers_;
    std::string_view parent_;
};

bool Field::complain(std::string_view what) const {
    std::string& complaint = buffers_.complaint;
    complaint = "field \"";
    if (!parent_.empty()) {
        complaint.append(parent_).append(".");
    }
    complaint.append(key_).append("\" ").append(what);
    return false;
}

bool Field::wrong_kind(std::string_view right) const {
    return complain("must be " + std::string(right) + ", got " + std::string(kind_of(value_)));
}

bool Field::within(std::size_t bytes, std::size_t bytes_max) const {
    if (bytes > bytes_max) {
        return complain(
            "has " + std::to_string(bytes) + " bytes; at most " + std::to_string(bytes_max)
            + " are allowed");
    }
    return true;
}

bool Field::view(std::string_view& into) const {
    return value_.get(into) == simdjson::SUCCESS || wrong_kind("a string");
}

bool Field::text(std::string& into, std::size_t bytes_max) const {
    std::string_view seen;
    if (!view(seen) || !within(seen.size(), bytes_max)) {
        return false;
    }
    into = seen;
    return true;
}

bool Field::text(std::optional<std::string>& into, std::size_t bytes_max) const {
    return text(into.emplace(), bytes_max);
}

bool Field::non_empty(std::string& into, std::size_t bytes_max) const {
    if (!text(into, bytes_max)) {
        return false;
    }
    return !into.empty() || complain("must not be empty");
}

bool Field::patch(Patch<std::string>& into) const {
    into.emplace(std::nullopt);
    return is_null() || text(*into, name_bytes_max);
}

bool Field::word(std::string& into, std::initializer_list<std::string_view> words) const {
    std::string_view seen;
    if (!view(seen)) {
        return false;
    }
    if (std::find(words.begin(), words.end(), seen) != words.end()) {
        into = seen;
        return true;
    }
    std::string all;
    for (const std::string_view word : words) {
        all.append(all.empty() ? "" : ", ").append(word);
    }
    return complain("must be one of " + all + "; got " + in_quotes(seen));
}

bool Field::path(std::string& into) const {
    if (!text(into, path_bytes_max)) {
        return false;
    }
    if (!into.starts_with('/')) {
        return complain("must be an absolute path that begins with \"/\", got " + in_quotes(into));
    }
    if (into.find('\0') != std::string::npos) {
        return complain("must be a path, and a path holds no NUL byte");
    }
    return true;
}

bool Field::agent(std::string& into) const {
    if (!non_empty(into, agent_bytes_max)) {
        return false;
    }
    const auto is_control = [](char character) {
        const auto byte = static_cast<unsigned char>(character);
        return byte < 0x20 || byte == 0x7f;
    };
    if (std::any_of(into.begin(), into.end(), is_control)) {
        return complain("must be a plain name without control characters, got " + in_quotes(into));
    }
    return true;
}

bool Field::ulid(std::optional<Ulid>& into) const {
    std::string_view seen;
    if (!view(seen)) {
        return false;
    }
    into = Ulid::parse(seen);
    return into.has_value()
           || complain("must be a ULID of 26 characters; " + in_quotes(seen) + " is no ULID");
}

bool Field::base64(std::string_view& into) const {
    std::string_view seen;
    if (!view(seen)) {
        return false;
    }
    if (!decode_base64(seen, buffers_.decoded)) {
        return complain(
            "must be base64 of the standard alphabet, padded in full or not at all, without white "
            "space");
    }
    into = buffers_.decoded;
    return true;
}

bool Field::integer(std::int64_t& into, std::int64_t least, std::int64_t most) const {
    if (!value_.is_number()) {
        return wrong_kind("an integer");
    }
    if (value_.get(into) != simdjson::SUCCESS || into < least || into > most) {
        return complain(
            "must be an integer from " + std::to_string(least) + " to " + std::to_string(most)
            + ", got " + simdjson::minify(value_));
    }
    return true;
}

bool Field::integer(std::optional<std::int64_t>& into, std::int64_t least) const {
    return integer(into.emplace(), least);
}

bool Field::amount(std::optional<double>& into) const {
    double seen = 0;
    if (value_.get(seen) != simdjson::SUCCESS) {
        return wrong_kind("a number");
    }
    if (seen < 0) {
        return complain("must be a number of at least 0, got " + simdjson::minify(value_));
    }
    into = seen;
    return true;
}

bool Field::boolean(bool& into) const {
    return value_.get(into) == simdjson::SUCCESS || wrong_kind("true or false");
}

bool Field::strings(std::vector<std::string>& into) const {
    dom::array array;
    if (value_.get(array) != simdjson::SUCCESS) {
        return wrong_kind("an array of strings");
    }
    into.clear();
    for (const dom::element item : array) {
        std::string_view seen;
        if (item.get(seen) != simdjson::SUCCESS) {
            return complain(
                "must be an array of strings, got " + std::string(kind_of(item)) + " at index "
                + std::to_string(into.size()));
        }
        into.emplace_back(seen);
    }
    return true;
}

bool Field::labels(std::vector<std::string>& into) const {
    if (!strings(into)) {
        return false;
    }
    if (into.size() > labels_max) {
        return complain(
            "has " + std::to_string(into.size()) + " labels; at most " + std::to_string(labels_max)
            + " are allowed");
    }
    return std::all_of(into.begin(), into.end(), [this](const std::string& label) {
        return label.size() <= label_bytes_max
               || complain(
                   "has a label of " + std::to_string(label.size()) + " bytes; at most "
                   + std::to_string(label_bytes_max) + " are allowed");
    });
}

bool Field::command(std::vector<std::string>& into) const {
    if (!strings(into)) {
        return false;
    }
    if (into.size() > command_words_max) {
        return complain(
            "has " + std::to_string(into.size()) + " words; at most "
            + std::to_string(command_words_max) + " are allowed");
    }
    std::size_t bytes = 0;
    for (const std::string& word : into) {
        bytes += word.size();
    }
    return within(bytes, command_bytes_max);
}

bool Field::parent(Parent& into) const {
    dom::object members;
    if (value_.get(members) != simdjson::SUCCESS) {
        return wrong_kind("an object {session, turn, relation}");
    }
    for (const dom::key_value_pair member : members) {
        const Field field(member.key, member.value, buffers_, key_);
        if (field.is_null()) {
            continue;
        }
        bool good = true;
        if (field.is("session")) {
            std::optional<Ulid> session;
            good = field.ulid(session);
            into.session = good ? session->text() : std::string();
        } else if (field.is("turn")) {
            good = field.integer(into.turn, 1);
        } else if (field.is("relation")) {
            good = field.word(into.relation, {"resume", "fork", "clone", "subagent"});
        }
        if (!good) {
            return false;
        }
    }
    if (into.session.empty() || into.relation.empty()) {
        return complain("needs both \"session\" and \"relation\"");
    }
    return true;
}

bool Field::tokens(Tokens& into) const {
    dom::object members;
    if (value_.get(members) != simdjson::SUCCESS) {
        return wrong_kind("an object of counts");
    }
    const std::array<std::pair<std::string_view, std::optional<std::int64_t>*>, 6> counts{{
        {"input", &into.input},
        {"output", &into.output},
        {"cache_read", &into.cache_read},
        {"cache_write", &into.cache_write},
        {"reasoning", &into.reasoning},
        {"total", &into.total},
    }};
    for (const dom::key_value_pair member : members) {
        const Field field(member.key, member.value, buffers_, key_);
        for (const auto& [name, count] : counts) {
            if (field.is(name) && !field.is_null() && !field.integer(*count, 0)) {
                return false;
            }
        }
    }
    return true;
}

bool Field::channel(Channel& into) const {
    std::string_view seen;
    if (!view(seen)) {
        return false;
    }
    for (const Channel channel : {Channel::text, Channel::reasoning, Channel::tool}) {
        if (seen == name_of(channel)) {
            into = channel;
            return true;
        }
    }
    return complain("must be one of text, reasoning, tool; got " + in_quotes(seen));
}

bool Field::any_json(RawJson& into) const {
    into.text = simdjson::minify(value_);
    const std::size_t depth = json_depth(into.text);
    if (depth > raw_depth_max) {
        return complain(
            "nests " + std::to_string(depth) + " levels deep; at most "
            + std::to_string(raw_depth_max) + " are allowed");
    }
    return true;
}

bool Field::object(RawJson& into) const {
    return value_.is_object() ? any_json(into) : wrong_kind("an object");
}

bool Field::objects(RawJson& into) const {
    dom::array array;
    if (value_.get(array) != simdjson::SUCCESS) {
        return wrong_kind("an array of objects");
    }
    std::size_t index = 0;
    for (const dom::element item : array) {
        if (!item.is_object()) {
            return complain(
                "must be an array of objects, got " + std::string(kind_of(item)) + " at index "
                + std::to_string(index));
        }
        ++index;
    }
    return any_json(into);
}

bool Field::extra(RawJson& into) const {
    return object(into) && within(into.text.size(), extra_bytes_max);
}

bool take(const Field& field, Hello& body) {
    if (field.is("protocol")) {
        return field.integer(body.protocol, 1);
    }
    if (field.is("client")) {
        return field.text(body.client, name_bytes_max);
    }
    return true;
}

bool take(const Field& field, SessionStart& body) {
    if (field.is("agent")) {
        return field.agent(body.agent);
    }
    if (field.is("cwd")) {
        return field.path(body.cwd);
    }
    if (field.is("command")) {
        return field.command(body.command);
    }
    if (field.is("name")) {
        return field.text(body.name, name_bytes_max);
    }
    if (field.is("model")) {
        return field.text(body.model, name_bytes_max);
    }
    if (field.is("user")) {
        return field.text(body.user, name_bytes_max);
    }
    if (field.is("labels")) {
        return field.labels(body.labels);
    }
    if (field.is("parent")) {
        return field.parent(body.parent.emplace());
    }
    if (field.is("store")) {
        return field.word(body.store.emplace(), {"user", "repo", "auto"});
    }
    if (field.is("pid")) {
        return field.integer(body.pid, 1);
    }
    if (field.is("ephemeral")) {
        return field.boolean(body.ephemeral);
    }
    if (field.is("extra")) {
        return field.extra(body.extra);
    }
    return true;
}

bool take(const Field& field, SessionAttach& body) {
    if (field.is("reopen")) {
        return field.boolean(body.reopen);
    }
    if (field.is("pid")) {
        return field.integer(body.pid, 1);
    }
    return true;
}

bool take(const Field& field, TurnStart& body) {
    if (field.is("prompt")) {
        return field.view(body.prompt);
    }
    if (field.is("model")) {
        return field.text(body.model, name_bytes_max);
    }
    return true;
}

bool take(const Field& field, TurnBytes& body) {
    const bool is_text = field.is("text");
    if (is_text || field.is("data")) {
        if (body.bytes.data() != nullptr) {
            return field.complain("stands beside its other form: send either \"text\" or \"data\"");
        }
        return is_text ? field.view(body.bytes) : field.base64(body.bytes);
    }
    if (field.is("channel")) {
        return field.channel(body.channel);
    }
    return true;
}

bool take(const Field& field, TurnTool& body) {
    if (field.is("tool_id")) {
        return field.non_empty(body.tool_id, name_bytes_max);
    }
    if (field.is("name")) {
        return field.non_empty(body.name, name_bytes_max);
    }
    if (field.is("status")) {
        return field.word(body.status, {"started", "ok", "error"});
    }
    if (field.is("summary")) {
        return field.text(body.summary, sentence_bytes_max);
    }
    if (field.is("input")) {
        return field.any_json(body.input);
    }
    if (field.is("output")) {
        return field.any_json(body.output);
    }
    return true;
}

bool take(const Field& field, TurnNote& body) {
    if (field.is("kind")) {
        return field.non_empty(body.kind, name_bytes_max);
    }
    if (field.is("payload")) {
        return field.any_json(body.payload);
    }
    return true;
}

bool take(const Field& field, TurnEnd& body) {
    if (field.is("status")) {
        return field.word(body.status.emplace(), {"completed", "interrupted", "failed"});
    }
    if (field.is("stop_reason")) {
        return field.text(body.stop_reason, name_bytes_max);
    }
    if (field.is("tokens")) {
        return field.tokens(body.tokens.emplace());
    }
    if (field.is("cost_usd")) {
        return field.amount(body.cost_usd);
    }
    if (field.is("files")) {
        return field.objects(body.files);
    }
    if (field.is("validation")) {
        return field.object(body.validation);
    }
    if (field.is("diff")) {
        return field.view(body.diff.emplace());
    }
    if (field.is("dirty")) {
        return field.boolean(body.dirty.emplace());
    }
    if (field.is("next_task")) {
        return field.text(body.next_task, sentence_bytes_max);
    }
    if (field.is("limit")) {
        return field.object(body.limit);
    }
    if (field.is("exit_code")) {
        return field.integer(body.exit_code, std::numeric_limits<std::int64_t>::min());
    }
    if (field.is("error")) {
        return field.text(body.error, sentence_bytes_max);
    }
    if (field.is("extra")) {
        return field.extra(body.extra);
    }
    return true;
}

bool take(const Field& field, SessionUpdate& body) {
    if (field.is("name")) {
        return field.patch(body.name);
    }
    if (field.is("model")) {
        return field.patch(body.model);
    }
    if (field.is("stage")) {
        return field.patch(body.stage);
    }
    if (field.is_null()) {
        return true;
    }
    if (field.is("labels")) {
        return field.labels(body.labels.emplace());
    }
    if (field.is("flagged")) {
        return field.boolean(body.flagged.emplace());
    }
    if (field.is("archived")) {
        return field.boolean(body.archived.emplace());
    }
    if (field.is("unread")) {
        return field.boolean(body.unread.emplace());
    }
    if (field.is("extra")) {
        return field.extra(body.extra.emplace());
    }
    return true;
}

bool take(const Field& field, SessionAttachment& body) {
    if (field.is("name")) {
        return field.non_empty(body.name, name_bytes_max);
    }
    if (field.is("data")) {
        return field.base64(body.bytes);
    }
    return true;
}

bool take(const Field& field, SessionCheckpoint& body) {
    if (field.is("reason")) {
        return field.non_empty(body.reason, reason_bytes_max);
    }
    if (field.is("decisions")) {
        return field.objects(body.decisions);
    }
    if (field.is("blockers")) {
        return field.objects(body.blockers);
    }
    if (field.is("validation_state")) {
        return field.object(body.validation_state);
    }
    if (field.is("next_task")) {
        return field.text(body.next_task, sentence_bytes_max);
    }
    if (field.is("limit")) {
        return field.object(body.limit);
    }
    if (field.is("force")) {
        return field.boolean(body.force);
    }
    return true;
}

bool take(const Field& field, SessionEnd& body) {
    if (field.is("exit_code")) {
        return field.integer(body.exit_code, std::numeric_limits<std::int64_t>::min());
    }
    if (field.is("error")) {
        return field.text(body.error, sentence_bytes_max);
    }
    return true;
}

bool take(const Field& field, SessionList& body) {
    if (field.is("status")) {
        return field.word(body.status.emplace(), {"active", "checkpointed", "completed"});
    }
    if (field.is("agent")) {
        return field.text(body.agent, agent_bytes_max);
    }
    if (field.is("label")) {
        return field.text(body.label, label_bytes_max);
    }
    if (field.is("cwd")) {
        return field.path(body.cwd.emplace());
    }
    if (field.is("limit")) {
        return field.integer(body.limit, 1, sessions_listed_max);
    }
    return true;
}

bool take(const Field& field, Follow& body) {
    return !field.is("from_seq") || field.integer(body.from_seq, 0);
}

template<typename Body>
bool take(const Field& /*field*/, Body& /*body*/) {
    static_assert(std::is_empty_v<Body>);
    return true;
}

enum class SessionField { ignored, optional, required };

struct WireType {
    std::string_view name;
    void (*begin)(EventBody& body);
    SessionField session = SessionField::required;
    std::array<std::string_view, 3> required{};  // beside `session`
};

template<typename Body>
void begin(EventBody& body) {
    body.emplace<Body>();
}

void begin_stderr(EventBody& body) {
    body.emplace<TurnBytes>().stream = Stream::stderr_log;
}

// The busiest first: the search goes from the front.
constexpr std::array wire_types{
    WireType{"turn.output", begin<TurnBytes>},
    WireType{"turn.stderr", begin_stderr},
    WireType{"turn.tool", begin<TurnTool>, SessionField::required, {"tool_id", "name", "status"}},
    WireType{"turn.note", begin<TurnNote>, SessionField::required, {"kind"}},
    WireType{"turn.start", begin<TurnStart>, SessionField::required, {"prompt"}},
    WireType{"turn.end", begin<TurnEnd>},
    WireType{"session.start", begin<SessionStart>, SessionField::optional, {"agent", "cwd"}},
    WireType{"session.attach", begin<SessionAttach>},
    WireType{"session.update", begin<SessionUpdate>},
    WireType{
        "session.attachment", begin<SessionAttachment>, SessionField::required, {"name", "data"}},
    WireType{"session.checkpoint", begin<SessionCheckpoint>, SessionField::required, {"reason"}},
    WireType{"session.end", begin<SessionEnd>},
    WireType{"session.list", begin<SessionList>, SessionField::ignored},
    WireType{"session.get", begin<SessionGet>},
    WireType{"hello", begin<Hello>, SessionField::ignored},
    WireType{"follow", begin<Follow>, SessionField::optional},
    WireType{"flush", begin<Flush>, SessionField::ignored},
    WireType{"status", begin<StatusQuery>, SessionField::ignored},
};

bool missing(std::string& complaint, std::string_view key, std::string_view type) {
    complaint = "field \"";
    complaint.append(key).append("\" is missing: ").append(type).append(" needs it");
    return false;
}

template<typename Body>
bool is_whole(const Body& /*body*/, const WireType& /*type*/, std::string& /*complaint*/) {
    return true;
}

bool is_whole(const TurnBytes& body, const WireType& type, std::string& complaint) {
    return body.bytes.data() != nullptr || missing(complaint, "text\" or \"data", type.name);
}

// Everything but `type` and `id`, which the caller has read.
template<typename Body>
bool read_fields(
    dom::object root, const WireType& type, Field::Buffers buffers, Event& event, Body& body) {
    std::array<bool, 3> seen{};
    for (const dom::key_value_pair member : root) {
        const Field field(member.key, member.value, buffers);
        if (field.is_null() && !std::is_same_v<Body, SessionUpdate>) {
            continue;
        }
        bool good = true;
        if (field.is("session")) {
            good = type.session == SessionField::ignored || field.is_null()
                   || field.ulid(event.session);
        } else if (field.is("seq")) {
            good = field.is_null() || field.integer(event.seq, 1);
        } else {
            good = take(field, body);
            for (std::size_t index = 0; index < seen.size(); ++index) {
                seen[index] = seen[index] || field.is(type.required[index]);
            }
        }
        if (!good) {
            return false;
        }
    }
    if (type.session == SessionField::required && !event.session) {
        return missing(buffers.complaint, "session", type.name);
    }
    for (std::size_t index = 0; index < seen.size(); ++index) {
        if (!seen[index] && !type.required[index].empty()) {
            return missing(buffers.complaint, type.required[index], type.name);
        }
    }
    return is_whole(body, type, buffers.complaint);
}

bool read_id(const Field& field, dom::element value, std::string& id) {
    std::int64_t number = 0;
    std::string_view text;
    if (value.get(number) == simdjson::SUCCESS) {
        std::array<char, 20> digits{};
        const auto written = std::to_chars(digits.data(), digits.data() + digits.size(), number);
        id.assign(digits.data(), written.ptr);
    } else if (value.get(text) == simdjson::SUCCESS) {
        append_json_string(id, text);
    } else if (value.is_number()) {
        id = simdjson::minify(value);
    } else if (!value.is_null()) {
        return field.complain("must be a string or a number, got " + std::string(kind_of(value)));
    }
    if (id.size() > id_bytes_max) {
        const std::size_t bytes = id.size();
        id.clear();
        return field.complain(
            "has " + std::to_string(bytes) + " bytes as JSON; at most "
            + std::to_string(id_bytes_max) + " are allowed");
    }
    return true;
}

struct JsonReason {
    simdjson::error_code error;
    std::string_view words;
};

constexpr std::array json_reasons{
    JsonReason{simdjson::EMPTY, "the line is empty; a request is a JSON object on one line"},
    JsonReason{
        simdjson::UTF8_ERROR,
        "the line is not valid UTF-8; bytes that are none go as base64 into \"data\""},
    JsonReason{simdjson::DEPTH_ERROR, "the line nests deeper than 1024 levels"},
    JsonReason{
        simdjson::NUMBER_ERROR, "a number is malformed or too big; integers have at most 64 bits"},
    JsonReason{simdjson::STRING_ERROR, "a string holds a bad escape sequence"},
    JsonReason{
        simdjson::UNESCAPED_CHARS,
        "a string holds a raw control character; write it as an escape like \\n or \\u001b"},
    JsonReason{simdjson::UNCLOSED_STRING, "a string has no closing quote"},
    JsonReason{simdjson::T_ATOM_ERROR, "a word begins with t but is not true"},
    JsonReason{simdjson::F_ATOM_ERROR, "a word begins with f but is not false"},
    JsonReason{simdjson::N_ATOM_ERROR, "a word begins with n but is not null"},
    JsonReason{
        simdjson::TAPE_ERROR,
        "the line is no JSON: a bracket, comma, colon or quote is missing or out of place"},
    JsonReason{
        simdjson::INCOMPLETE_ARRAY_OR_OBJECT,
        "the line ends before its arrays and objects are closed"},
};

std::string words_for(simdjson::error_code error, std::string_view line) {
    if (line.find('\0') != std::string_view::npos) {
        return "the line holds a NUL byte; inside a string it is written \\u0000";
    }
    for (const JsonReason& reason : json_reasons) {
        if (reason.error == error) {
            return std::string(reason.words);
        }
    }
    return "the line is no JSON: " + std::string(simdjson::error_message(error));
}

}  // namespace

std::string_view name_of(Channel channel) {
    constexpr std::array<std::string_view, 3> names{"text", "reasoning", "tool"};
    return names[static_cast<std::size_t>(channel)];
}

std::string_view name_of(WireError code) {
    constexpr std::array<std::string_view, 14> names{
        "bad_json",
        "too_large",
        "unknown_type",
        "bad_field",
        "unknown_session",
        "not_owner",
        "no_open_turn",
        "ended",
        "seq_gap",
        "no_space",
        "session_gone",
        "shutting_down",
        "overloaded",
        "internal",
    };
    return names[static_cast<std::size_t>(code)];
}

struct EventDecoder::Buffers {
    dom::parser parser;
    std::unique_ptr<char[]> padded;  // the line, and the slack that simdjson reads beyond it
    std::size_t capacity = 0;
    std::string decoded;

    [[nodiscard]] bool reserve(std::size_t bytes);
    [[nodiscard]] bool parse(std::string_view line, dom::object& root, Refusal& refusal);
    [[nodiscard]] bool decode(std::string_view line, Event& event, Refusal& refusal);
};

// Powers of two: simdjson alone would allocate anew whenever a line is one byte longer than any before.
bool EventDecoder::Buffers::reserve(std::size_t bytes) {
    if (bytes <= capacity) {
        return true;
    }
    const std::size_t wanted = std::max(capacity_start_bytes, std::bit_ceil(bytes));
    capacity = 0;
    if (parser.allocate(wanted) != simdjson::SUCCESS
        || parser.doc.allocate(wanted) != simdjson::SUCCESS) {
        return false;
    }
    padded.reset(new (std::nothrow) char[wanted + simdjson::SIMDJSON_PADDING]);
    if (padded == nullptr) {
        return false;
    }
    capacity = wanted;
    return true;
}

bool EventDecoder::Buffers::parse(std::string_view line, dom::object& root, Refusal& refusal) {
    refusal.code = WireError::bad_json;
    if (!reserve(std::max<std::size_t>(line.size(), 1))) {
        refusal.code = WireError::overloaded;
        refusal.message =
            "there is no memory for a line of " + std::to_string(line.size()) + " bytes";
        return false;
    }
    std::copy(line.begin(), line.end(), padded.get());
    std::memset(padded.get() + line.size(), 0, simdjson::SIMDJSON_PADDING);
    dom::element value;
    const simdjson::error_code error = parser.parse(padded.get(), line.size(), false).get(value);
    if (error != simdjson::SUCCESS) {
        refusal.message = words_for(error, line);
        return false;
    }
    if (value.get(root) != simdjson::SUCCESS) {
        refusal.message =
            "a request is a JSON object on one line, got " + std::string(kind_of(value));
        return false;
    }
    return true;
}

bool EventDecoder::Buffers::decode(std::string_view line, Event& event, Refusal& refusal) {
    dom::object root;
    if (!parse(line, root, refusal)) {
        return false;
    }
    refusal.code = WireError::bad_field;
    const Field::Buffers field_buffers{refusal.message, decoded};
    std::optional<dom::element> type_value;
    for (const dom::key_value_pair member : root) {
        if (member.key == "type") {
            type_value = member.value;
        } else if (member.key == "id") {
            event.id.clear();
            const Field field(member.key, member.value, field_buffers);
            if (!read_id(field, member.value, event.id)) {
                return false;
            }
        }
    }
    if (!type_value || type_value->is_null()) {
        return missing(refusal.message, "type", "every request");
    }
    std::string_view type_name;
    if (!Field("type", *type_value, field_buffers).view(type_name)) {
        return false;
    }
    const auto* const type =
        std::find_if(wire_types.begin(), wire_types.end(), [type_name](const WireType& candidate) {
            return candidate.name == type_name;
        });
    if (type == wire_types.end()) {
        refusal.code = WireError::unknown_type;
        refusal.message =
            "type " + in_quotes(type_name) + " is unknown; docs/protocol.md names the types";
        return false;
    }
    type->begin(event.body);
    return std::visit(
        [&](auto& body) { return read_fields(root, *type, field_buffers, event, body); },
        event.body);
}

EventDecoder::EventDecoder() : buffers_(std::make_unique<Buffers>()) {
}

EventDecoder::~EventDecoder() = default;

void EventDecoder::trim() {
    if (buffers_->capacity > capacity_kept_bytes_max) {
        buffers_ = std::make_unique<Buffers>();
    }
}

std::variant<Event, Refusal> EventDecoder::decode(std::string_view line) {
    std::variant<Event, Refusal> result;
    Refusal refusal;
    if (Event& event = std::get<Event>(result); !buffers_->decode(line, event, refusal)) {
        refusal.id = std::move(event.id);
        result = std::move(refusal);
    }
    return result;
}

}  // namespace relay::layout
