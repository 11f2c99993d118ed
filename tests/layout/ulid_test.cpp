// SPDX-License-Identifier: Apache-2.0
#include "layout/ulid.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <unordered_set>

using relay::layout::Timestamp;
using relay::layout::Ulid;
using relay::layout::UlidSource;

namespace {

UlidSource::Random repeating(std::uint8_t value) {
    return [value](std::uint8_t* into, std::size_t size) {
        std::fill_n(into, size, value);
    };
}

Ulid any_ulid(std::mt19937_64& random) {
    Ulid ulid;
    for (std::uint8_t& byte : ulid.bytes) {
        byte = static_cast<std::uint8_t>(random());
    }
    return ulid;
}

Ulid all_of(std::uint8_t value) {
    Ulid ulid;
    ulid.bytes.fill(value);
    return ulid;
}

}  // namespace

TEST_CASE("a ULID is written as 26 characters of Crockford base 32") {
    CHECK(Ulid{}.text() == "00000000000000000000000000");
    CHECK(all_of(0xff).text() == "7ZZZZZZZZZZZZZZZZZZZZZZZZZ");
    Ulid one;
    one.bytes[15] = 1;
    CHECK(one.text() == "00000000000000000000000001");
    Ulid counting;
    for (std::size_t i = 0; i < counting.bytes.size(); ++i) {
        counting.bytes[i] = static_cast<std::uint8_t>(i * 0x11);
    }
    CHECK(counting.text() == "0024H36H2NCSVRH6DAQF6DVVQZ");
}

TEST_CASE("every ULID reads back from its text in either case") {
    std::mt19937_64 random{3};
    for (int i = 0; i < 10'000; ++i) {
        const Ulid ulid = any_ulid(random);
        const std::string upper = ulid.text();
        std::string lower = upper;
        std::transform(lower.begin(), lower.end(), lower.begin(), [](char character) {
            return static_cast<char>(std::tolower(static_cast<unsigned char>(character)));
        });
        REQUIRE(Ulid::parse(upper) == ulid);
        REQUIRE(Ulid::parse(lower) == ulid);
    }
}

TEST_CASE("text order of ULIDs is the order of their bytes") {
    std::mt19937_64 random{4};
    for (int i = 0; i < 10'000; ++i) {
        const Ulid one = any_ulid(random);
        const Ulid other = any_ulid(random);
        REQUIRE((one < other) == (one.text() < other.text()));
    }
}

TEST_CASE("the aliases of Crockford are read as the digits they look like") {
    CHECK(Ulid::parse("0123456789ABCDEFGHJKMNPQRS") == Ulid::parse("OI23456789ABCDEFGHJKMNPQRS"));
    CHECK(Ulid::parse("0123456789ABCDEFGHJKMNPQRS") == Ulid::parse("ol23456789abcdefghjkmnpqrs"));
    CHECK(Ulid::parse("0123456789ABCDEFGHJKMNPQRS") == Ulid::parse("oi23456789abcdefghjkmnpqrs"));
    CHECK(Ulid::parse("0123456789ABCDEFGHJKMNPQRS") == Ulid::parse("0L23456789ABCDEFGHJKMNPQRS"));
}

TEST_CASE("what is no ULID is refused") {
    const std::string good = "01K6X3M7K5VBHQEN6T2F4D8RPZ";
    REQUIRE(Ulid::parse(good).has_value());
    CHECK_FALSE(Ulid::parse("").has_value());
    CHECK_FALSE(Ulid::parse(good.substr(1)).has_value());
    CHECK_FALSE(Ulid::parse(good + "0").has_value());
    CHECK_FALSE(Ulid::parse("80000000000000000000000000").has_value());
    CHECK_FALSE(Ulid::parse("ZZZZZZZZZZZZZZZZZZZZZZZZZZ").has_value());

    const std::string alphabet = "0123456789abcdefghijklmnopqrstvwxyzABCDEFGHIJKLMNOPQRSTVWXYZ";
    for (int byte = 0; byte < 256; ++byte) {
        CAPTURE(byte);
        const char character = static_cast<char>(byte);
        std::string text = good;
        text[12] = character;
        CHECK(Ulid::parse(text).has_value() == (alphabet.find(character) != std::string::npos));
        text = good;
        text[0] = character;
        const bool first = std::string{"01234567oOiIlL"}.find(character) != std::string::npos;
        CHECK(Ulid::parse(text).has_value() == first);
    }
}

