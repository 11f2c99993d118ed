// SPDX-License-Identifier: Apache-2.0
#include "layout/base64.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <string_view>

using relay::layout::decode_base64;
using relay::layout::encode_base64;

namespace {

bool is_base64(std::string_view text) {
    std::string bytes;
    return decode_base64(text, bytes);
}

std::string decoded(std::string_view text) {
    std::string bytes = "what was here before";
    REQUIRE(decode_base64(text, bytes));
    return bytes;
}

}  // namespace

TEST_CASE("base64 agrees with the examples of its standard") {
    struct Example {
        const char* bytes;
        const char* text;
    };
    for (const Example& example : {
             Example{"", ""},
             Example{"f", "Zg=="},
             Example{"fo", "Zm8="},
             Example{"foo", "Zm9v"},
             Example{"foob", "Zm9vYg=="},
             Example{"fooba", "Zm9vYmE="},
             Example{"foobar", "Zm9vYmFy"},
             Example{"\xfb\xff\xbf", "+/+/"},
         }) {
        CHECK(encode_base64(example.bytes) == example.text);
        CHECK(decoded(example.text) == example.bytes);
    }
}

TEST_CASE("all bytes survive base64 with and without padding") {
    std::mt19937 random{6};
    for (std::size_t size = 0; size < 300; ++size) {
        std::string bytes(size, '\0');
        for (char& byte : bytes) {
            byte = static_cast<char>(random());
        }
        std::string text = encode_base64(bytes);
        REQUIRE(text.size() % 4 == 0);
        REQUIRE(decoded(text) == bytes);
        while (text.ends_with('=')) {
            text.pop_back();
        }
        REQUIRE(decoded(text) == bytes);
    }
}

TEST_CASE("what is no base64 is refused") {
    for (const char* text : {
             "=",     "==",     "===",   "====",     "Z",    "Z===", "Zg=",
             "Zm8==", "Zm9v=",  "Zm9vY", "Zm9vZ===", "Z=g=", "=Zg=", "Zg==Zg==",
             "Zm9 v", "Zm9v\n", " Zm9v", "Zm9-",     "Zm9_", "Zm9.", "Zm\xc3\xa9",
         }) {
        CAPTURE(text);
        CHECK_FALSE(is_base64(text));
    }
}

TEST_CASE("base64 whose spare bits are not zero is refused") {
    CHECK(is_base64("Zg=="));
    CHECK_FALSE(is_base64("Zh=="));
    CHECK_FALSE(is_base64("Zh"));
    CHECK(is_base64("Zm8="));
    CHECK_FALSE(is_base64("Zm9="));
    CHECK_FALSE(is_base64("Zm9"));
}

TEST_CASE("every byte outside the alphabet is refused in every place of base64") {
    const std::string_view alphabet =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (int byte = 0; byte < 256; ++byte) {
        const char character = static_cast<char>(byte);
        const bool known = alphabet.find(character) != std::string_view::npos;
        for (const std::size_t at : {0U, 1U, 2U, 3U, 4U}) {
            std::string text = "AAAAAA";
            text[at] = character;
            CAPTURE(byte);
            CAPTURE(at);
            CHECK(is_base64(text) == known);
        }
    }
}
