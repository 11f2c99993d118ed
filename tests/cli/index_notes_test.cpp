// SPDX-License-Identifier: Apache-2.0
#include "cli/index_notes.hpp"
#include "cli/session_card.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/written_session.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>

#include <cstdint>
#include <string>

using relay::cli::file_clock_ns;
using relay::cli::FileStamp;
using relay::cli::GramCollector;
using relay::cli::IfMissing;
using relay::cli::index_bytes;
using relay::cli::IndexNotes;
using relay::cli::leave_notes;
using relay::cli::note_meta;
using relay::cli::note_text;
using relay::tests::example_meta;
using relay::tests::TemporaryDirectory;
using relay::tests::write_session;

namespace {

constexpr std::int64_t minute_ns = 60'000'000'000;

}  // namespace

TEST_CASE("what changed a moment ago is not noted") {
    const TemporaryDirectory directory;
    const auto id = example_meta(1).id;
    const std::string session =
        write_session(directory.path(), example_meta(1), {{"prompt", "output"}});
    const auto stamp = FileStamp::of(AT_FDCWD, session + "/meta.json");
    REQUIRE(stamp);
    const std::int64_t now = file_clock_ns();
    CHECK(!note_meta(example_meta(1), *stamp, "{ }", now));
    CHECK(note_meta(example_meta(1), *stamp, "{ }", now + minute_ns)->document == "{}");
    CHECK(
        note_meta(example_meta(1), *stamp, "{ }", now + minute_ns)->card
        == relay::cli::encode_card(example_meta(1)));
    GramCollector collector;
    CHECK(!note_text(directory.path(), id, collector, now));
    CHECK(note_text(directory.path(), id, collector, now + minute_ns)->turns.size() == 1);
    CHECK(!note_text(directory.path(), example_meta(2).id, collector, now + minute_ns));
}

TEST_CASE("notes make an index only when they are told to") {
    const TemporaryDirectory directory;
    IndexNotes notes;
    notes.metas["/a"].push_back({example_meta(1).id, FileStamp{}, "card", "{}"});
    leave_notes(directory.path(), notes, IfMissing::leave);
    CHECK(index_bytes(directory.path()) == 0);
    leave_notes(directory.path(), notes, IfMissing::make);
    CHECK(index_bytes(directory.path()) > 0);
}
