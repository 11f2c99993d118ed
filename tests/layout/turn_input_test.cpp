// SPDX-License-Identifier: Apache-2.0
#include "layout/turn_input.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/written_session.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace {

using relay::layout::Errc;
using relay::layout::read_turn_file;
using relay::layout::Result;
using relay::layout::TurnInput;
using relay::tests::compress_file;
using relay::tests::TemporaryDirectory;

void write(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
}

std::string bytes_at(TurnInput& input, std::int64_t offset, std::size_t size) {
    std::string piece(size, '\0');
    const Result<std::size_t> got = input.read_at(offset, piece.data(), piece.size());
    REQUIRE(got.ok());
    return piece.substr(0, got.value());
}

}  // namespace

TEST_CASE("a turn's file reads the same compressed and as it was recorded") {
    const TemporaryDirectory root;
    const std::string path = root.path() + "/001-output.md";
    std::string text;
    for (int line = 0; line < 50'000; ++line) {
        text += std::to_string(line) + "\n";
    }
    write(path, text);
    for (const bool compressed : {false, true}) {
        CAPTURE(compressed);
        if (compressed) {
            compress_file(path);
        }
        const Result<std::string> all = read_turn_file(path, 1 << 20);
        REQUIRE(all.ok());
        CHECK(all.value() == text);
        Result<TurnInput> input = TurnInput::open(AT_FDCWD, path);
        REQUIRE(input.ok());
        CHECK(input.value().compressed() == compressed);
        // Forward, back, and behind the end.
        CHECK(bytes_at(input.value(), 10, 100) == text.substr(10, 100));
        CHECK(bytes_at(input.value(), 200'000, 64) == text.substr(200'000, 64));
        CHECK(bytes_at(input.value(), 3, 64) == text.substr(3, 64));
        CHECK(bytes_at(input.value(), std::ssize(text) - 2, 64) == text.substr(text.size() - 2));
        CHECK(bytes_at(input.value(), std::ssize(text) + 5, 64).empty());
        const Result<std::string> short_of_it = read_turn_file(path, 1000);
        REQUIRE_FALSE(short_of_it.ok());
        CHECK(short_of_it.error().code == Errc::invalid);
    }
}

TEST_CASE("of a turn's file in both forms the recorded one counts") {
    const TemporaryDirectory root;
    const std::string path = root.path() + "/001-output.md";
    write(path, "compressed");
    compress_file(path);
    write(path, "recorded");
    CHECK(read_turn_file(path, 100).value() == "recorded");
    ::unlink(path.c_str());
    CHECK(read_turn_file(path, 100).value() == "compressed");
    ::unlink((path + ".zst").c_str());
    const Result<std::string> none = read_turn_file(path, 100);
    REQUIRE_FALSE(none.ok());
    CHECK(none.error().code == Errc::not_found);
    CHECK(none.error().context.find(".zst") == std::string::npos);
}

TEST_CASE("a compressed file that is a link or no zstd is refused") {
    const TemporaryDirectory root;
    const std::string path = root.path() + "/001-output.md";
    write(path + ".zst", "not compressed at all");
    Result<std::string> text = read_turn_file(path, 100);
    REQUIRE_FALSE(text.ok());
    CHECK(text.error().code == Errc::corrupt);
    CHECK(
        text.error().context.find("001-output.md.zst: cannot be decompressed")
        != std::string::npos);
    ::unlink((path + ".zst").c_str());
    REQUIRE(::symlink("/etc/passwd", (path + ".zst").c_str()) == 0);
    text = read_turn_file(path, 100);
    REQUIRE_FALSE(text.ok());
    CHECK(text.error().code == Errc::unsafe);
}
