// SPDX-License-Identifier: Apache-2.0
#include "layout/meta_skim.hpp"
#include "tests/support/written_session.hpp"

#include <doctest/doctest.h>

#include <array>
#include <string>
#include <utility>

using relay::layout::decode_meta;
using relay::layout::encode_meta;
using relay::layout::Errc;
using relay::layout::Meta;
using relay::layout::MetaSkimmer;
using relay::layout::minified_json;
using relay::layout::Parent;
using relay::layout::SessionStatus;
using relay::tests::example_meta;

namespace {

Meta full_meta() {
    Meta meta = example_meta(7);
    meta.name = "näme \"quoted\"";
    meta.status = SessionStatus::checkpointed;
    meta.worktree = "/w";
    meta.error = "rate limit";
    meta.turn_count = 12;
    meta.current_turn = 13;
    meta.tokens = {1, 2, 3, 4, 5, 15};
    meta.labels = {"bug", "priority::2"};
    meta.flagged = meta.archived = meta.unread = meta.ephemeral = true;
    meta.stage = "review";
    meta.parent = Parent{example_meta(1).id.text(), 3, "fork"};
    meta.checkpoint_reason = "manual";
    meta.unknown = {{"later", {R"({"x":[1,2]})"}}};
    return meta;
}

}  // namespace

TEST_CASE("skimming a meta.json gives what decoding gives") {
    MetaSkimmer skimmer;
    const std::string text = encode_meta(full_meta());
    const auto skimmed = skimmer.skim(text);
    REQUIRE(skimmed.ok());
    Meta decoded = decode_meta(text).value();
    decoded.command.clear();
    decoded.objective.reset();
    decoded.capture = {};
    decoded.chain.reset();
    decoded.extra = {};
    decoded.unknown.clear();
    CHECK(encode_meta(skimmed.value()) == encode_meta(decoded));
}

TEST_CASE("skimming refuses what decoding refuses") {
    MetaSkimmer skimmer;
    const std::string id = R"("id":"01M7J690Z2TM97TN46F1TWFTA9")";
    for (const std::string& text :
         {std::string(),
          std::string("[]"),
          std::string("{"),
          std::string("{}"),
          "{" + id + ",",
          "{" + id + R"(,"v":0})",
          "{" + id + R"(,"v":"1"})",
          std::string(R"({"id":"x"})"),
          "{" + id + R"(,"status":"asleep"})",
          "{" + id + R"(,"turn_count":1.5})",
          "{" + id + R"(,"turn_count":99999999999999999999})",
          "{" + id + R"(,"labels":["a",1]})",
          "{" + id + R"(,"tokens":{"input":"1"}})",
          "{" + id + R"(,"tokens":[]})",
          "{" + id + R"(,"parent":7})",
          "{" + id + R"(,"started_at":"yesterday"})",
          "{" + id + R"(,"flagged":1})",
          "{" + id + ",\"slug\":\"\xff\"}"}) {
        CAPTURE(text);
        CHECK(skimmer.skim(text).error().code == Errc::corrupt);
        CHECK(decode_meta(text).error().code == Errc::corrupt);
    }
    const auto newer = skimmer.skim(R"({"v":2,"id":7})");
    CHECK(newer.error().code == Errc::invalid);
    CHECK(newer.error().context == decode_meta(R"({"v":2,"id":7})").error().context);
    CHECK(skimmer.skim("{" + id + R"(,"name":null,"tokens":null})").ok());
}

TEST_CASE("a document is made one line without changing a value") {
    CHECK(
        minified_json("{\n  \"a b\": [1, 2],\n  \"c\": \"x  y\\n\"\n}\n")
        == R"({"a b":[1,2],"c":"x  y\n"})");
    for (std::size_t size = 0; size < 200; ++size) {
        const std::string word(size, 'x');
        CHECK(minified_json("{ \"" + word + "\" : 1 }") == "{\"" + word + "\":1}");
    }
}
