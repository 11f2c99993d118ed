// SPDX-License-Identifier: Apache-2.0
#include "layout/journal_change.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace relay::layout {
namespace {

const Ulid session = Ulid::parse("01J9X3M7K5VBHQEN6T2F4D8RPZ").value();

std::string some_change(std::int64_t seq) {
    std::string out;
    ChangeWriter writer(out, {.session = session, .client_seq = seq, .event_seq = seq + 1});
    writer.add({.kind = EffectKind::append, .name = "events.jsonl", .data = "line\n", .offset = 9});
    writer.add({.kind = EffectKind::replace, .name = "meta.json", .data = "{}", .offset = 0});
    writer.add(
        {.kind = EffectKind::settle, .name = "turns/001-output.md", .data = {}, .offset = 0});
    writer.finish();
    return out;
}

// Reads everything there is to read; true when nothing was found wrong.
bool reads_whole(std::string_view payload) {
    ChangeReader changes(payload);
    while (const auto change = changes.next()) {
        EffectReader effects(*change);
        while (effects.next()) {
        }
        if (effects.damaged()) {
            return false;
        }
    }
    return !changes.damaged();
}

}  // namespace

TEST_CASE("changes read back in the order they were written") {
    const std::string payload = some_change(3) + some_change(4);
    ChangeReader changes(payload);
    for (const std::int64_t seq : {3, 4}) {
        const auto change = changes.next();
        REQUIRE(change);
        CHECK(change->header.session == session);
        CHECK(change->header.client_seq == seq);
        CHECK(change->header.event_seq == seq + 1);
        CHECK(change->bytes == some_change(seq));
        EffectReader effects(*change);
        const auto append = effects.next();
        REQUIRE(append);
        CHECK(append->kind == EffectKind::append);
        CHECK(append->name == "events.jsonl");
        CHECK(append->data == "line\n");
        CHECK(append->offset == 9);
        const auto replace = effects.next();
        REQUIRE(replace);
        CHECK(replace->kind == EffectKind::replace);
        CHECK(replace->data == "{}");
        const auto settle = effects.next();
        REQUIRE(settle);
        CHECK(settle->kind == EffectKind::settle);
        CHECK(settle->data.empty());
        CHECK_FALSE(effects.next());
        CHECK_FALSE(effects.damaged());
    }
    CHECK_FALSE(changes.next());
    CHECK_FALSE(changes.damaged());
}

TEST_CASE("a change without effects is a change") {
    std::string out;
    ChangeWriter writer(out, {.session = session, .client_seq = 1, .event_seq = 1});
    CHECK(writer.empty());
    writer.finish();
    CHECK(reads_whole(out));
    ChangeReader changes(out);
    CHECK(changes.next());
}

TEST_CASE("no truncation of a change passes for a change") {
    const std::string payload = some_change(3);
    for (std::size_t size = 1; size < payload.size(); ++size) {
        REQUIRE_FALSE_MESSAGE(reads_whole(std::string_view(payload).substr(0, size)), size);
    }
}

TEST_CASE("no flipped bit makes a reader leave the bytes it was given") {
    const std::string payload = some_change(3) + some_change(4);
    for (std::size_t bit = 0; bit < payload.size() * 8; ++bit) {
        std::string bad = payload;
        bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ static_cast<char>(1 << (bit % 8)));
        static_cast<void>(reads_whole(bad));  // the sanitizers watch
    }
}

TEST_CASE("a kind of effect that this version does not know makes the change unreadable") {
    std::string payload = some_change(3);
    payload[40] = 8;
    CHECK_FALSE(reads_whole(payload));
    payload[40] = 0;
    CHECK_FALSE(reads_whole(payload));
}

TEST_CASE("a claim reads back with any bytes in its paths") {
    Claim claim;
    claim.anchor = "/home/\xFFme/repo";
    claim.below = ".agent-relay";
    claim.is_repo = true;
    claim.create = true;
    claim.owner = "12 34 56";
    std::string out;
    ChangeWriter writer(out, {.session = session, .client_seq = 0, .event_seq = 0});
    writer.add_claim(claim);
    writer.finish();
    ChangeReader changes(out);
    const auto change = changes.next();
    REQUIRE(change);
    EffectReader effects(*change);
    const auto effect = effects.next();
    REQUIRE(effect);
    const auto read = decode_claim(*effect);
    REQUIRE(read.ok());
    CHECK(read.value() == claim);
    CHECK(
        claim.session_directory(session)
        == "/home/\xFFme/repo/.agent-relay/sessions/01J9X3M7K5VBHQEN6T2F4D8RPZ");
}

TEST_CASE("a claim that is cut short is refused") {
    const std::string data("/repo\0.agent-relay", 18);
    const Effect effect{.kind = EffectKind::claim, .name = {}, .data = data, .offset = 1};
    CHECK_FALSE(decode_claim(effect).ok());
}

}  // namespace relay::layout
