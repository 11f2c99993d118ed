// SPDX-License-Identifier: Apache-2.0
#include "layout/documents.hpp"

#include "layout/json_parser.hpp"
#include "layout/sha256.hpp"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace relay::layout {

namespace {

namespace dom = simdjson::dom;
using Form = JsonObject::Form;

constexpr std::size_t depth_max = 1024;
constexpr std::size_t usual_bytes = 2048;  // of a document
constexpr std::string_view chain_line_start = "\n  \"chain\": \"";

constexpr std::array session_status_names{
    std::string_view{"active"},
    std::string_view{"checkpointed"},
    std::string_view{"completed"},
};

void add(std::optional<std::int64_t>& sum, const std::optional<std::int64_t>& other) {
    if (!other) {
        return;
    }
    std::int64_t result = 0;
    if (__builtin_add_overflow(sum.value_or(0), *other, &result)) {
        result = *other > 0 ? std::numeric_limits<std::int64_t>::max()
                            : std::numeric_limits<std::int64_t>::min();
    }
    sum = result;
}

void put_raw(
    JsonObject& object, std::string_view key, const RawJson& json, std::string_view empty) {
    object.raw(key, json.empty() ? empty : std::string_view{json.text});
}

template<typename Item, typename Put>
void append_array(std::string& out, const std::vector<Item>& items, Put put) {
    out += '[';
    for (const Item& item : items) {
        if (&item != &items.front()) {
            out += ',';
        }
        JsonObject object(out, Form::compact);
        put(object, item);
        object.finish();
    }
    out += ']';
}

void put_repo_members(JsonObject& object, const Repo& repo) {
    object.string("root", repo.root);
    object.string_or_null("branch", repo.branch);
    object.string_or_null("head", repo.head);
}

void put_repo(std::string& out, JsonObject& document, const std::optional<Repo>& repo) {
    if (!repo) {
        document.null("repo");
        return;
    }
    document.key("repo");
    JsonObject object(out, Form::compact);
    put_repo_members(object, *repo);
    object.finish();
}

void put_parent(std::string& out, JsonObject& document, const std::optional<Parent>& parent) {
    if (!parent) {
        document.null("parent");
        return;
    }
    document.key("parent");
    JsonObject object(out, Form::compact);
    object.string("session", parent->session);
    object.integer_or_null("turn", parent->turn);
    object.string("relation", parent->relation);
    object.finish();
}

void put_capture(std::string& out, JsonObject& document, const Capture& capture) {
    document.key("capture");
    JsonObject object(out, Form::compact);
    object.timestamp_or_null("last_event_at", capture.last_event_at);
    object.integer("last_seq", capture.last_seq);
    object.integer("redactions", capture.redactions);
    object.integer("dropped", capture.dropped);
    object.integer("gaps", capture.gaps);
    if (!capture.conflicts.empty()) {
        object.key("conflicts");
        append_array(out, capture.conflicts, [](JsonObject& item, const CaptureConflict& conflict) {
            item.string("file", conflict.file);
            item.string("kept", conflict.kept);
            item.timestamp("at", conflict.at);
        });
    }
    if (capture.deferred) {
        object.key("deferred");
        JsonObject deferral(out, Form::compact);
        deferral.timestamp("from", capture.deferred->from);
        deferral.timestamp("until", capture.deferred->until);
        deferral.string("reason", capture.deferred->reason);
        deferral.finish();
    }
    object.finish();
}

void put_seal(
    std::string& out,
    JsonObject& document,
    std::string_view key,
    const std::optional<FileSeal>& seal) {
    if (!seal) {
        document.null(key);
        return;
    }
    document.key(key);
    JsonObject object(out, Form::compact);
    object.integer("bytes", seal->bytes);
    object.string("sha256", seal->sha256);
    object.finish();
}

void put_tool(JsonObject& object, const ToolCall& tool) {
    object.string("id", tool.id);
    object.string("name", tool.name);
    object.string("status", tool.status);
    object.timestamp("started_at", tool.started_at);
    object.integer_or_null("duration_ms", tool.duration_ms);
    object.string_or_null("summary", tool.summary);
}

void put_working_tree(std::string& out, JsonObject& document, const ResumePacket& packet) {
    if (!packet.working_tree) {
        document.null("working_tree");
        return;
    }
    document.key("working_tree");
    JsonObject object(out, Form::compact);
    put_repo_members(object, *packet.working_tree);
    if (packet.dirty) {
        object.boolean("dirty", *packet.dirty);
    } else {
        object.null("dirty");
    }
    object.finish();
}

void put_last_turn(
    std::string& out, JsonObject& document, const std::optional<ResumePacket::LastTurn>& last) {
    if (!last) {
        document.null("last_turn");
        return;
    }
    document.key("last_turn");
    JsonObject object(out, Form::compact);
    object.integer("turn", last->turn);
    object.string("status", last->status);
    object.string("prompt_file", last->prompt_file);
    object.string("output_file", last->output_file);
    object.string("output_tail", last->output_tail);
    object.finish();
}

// The document without the lines that hold a chain, and how many those were.
struct Unchained {
    std::string text;
    std::string stated;
    int lines = 0;
};

Unchained without_chain(std::string_view text) {
    Unchained unchained;
    unchained.text.reserve(text.size());
    std::size_t kept_from = 0;
    std::size_t line = text.find(chain_line_start);
    while (line != std::string_view::npos) {
        const std::size_t value = line + chain_line_start.size();
        const std::size_t end = std::min(text.find('\n', value), text.size() - 1);
        unchained.text.append(text, kept_from, line + 1 - kept_from);
        unchained.stated = text.substr(value, std::min(text.find('"', value), end) - value);
        ++unchained.lines;
        kept_from = end + 1;
        line = text.find(chain_line_start, end);
    }
    unchained.text.append(text, kept_from);
    return unchained;
}

std::string chain_over(std::string_view previous_chain, std::string_view unchained_text) {
    Sha256 hash;
    hash.update(previous_chain);
    hash.update("\n");
    hash.update(unchained_text);
    return hash.hex();
}

Error corrupt(std::string context) {
    return {.code = Errc::corrupt, .os_errno = 0, .context = std::move(context)};
}

// The readers below return what the value should have been, or nothing when it was read.
using Complaint = std::string_view;

std::optional<std::string_view> text_of(dom::element value) {
    std::string_view text;
    return value.get(text) == simdjson::SUCCESS ? std::optional(text) : std::nullopt;
}

Complaint read_value(dom::element value, std::string& into) {
    const std::optional<std::string_view> text = text_of(value);
    if (!text) {
        return "a string";
    }
    into = *text;
    return {};
}

Complaint read_value(dom::element value, bool& into) {
    return value.get(into) == simdjson::SUCCESS ? "" : "true or false";
}

Complaint read_value(dom::element value, std::int64_t& into) {
    return value.get(into) == simdjson::SUCCESS ? "" : "an integer of 64 bits";
}

Complaint read_value(dom::element value, double& into) {
    return value.get(into) == simdjson::SUCCESS ? "" : "a number";
}

Complaint read_value(dom::element value, Timestamp& into) {
    const std::optional<std::string_view> text = text_of(value);
    const std::optional<Timestamp> at = text ? parse_timestamp(*text) : std::nullopt;
    if (!at) {
        return "a time like 2026-01-31T12:00:00.000Z";
    }
    into = *at;
    return {};
}

Complaint read_value(dom::element value, Ulid& into) {
    const std::optional<std::string_view> text = text_of(value);
    const std::optional<Ulid> ulid = text ? Ulid::parse(*text) : std::nullopt;
    if (!ulid) {
        return "a ULID";
    }
    into = *ulid;
    return {};
}

Complaint read_value(dom::element value, SessionStatus& into) {
    const std::optional<std::string_view> text = text_of(value);
    const auto* const found =
        text ? std::find(session_status_names.begin(), session_status_names.end(), *text)
             : session_status_names.end();
    if (found == session_status_names.end()) {
        return "active, checkpointed or completed";
    }
    into = static_cast<SessionStatus>(found - session_status_names.begin());
    return {};
}

Complaint read_value(dom::element value, std::vector<std::string>& into) {
    dom::array items;
    if (value.get(items) != simdjson::SUCCESS) {
        return "an array of strings";
    }
    for (const dom::element item : items) {
        const std::optional<std::string_view> text = text_of(item);
        if (!text) {
            return "an array of strings";
        }
        into.emplace_back(*text);
    }
    return {};
}

enum class Shape { object, array };

// The members of one JSON object. The first complaint is kept and the rest is read in vain.
class Members {
public:
    explicit Members(dom::object object, std::string prefix = {}) : prefix_(std::move(prefix)) {
        members_.reserve(object.size());
        for (const auto& [key, value] : object) {
            members_.push_back({key, value});
        }
    }

