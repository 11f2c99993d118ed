// SPDX-License-Identifier: Apache-2.0
#include "layout/zstd_stream.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace {

using relay::layout::Errc;
using relay::layout::Error;
using relay::layout::Result;
using relay::layout::ZstdReader;
using relay::layout::ZstdWriter;

std::string compress(std::string_view text, std::size_t piece) {
    std::string out;
    ZstdWriter writer;
    for (; !text.empty(); text.remove_prefix(std::min(piece, text.size()))) {
        writer.add(text.substr(0, piece), out);
    }
    writer.finish(out);
    return out;
}

// Gives `bytes` away in pieces.
ZstdReader::Source source_of(std::string_view bytes, std::size_t piece) {
    return [bytes, piece](char* into, std::size_t size) mutable -> Result<std::size_t> {
        const std::size_t count = std::min({size, piece, bytes.size()});
        std::copy_n(bytes.data(), count, into);
        bytes.remove_prefix(count);
        return count;
    };
}

Result<std::string> decompress(std::string_view bytes, std::size_t piece, std::size_t room) {
    ZstdReader reader(source_of(bytes, piece));
    std::string text;
    std::string buffer(room, '\0');
    for (;;) {
        const Result<std::size_t> got = reader.read(buffer.data(), buffer.size());
        if (!got.ok()) {
            return got.error();
        }
        if (got.value() == 0) {
            return text;
        }
        text.append(buffer, 0, got.value());
    }
}

std::string long_text() {
    std::string text;
    for (int line = 0; line < 20'000; ++line) {
        text += "line " + std::to_string(line * 7919) + " of an agent\n";
    }
    return text;
}

}  // namespace

TEST_CASE("what was compressed comes back in pieces of any size") {
    for (const std::string& text : {std::string(), std::string("x"), long_text()}) {
        for (const std::size_t piece : {std::size_t{1}, std::size_t{1000}, std::size_t{1} << 20}) {
            CAPTURE(piece);
            if (piece == 1 && text.size() > 1) {
                continue;  // slow, and 1000 does not divide it either
            }
            const std::string compressed = compress(text, piece);
            const Result<std::string> back = decompress(compressed, piece, 4096);
            REQUIRE(back.ok());
            CHECK(back.value() == text);
        }
    }
    CHECK(compress(long_text(), 4096).size() < long_text().size() / 3);
}

TEST_CASE("frames one after the other are one file") {
    const Result<std::string> back = decompress(compress("one ", 9) + compress("two", 9), 3, 2);
    REQUIRE(back.ok());
    CHECK(back.value() == "one two");
}

TEST_CASE("compressed bytes that are damaged or cut off anywhere are told") {
    const std::string text = long_text().substr(0, 5000);
    const std::string compressed = compress(text, 4096);
    for (std::size_t kept = 0; kept < compressed.size(); kept += 7) {
        CAPTURE(kept);
        const Result<std::string> back = decompress(compressed.substr(0, kept), 4096, 4096);
        REQUIRE_FALSE(back.ok());
        CHECK(back.error().code == Errc::corrupt);
    }
    for (std::size_t at = 0; at < compressed.size(); at += 5) {
        CAPTURE(at);
        std::string wrong = compressed;
        wrong[at] = static_cast<char>(wrong[at] ^ 0x10);
        const Result<std::string> back = decompress(wrong, 4096, 4096);
        CHECK((!back.ok() || back.value() == text));
    }
    CHECK_FALSE(decompress("no zstd at all", 4096, 4096).ok());
}

TEST_CASE("a source of compressed bytes that fails is heard") {
    ZstdReader reader([](char*, std::size_t) -> Result<std::size_t> {
        return Error{Errc::io, 5, "read x"};
    });
    char byte = 0;
    const Result<std::size_t> got = reader.read(&byte, 1);
    REQUIRE_FALSE(got.ok());
    CHECK(got.error().context == "read x");
}
