// SPDX-License-Identifier: Apache-2.0
#include "layout/json_parser.hpp"

#include <doctest/doctest.h>

#include <simdjson.h>

#include <string>

namespace relay::tests {
namespace {

using layout::compact_json;
using layout::find_member;
using layout::parse_json_object;

constexpr std::size_t depth_max = 1024;

std::string nested(std::size_t depth) {
    return R"({"a":)" + std::string(depth - 1, '[') + std::string(depth - 1, ']') + "}";
}

std::string complaint_about(const std::string& text, std::size_t deepest = depth_max) {
    const auto object = parse_json_object(text, deepest);
    return object.ok() ? std::string() : object.error().context;
}

}  // namespace

TEST_CASE("of several members with one name the last counts") {
    const auto object = parse_json_object(R"({"a":1,"b":null,"a":[ 2, {"c": "d"} ]})", depth_max);
    REQUIRE(object.ok());
    CHECK(compact_json(*find_member(object.value(), "a")) == R"([2,{"c":"d"}])");
    CHECK(find_member(object.value(), "b")->is_null());
    CHECK_FALSE(find_member(object.value(), "c").has_value());
}

TEST_CASE("an integer beyond 64 bits is read as a number and is not refused") {
    const auto object = parse_json_object(R"({"a":18446744073709551616})", depth_max);
    REQUIRE(object.ok());
    CHECK(compact_json(*find_member(object.value(), "a")) == "1.8446744073709552e+19");
}

TEST_CASE("a text that holds no JSON object is refused with the reason") {
    CHECK(complaint_about("[]") == "is JSON, but no object");
    CHECK(complaint_about("{\"a\":}").starts_with("is no JSON: parse error at line 1, column 6"));
    CHECK(complaint_about("").starts_with("is no JSON: "));
    CHECK(complaint_about(nested(1024)).empty());
    CHECK(complaint_about(nested(1025)) == "nests deeper than 1024 levels");
    CHECK(complaint_about(nested(8), 8).empty());
    CHECK(complaint_about(nested(9), 8) == "nests deeper than 8 levels");
}

TEST_CASE("a large document leaves no large buffer and the next small one is read") {
    const std::string large = R"({"a":")" + std::string(3'000'000, 'x') + "\"}";
    CHECK(complaint_about(large).empty());
    CHECK(complaint_about("{}").empty());
}

}  // namespace relay::tests
