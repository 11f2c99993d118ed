// SPDX-License-Identifier: Apache-2.0
#include "layout/utf8.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <string_view>

using relay::layout::is_utf8;
using relay::layout::one_line;
using relay::layout::to_utf8;
using relay::layout::utf8_prefix;
using relay::layout::utf8_suffix;

namespace {

// a, e acute, euro sign, grinning face: one, two, three and four bytes.
constexpr std::string_view mixed = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";

std::string encoded(char32_t code) {
    std::string text;
    if (code < 0x80) {
        text += static_cast<char>(code);
    } else if (code < 0x800) {
        text += static_cast<char>(0xc0 | code >> 6);
        text += static_cast<char>(0x80 | (code & 63));
    } else if (code < 0x10000) {
        text += static_cast<char>(0xe0 | code >> 12);
        text += static_cast<char>(0x80 | (code >> 6 & 63));
        text += static_cast<char>(0x80 | (code & 63));
    } else {
        text += static_cast<char>(0xf0 | code >> 18);
        text += static_cast<char>(0x80 | (code >> 12 & 63));
        text += static_cast<char>(0x80 | (code >> 6 & 63));
        text += static_cast<char>(0x80 | (code & 63));
    }
    return text;
}

}  // namespace

TEST_CASE("exactly the characters of Unicode are UTF-8") {
    for (char32_t code = 0; code <= 0x120000; ++code) {
        const bool exists = code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
        const std::string text = encoded(code);
        if (is_utf8(text) != exists || (to_utf8(text) == text) != exists) {
            FAIL("U+" << static_cast<std::uint32_t>(code));
        }
        // Through the one-by-one decoder too, which the whole of a valid text never reaches.
        const std::string broken = text + "\xff";
        if (exists && to_utf8(broken) != text + "\xef\xbf\xbd") {
            FAIL("before a broken byte: U+" << static_cast<std::uint32_t>(code));
        }
    }
}

TEST_CASE("overlong and cut and stray bytes are no UTF-8") {
    for (const std::string_view bytes : {
             "\x80",
             "\xbf",
             "\xc0\x80",
             "\xc1\xbf",
             "\xe0\x80\x80",
             "\xe0\x9f\xbf",
             "\xed\xa0\x80",
             "\xf0\x80\x80\x80",
             "\xf0\x8f\xbf\xbf",
             "\xf4\x90\x80\x80",
             "\xf5\x80\x80\x80",
             "\xff",
             "\xc3",
             "\xe2\x82",
             "\xf0\x9f\x98",
             "a\xc3(",
             "\xe2(\xac",
         }) {
        CHECK_FALSE(is_utf8(bytes));
        CHECK_FALSE(is_utf8(std::string(40, 'x') + std::string{bytes}));
        CHECK(is_utf8(to_utf8(bytes)));
    }
    CHECK(is_utf8(""));
    CHECK(is_utf8(mixed));
    CHECK(is_utf8(std::string(100, 'x') + std::string{mixed}));
}

TEST_CASE("each invalid sequence becomes one replacement character") {
    const std::string sign = "\xef\xbf\xbd";
    CHECK(to_utf8("") == "");
    CHECK(to_utf8(mixed) == mixed);
    CHECK(
        to_utf8("a\xff"
                "b")
        == "a" + sign + "b");
    CHECK(to_utf8("\x80\x80") == sign + sign);
    CHECK(to_utf8("a\xf0\x9f\x98") == "a" + sign);
    CHECK(to_utf8("a\xf0\x9f\x98z\xc3\xa9") == "a" + sign + "z\xc3\xa9");
    CHECK(to_utf8("\xe2\x82\xe2\x82\xac") == sign + "\xe2\x82\xac");
    CHECK(to_utf8("\xc0\x80") == sign + sign);
    CHECK(to_utf8("\xed\xa0\x80") == sign + sign + sign);
}

TEST_CASE("any bytes become UTF-8 and valid text stays untouched") {
    std::mt19937 random{7};
    for (int i = 0; i < 20'000; ++i) {
        std::string bytes(random() % 24, '\0');
        for (char& byte : bytes) {
            byte = static_cast<char>(random() % 3 == 0 ? random() : 0x80 + random() % 0x80);
        }
        const std::string text = to_utf8(bytes);
        REQUIRE(is_utf8(text));
        REQUIRE(is_utf8(bytes) == (text == bytes));
        REQUIRE(is_utf8(one_line(bytes, 1000)));
    }
}

TEST_CASE("a prefix ends between two characters and is as long as it may be") {
    const std::size_t expected[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 10, 10};
    for (std::size_t max = 0; max < std::size(expected); ++max) {
        CAPTURE(max);
        CHECK(utf8_prefix(mixed, max) == mixed.substr(0, expected[max]));
    }
    CHECK(utf8_prefix("", 0).empty());
}

TEST_CASE("a suffix begins between two characters and is as long as it may be") {
    const std::size_t expected[] = {0, 0, 0, 0, 4, 4, 4, 7, 7, 9, 10, 10};
    for (std::size_t max = 0; max < std::size(expected); ++max) {
        CAPTURE(max);
        CHECK(utf8_suffix(mixed, max) == mixed.substr(mixed.size() - expected[max]));
    }
    CHECK(utf8_suffix("", 5).empty());
}

TEST_CASE("bytes that are no text are cut where the bound says") {
    const std::string stray(10, '\x80');
    CHECK(utf8_prefix(stray, 5).size() == 5);
    CHECK(utf8_suffix(stray, 5).size() == 5);
    const std::string cut = "\xe2\x82";
    CHECK(utf8_prefix(cut + "abc", 1).size() == 1);
    CHECK(utf8_suffix(cut + "abc", 4).size() == 4);
}

TEST_CASE("a line has no breaks and no blanks at its ends or in a row") {
    CHECK(one_line("", 10) == "");
    CHECK(one_line(" \t\n ", 10) == "");
    CHECK(one_line("  fix \r\n\t the\x1b bug \n", 100) == "fix the bug");
    CHECK(
        one_line(
            "a\x7f"
            "b",
            10)
        == "a b");
    CHECK(
        one_line(
            "a\xc2\x85\xc2\xa0"
            "b",
            10)
        == "a b");
    CHECK(
        one_line(
            "a\xe2\x80\xa8\xe3\x80\x80"
            "b",
            10)
        == "a b");
    CHECK(one_line(std::string_view{"a\0b", 3}, 10) == "a b");
    CHECK(
        one_line(
            "a\xff"
            "b",
            10)
        == "a\xef\xbf\xbd"
           "b");
}

TEST_CASE("the length of a line counts characters of the line") {
    CHECK(one_line(mixed, 0) == "");
    CHECK(one_line(mixed, 1) == "a");
    CHECK(one_line(mixed, 3) == "a\xc3\xa9\xe2\x82\xac");
    CHECK(one_line(mixed, 4) == mixed);
    CHECK(one_line("ab   cd", 2) == "ab");
    CHECK(one_line("ab   cd", 3) == "ab");
    CHECK(one_line("ab   cd", 4) == "ab c");
    CHECK(one_line("ab   cd", 5) == "ab cd");
}
