// SPDX-License-Identifier: Apache-2.0
#include "layout/json_writer.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <string_view>

using relay::layout::append_json_number;
using relay::layout::append_json_string;
using relay::layout::JsonObject;
using relay::layout::RawJson;
using relay::layout::Timestamp;

namespace {

std::string json_string(std::string_view text) {
    std::string out;
    append_json_string(out, text);
    return out;
}

std::string json_number(double number) {
    std::string out;
    append_json_number(out, number);
    return out;
}

void fill(JsonObject& object) {
    object.string("text", "a\"b");
    object.integer("count", -7);
    object.number("cost", 0.25);
    object.boolean("yes", true);
    object.boolean("no", false);
    object.null("nothing");
    object.timestamp("at", Timestamp{0});
    object.strings("labels", {"a", "b\n"});
    object.strings("none", {});
    object.raw("raw", R"({"x":[1,2]})");
    object.string_or_null("s", "v");
    object.string_or_null("s0", std::nullopt);
    object.integer_or_null("i", 1);
    object.integer_or_null("i0", std::nullopt);
    object.number_or_null("d", 1.5);
    object.number_or_null("d0", std::nullopt);
    object.timestamp_or_null("t", Timestamp{1});
    object.timestamp_or_null("t0", std::nullopt);
    object.raw_or_null("r", RawJson{"[]"});
    object.raw_or_null("r0", RawJson{});
    object.finish();
}

}  // namespace

TEST_CASE("a JSON string escapes what JSON demands and nothing else") {
    CHECK(json_string("") == R"("")");
    CHECK(json_string("plain") == R"("plain")");
    CHECK(json_string("\"\\/") == R"("\"\\/")");
    CHECK(json_string("\b\f\n\r\t") == R"("\b\f\n\r\t")");
    CHECK(json_string(std::string_view{"\0\x01\x1f", 3}) == R"("\u0000\u0001\u001f")");
    CHECK(json_string("\x7f") == "\"\x7f\"");
    CHECK(json_string("\xe2\x80\xa8\xc3\xa9") == "\"\xe2\x80\xa8\xc3\xa9\"");
}

TEST_CASE("a byte that needs an escape is found at every place of a JSON string") {
    for (std::size_t size = 1; size <= 40; ++size) {
        for (std::size_t at = 0; at < size; ++at) {
            for (const char special : {'"', '\\', '\n', '\x1f', '\0'}) {
                std::string text(size, 'x');
                text[at] = special;
                const std::string json = json_string(text);
                REQUIRE(nlohmann::json::parse(json).get<std::string>() == text);
            }
        }
    }
}

TEST_CASE("any text reads back from its JSON string") {
    std::mt19937 random{9};
    const std::string_view pieces[] = {
        "a",
        "long enough to be copied as a run",
        "\"",
        "\\",
        "\n",
        "\x01",
        "\xc3\xa9",
        "\xf0\x9f\x98\x80",
        "\xe2\x80\xa9",
        "!",
        " ",
        "#",
        "[",
        "]",
        "\x7f"};
    for (int i = 0; i < 5'000; ++i) {
        std::string text;
        for (auto n = random() % 20; n > 0; --n) {
            text += pieces[random() % std::size(pieces)];
        }
        REQUIRE(nlohmann::json::parse(json_string(text)).get<std::string>() == text);
    }
}

TEST_CASE("invalid bytes become replacement characters in a JSON string") {
    CHECK(json_string("a\xff\n") == "\"a\xef\xbf\xbd\\n\"");
    CHECK(json_string("\xe2\x82") == "\"\xef\xbf\xbd\"");
}

TEST_CASE("a JSON number is the shortest that reads back the same") {
    CHECK(json_number(0.1) == "0.1");
    CHECK(json_number(0) == "0");
    CHECK(json_number(-2.5) == "-2.5");
    CHECK(json_number(3) == "3");
    CHECK(json_number(std::nan("")) == "null");
    CHECK(json_number(std::numeric_limits<double>::infinity()) == "null");
    CHECK(json_number(-std::numeric_limits<double>::infinity()) == "null");

    std::mt19937_64 random{10};
    for (int i = 0; i < 20'000; ++i) {
        const std::uint64_t bits = random();
        double number = 0;
        std::memcpy(&number, &bits, sizeof number);
        if (std::isfinite(number)) {
            REQUIRE(nlohmann::json::parse(json_number(number)).get<double>() == number);
        }
    }
}

TEST_CASE("integers of a JSON object reach both ends of 64 bits") {
    std::string out;
    JsonObject object{out, JsonObject::Form::compact};
    object.integer("min", std::numeric_limits<std::int64_t>::min());
    object.integer("max", std::numeric_limits<std::int64_t>::max());
    object.finish();
    CHECK(out == R"({"min":-9223372036854775808,"max":9223372036854775807})");
}

TEST_CASE("a compact JSON object has no white space") {
    std::string out = "before ";
    JsonObject object{out, JsonObject::Form::compact};
    fill(object);
    CHECK(
        out
        == R"(before {"text":"a\"b","count":-7,"cost":0.25,"yes":true,"no":false,"nothing":null,)"
           R"("at":"1970-01-01T00:00:00.000Z","labels":["a","b\n"],"none":[],"raw":{"x":[1,2]},)"
           R"("s":"v","s0":null,"i":1,"i0":null,"d":1.5,"d0":null,)"
           R"("t":"1970-01-01T00:00:00.001Z","t0":null,"r":[],"r0":null})");
}

TEST_CASE("a JSON object in lines has each member on a line of its own") {
    std::string out;
    JsonObject object{out, JsonObject::Form::lines};
    object.integer("a", 1);
    object.key("b\"");
    out += R"({"c":2})";
    object.strings("d", {"x", "y"});
    object.finish();
    CHECK(out == "{\n  \"a\": 1,\n  \"b\\\"\": {\"c\":2},\n  \"d\": [\"x\",\"y\"]\n}\n");
}

TEST_CASE("both forms of a JSON object say the same") {
    std::string lines;
    JsonObject first{lines, JsonObject::Form::lines};
    fill(first);
    std::string compact;
    JsonObject second{compact, JsonObject::Form::compact};
    fill(second);
    CHECK(nlohmann::json::parse(lines) == nlohmann::json::parse(compact));
}

TEST_CASE("an empty JSON object is valid in both forms") {
    std::string lines;
    JsonObject first{lines, JsonObject::Form::lines};
    first.finish();
    CHECK(lines == "{}\n");
    std::string compact;
    JsonObject second{compact, JsonObject::Form::compact};
    second.finish();
    CHECK(compact == "{}");
}