TEST_CASE("a fresh ULID holds the clock and eighty random bits") {
    UlidSource source{repeating(0xa5)};
    const Ulid ulid = source.next({0x0123'4567'89ab});
    CHECK(ulid.time() == Timestamp{0x0123'4567'89ab});
    CHECK(ulid.bytes[0] == 0x01);
    CHECK(ulid.bytes[5] == 0xab);
    for (std::size_t i = 6; i < 16; ++i) {
        CHECK(ulid.bytes[i] == 0xa5);
    }
    CHECK(source.last() == ulid);
}

TEST_CASE(
    "within a millisecond and when the clock steps back the next ULID is the previous plus one") {
    UlidSource source{repeating(0x10)};
    const Ulid first = source.next({1'000});
    for (const std::int64_t now : {std::int64_t{1'000}, std::int64_t{999}, std::int64_t{-5}}) {
        Ulid expected = source.last();
        ++expected.bytes[15];
        CHECK(source.next({now}) == expected);
    }
    CHECK(source.last().bytes[15] == first.bytes[15] + 3);
    CHECK(source.next({1'001}).bytes[15] == 0x10);
}

TEST_CASE("a full random part carries into the time instead of repeating an id") {
    UlidSource source{repeating(0xff)};
    const Ulid full = source.next({1'000});
    const Ulid carried = source.next({1'000});
    CHECK(carried > full);
    CHECK(carried.time() == Timestamp{1'001});
    CHECK(carried.bytes[15] == 0);
    CHECK(source.next({1'001}) > carried);

    Ulid low_full;
    low_full.bytes = {0, 0, 0, 0, 3, 0xe8, 0, 7, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    UlidSource resumed{repeating(0)};
    resumed.resume_after(low_full);
    CHECK(resumed.next({1'000}).bytes[7] == 8);
}

TEST_CASE("ULIDs of one source grow strictly whatever the clock does") {
    std::mt19937_64 random{5};
    UlidSource source;
    Ulid previous;
    std::int64_t now = 1'794'829'080'123;
    for (int i = 0; i < 100'000; ++i) {
        now += static_cast<std::int64_t>(random() % 7) - 3;
        const Ulid next = source.next({now});
        REQUIRE(next > previous);
        REQUIRE(next.text() > previous.text());
        previous = next;
    }
}

TEST_CASE("a source goes on above the ULID it resumes after") {
    UlidSource earlier{repeating(0x77)};
    const Ulid last = earlier.next({5'000});
    UlidSource source{repeating(0x01)};
    source.resume_after(last);
    CHECK(source.next({4'000}) > last);

    const Ulid newest = source.next({6'000});
    source.resume_after(last);
    CHECK(source.last() == newest);
}

TEST_CASE("a clock at or outside the edges of 48 bits still gives growing ids") {
    UlidSource source{repeating(0x42)};
    const Ulid early = source.next({-1});
    CHECK(early.time() == Timestamp{0});
    CHECK(early.bytes[6] == 0x42);
    const Ulid late = source.next({std::numeric_limits<std::int64_t>::max()});
    CHECK(late.time() == Timestamp{0xffff'ffff'ffff});
    CHECK(source.next({std::numeric_limits<std::int64_t>::max()}) > late);
}

TEST_CASE("sources in different processes do not issue the same ULID in the same millisecond") {
    std::unordered_set<Ulid> seen;
    for (int i = 0; i < 20'000; ++i) {
        UlidSource source;
        REQUIRE(seen.insert(source.next({1'000})).second);
    }
}

TEST_CASE("neighbouring ULIDs have different hashes") {
    UlidSource source{repeating(0x10)};
    std::unordered_set<std::size_t> hashes;
    for (int i = 0; i < 10'000; ++i) {
        hashes.insert(std::hash<Ulid>{}(source.next({1'000 + i / 2})));
    }
    CHECK(hashes.size() == 10'000);
}
