// SPDX-License-Identifier: Apache-2.0
#include "cli/session_index.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/written_session.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

using relay::cli::FileStamp;
using relay::cli::gram_query;
using relay::cli::GramCollector;
using relay::cli::IndexFile;
using relay::cli::MetaRow;
using relay::cli::NotedMeta;
using relay::cli::NotedText;
using relay::cli::SessionIndex;
using relay::cli::TurnsByNumber;
using relay::layout::Errc;
using relay::tests::example_meta;
using relay::tests::TemporaryDirectory;

namespace {

FileStamp stamp_of(std::int64_t number) {
    return FileStamp{{1, number, 3, 4, -5}};
}

std::string grams_of(const std::string& text) {
    GramCollector collector;
    collector.add(text);
    return collector.take();
}

NotedText text_of(std::int64_t number, std::vector<std::string> turns) {
    NotedText noted{example_meta(number).id, stamp_of(number), {}};
    for (const std::string& turn : turns) {
        noted.turns.push_back({std::ssize(noted.turns) + 1, grams_of(turn)});
    }
    return noted;
}

}  // namespace

TEST_CASE("the index gives back the documents of a store between two ids newest first") {
    const TemporaryDirectory directory;
    auto file = IndexFile::open_or_make(directory.path());
    REQUIRE(file.ok());
    SessionIndex index(file.value().database());
    std::vector<NotedMeta> metas;
    for (const int number : {1, 2, 3, 4}) {
        metas.push_back(
            {example_meta(number).id,
             stamp_of(number),
             "card " + std::to_string(number),
             "{" + std::to_string(number) + "}"});
    }
    CHECK(index.note("/a", metas).ok());
    CHECK(index.note("/b", std::vector{metas.front()}).ok());
    metas = {{example_meta(3).id, stamp_of(33), "card 33", "{33}"}};
    CHECK(index.note("/a", metas).ok());
    std::string seen;
    const auto see = [&seen](const MetaRow& row) {
        seen += std::string(row.card) + std::string(row.document)
                + (row.stamp == stamp_of(33) ? "!" : "")
                + (row.id == example_meta(2).id ? "?" : "");
    };
    CHECK(index.metas("/a", example_meta(3).id, example_meta(2).id, true, see).ok());
    CHECK(seen == "card 33{33}!card 2{2}?");
    seen.clear();
    CHECK(index.metas("/b", example_meta(4).id, example_meta(1).id, false, see).ok());
    CHECK(seen == "card 1");
    CHECK(index.metas("/none", example_meta(4).id, example_meta(1).id, false, see).ok());
    CHECK(seen == "card 1");
}

TEST_CASE("the index names the turns that may have the words") {
    const TemporaryDirectory directory;
    auto file = IndexFile::open_or_make(directory.path());
    REQUIRE(file.ok());
    SessionIndex index(file.value().database());
    const std::vector<NotedText> texts{
        text_of(1, {"the quick fox", "a lazy dog"}), text_of(2, {"nothing", "Quick and lazy"})};
    CHECK(index.note("/a", texts).ok());
    const auto rows = index.texts("/a");
    REQUIRE(rows.ok());
    REQUIRE(rows.value().size() == 2);
    CHECK(rows.value()[0].id == example_meta(2).id);
    CHECK(rows.value()[0].stamp == stamp_of(2));
    const std::int64_t first = rows.value()[1].number;
    const std::int64_t second = rows.value()[0].number;
    const auto turns_with = [&index](const std::vector<std::string>& words) {
        TurnsByNumber turns;
        CHECK(index.turns_with(gram_query(words).value(), 100, turns).ok());
        return turns;
    };
    CHECK(turns_with({"quick"}) == TurnsByNumber{{first, {1}}, {second, {2}}});
    CHECK(turns_with({"quick", "lazy"}) == TurnsByNumber{{second, {2}}});
    CHECK(turns_with({"zebra"}).empty());
    TurnsByNumber some;
    CHECK(index.turns_with(gram_query({"quick"}).value(), 1, some).error().code == Errc::busy);
}

TEST_CASE("a session that is noted anew is another one to the index") {
    const TemporaryDirectory directory;
    auto file = IndexFile::open_or_make(directory.path());
    REQUIRE(file.ok());
    SessionIndex index(file.value().database());
    CHECK(index.note("/a", std::vector{text_of(1, {"secret"})}).ok());
    const std::int64_t before = index.texts("/a").value().front().number;
    CHECK(index.note("/a", std::vector{text_of(1, {"harmless"})}).ok());
    const auto rows = index.texts("/a").value();
    REQUIRE(rows.size() == 1);
    CHECK(rows.front().number != before);
    TurnsByNumber turns;
    CHECK(index.turns_with(gram_query({"secret"}).value(), 100, turns).ok());
    CHECK(!turns.contains(rows.front().number));
}
