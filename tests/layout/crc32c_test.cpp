// SPDX-License-Identifier: Apache-2.0
#include "layout/crc32c.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <string_view>

using relay::layout::crc32c;
using relay::layout::crc32c_portable;

namespace {

std::string random_bytes(std::size_t size) {
    std::mt19937 random{8};
    std::string bytes(size, '\0');
    for (char& byte : bytes) {
        byte = static_cast<char>(random());
    }
    return bytes;
}

}  // namespace

TEST_CASE("CRC-32C has its published values") {
    for (const auto function : {crc32c, crc32c_portable}) {
        CHECK(function("", 0) == 0);
        CHECK(function("123456789", 0) == 0xe3069283);
        CHECK(function(std::string(32, '\0'), 0) == 0x8a9136aa);
        CHECK(function(std::string(32, '\xff'), 0) == 0x62a8ab43);
    }
}

TEST_CASE("CRC-32C by instruction and by tables agree for every length and alignment") {
    const std::string bytes = random_bytes(128);
    for (std::size_t size = 0; size <= 100; ++size) {
        for (std::size_t begin = 0; begin < 9; ++begin) {
            const std::string_view part = std::string_view{bytes}.substr(begin, size);
            CAPTURE(size);
            REQUIRE(crc32c(part) == crc32c_portable(part));
            REQUIRE(crc32c(part, 0x12345678) == crc32c_portable(part, 0x12345678));
        }
    }
}

TEST_CASE("CRC-32C may be computed piece by piece") {
    const std::string bytes = random_bytes(100);
    const std::string_view whole = bytes;
    for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
        REQUIRE(crc32c(whole.substr(cut), crc32c(whole.substr(0, cut))) == crc32c(whole));
    }
}
