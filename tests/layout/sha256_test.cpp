// SPDX-License-Identifier: Apache-2.0
#include "layout/sha256.hpp"

#include <doctest/doctest.h>

#include <string>
#include <type_traits>
#include <utility>

using relay::layout::Sha256;
using relay::layout::sha256_hex;

namespace {

constexpr const char* of_nothing =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr const char* of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

}  // namespace

TEST_CASE("SHA-256 has its published values") {
    CHECK(sha256_hex("") == of_nothing);
    CHECK(sha256_hex("abc") == of_abc);
    CHECK(
        sha256_hex(std::string(1'000'000, 'a'))
        == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("a running hash may be read at any time and goes on") {
    Sha256 hash;
    CHECK(hash.hex() == of_nothing);
    hash.update("a");
    CHECK(hash.hex() == sha256_hex("a"));
    hash.update("");
    hash.update("bc");
    CHECK(hash.hex() == of_abc);
    CHECK(hash.hex() == of_abc);
}

TEST_CASE("a running hash moves with what it has seen") {
    static_assert(!std::is_copy_constructible_v<Sha256>);
    Sha256 first;
    first.update("ab");
    Sha256 second = std::move(first);
    second.update("c");
    CHECK(second.hex() == of_abc);
}
