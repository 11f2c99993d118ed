// SPDX-License-Identifier: Apache-2.0
#include "layout/nearest_name.hpp"

#include <doctest/doctest.h>

#include <array>
#include <string>
#include <string_view>

using relay::layout::edit_distance;
using relay::layout::nearest_name;

TEST_CASE("the edit distance counts insertions and removals and replacements and swaps") {
    CHECK(edit_distance("", "") == 0);
    CHECK(edit_distance("", "abc") == 3);
    CHECK(edit_distance("abc", "") == 3);
    CHECK(edit_distance("emit", "emit") == 0);
    CHECK(edit_distance("emt", "emit") == 1);
    CHECK(edit_distance("emitt", "emit") == 1);
    CHECK(edit_distance("omit", "emit") == 1);
    CHECK(edit_distance("sokcet", "socket") == 1);
    CHECK(edit_distance("kitten", "sitting") == 3);
}

TEST_CASE("the nearest name is found within the distance and not beyond it") {
    constexpr std::array<std::string_view, 3> names{"daemon", "emit", "verify"};
    CHECK(nearest_name("deamon", names, 2) == "daemon");
    CHECK(nearest_name("verifi", names, 2) == "verify");
    CHECK(nearest_name("daxxxn", names, 2).empty());
    CHECK(nearest_name("xyzt", names, 3).empty());  // three of four letters differ: no help
    CHECK(nearest_name(std::string(10'000, 'x'), names, 20'000).empty());
}
