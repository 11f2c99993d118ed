// SPDX-License-Identifier: Apache-2.0
#include "layout/journal_change.hpp"

#include "layout/little_endian.hpp"

#include <array>
#include <cassert>
#include <cstring>
#include <limits>

namespace relay::layout {

namespace {

constexpr std::size_t change_header_bytes = 40;
constexpr std::size_t effect_header_bytes = 16;

// Paths may hold anything but NUL, so NUL separates the parts of a claim.
constexpr char claim_separator = '\0';

}  // namespace

std::string Claim::session_directory(const Ulid& session) const {
    return anchor + "/" + below + "/sessions/" + session.text();
}

ChangeWriter::ChangeWriter(std::string& out, const ChangeHeader& header)
    : out_(out), begin_(out.size()) {
    std::array<char, change_header_bytes> bytes{};  // size and number of effects: finish()
    std::memcpy(bytes.data() + 8, header.session.bytes.data(), header.session.bytes.size());
    put_le(bytes.data() + 24, static_cast<std::uint64_t>(header.client_seq));
    put_le(bytes.data() + 32, static_cast<std::uint64_t>(header.event_seq));
    out_.append(bytes.data(), bytes.size());
}

void ChangeWriter::add(const Effect& effect) {
    assert(effect.name.size() <= std::numeric_limits<std::uint16_t>::max());
    assert(effect.data.size() <= std::numeric_limits<std::uint32_t>::max());
    std::array<char, effect_header_bytes> bytes{};
    bytes[0] = static_cast<char>(effect.kind);
    put_le(bytes.data() + 2, static_cast<std::uint16_t>(effect.name.size()));
    put_le(bytes.data() + 4, static_cast<std::uint32_t>(effect.data.size()));
    put_le(bytes.data() + 8, static_cast<std::uint64_t>(effect.offset));
    out_.append(bytes.data(), bytes.size());
    out_.append(effect.name);
    out_.append(effect.data);
    ++count_;
}

void ChangeWriter::add_claim(const Claim& claim) {
    std::string data = claim.anchor;
    data += claim_separator;
    data += claim.below;
    data += claim_separator;
    data += claim.is_repo ? "repo" : "user";
    data += claim_separator;
    data += claim.owner;
    add({.kind = EffectKind::claim, .name = {}, .data = data, .offset = claim.create ? 1 : 0});
}

void ChangeWriter::finish() {
    put_le(out_.data() + begin_, static_cast<std::uint32_t>(out_.size() - begin_));
    put_le(out_.data() + begin_ + 4, count_);
}

std::optional<ChangeReader::Change> ChangeReader::next() {
    if (rest_.empty()) {
        return std::nullopt;
    }
    if (rest_.size() < change_header_bytes) {
        damaged_ = true;
        return std::nullopt;
    }
    const auto size = get_le<std::uint32_t>(rest_, 0);
    if (size < change_header_bytes || size > rest_.size()) {
        damaged_ = true;
        return std::nullopt;
    }
    Change change;
    change.bytes = rest_.substr(0, size);
    change.effect_count = get_le<std::uint32_t>(rest_, 4);
    std::memcpy(
        change.header.session.bytes.data(), rest_.data() + 8, change.header.session.bytes.size());
    change.header.client_seq = static_cast<std::int64_t>(get_le<std::uint64_t>(rest_, 24));
    change.header.event_seq = static_cast<std::int64_t>(get_le<std::uint64_t>(rest_, 32));
    change.effects = change.bytes.substr(change_header_bytes);
    rest_.remove_prefix(size);
    return change;
}

std::optional<Effect> EffectReader::next() {
    if (left_ == 0) {
        damaged_ = damaged_ || !rest_.empty();
        return std::nullopt;
    }
    if (rest_.size() < effect_header_bytes) {
        damaged_ = true;
        return std::nullopt;
    }
    const auto kind = static_cast<std::uint8_t>(rest_[0]);
    const std::size_t name_size = get_le<std::uint16_t>(rest_, 2);
    const std::size_t data_size = get_le<std::uint32_t>(rest_, 4);
    const auto offset = static_cast<std::int64_t>(get_le<std::uint64_t>(rest_, 8));
    const bool known = kind >= static_cast<std::uint8_t>(EffectKind::claim)
                       && kind <= static_cast<std::uint8_t>(EffectKind::settle);
    if (!known || offset < 0 || rest_.size() - effect_header_bytes < name_size + data_size) {
        damaged_ = true;
        return std::nullopt;
    }
    Effect effect;
    effect.kind = static_cast<EffectKind>(kind);
    effect.name = rest_.substr(effect_header_bytes, name_size);
    effect.data = rest_.substr(effect_header_bytes + name_size, data_size);
    effect.offset = offset;
    rest_.remove_prefix(effect_header_bytes + name_size + data_size);
    --left_;
    return effect;
}

Result<Claim> decode_claim(const Effect& effect) {
    std::string_view rest = effect.data;
    Claim claim;
    claim.create = effect.offset == 1;
    std::string kind;
    for (std::string* part : {&claim.anchor, &claim.below, &kind}) {
        const std::size_t end = rest.find(claim_separator);
        if (end == std::string_view::npos) {
            return Error{Errc::corrupt, 0, "a session's claim in the journal is cut short"};
        }
        *part = rest.substr(0, end);
        rest.remove_prefix(end + 1);
    }
    claim.is_repo = kind == "repo";
    claim.owner = rest;
    return claim;
}

}  // namespace relay::layout
