// SPDX-License-Identifier: Apache-2.0
#include "layout/meta_skim.hpp"

#include "layout/session_paths.hpp"
#include "layout/session_reader.hpp"

#include <simdjson.h>

#include <array>
#include <utility>

namespace relay::layout {

namespace {

namespace dom = simdjson::dom;

Error corrupt(std::string context) {
    return {.code = Errc::corrupt, .os_errno = 0, .context = std::move(context)};
}

// The readers return what the value should have been, or nothing when it was read.
using Complaint = std::string_view;

Complaint read_value(dom::element value, std::string& into) {
    std::string_view text;
    if (value.get(text) != simdjson::SUCCESS) {
        return "a string";
    }
    into = text;
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
    std::string_view text;
    const std::optional<Timestamp> at =
        value.get(text) == simdjson::SUCCESS ? parse_timestamp(text) : std::nullopt;
    if (!at) {
        return "a time like 2026-01-31T12:00:00.000Z";
    }
    into = *at;
    return {};
}

Complaint read_value(dom::element value, Ulid& into) {
    std::string_view text;
    const std::optional<Ulid> ulid =
        value.get(text) == simdjson::SUCCESS ? Ulid::parse(text) : std::nullopt;
    if (!ulid) {
        return "a ULID";
    }
    into = *ulid;
    return {};
}

Complaint read_value(dom::element value, SessionStatus& into) {
    std::string_view text;
    if (value.get(text) == simdjson::SUCCESS) {
        for (const SessionStatus status :
             {SessionStatus::active, SessionStatus::checkpointed, SessionStatus::completed}) {
            if (name_of(status) == text) {
                into = status;
                return {};
            }
        }
    }
    return "active, checkpointed or completed";
}

Complaint read_value(dom::element value, std::vector<std::string>& into) {
    dom::array items;
    if (value.get(items) != simdjson::SUCCESS) {
        return "an array of strings";
    }
    for (const dom::element item : items) {
        if (!read_value(item, into.emplace_back()).empty()) {
            return "an array of strings";
        }
    }
    return {};
}

Complaint read_value(dom::element value, Tokens& into);
Complaint read_value(dom::element value, Repo& into);
Complaint read_value(dom::element value, Parent& into);

// Null leaves the default, like absence.
template<typename Value>
Complaint read_member(dom::element value, Value& into) {
    return value.is_null() ? Complaint{} : read_value(value, into);
}

template<typename Value>
Complaint read_member(dom::element value, std::optional<Value>& into) {
    return value.is_null() ? Complaint{} : read_value(value, into.emplace());
}

template<typename Owner>
struct Member {
    std::string_view key;
    Complaint (*read)(dom::element value, Owner& owner);
};

template<auto Field, typename Owner>
Complaint read_field(dom::element value, Owner& owner) {
    return read_member(value, owner.*Field);
}

template<typename Owner, std::size_t Count>
Complaint
read_members(dom::element value, Owner& owner, const std::array<Member<Owner>, Count>& members) {
    dom::object object;
    if (value.get(object) != simdjson::SUCCESS) {
        return "an object";
    }
    for (const auto& [key, item] : object) {
        for (const Member<Owner>& member : members) {
            if (member.key == key && !member.read(item, owner).empty()) {
                return "an object as docs/format.md has it";
            }
        }
    }
    return {};
}

Complaint read_value(dom::element value, Tokens& into) {
    static constexpr std::array members{
        Member<Tokens>{"input", read_field<&Tokens::input, Tokens>},
        Member<Tokens>{"output", read_field<&Tokens::output, Tokens>},
        Member<Tokens>{"cache_read", read_field<&Tokens::cache_read, Tokens>},
        Member<Tokens>{"cache_write", read_field<&Tokens::cache_write, Tokens>},
        Member<Tokens>{"reasoning", read_field<&Tokens::reasoning, Tokens>},
        Member<Tokens>{"total", read_field<&Tokens::total, Tokens>},
    };
    return read_members(value, into, members);
}

Complaint read_value(dom::element value, Repo& into) {
    static constexpr std::array members{
        Member<Repo>{"root", read_field<&Repo::root, Repo>},
        Member<Repo>{"branch", read_field<&Repo::branch, Repo>},
        Member<Repo>{"head", read_field<&Repo::head, Repo>},
    };
    return read_members(value, into, members);
}

Complaint read_value(dom::element value, Parent& into) {
    static constexpr std::array members{
        Member<Parent>{"session", read_field<&Parent::session, Parent>},
        Member<Parent>{"turn", read_field<&Parent::turn, Parent>},
        Member<Parent>{"relation", read_field<&Parent::relation, Parent>},
    };
    return read_members(value, into, members);
}

// In the order in which meta.json has them, so that a search from the last hit finds the next at once.
constexpr std::array meta_members{
    Member<Meta>{"id", read_field<&Meta::id, Meta>},
    Member<Meta>{"slug", read_field<&Meta::slug, Meta>},
    Member<Meta>{"name", read_field<&Meta::name, Meta>},
    Member<Meta>{"status", read_field<&Meta::status, Meta>},
    Member<Meta>{"agent", read_field<&Meta::agent, Meta>},
    Member<Meta>{"model", read_field<&Meta::model, Meta>},
    Member<Meta>{"cwd", read_field<&Meta::cwd, Meta>},
    Member<Meta>{"repo", read_field<&Meta::repo, Meta>},
    Member<Meta>{"worktree", read_field<&Meta::worktree, Meta>},
    Member<Meta>{"user", read_field<&Meta::user, Meta>},
    Member<Meta>{"host", read_field<&Meta::host, Meta>},
    Member<Meta>{"pid", read_field<&Meta::pid, Meta>},
    Member<Meta>{"started_at", read_field<&Meta::started_at, Meta>},
    Member<Meta>{"ended_at", read_field<&Meta::ended_at, Meta>},
    Member<Meta>{"updated_at", read_field<&Meta::updated_at, Meta>},
    Member<Meta>{"exit_code", read_field<&Meta::exit_code, Meta>},
    Member<Meta>{"error", read_field<&Meta::error, Meta>},
    Member<Meta>{"turn_count", read_field<&Meta::turn_count, Meta>},
    Member<Meta>{"current_turn", read_field<&Meta::current_turn, Meta>},
    Member<Meta>{"preview", read_field<&Meta::preview, Meta>},
    Member<Meta>{"tokens", read_field<&Meta::tokens, Meta>},
    Member<Meta>{"cost_usd", read_field<&Meta::cost_usd, Meta>},
    Member<Meta>{"labels", read_field<&Meta::labels, Meta>},
    Member<Meta>{"flagged", read_field<&Meta::flagged, Meta>},
    Member<Meta>{"archived", read_field<&Meta::archived, Meta>},
    Member<Meta>{"unread", read_field<&Meta::unread, Meta>},
    Member<Meta>{"stage", read_field<&Meta::stage, Meta>},
    Member<Meta>{"parent", read_field<&Meta::parent, Meta>},
    Member<Meta>{"checkpoint_reason", read_field<&Meta::checkpoint_reason, Meta>},
    Member<Meta>{"ephemeral", read_field<&Meta::ephemeral, Meta>},
};

const Member<Meta>* find_member(std::string_view key, std::size_t& from) {
    for (std::size_t step = 0; step < meta_members.size(); ++step) {
        const std::size_t at = (from + step) % meta_members.size();
        if (meta_members[at].key == key) {
            from = at + 1;
            return &meta_members[at];
        }
    }
    return nullptr;
}

// Looks at the version before anything else: a newer document may have changed every other member.
std::optional<Error> check_version(dom::object document) {
    std::int64_t version = format_version;
    dom::element stated;
    if (document["v"].get(stated) == simdjson::SUCCESS && !stated.is_null()
        && (!read_value(stated, version).empty() || version < 1)) {
        return corrupt("member \"v\" must be an integer of at least 1");
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

struct MetaSkimmer::Parser {
    dom::parser json;
};

MetaSkimmer::MetaSkimmer() : parser_(std::make_unique<Parser>()) {
}

MetaSkimmer::MetaSkimmer(MetaSkimmer&&) noexcept = default;

MetaSkimmer::~MetaSkimmer() = default;

Result<Meta> MetaSkimmer::skim(std::string_view text) {
    dom::element root;
    if (parser_->json.parse(text.data(), text.size()).get(root) != simdjson::SUCCESS) {
        return decode_meta(text);  // it knows the line and the column
    }
    dom::object document;
    if (root.get(document) != simdjson::SUCCESS) {
        return corrupt("is JSON, but no object");
    }
    if (const std::optional<Error> error = check_version(document)) {
        return *error;
    }
    Meta meta;
    std::size_t next = 0;
    for (const auto& [key, value] : document) {
        const Member<Meta>* const member = find_member(key, next);
        const Complaint wanted = member == nullptr ? Complaint{} : member->read(value, meta);
        if (!wanted.empty()) {
            return corrupt("member \"" + std::string(key) + "\" must be " + std::string(wanted));
        }
    }
    if (meta.id.is_zero()) {
        return corrupt("member \"id\" is missing");
    }
    return meta;
}

Result<Meta> MetaSkimmer::skim_session(const std::string& session_directory, std::string& text) {
    const std::string path = session_directory + "/" + std::string(meta_file);
    Result<std::string> content = read_file(path, meta_bytes_max);
    if (!content.ok()) {
        Error error = content.error();
        error.code = error.code == Errc::invalid ? Errc::corrupt : error.code;
        return error;
    }
    text = std::move(content.value());
    Result<Meta> meta = skim(text);
    if (!meta.ok()) {
        Error error = meta.error();
        error.context.insert(0, path + ": ");
        return error;
    }
    return meta;
}

std::string minified_json(std::string_view json) {
    std::string out(json.size() + simdjson::SIMDJSON_PADDING, '\0');  // it writes in blocks
    std::size_t size = 0;
    if (simdjson::minify(json.data(), json.size(), out.data(), size) != simdjson::SUCCESS) {
        return std::string(json);
    }
    out.resize(size);
    return out;
}

}  // namespace relay::layout
