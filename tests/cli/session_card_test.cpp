// SPDX-License-Identifier: Apache-2.0
#include "cli/session_card.hpp"
#include "tests/support/written_session.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

using relay::cli::decode_card;
using relay::cli::encode_card;
using relay::cli::SessionCard;
using relay::layout::Meta;
using relay::layout::SessionStatus;
using relay::tests::example_meta;

TEST_CASE("a card has what lists show") {
    Meta meta = example_meta(1);
    meta.slug = "slug";
    meta.name.reset();
    meta.status = SessionStatus::checkpointed;
    meta.flagged = true;
    meta.unread = true;
    meta.turn_count = 4;
    meta.current_turn = 5;
    meta.tokens = {};
    meta.labels = {"bug", "", "priority::2"};
    meta.stage.reset();
    const std::string bytes = encode_card(meta);
    const SessionCard card = decode_card(bytes).value();
    CHECK(card.name == "slug");
    CHECK(card.status == SessionStatus::checkpointed);
    CHECK(card.flagged);
    CHECK(!card.archived);
    CHECK(card.unread);
    CHECK(card.turns == 5);
    CHECK(!card.tokens);
    CHECK(card.updated_at == meta.updated_at);
    CHECK(card.agent == meta.agent);
    CHECK(card.preview == meta.preview.value_or(""));
    CHECK(!card.stage);
    for (const char* const label : {"bug", "", "priority::2"}) {
        CHECK(card.has_label(label));
    }
    CHECK(!card.has_label("priority"));
}

TEST_CASE("a card counts tokens that are known and knows how a session ended") {
    Meta meta = example_meta(1);
    meta.tokens = {};
    meta.tokens.output = INT64_MAX;
    CHECK(decode_card(encode_card(meta)).value().tokens == INT64_MAX);
    meta.tokens.input = 7;
    CHECK(decode_card(encode_card(meta)).value().tokens == INT64_MAX);
    meta.tokens.total = 9;
    CHECK(decode_card(encode_card(meta)).value().tokens == 9);
    meta.error.reset();
    meta.exit_code = 0;
    CHECK(!decode_card(encode_card(meta)).value().failed);
    meta.exit_code = 1;
    CHECK(decode_card(encode_card(meta)).value().failed);
    meta.exit_code.reset();
    meta.error = "lost";
    CHECK(decode_card(encode_card(meta)).value().failed);
}

TEST_CASE("a card of a session outside of a repository has its working directory") {
    Meta meta = example_meta(1);
    meta.cwd = "/somewhere";
    meta.repo = relay::layout::Repo{"/srv/tree", {}, {}};
    std::string bytes = encode_card(meta);
    CHECK(decode_card(bytes).value().root == "/srv/tree");
    meta.repo.reset();
    meta.stage = "";
    bytes = encode_card(meta);
    CHECK(decode_card(bytes).value().root == "/somewhere");
    CHECK(decode_card(bytes).value().stage == "");
}

TEST_CASE("bytes that are no card are refused") {
    const std::string whole = encode_card(example_meta(1));
    for (std::size_t size = 0; size < whole.size(); ++size) {
        CAPTURE(size);
        CHECK(!decode_card(whole.substr(0, size)));
    }
    CHECK(!decode_card(whole + "x"));
    CHECK(!decode_card(std::string(whole.size(), '\xff')));
}