    // An absent or null member leaves the default.
    template<typename Value>
    void read(const char* key, Value& into) {
        if (const std::optional<dom::element> value = find(key)) {
            note(key, read_value(*value, into));
        }
    }

    template<typename Value>
    void read(const char* key, std::optional<Value>& into) {
        if (const std::optional<dom::element> value = find(key)) {
            note(key, read_value(*value, into.emplace()));
        }
    }

    void read_raw(const char* key, RawJson& into, Shape shape) {
        const std::optional<dom::element> value = find(key);
        if (!value) {
            return;
        }
        const bool fits = shape == Shape::object ? value->is_object() : value->is_array();
        note(key, fits ? "" : shape == Shape::object ? "an object" : "an array");
        into.text = compact_json(*value);
    }

    // Reads a nested object through `read_members(Members&, Value&)`.
    template<typename Value, typename Read>
    void read_object(const char* key, std::optional<Value>& into, Read read_members) {
        const std::optional<dom::element> value = find(key);
        if (!value) {
            return;
        }
        dom::object object;
        if (value->get(object) != simdjson::SUCCESS) {
            note(key, "an object");
            return;
        }
        read_nested(object, prefix_ + key + ".", into.emplace(), read_members);
    }

    template<typename Value, typename Read>
    void read_objects(const char* key, std::vector<Value>& into, Read read_members) {
        const std::optional<dom::element> value = find(key);
        if (!value) {
            return;
        }
        dom::array items;
        if (value->get(items) != simdjson::SUCCESS) {
            note(key, "an array of objects");
            return;
        }
        for (const dom::element item : items) {
            dom::object object;
            if (item.get(object) != simdjson::SUCCESS) {
                note(key, "an array of objects");
                return;
            }
            const std::string index = "[" + std::to_string(into.size()) + "].";
            read_nested(object, prefix_ + key + index, into.emplace_back(), read_members);
        }
    }

