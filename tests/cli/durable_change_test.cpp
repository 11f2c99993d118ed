// SPDX-License-Identifier: Apache-2.0
#include "cli/durable_change.hpp"
#include "tests/support/temporary_directory.hpp"

#include <boost/filesystem.hpp>
#include <doctest/doctest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

using relay::cli::make_directories;
using relay::cli::write_atomically;
using relay::tests::TemporaryDirectory;

namespace {

std::string content_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("a private file is replaced whole and leaves nothing beside it") {
    const TemporaryDirectory directory;
    REQUIRE(make_directories(directory.path() + "/a/b").ok());
    REQUIRE(make_directories(directory.path() + "/a/b").ok());
    const std::string path = directory.path() + "/a/b/file";
    REQUIRE(write_atomically(path, "one").ok());
    REQUIRE(write_atomically(path, "two").ok());
    CHECK(content_of(path) == "two");
    struct stat status {};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
    CHECK(std::distance(boost::filesystem::directory_iterator(directory.path() + "/a/b"), {}) == 1);
}

TEST_CASE("a private file that cannot be written stays as it was") {
    const TemporaryDirectory directory;
    const std::string path = directory.path() + "/file";
    CHECK_FALSE(write_atomically(directory.path() + "/absent/file", "x").ok());
    REQUIRE(write_atomically(path, "old").ok());
    // A directory in the place of the temporary file: not even root writes there.
    const std::string hidden = "/.file." + std::to_string(::getpid()) + ".tmp";
    boost::filesystem::create_directory(directory.path() + hidden);
    const auto refused = write_atomically(path, "new");
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().context.find(hidden) != std::string::npos);
    CHECK(content_of(path) == "old");
    std::ofstream(directory.path() + "/plain") << "x";
    CHECK_FALSE(make_directories(directory.path() + "/plain/below").ok());
}
