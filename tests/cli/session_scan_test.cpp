// SPDX-License-Identifier: Apache-2.0
#include "cli/session_scan.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/written_session.hpp"

#include <boost/filesystem.hpp>
#include <doctest/doctest.h>

#include <fcntl.h>

#include <atomic>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

using relay::cli::KeepText;
using relay::cli::name_skipped;
using relay::cli::scan_sessions;
using relay::cli::ScanRequest;
using relay::cli::SessionScan;
using relay::cli::Surroundings;
using relay::layout::Errc;
using relay::layout::Meta;
using relay::tests::example_meta;
using relay::tests::TemporaryDirectory;
using relay::tests::write_many_sessions;
using relay::tests::write_session;

TEST_CASE("sessions of several stores are scanned newest first") {
    const TemporaryDirectory directory;
    const std::string first = directory.path() + "/a";
    const std::string second = directory.path() + "/b";
    for (const int number : {1, 4, 5}) {
        static_cast<void>(write_session(first, example_meta(number)));
    }
    for (const int number : {2, 3}) {
        static_cast<void>(write_session(second, example_meta(number)));
    }
    ScanRequest request;
    request.sessions_directories = {first, second, directory.path() + "/none"};
    const SessionScan scan = scan_sessions(request);
    CHECK(scan.skipped.empty());
    REQUIRE(scan.sessions.size() == 5);
    for (int at = 0; at < 5; ++at) {
        CHECK(scan.sessions[static_cast<std::size_t>(at)].meta.id == example_meta(5 - at).id);
    }
    CHECK(scan.sessions[1].directory == first + "/" + example_meta(4).id.text());
    CHECK(scan.sessions[1].text.empty());
}

TEST_CASE("a scan by many threads is in order and keeps what is wanted") {
    const TemporaryDirectory directory;
    write_many_sessions(directory.path(), 500, 10);
    ScanRequest request;
    request.sessions_directories = {directory.path()};
    request.keep_text = KeepText::yes;
    request.wanted = [](const Meta& meta) {
        return meta.agent == "codex";
    };
    request.wanted_id = [](const auto& id) {
        return id != example_meta(499).id;
    };
    const SessionScan scan = scan_sessions(request);
    REQUIRE(scan.sessions.size() == 166);
    std::int64_t number = 496;
    for (const auto& session : scan.sessions) {
        CHECK(session.meta.id == example_meta(number).id);
        CHECK(session.text.starts_with("{\n  \"v\": 1,\n"));
        number -= 3;
    }
}

TEST_CASE("sessions that cannot be read are named and the others are there") {
    const TemporaryDirectory directory;
    static_cast<void>(write_session(directory.path(), example_meta(1)));
    const std::string torn = write_session(directory.path(), example_meta(2));
    std::ofstream(torn + "/meta.json") << R"({"v":1,"id":)";
    const std::string newer = write_session(directory.path(), example_meta(3));
    std::ofstream(newer + "/meta.json") << R"({"v":2})";
    const std::string half = write_session(directory.path(), example_meta(4));
    boost::filesystem::remove(half + "/meta.json");
    const std::string foreign = write_session(directory.path(), example_meta(5));
    boost::filesystem::copy_file(
        directory.path() + "/" + example_meta(1).id.text() + "/meta.json",
        foreign + "/meta.json",
        boost::filesystem::copy_option::overwrite_if_exists);
    const std::string edited = write_session(directory.path(), example_meta(6));
    std::ofstream(edited + "/meta.json")
        << R"({"v":1,"id":")" + example_meta(6).id.text() + R"(","turn_count":"many"})";
    boost::filesystem::create_directory(directory.path() + "/notes");

    ScanRequest request;
    request.sessions_directories = {directory.path()};
    const SessionScan scan = scan_sessions(request);
    REQUIRE(scan.sessions.size() == 1);
    CHECK(scan.sessions.front().meta.id == example_meta(1).id);
    REQUIRE(scan.skipped.size() == 5);
    CHECK(scan.skipped[0].directory == edited);
    CHECK(scan.skipped[0].why.code == Errc::corrupt);
    CHECK(
        scan.skipped[1].why.context == "meta.json is that of session " + example_meta(1).id.text());
    CHECK(scan.skipped[2].why.code == Errc::not_found);
    CHECK(scan.skipped[3].why.code == Errc::invalid);
    CHECK(scan.skipped[4].why.code == Errc::corrupt);

    std::ostringstream out;
    std::ostringstream err;
    name_skipped(
        scan.skipped,
        Surroundings{[](const char*) { return std::optional<std::string>(); }, out, err, false});
    CHECK(out.str().empty());
    CHECK(
        err.str().find(
            "agent-relay: skipped \"" + newer + "\": " + newer
            + "/meta.json: written in format version 2; this program reads up to version 1; see "
              "agent-relay verify \""
            + newer + "\"\n")
        != std::string::npos);
}