    // Those that nobody asked for, in their order.
    [[nodiscard]] std::vector<std::pair<std::string, RawJson>> unknown() const {
        std::vector<std::pair<std::string, RawJson>> rest;
        for (const Member& member : members_) {
            if (member.asked || last_of(member.key)->asked) {
                continue;
            }
            const auto same = std::find_if(rest.begin(), rest.end(), [&member](const auto& other) {
                return other.first == member.key;
            });
            if (same == rest.end()) {
                rest.emplace_back(member.key, RawJson{compact_json(last_of(member.key)->value)});
            }
        }
        return rest;
    }

    void require(const char* key) {
        if (!find(key) && complaint_.empty()) {
            complaint_ = "member \"" + prefix_ + key + "\" is missing";
        }
    }

    [[nodiscard]] const std::string& complaint() const { return complaint_; }

private:
    struct Member {
        std::string_view key;
        dom::element value;
        bool asked = false;
    };

    // Of several with one name the last counts.
    [[nodiscard]] std::vector<Member>::const_iterator last_of(std::string_view key) const {
        const auto found =
            std::find_if(members_.rbegin(), members_.rend(), [key](const Member& member) {
                return member.key == key;
            });
        return found == members_.rend() ? members_.end() : found.base() - 1;
    }

    // None when it is null.
    std::optional<dom::element> find(std::string_view key) {
        const auto found = last_of(key);
        if (found == members_.end()) {
            return std::nullopt;
        }
        members_[static_cast<std::size_t>(found - members_.begin())].asked = true;
        return found->value.is_null() ? std::nullopt : std::optional(found->value);
    }

    void note(std::string_view key, Complaint right) {
        if (!right.empty() && complaint_.empty()) {
            complaint_ = "member \"" + prefix_;
            complaint_.append(key).append("\" must be ").append(right);
        }
    }

    template<typename Value, typename Read>
    void read_nested(dom::object object, std::string prefix, Value& into, Read read_members) {
        Members nested(object, std::move(prefix));
        read_members(nested, into);
        if (complaint_.empty()) {
            complaint_ = nested.complaint_;
        }
    }

