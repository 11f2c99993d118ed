// SPDX-License-Identifier: Apache-2.0
#include "cli/screen.hpp"

#include <doctest/doctest.h>

#include <map>
#include <optional>
#include <sstream>
#include <string>

using relay::cli::Column;
using relay::cli::look_at_screen;
using relay::cli::Pages;
using relay::cli::print_table;
using relay::cli::Screen;
using relay::cli::Surroundings;
using relay::cli::Tone;

namespace {

Screen screen_of(std::map<std::string, std::string> variables, bool terminal) {
    std::ostringstream out;
    std::ostringstream err;
    return look_at_screen(Surroundings{
        [&variables](const char* name) {
            const auto found = variables.find(name);
            return found == variables.end() ? std::nullopt : std::optional(found->second);
        },
        out,
        err,
        terminal});
}

}  // namespace

TEST_CASE("colours are for terminals whose user has not refused them") {
    CHECK(screen_of({}, true).colours);
    CHECK(screen_of({{"NO_COLOR", ""}}, true).colours);
    CHECK_FALSE(screen_of({{"NO_COLOR", "1"}}, true).colours);
    CHECK_FALSE(screen_of({{"TERM", "dumb"}}, true).colours);
    CHECK_FALSE(screen_of({}, false).colours);
    CHECK(screen_of({{"COLUMNS", "132"}}, true).columns == 132);
    CHECK(screen_of({{"COLUMNS", "wide"}}, true).columns > 0);
    CHECK(screen_of({{"COLUMNS", "132"}}, false).columns == 0);
    CHECK(Screen{true, 0, 0}.paint(Tone::red, "x") == "\x1b[31mx\x1b[0m");
    CHECK(Screen{}.paint(Tone::red, "x") == "x");
    CHECK(Screen{true, 0, 0}.paint(Tone::plain, "x") == "x");
}

TEST_CASE("a table is as wide as its cells and on a screen no wider than that") {
    const std::vector<Column> columns{
        {"ID"},
        {"NAME", Column::Side::left, 4},
        {"N", Column::Side::right},
        {"TEXT", Column::Side::left, 4}};
    const std::vector<std::vector<relay::cli::Cell>> rows{
        {{"a1"}, {"minty-guitar"}, {"7"}, {"the quick brown fox"}},
        {{"b2"}, {"日本"}, {"12"}, {""}},
    };
    CHECK(
        print_table(columns, rows, Screen{})
        == "ID  NAME           N  TEXT\n"
           "a1  minty-guitar   7  the quick brown fox\n"
           "b2  日本          12\n");
    CHECK(
        print_table(columns, rows, Screen{false, 30, 0})
        == "ID  NAME           N  TEXT\n"
           "a1  minty-guitar   7  the qui…\n"
           "b2  日本          12\n");
    CHECK(
        print_table(columns, rows, Screen{false, 22, 0})
        == "ID  NAME       N  TEXT\n"
           "a1  minty-g…   7  the…\n"
           "b2  日本      12\n");
}

TEST_CASE("parts of a table are drawn as one") {
    const std::vector<Column> columns{{"A"}, {"B", Column::Side::right}};
    std::vector<relay::cli::TableRows> parts(3);  // the second is empty
    parts[0].add("short", Tone::red);
    parts[0].add("1");
    parts[2].add("long enough");
    parts[2].add("1000");
    parts[2].add("", Tone::red);
    parts[2].add("7");
    std::ostringstream out;
    print_table(out, columns, parts, Screen{});
    CHECK(
        out.str()
        == "A               B\n"
           "short           1\n"
           "long enough  1000\n"
           "                7\n");
    out.str("");
    print_table(out, columns, parts, Screen{true, 0, 0});
    CHECK(out.str().find("\n\x1b[31mshort\x1b[0m           1\n") != std::string::npos);
}

TEST_CASE("a cell that is cut before a wide character still fills its column") {
    const std::vector<Column> columns{{"A", Column::Side::left, 4}, {"B"}};
    CHECK(print_table(columns, {{{"日本語"}, {"x"}}}, Screen{false, 7, 0}) == "A     B\n日…   x\n");
}

TEST_CASE("columns for wide screens are left out on narrow ones") {
    const std::vector<Column> columns{{"A"}, {"B", Column::Side::right, 0, 100}, {"C"}};
    const std::vector<std::vector<relay::cli::Cell>> rows{{{"1"}, {"2"}, {"3"}}};
    CHECK(print_table(columns, rows, Screen{false, 99, 0}) == "A  C\n1  3\n");
    CHECK(print_table(columns, rows, Screen{false, 100, 0}) == "A  B  C\n1  2  3\n");
    CHECK(print_table(columns, rows, Screen{}) == "A  B  C\n1  2  3\n");
}

TEST_CASE("what is no terminal gets its pages at once and unchanged") {
    std::ostringstream out;
    std::ostringstream err;
    const Surroundings surroundings{
        [](const char*) { return std::optional<std::string>("false"); }, out, err, false};
    {
        const Pages pages(surroundings);
        for (int line = 0; line < 1000; ++line) {
            pages.surroundings().out << line << '\n';
        }
        CHECK(out.str().ends_with("\n999\n"));
    }
    CHECK(out.str().starts_with("0\n1\n"));
    CHECK(out.str().size() == 3890);
}