namespace {

// Notes meta.json as it is now, with a document that tells that it came from the index.
void note_marked(const std::string& cache, const std::string& sessions, const Meta& meta) {
    auto file = relay::cli::IndexFile::open_or_make(cache);
    REQUIRE(file.ok());
    const auto stamp =
        relay::cli::FileStamp::of(AT_FDCWD, sessions + "/" + meta.id.text() + "/meta.json");
    REQUIRE(stamp);
    const std::vector<relay::cli::NotedMeta> noted{
        {meta.id, *stamp, R"({"v":1,"id":")" + meta.id.text() + R"(","agent":"from-index"})"}};
    REQUIRE(relay::cli::SessionIndex(file.value().database()).note(sessions, noted).ok());
}

std::string agents_of(const SessionScan& scan) {
    std::string agents;
    for (const auto& session : scan.sessions) {
        agents += session.meta.agent + " ";
    }
    return agents;
}

}  // namespace

TEST_CASE("the index stands for a meta.json only while that has the stamp it was noted with") {
    const TemporaryDirectory directory;
    const std::string sessions = directory.path() + "/sessions";
    for (const int number : {1, 2, 3}) {
        Meta meta = example_meta(number);
        meta.agent = "from-file";
        static_cast<void>(write_session(sessions, meta));
    }
    note_marked(directory.path(), sessions, example_meta(1));
    note_marked(directory.path(), sessions, example_meta(3));
    ScanRequest request;
    request.sessions_directories = {sessions, directory.path() + "/none"};
    request.index_directory = directory.path();
    CHECK(agents_of(scan_sessions(request)) == "from-index from-file from-index ");

    Meta changed = example_meta(3);
    changed.agent = "changed";
    static_cast<void>(write_session(sessions, changed));
    CHECK(agents_of(scan_sessions(request)) == "changed from-file from-index ");
    boost::filesystem::remove_all(sessions + "/" + example_meta(1).id.text());
    CHECK(agents_of(scan_sessions(request)) == "changed from-file ");

    request.index_directory = directory.path() + "/nowhere";
    CHECK(agents_of(scan_sessions(request)) == "changed from-file ");
}

TEST_CASE("a damaged index is removed and the sessions are read from their files") {
    const TemporaryDirectory directory;
    const std::string sessions = directory.path() + "/sessions";
    static_cast<void>(write_session(sessions, example_meta(1)));
    note_marked(directory.path(), sessions, example_meta(1));
    std::ofstream(directory.path() + "/index.sqlite") << std::string(50'000, 'x');
    ScanRequest request;
    request.sessions_directories = {sessions};
    request.index_directory = directory.path();
    CHECK(agents_of(scan_sessions(request)) == example_meta(1).agent + " ");
    CHECK(!boost::filesystem::exists(directory.path() + "/index.sqlite"));
}

TEST_CASE("a scan for few looks at the newest until it has them") {
    const TemporaryDirectory directory;
    write_many_sessions(directory.path(), 1000, 10);
    ScanRequest request;
    request.sessions_directories = {directory.path()};
    request.sessions_max = 100;
    std::atomic<int> asked{0};
    request.wanted = [&asked](const Meta& meta) {
        ++asked;
        return meta.agent == "codex";
    };
    const SessionScan scan = scan_sessions(request);
    REQUIRE(scan.sessions.size() == 100);
    CHECK(scan.sessions.front().meta.id == example_meta(1000).id);
    CHECK(scan.sessions.back().meta.id == example_meta(1000 - 3 * 99).id);
    CHECK(scan.in_stores == 1000);
    CHECK(asked < 1000);
    request.sessions_max = 1000;
    CHECK(scan_sessions(request).sessions.size() == 334);
}