    std::vector<Member> members_;
    std::string prefix_;
    std::string complaint_;
};

void read_tokens(Members& members, Tokens& tokens) {
    members.read("input", tokens.input);
    members.read("output", tokens.output);
    members.read("cache_read", tokens.cache_read);
    members.read("cache_write", tokens.cache_write);
    members.read("reasoning", tokens.reasoning);
    members.read("total", tokens.total);
}

void read_repo(Members& members, Repo& repo) {
    members.read("root", repo.root);
    members.read("branch", repo.branch);
    members.read("head", repo.head);
}

void read_parent(Members& members, Parent& parent) {
    members.read("session", parent.session);
    members.read("turn", parent.turn);
    members.read("relation", parent.relation);
}

void read_conflict(Members& members, CaptureConflict& conflict) {
    members.read("file", conflict.file);
    members.read("kept", conflict.kept);
    members.read("at", conflict.at);
}

void read_deferral(Members& members, CaptureDeferral& deferral) {
    members.read("from", deferral.from);
    members.read("until", deferral.until);
    members.read("reason", deferral.reason);
}

void read_capture(Members& members, Capture& capture) {
    members.read("last_event_at", capture.last_event_at);
    members.read("last_seq", capture.last_seq);
    members.read("redactions", capture.redactions);
    members.read("dropped", capture.dropped);
    members.read("gaps", capture.gaps);
    members.read_objects("conflicts", capture.conflicts, read_conflict);
    members.read_object("deferred", capture.deferred, read_deferral);
}

void read_tool(Members& members, ToolCall& tool) {
    members.read("id", tool.id);
    members.read("name", tool.name);
    members.read("status", tool.status);
    members.read("started_at", tool.started_at);
    members.read("duration_ms", tool.duration_ms);
    members.read("summary", tool.summary);
}

void read_seal(Members& members, FileSeal& seal) {
    members.read("bytes", seal.bytes);
    members.read("sha256", seal.sha256);
}

void read_meta_members(Members& members, Meta& meta) {
    members.require("id");
    members.read("id", meta.id);
    members.read("slug", meta.slug);
    members.read("name", meta.name);
    members.read("status", meta.status);
    members.read("agent", meta.agent);
    members.read("model", meta.model);
    members.read("command", meta.command);
    members.read("cwd", meta.cwd);
    members.read_object("repo", meta.repo, read_repo);
    members.read("worktree", meta.worktree);
    members.read("user", meta.user);
    members.read("host", meta.host);
    members.read("pid", meta.pid);
    members.read("started_at", meta.started_at);
    members.read("ended_at", meta.ended_at);
    members.read("updated_at", meta.updated_at);
    members.read("exit_code", meta.exit_code);
    members.read("error", meta.error);
    members.read("turn_count", meta.turn_count);
    members.read("current_turn", meta.current_turn);
    members.read("objective", meta.objective);
    members.read("preview", meta.preview);
    members.read("cost_usd", meta.cost_usd);
    members.read("labels", meta.labels);
    members.read("flagged", meta.flagged);
    members.read("archived", meta.archived);
    members.read("unread", meta.unread);
    members.read("stage", meta.stage);
    members.read_object("parent", meta.parent, read_parent);
    members.read("checkpoint_reason", meta.checkpoint_reason);
    members.read("ephemeral", meta.ephemeral);
    members.read("chain", meta.chain);
    members.read_raw("extra", meta.extra, Shape::object);

    std::optional<Tokens> tokens;
    members.read_object("tokens", tokens, read_tokens);
    meta.tokens = tokens.value_or(Tokens{});
    std::optional<Capture> capture;
    members.read_object("capture", capture, read_capture);
    meta.capture = std::move(capture).value_or(Capture{});
}

void read_state_members(Members& members, TurnState& state) {
    members.require("turn");
    members.read("turn", state.turn);
    members.read("status", state.status);
    members.read("started_at", state.started_at);
    members.read("ended_at", state.ended_at);
    members.read("duration_ms", state.duration_ms);
    members.read("stop_reason", state.stop_reason);
    members.read("model", state.model);
    members.read_object("tokens", state.tokens, read_tokens);
    members.read("cost_usd", state.cost_usd);
    members.read_objects("tools", state.tools, read_tool);
    members.read_raw("files", state.files, Shape::array);
    members.read("dirty", state.dirty);
    members.read_raw("validation", state.validation, Shape::object);
    members.read_raw("decisions", state.decisions, Shape::array);
    members.read_raw("blockers", state.blockers, Shape::array);
    members.read("next_task", state.next_task);
    members.read("exit_code", state.exit_code);
    members.read("error", state.error);
    members.read_raw("limit", state.limit, Shape::object);
    members.read_object("stderr", state.stderr_log, read_seal);
    members.read_object("diff", state.diff, read_seal);
    members.read_raw("extra", state.extra, Shape::object);

    std::optional<FileSeal> prompt;
    members.read_object("prompt", prompt, read_seal);
    state.prompt = std::move(prompt).value_or(FileSeal{});
    std::optional<FileSeal> output;
    members.read_object("output", output, read_seal);
    state.output = std::move(output).value_or(FileSeal{});
}

// Looks at the version before anything else: a newer document may have changed every other member.
std::optional<Error> check_version(Members& members) {
    std::int64_t version = format_version;
    members.read("v", version);
    if (!members.complaint().empty()) {
        return corrupt(members.complaint());
    }
    if (version < 1) {
        return corrupt("member \"v\" must be at least 1");
    }
    if (version > format_version) {
        return Error{
            .code = Errc::invalid,
            .os_errno = 0,
            .context = "written in format version " + std::to_string(version)
                       + "; this program reads up to version " + std::to_string(format_version)};
    }
    return std::nullopt;
}

}  // namespace

