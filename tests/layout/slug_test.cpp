// SPDX-License-Identifier: Apache-2.0
#include "layout/slug.hpp"

#include <doctest/doctest.h>

#include <set>
#include <span>
#include <string>
#include <string_view>

using relay::layout::slug_adjectives;
using relay::layout::slug_for;
using relay::layout::slug_nouns;
using relay::layout::Ulid;

namespace {

Ulid ulid_ending_in(std::uint8_t adjective, std::uint8_t noun) {
    Ulid ulid = Ulid::parse("01KA5Y8JHV0000000000000000").value();
    ulid.bytes[14] = adjective;
    ulid.bytes[15] = noun;
    return ulid;
}

}  // namespace

TEST_CASE("there are 256 adjectives and 256 nouns and no word stands twice") {
    std::set<std::string_view> words;
    for (const auto list : {slug_adjectives(), slug_nouns()}) {
        REQUIRE(list.size() == 256);
        for (const std::string_view word : list) {
            CAPTURE(word);
            CHECK(word.size() >= 3);
            CHECK(word.size() <= 8);
            CHECK(word.find_first_not_of("abcdefghijklmnopqrstuvwxyz") == std::string_view::npos);
            CHECK(words.insert(word).second);
        }
    }
}

TEST_CASE("a slug is the date of its ULID and two words of its last bits") {
    const Ulid ulid = ulid_ending_in(0, 255);
    const std::string date = relay::layout::format_slug_date(ulid.time());
    const std::string words =
        std::string{slug_adjectives().front()} + "-" + std::string{slug_nouns().back()};
    CHECK(slug_for(ulid, 1) == date + "-" + words);
    CHECK(slug_for(ulid, 1) == slug_for(ulid, 1));
}

TEST_CASE("every value of a ULID's last bytes proposes a slug of its own") {
    std::set<std::string> slugs;
    for (int bits = 0; bits < 65'536; ++bits) {
        slugs.insert(slug_for(
            ulid_ending_in(static_cast<std::uint8_t>(bits >> 8), static_cast<std::uint8_t>(bits)),
            1));
    }
    CHECK(slugs.size() == 65'536);
}

TEST_CASE("a slug that is taken gets a number from two on") {
    const Ulid ulid = ulid_ending_in(7, 9);
    const std::string plain = slug_for(ulid, 1);
    CHECK(slug_for(ulid, 2) == plain + "-2");
    CHECK(slug_for(ulid, 31) == plain + "-31");
}
