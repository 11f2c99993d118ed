// SPDX-License-Identifier: Apache-2.0
#include "cli/index_file.hpp"
#include "tests/support/temporary_directory.hpp"

#include <boost/filesystem.hpp>
#include <doctest/doctest.h>

#include <fstream>
#include <string>
#include <utility>

using relay::cli::Database;
using relay::cli::IfOpen;
using relay::cli::index_bytes;
using relay::cli::index_path;
using relay::cli::IndexFile;
using relay::cli::remove_index;
using relay::cli::StagedIndex;
using relay::layout::Errc;
using relay::tests::TemporaryDirectory;

namespace {

namespace filesystem = boost::filesystem;
using Access = Database::Access;

Errc code_of(const std::string& cache) {
    return IndexFile::open(cache, Access::read).error().code;
}

}  // namespace

TEST_CASE("an index is made where there is none and belongs to its user alone") {
    const TemporaryDirectory directory;
    const std::string cache = directory.path() + "/deep/cache";
    CHECK(code_of(cache) == Errc::not_found);
    CHECK(index_bytes(cache) == 0);
    {
        auto made = IndexFile::open_or_make(cache);
        REQUIRE(made.ok());
        CHECK(made.value().database().run("INSERT INTO last VALUES(7)").ok());
        for (const auto& entry : filesystem::directory_iterator(cache)) {
            CAPTURE(entry.path().string());
            CHECK(filesystem::status(entry.path()).permissions() == filesystem::perms(0600));
        }
    }
    CHECK(filesystem::status(cache).permissions() == filesystem::perms(0700));
    CHECK(IndexFile::open(cache, Access::read).ok());
    CHECK(index_bytes(cache) > 0);
}

TEST_CASE("an index that others may write is not opened") {
    const TemporaryDirectory directory;
    REQUIRE(IndexFile::open_or_make(directory.path()).ok());
    filesystem::permissions(index_path(directory.path()), filesystem::perms(0660));
    CHECK(code_of(directory.path()) == Errc::unsafe);
}

TEST_CASE("what is no index of this version is told from one that is missing") {
    const TemporaryDirectory directory;
    REQUIRE(IndexFile::open_or_make(directory.path()).ok());
    CHECK(IndexFile::open(directory.path(), Access::write)
              .value()
              .database()
              .run("PRAGMA user_version=1")
              .ok());
    CHECK(code_of(directory.path()) == Errc::corrupt);
    std::ofstream(index_path(directory.path())) << std::string(20'000, 'x');
    CHECK(code_of(directory.path()) == Errc::corrupt);
    std::ofstream(index_path(directory.path())) << "";
    CHECK(code_of(directory.path()) == Errc::corrupt);
}

TEST_CASE("a new index takes the place of the old one when it is published and not before") {
    const TemporaryDirectory directory;
    const auto numbers = [&directory] {
        return IndexFile::open(directory.path(), Access::read)
            .value()
            .database()
            .integer("SELECT count(*) FROM last")
            .value();
    };
    REQUIRE(IndexFile::open_or_make(directory.path()).ok());
    auto staged = StagedIndex::create(directory.path());
    REQUIRE(staged.ok());
    CHECK(staged.value().database().run("INSERT INTO last VALUES(7)").ok());
    CHECK(StagedIndex::create(directory.path()).error().code == Errc::busy);
    CHECK(numbers() == 1);
    CHECK(StagedIndex::publish(std::move(staged.value())).ok());
    CHECK(numbers() == 2);
    CHECK(StagedIndex::create(directory.path()).ok());
}

TEST_CASE("an index that somebody has open is not removed behind their back") {
    const TemporaryDirectory directory;
    CHECK(remove_index(directory.path(), IfOpen::leave).ok());
    {
        const auto open = IndexFile::open_or_make(directory.path());
        REQUIRE(open.ok());
        CHECK(remove_index(directory.path(), IfOpen::leave).error().code == Errc::busy);
    }
    CHECK(remove_index(directory.path(), IfOpen::leave).ok());
    CHECK(!filesystem::exists(index_path(directory.path())));
    CHECK(code_of(directory.path()) == Errc::not_found);
}