void Tokens::add(const Tokens& other) {
    layout::add(input, other.input);
    layout::add(output, other.output);
    layout::add(cache_read, other.cache_read);
    layout::add(cache_write, other.cache_write);
    layout::add(reasoning, other.reasoning);
    layout::add(total, other.total);
}

void append_tokens(std::string& out, const Tokens& tokens) {
    JsonObject object(out, Form::compact);
    object.integer_or_null("input", tokens.input);
    object.integer_or_null("output", tokens.output);
    object.integer_or_null("cache_read", tokens.cache_read);
    object.integer_or_null("cache_write", tokens.cache_write);
    object.integer_or_null("reasoning", tokens.reasoning);
    object.integer_or_null("total", tokens.total);
    object.finish();
}

std::string_view name_of(SessionStatus status) {
    return session_status_names[static_cast<std::size_t>(status)];
}

std::string encode_meta(const Meta& meta) {
    std::string out;
    out.reserve(usual_bytes);
    JsonObject document(out, Form::lines);
    document.integer("v", format_version);
    document.string("id", meta.id.text());
    document.string("slug", meta.slug);
    document.string_or_null("name", meta.name);
    document.string("status", name_of(meta.status));
    document.string("agent", meta.agent);
    document.string_or_null("model", meta.model);
    document.strings("command", meta.command);
    document.string("cwd", meta.cwd);
    put_repo(out, document, meta.repo);
    if (meta.worktree) {
        document.string("worktree", *meta.worktree);
    }
    document.string_or_null("user", meta.user);
    document.string_or_null("host", meta.host);
    document.integer_or_null("pid", meta.pid);
    document.timestamp("started_at", meta.started_at);
    document.timestamp_or_null("ended_at", meta.ended_at);
    document.timestamp("updated_at", meta.updated_at);
    document.integer_or_null("exit_code", meta.exit_code);
    document.string_or_null("error", meta.error);
    document.integer("turn_count", meta.turn_count);
    document.integer_or_null("current_turn", meta.current_turn);
    document.string_or_null("objective", meta.objective);
    document.string_or_null("preview", meta.preview);
    document.key("tokens");
    append_tokens(out, meta.tokens);
    document.number_or_null("cost_usd", meta.cost_usd);
    document.strings("labels", meta.labels);
    document.boolean("flagged", meta.flagged);
    document.boolean("archived", meta.archived);
    document.boolean("unread", meta.unread);
    document.string_or_null("stage", meta.stage);
    put_parent(out, document, meta.parent);
    document.string_or_null("checkpoint_reason", meta.checkpoint_reason);
    if (meta.ephemeral) {
        document.boolean("ephemeral", true);
    }
    put_capture(out, document, meta.capture);
    document.string_or_null("chain", meta.chain);
    put_raw(document, "extra", meta.extra, "{}");
    for (const auto& [key, value] : meta.unknown) {
        document.raw_or_null(key, value);
    }
    document.finish();
    return out;
}

