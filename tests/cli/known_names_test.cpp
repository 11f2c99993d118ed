// SPDX-License-Identifier: Apache-2.0
#include "cli/index_file.hpp"
#include "cli/known_names.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/written_session.hpp"

#include <boost/filesystem.hpp>
#include <doctest/doctest.h>

#include <fcntl.h>

#include <string>
#include <vector>

using relay::cli::FileStamp;
using relay::cli::IndexFile;
using relay::cli::known_names;
using relay::cli::list_with_index;
using relay::cli::names_stamp;
using relay::cli::note_names;
using relay::layout::Errc;
using relay::layout::Ulid;
using relay::tests::example_meta;
using relay::tests::TemporaryDirectory;

namespace {

namespace filesystem = boost::filesystem;

FileStamp stamp_of(const std::string& directory) {
    return FileStamp::of(AT_FDCWD, directory + "/.").value();
}

}  // namespace

TEST_CASE("the names of a store are known until something comes or goes in it") {
    const TemporaryDirectory directory;
    const std::string sessions = directory.path() + "/sessions";
    filesystem::create_directories(sessions + "/" + example_meta(1).id.text());
    const std::vector<Ulid> noted{example_meta(3).id, example_meta(2).id};
    const FileStamp before = stamp_of(sessions);
    {
        auto file = IndexFile::open_or_make(directory.path());
        REQUIRE(file.ok());
        CHECK(known_names(file.value().database(), sessions).error().code == Errc::not_found);
        CHECK(note_names(file.value().database(), sessions, before, noted).ok());
    }
    CHECK(list_with_index(directory.path(), sessions).value() == noted);
    // The clock of files ticks every few milliseconds.
    for (int number = 10; stamp_of(sessions) == before; ++number) {
        filesystem::create_directories(sessions + "/" + example_meta(number).id.text());
    }
    CHECK(list_with_index(directory.path(), sessions).value().back() == example_meta(1).id);
    CHECK(list_with_index("", sessions).value().back() == example_meta(1).id);
    CHECK(list_with_index(directory.path(), directory.path() + "/none").value().empty());
}

TEST_CASE("a store that changed a moment ago has no stamp to note its names with") {
    const TemporaryDirectory directory;
    CHECK(!names_stamp(directory.path()));
    CHECK(!names_stamp(directory.path() + "/none"));
    CHECK(names_stamp("/"));
}
