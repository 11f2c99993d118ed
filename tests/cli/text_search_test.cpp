// SPDX-License-Identifier: Apache-2.0
#include "cli/text_search.hpp"
#include "tests/support/temporary_directory.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <string>
#include <vector>

using relay::cli::LineHit;
using relay::cli::search_file;
using relay::cli::TextPattern;
using relay::layout::Errc;
using relay::tests::TemporaryDirectory;

namespace {

struct Seen {
    std::int64_t line = 0;
    std::string text;
    std::string match;
    bool operator==(const Seen&) const = default;
};

std::vector<Seen> search(const std::string& text, const TextPattern& pattern) {
    const TemporaryDirectory directory;
    std::ofstream(directory.path() + "/file", std::ios::binary) << text;
    std::vector<Seen> seen;
    const auto status = search_file(directory.path() + "/file", pattern, [&seen](LineHit hit) {
        seen.push_back({hit.line, hit.text, hit.text.substr(hit.match.begin, hit.match.size)});
        return true;
    });
    REQUIRE(status.ok());
    return seen;
}

std::vector<Seen> search(const std::string& text, std::vector<std::string> words) {
    return search(text, TextPattern::words(std::move(words)).value());
}

}  // namespace

TEST_CASE("lines with all the words are found by their numbers") {
    const std::string text =
        "The rate limit\nlimit of the\n\nnothing\nRATE and limit\nthe end of limit rate";
    CHECK(
        search(text, {"rate", "limit"})
        == std::vector<Seen>{
            {1, "The rate limit", "limit"},
            {5, "RATE and limit", "limit"},
            {6, "the end of limit rate", "limit"}});
    CHECK(search(text, {"rate limit"}) == std::vector<Seen>{{1, "The rate limit", "rate limit"}});
    CHECK(search(text, {"RATE"}) == std::vector<Seen>{{5, "RATE and limit", "RATE"}});
    CHECK(search(text, {"absent"}).empty());
    CHECK(search("", {"x"}).empty());
    CHECK(search("\r\nx\r\n", {"x"}) == std::vector<Seen>{{2, "x", "x"}});
    CHECK(TextPattern::words({""}).error().code == Errc::invalid);
}

TEST_CASE("an expression is looked for in each line") {
    const auto pattern = TextPattern::regex("^e[0-9]{2,}|x$");
    REQUIRE(pattern.ok());
    CHECK(
        search("E12 a\nno e12\nlast x\nx no\n", pattern.value())
        == std::vector<Seen>{{1, "E12 a", "E12"}, {3, "last x", "x"}});
    CHECK(
        search("e12\nE12\n", TextPattern::regex("E12").value())
        == std::vector<Seen>{{2, "E12", "E12"}});
    const TextPattern copy(pattern.value());
    CHECK(search("e99\n", copy).size() == 1);
    const auto wrong = TextPattern::regex("a(b");
    CHECK(wrong.error().code == Errc::invalid);
    CHECK(wrong.error().context.starts_with("\"a(b\" is no regular expression: "));
}

TEST_CASE("a hit is found wherever the blocks of a large file are cut") {
    // Around the ends of the pieces that are looked at and the blocks that are read.
    std::string text;
    std::vector<std::int64_t> lines;
    std::int64_t number = 1;
    while (text.size() < 3'300'000) {
        const bool marked = number % 37 == 0;
        text += std::string(static_cast<std::size_t>(number * 7919 % 211), 'x')
                + (marked ? "Needle" : "needl e") + "\n";
        if (marked) {
            lines.push_back(number);
        }
        ++number;
    }
    std::vector<std::int64_t> found;
    for (const Seen& seen : search(text, {"needle"})) {
        found.push_back(seen.line);
        CHECK(seen.match == "Needle");
    }
    CHECK(found == lines);
}

TEST_CASE("a very long line is searched in pieces and shown around its match") {
    std::string text(3'000'000, 'y');
    text += "needle" + std::string(1000, 'z') + "\nneedle\n";
    const std::vector<Seen> seen = search(text, {"needle"});
    REQUIRE(seen.size() == 2);
    CHECK(seen[0].line == 1);
    CHECK(seen[0].text.starts_with("…yyy"));
    CHECK(seen[0].text.ends_with("zzz…"));
    CHECK(seen[0].text.size() <= 410);
    CHECK(seen[1] == Seen{2, "needle", "needle"});
}

TEST_CASE("bytes that are no text do not stop a search") {
    std::string text("\0\xff\xfe needle \x80\n", 14);
    const std::vector<Seen> seen = search(text, {"needle"});
    REQUIRE(seen.size() == 1);
    CHECK(seen[0].match == "needle");
    const TemporaryDirectory directory;
    const auto pattern = TextPattern::words({"x"});
    CHECK(
        search_file(
            directory.path() + "/none", pattern.value(), [](const LineHit&) { return true; })
            .error()
            .code
        == Errc::not_found);
}