Result<Meta> decode_meta(std::string_view text) {
    const Result<dom::object> document = parse_json_object(text, depth_max);
    if (!document.ok()) {
        return document.error();
    }
    Members members(document.value());
    if (const std::optional<Error> error = check_version(members)) {
        return *error;
    }
    Meta meta;
    read_meta_members(members, meta);
    if (!members.complaint().empty()) {
        return corrupt(members.complaint());
    }
    meta.unknown = members.unknown();
    return meta;
}

SealedState encode_turn_state(const TurnState& state, std::string_view previous_chain) {
    SealedState sealed;
    std::string& out = sealed.text;
    out.reserve(usual_bytes);
    JsonObject document(out, Form::lines);
    document.integer("v", format_version);
    document.integer("turn", state.turn);
    document.string("status", state.status);
    document.timestamp("started_at", state.started_at);
    document.timestamp("ended_at", state.ended_at);
    document.integer("duration_ms", state.duration_ms);
    document.string_or_null("stop_reason", state.stop_reason);
    document.string_or_null("model", state.model);
    document.key("tokens");
    if (state.tokens) {
        append_tokens(out, *state.tokens);
    } else {
        out += "null";
    }
    document.number_or_null("cost_usd", state.cost_usd);
    document.key("tools");
    append_array(out, state.tools, put_tool);
    put_raw(document, "files", state.files, "[]");
    if (state.dirty) {
        document.boolean("dirty", *state.dirty);
    }
    put_raw(document, "validation", state.validation, "{}");
    put_raw(document, "decisions", state.decisions, "[]");
    put_raw(document, "blockers", state.blockers, "[]");
    document.string_or_null("next_task", state.next_task);
    document.integer_or_null("exit_code", state.exit_code);
    document.string_or_null("error", state.error);
    document.raw_or_null("limit", state.limit);
    put_seal(out, document, "prompt", state.prompt);
    put_seal(out, document, "output", state.output);
    put_seal(out, document, "stderr", state.stderr_log);
    put_seal(out, document, "diff", state.diff);
    put_raw(document, "extra", state.extra, "{}");
    // The value has its final length, so the hash can take its place once it is known.
    document.string("chain", chain_origin);
    document.finish();
    sealed.chain = chain_over(previous_chain, without_chain(out).text);
    out.replace(out.rfind(chain_origin), chain_origin.size(), sealed.chain);
    return sealed;
}

Result<TurnState> decode_turn_state(std::string_view text) {
    const Result<dom::object> document = parse_json_object(text, depth_max);
    if (!document.ok()) {
        return document.error();
    }
    Members members(document.value());
    if (const std::optional<Error> error = check_version(members)) {
        return *error;
    }
    TurnState state;
    read_state_members(members, state);
    if (!members.complaint().empty()) {
        return corrupt(members.complaint());
    }
    return state;
}

Result<ChainCheck> check_chain(std::string_view state_text, std::string_view previous_chain) {
    Unchained unchained = without_chain(state_text);
    if (unchained.lines != 1) {
        return corrupt(
            "has " + std::to_string(unchained.lines)
            + " lines that begin with two spaces and \"chain\"; a sealed state has one");
    }
    return ChainCheck{
        .stated = std::move(unchained.stated),
        .computed = chain_over(previous_chain, unchained.text)};
}

std::string encode_resume(const ResumePacket& packet) {
    std::string out;
    out.reserve(usual_bytes);
    JsonObject document(out, Form::lines);
    document.string("session_id", packet.session_id);
    document.string("previous_agent", packet.previous_agent);
    document.string("checkpoint_reason", packet.checkpoint_reason);
    document.integer("turn_count", packet.turn_count);
    put_raw(document, "decisions", packet.decisions, "[]");
    put_raw(document, "blockers", packet.blockers, "[]");
    put_raw(document, "touched_files", packet.touched_files, "[]");
    put_raw(document, "validation_state", packet.validation_state, "{}");
    if (packet.next_task) {
        document.string("next_task", *packet.next_task);
    }
    document.integer("v", format_version);
    document.timestamp("created_at", packet.created_at);
    document.string_or_null("objective", packet.objective);
    put_working_tree(out, document, packet);
    put_last_turn(out, document, packet.last_turn);
    document.key("tokens");
    append_tokens(out, packet.tokens);
    document.number_or_null("cost_usd", packet.cost_usd);
    document.raw_or_null("limit", packet.limit);
    document.strings("lineage", packet.lineage);
    document.finish();
    return out;
}

}  // namespace relay::layout
