// SPDX-License-Identifier: Apache-2.0
#include "cli/flag_table.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

using relay::cli::Flag;
using relay::cli::number_flag;
using relay::cli::switch_flag;
using relay::cli::take_flags;
using relay::cli::text_flag;

namespace {

struct Places {
    bool on = false;
    std::string text;
    std::optional<std::string> other;
    std::optional<std::int64_t> number;
    std::vector<Flag> flags{
        switch_flag("--on", on),
        text_flag("--text", "a text", text),
        text_flag("--other", "a text", other),
        number_flag("-n", "a number of at least 1", 1, number),
    };
};

std::string complaint(const std::vector<std::string>& arguments) {
    const Places places;
    const auto words = take_flags(arguments, places.flags);
    return words.ok() ? "" : words.error().context;
}

}  // namespace

TEST_CASE("flags stand anywhere before two dashes and words keep their order") {
    Places places;
    const auto words = take_flags(
        {"a", "--text", "t", "b", "--on", "--other=o=p", "-n", "12", "-", "--", "--on", "c"},
        places.flags);
    REQUIRE(words.ok());
    CHECK(words.value() == std::vector<std::string>{"a", "b", "-", "--on", "c"});
    CHECK(places.on);
    CHECK(places.text == "t");
    CHECK(places.other == "o=p");
    CHECK(places.number == 12);
}

TEST_CASE("a number may stand right behind its letter") {
    Places places;
    REQUIRE(take_flags({"-n12"}, places.flags).ok());
    CHECK(places.number == 12);
}

TEST_CASE("a wrong flag is refused with what it needs or the nearest one") {
    CHECK(complaint({"--txt"}) == "unknown flag \"--txt\" (did you mean \"--text\"?)");
    CHECK(complaint({"--jsno"}) == "unknown flag \"--jsno\" (did you mean \"--json\"?)");
    CHECK(complaint({"-onward"}) == "unknown flag \"-onward\"");
    CHECK(complaint({"-n5x"}) == "-n needs a number of at least 1, got \"5x\"");
    CHECK(complaint({"--frobnicate=1"}) == "unknown flag \"--frobnicate\"");
    CHECK(complaint({"--text"}) == "--text needs a text");
    CHECK(complaint({"--text="}) == "--text needs a text");
    CHECK(complaint({"--on=yes"}) == "--on takes no value");
    CHECK(complaint({"-n", "0"}) == "-n needs a number of at least 1, got \"0\"");
    CHECK(complaint({"-n", "1x"}) == "-n needs a number of at least 1, got \"1x\"");
    CHECK(complaint({"--on", "--text", "--on"}).empty());
}
