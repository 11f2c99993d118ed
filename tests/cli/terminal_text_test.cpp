// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal_text.hpp"

#include <doctest/doctest.h>

#include <string>

using relay::cli::harmless;
using relay::cli::harmless_json;
using relay::cli::harmless_lines;

TEST_CASE("text that a terminal would obey is shown instead") {
    CHECK(harmless("grün – ✓ plain") == "grün – ✓ plain");
    CHECK(harmless("\x1b]0;title\x07") == "\\x1b]0;title\\x07");
    CHECK(harmless("a\nb\tc\x7f") == "a\\nb\\x09c\\x7f");
    CHECK(
        harmless("\xc2\x9b"
                 "2J")
        == "\\x9b2J");
    CHECK(harmless("\xc2\xa0") == "\xc2\xa0");
    CHECK(harmless("\u202e\u2066x\u2069\u202f") == "\\u202e\\u2066x\\u2069\u202f");
    CHECK(harmless(std::string("a\0b", 3)) == "a\\x00b");
    CHECK(
        harmless("\x9b"
                 "2J")
            .find('\x9b')
        == std::string::npos);
    CHECK(harmless("").empty());
}

TEST_CASE("text of many lines keeps its lines and tabs and nothing else that moves the cursor") {
    CHECK(harmless_lines("a\n\tb\r\nc\rd\be\x1b[A\n") == "a\n\tb\nc\\x0dd\\x08e\\x1b[A\n");
    CHECK(harmless_lines("\\x0d\n") == "\\x0d\n");
    CHECK(harmless_lines("").empty());
}

TEST_CASE("JSON made harmless for a terminal still says the same") {
    CHECK(harmless_json("{\"a\":\"\xc2\x9b\x7f\u202e\"}") == "{\"a\":\"\\u009b\\u007f\\u202e\"}");
    CHECK(harmless_json("{\t\"a\": 1}\r") == "{ \"a\": 1} ");
}
