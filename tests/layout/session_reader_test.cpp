// SPDX-License-Identifier: Apache-2.0
#include "layout/session_reader.hpp"
#include "tests/support/temporary_directory.hpp"

#include <doctest/doctest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

namespace relay::layout {

namespace {

void write(const std::string& path, const std::string& content) {
    std::ofstream(path, std::ios::binary) << content;
}

}  // namespace

TEST_CASE("a file is read whole up to its bound and not beyond") {
    const tests::TemporaryDirectory directory;
    const std::string path = directory.path() + "/f";
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{300000}}) {
        std::string content(bytes, 'x');
        if (bytes > 1) {
            content[bytes / 2] = '\0';
        }
        write(path, content);
        const auto bound = static_cast<std::int64_t>(bytes);
        const Result<std::string> read = read_file(path, bound);
        REQUIRE(read.ok());
        CHECK(read.value() == content);
        if (bytes > 0) {
            const Result<std::string> refused = read_file(path, bound - 1);
            REQUIRE_FALSE(refused.ok());
            CHECK(refused.error().code == Errc::invalid);
        }
    }
}

TEST_CASE("a file that grows while it is read is still held to its bound") {
    // Files of /proc say that they are empty and then are not.
    const Result<std::string> whole = read_file("/proc/self/stat", 65536);
    REQUIRE(whole.ok());
    CHECK(whole.value().size() > 10);
    const Result<std::string> refused = read_file("/proc/self/stat", 10);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == Errc::invalid);
}

TEST_CASE("what is no regular file is neither followed nor waited for") {
    const tests::TemporaryDirectory directory;
    const std::string& base = directory.path();
    write(base + "/file", "x");
    REQUIRE(::symlink("file", (base + "/link").c_str()) == 0);
    REQUIRE(::mkfifo((base + "/fifo").c_str(), 0600) == 0);
    for (const std::string name : {"/link", "/fifo", "/."}) {
        CAPTURE(name);
        const Result<std::string> read = read_file(base + name, 100);
        REQUIRE_FALSE(read.ok());
        CHECK(read.error().code == Errc::unsafe);
    }
    for (const std::string name : {"/none", "/none/f", "/file/f"}) {
        CAPTURE(name);
        const Result<std::string> read = read_file(base + name, 100);
        REQUIRE_FALSE(read.ok());
        CHECK(read.error().code == Errc::not_found);
        CHECK(read.error().context.find(name) != std::string::npos);
    }
}

TEST_CASE("the meta of a session is read or its path named") {
    const tests::TemporaryDirectory directory;
    Meta meta;
    meta.id = *Ulid::parse("01J9X3M7K5VBHQEN6T2F4D8RPZ");
    meta.agent = "codex";
    write(directory.path() + "/meta.json", encode_meta(meta));
    const Result<Meta> read = read_meta(directory.path());
    REQUIRE(read.ok());
    CHECK(read.value().id == meta.id);
    CHECK(read.value().agent == "codex");

    const auto code_of = [&](const std::string& text) {
        write(directory.path() + "/meta.json", text);
        const Result<Meta> refused = read_meta(directory.path());
        REQUIRE_FALSE(refused.ok());
        CHECK(refused.error().context.starts_with(directory.path() + "/meta.json: "));
        return refused.error().code;
    };
    CHECK(code_of("{") == Errc::corrupt);
    CHECK(code_of(R"({"v":2})") == Errc::invalid);
    CHECK(code_of(std::string(std::size_t{5} << 20, ' ')) == Errc::corrupt);
    CHECK(read_meta(directory.path() + "/none").error().code == Errc::not_found);
}

TEST_CASE("sessions are listed newest first and other names are passed over") {
    const tests::TemporaryDirectory directory;
    const std::string& base = directory.path();
    const std::vector<std::string> ids{
        "01J9X3M7K5VBHQEN6T2F4D8RPZ", "01J9X3M7K5VBHQEN6T2F4D8RPY", "01J8X3M7K5VBHQEN6T2F4D8RPZ"};
    for (const std::string& name :
         {ids[1],
          ids[2],
          ids[0],
          std::string("01j9x3m7k5vbhqen6t2f4d8rpa"),
          std::string("O1J9X3M7K5VBHQEN6T2F4D8RPB"),
          std::string("81J9X3M7K5VBHQEN6T2F4D8RPZ"),
          std::string(".01J9X3M7K5VBHQEN6T2F4D8RPZ.tmp"),
          std::string("notes")}) {
        REQUIRE(::mkdir((base + "/" + name).c_str(), 0700) == 0);
    }
    write(base + "/01J9X3M7K5VBHQEN6T2F4D8RPC", "a file");
    REQUIRE(::symlink(ids[0].c_str(), (base + "/01J9X3M7K5VBHQEN6T2F4D8RPD").c_str()) == 0);
    const Result<std::vector<Ulid>> sessions = list_sessions(base);
    REQUIRE(sessions.ok());
    REQUIRE(sessions.value().size() == ids.size());
    for (std::size_t index = 0; index < ids.size(); ++index) {
        CHECK(sessions.value()[index].text() == ids[index]);
    }
}

TEST_CASE("a store without sessions is an empty list and an odd one an error") {
    const tests::TemporaryDirectory directory;
    const Result<std::vector<Ulid>> none = list_sessions(directory.path() + "/none");
    REQUIRE(none.ok());
    CHECK(none.value().empty());
    write(directory.path() + "/file", "");
    CHECK_FALSE(list_sessions(directory.path() + "/file").ok());
}

}  // namespace relay::layout
