// SPDX-License-Identifier: Apache-2.0
#include "cli/session_card.hpp"

#include <array>
#include <cstddef>
#include <cstring>
#include <limits>

namespace relay::cli {

namespace {

using layout::Meta;
using layout::SessionStatus;

enum Flag : std::uint8_t {
    flagged = 1,
    archived = 2,
    unread = 4,
    failed = 8,
    with_tokens = 16,
    with_stage = 32,
};

// What every card begins with; then come its texts, one after the other.
struct Head {
    std::int64_t updated_ms = 0;
    std::int64_t turns = 0;
    std::int64_t tokens = 0;
    std::array<std::uint32_t, 6> sizes{};  // name, agent, root, preview, stage, labels
    std::uint8_t status = 0;
    std::uint8_t flags = 0;
    std::array<std::uint8_t, 6> nothing{};  // so that equal cards have equal bytes
};
static_assert(sizeof(Head) == 56, "no bytes of chance between the members");

std::uint8_t flags_of(const Meta& meta, bool tokens_known) {
    const bool bad = meta.error || meta.exit_code.value_or(0) != 0;
    return static_cast<std::uint8_t>(
        (meta.flagged ? flagged : 0) | (meta.archived ? archived : 0) | (meta.unread ? unread : 0)
        | (bad ? failed : 0) | (tokens_known ? with_tokens : 0) | (meta.stage ? with_stage : 0));
}

template<typename Value>
std::string_view bytes_of(const Value& value) {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): bytes of integers
    return {reinterpret_cast<const char*>(&value), sizeof value};
}

// Each with its size before it.
std::string join_labels(const std::vector<std::string>& labels) {
    std::string joined;
    for (const std::string& label : labels) {
        joined += bytes_of(static_cast<std::uint32_t>(label.size()));
        joined += label;
    }
    return joined;
}

}  // namespace

std::optional<std::int64_t> tokens_in_all(const layout::Tokens& tokens) {
    if (tokens.total || (!tokens.input && !tokens.output)) {
        return tokens.total;
    }
    std::int64_t sum = 0;
    return __builtin_add_overflow(tokens.input.value_or(0), tokens.output.value_or(0), &sum)
               ? std::numeric_limits<std::int64_t>::max()
               : sum;
}

bool SessionCard::has_label(std::string_view label) const {
    std::uint32_t size = 0;
    for (std::string_view rest = labels; rest.size() >= sizeof size;) {
        std::memcpy(&size, rest.data(), sizeof size);
        rest.remove_prefix(sizeof size);
        if (size > rest.size()) {
            return false;
        }
        if (rest.substr(0, size) == label) {
            return true;
        }
        rest.remove_prefix(size);
    }
    return false;
}

std::string encode_card(const Meta& meta) {
    const std::string labels = join_labels(meta.labels);
    const std::string none;
    const std::array<const std::string*, 6> texts{
        meta.name ? &*meta.name : &meta.slug,
        &meta.agent,
        meta.repo ? &meta.repo->root : &meta.cwd,
        meta.preview ? &*meta.preview : &none,
        meta.stage ? &*meta.stage : &none,
        &labels,
    };
    const std::optional<std::int64_t> tokens = tokens_in_all(meta.tokens);
    Head head;
    head.updated_ms = meta.updated_at.ms;
    head.turns = meta.turn_count + (meta.current_turn ? 1 : 0);
    head.tokens = tokens.value_or(0);
    head.status = static_cast<std::uint8_t>(meta.status);
    head.flags = flags_of(meta, tokens.has_value());
    std::size_t size = sizeof head;
    for (std::size_t at = 0; at < texts.size(); ++at) {
        head.sizes[at] = static_cast<std::uint32_t>(texts[at]->size());
        size += texts[at]->size();
    }
    std::string card;
    card.reserve(size);
    card += bytes_of(head);
    for (const std::string* const text : texts) {
        card += *text;
    }
    return card;
}

std::optional<SessionCard> decode_card(std::string_view bytes) {
    Head head;
    if (bytes.size() < sizeof head) {
        return std::nullopt;
    }
    std::memcpy(&head, bytes.data(), sizeof head);
    std::string_view rest = bytes.substr(sizeof head);
    std::array<std::string_view, 6> texts;
    for (std::size_t at = 0; at < texts.size(); ++at) {
        if (head.sizes[at] > rest.size()) {
            return std::nullopt;
        }
        texts[at] = rest.substr(0, head.sizes[at]);
        rest.remove_prefix(head.sizes[at]);
    }
    if (!rest.empty() || head.status > static_cast<std::uint8_t>(SessionStatus::completed)) {
        return std::nullopt;
    }
    SessionCard card;
    card.status = static_cast<SessionStatus>(head.status);
    card.flagged = (head.flags & flagged) != 0;
    card.archived = (head.flags & archived) != 0;
    card.unread = (head.flags & unread) != 0;
    card.failed = (head.flags & failed) != 0;
    card.turns = head.turns;
    if ((head.flags & with_tokens) != 0) {
        card.tokens = head.tokens;
    }
    card.updated_at.ms = head.updated_ms;
    card.name = texts[0];
    card.agent = texts[1];
    card.root = texts[2];
    card.preview = texts[3];
    if ((head.flags & with_stage) != 0) {
        card.stage = texts[4];
    }
    card.labels = texts[5];
    return card;
}

}  // namespace relay::cli
