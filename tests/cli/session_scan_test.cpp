// SPDX-License-Identifier: Apache-2.0
#include "cli/session_scan.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/written_session.hpp"

#include <boost/filesystem.hpp>
#include <doctest/doctest.h>

#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

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
}

TEST_CASE("a scan by many threads is in order and keeps what is wanted") {
    const TemporaryDirectory directory;
    write_many_sessions(directory.path(), 500, 10);
    ScanRequest request;
    request.sessions_directories = {directory.path()};
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
            "agent-relay: skipped \"" + newer
            + "\": meta.json: written in format version 2; this program reads up to version 1\n")
        != std::string::npos);
    CHECK(
        err.str().find(
            "agent-relay: skipped \"" + edited
            + "\": meta.json: member \"turn_count\" must be an integer of 64 bits; see "
              "agent-relay verify \""
            + edited + "\"\n")
        != std::string::npos);
}
