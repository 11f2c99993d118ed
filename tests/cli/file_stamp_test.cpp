// SPDX-License-Identifier: Apache-2.0
#include "cli/file_stamp.hpp"
#include "tests/support/temporary_directory.hpp"

#include <boost/filesystem.hpp>
#include <doctest/doctest.h>

#include <fcntl.h>

#include <cstdint>
#include <fstream>
#include <string>

using relay::cli::file_clock_ns;
using relay::cli::FileStamp;
using relay::tests::TemporaryDirectory;

TEST_CASE("a stamp is another one after a file was replaced or grew") {
    const TemporaryDirectory directory;
    const std::string path = directory.path() + "/file";
    CHECK(!FileStamp::of(AT_FDCWD, path));
    std::ofstream(path) << "one";
    const auto first = FileStamp::of(AT_FDCWD, path);
    REQUIRE(first);
    CHECK(FileStamp::of(AT_FDCWD, path) == first);
    std::ofstream(path, std::ios::app) << "more";
    const auto second = FileStamp::of(AT_FDCWD, path);
    CHECK(second != first);
    std::ofstream(path + ".new") << "sevenfb";
    boost::filesystem::rename(path + ".new", path);
    CHECK(FileStamp::of(AT_FDCWD, path) != second);
    CHECK(first->bytes().size() == 40);
    CHECK(first->bytes() != second->bytes());
}

TEST_CASE("a stamp is sure once its file has been at rest for seconds") {
    const TemporaryDirectory directory;
    const std::string path = directory.path() + "/file";
    std::ofstream(path) << "one";
    const auto stamp = FileStamp::of(AT_FDCWD, path);
    REQUIRE(stamp);
    constexpr std::int64_t second_ns = 1'000'000'000;
    CHECK(!stamp->settled(file_clock_ns()));
    CHECK(stamp->settled(file_clock_ns() + 4 * second_ns));
    // Its time can be set back, but not that of its inode.
    boost::filesystem::last_write_time(path, 1000);
    CHECK(!FileStamp::of(AT_FDCWD, path)->settled(file_clock_ns()));
}
