// SPDX-License-Identifier: Apache-2.0
#include "delivery/spool_file.hpp"
#include "tests/support/temporary_directory.hpp"

#include <doctest/doctest.h>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

using relay::delivery::AgentStream;
using relay::delivery::PendingEvent;
using relay::delivery::SpoolFile;
using relay::delivery::stream_event;
using relay::delivery::wire_line;
using relay::layout::Errc;
using relay::tests::TemporaryDirectory;

namespace {

const std::string session = "01M7J690Z2TM97TN46F1TWFTA9";

PendingEvent note(const std::string& text) {
    return {R"({"type":"turn.note","kind":")" + text + R"("})", {}, false};
}

std::vector<PendingEvent> all_of(const SpoolFile& file) {
    std::vector<PendingEvent> events;
    off_t at = SpoolFile::first_record();
    while (true) {
        const auto event = file.read(at);
        REQUIRE(event.ok());
        if (!event.value()) {
            return events;
        }
        events.push_back(*event.value());
    }
}

std::string text_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

TEST_CASE("what a writer without locks left is a spool file once its process is gone") {
    const TemporaryDirectory directory;
    const auto leave = [&directory](const std::string& name) {
        std::ofstream(directory.path() + "/" + name)
            << "agent-relay spool 1 " << session << " 00000000000000000003\n";
    };
    leave(session + "." + std::to_string(::getpid()) + ".tmp");
    leave(session + ".x1.tmp");
    leave(session + ".0.tmp");
    leave("short.1.tmp");
    CHECK(SpoolFile::list(directory.path()).empty());
    const pid_t gone = ::fork();
    if (gone == 0) {
        ::_exit(0);
    }
    REQUIRE(::waitpid(gone, nullptr, 0) == gone);
    leave(session + "." + std::to_string(gone) + ".tmp");
    const std::string path = directory.path() + "/" + session + ".spool";
    REQUIRE(SpoolFile::list(directory.path()) == std::vector<std::string>{path});
    CHECK(SpoolFile::open(path).value().first_seq() == 3);
}

TEST_CASE("which events need an open turn is told by their type however they are spaced") {
    const auto needs = [](const std::string& members) {
        return relay::delivery::needs_open_turn({members, {}, false});
    };
    CHECK(needs(R"({"type":"turn.end"})"));
    CHECK(needs(R"({"text": "x", "type" : "turn.output"})"));
    CHECK(needs(R"({"type": "turn.tool"})"));
    CHECK(relay::delivery::needs_open_turn(stream_event(AgentStream::error, "x")));
    CHECK_FALSE(needs(R"({"type":"turn.start","prompt":"turn.end"})"));
    CHECK_FALSE(needs(R"({"type":"session.end"})"));
    CHECK_FALSE(needs("[]"));
    CHECK_FALSE(needs("{"));
}

TEST_CASE("an event becomes a numbered line of the protocol") {
    CHECK(
        wire_line(note("x"), session, 7)
        == R"({"type":"turn.note","kind":"x","session":")" + session + R"(","seq":7,"id":7})"
               + "\n");
    CHECK(
        wire_line(stream_event(AgentStream::output, "a\"\n"), session, 1)
        == R"({"type":"turn.output","session":")" + session + R"(","seq":1,"id":1,"text":"a\"\n"})"
               + "\n");
    CHECK(wire_line(stream_event(AgentStream::error, "\xff\x00z"), session, 1)
              .ends_with(R"("id":1,"data":"/w=="})"
                         "\n"));
    CHECK(
        wire_line(stream_event(AgentStream::error, std::string("\xff\0z", 3)), session, 1)
            .find(R"("data":"/wB6")")
        != std::string::npos);
}

TEST_CASE("a spool file gives back what was put into it") {
    const TemporaryDirectory directory;
    const std::string place = directory.path() + "/a/spool";
    const std::vector<PendingEvent> events{
        note("one"),
        stream_event(AgentStream::output, std::string("\0\n3 -\n", 6)),
        stream_event(AgentStream::error, ""),
        stream_event(AgentStream::output, std::string(100'000, 'x')),
        note("two")};
    {
        auto file = SpoolFile::create(place, session, 12);
        REQUIRE(file.ok());
        for (const PendingEvent& event : events) {
            REQUIRE(file.value().append(event).ok());
        }
        CHECK(all_of(file.value()) == events);
        CHECK(file.value().sync().ok());
        // Its writer lives.
        CHECK(SpoolFile::open(file.value().path()).error().code == Errc::busy);
    }
    const std::vector<std::string> paths = SpoolFile::list(place);
    REQUIRE(paths.size() == 1);
    struct stat status {};
    REQUIRE(::stat(paths[0].c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
    REQUIRE(::stat(place.c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0700);
    auto file = SpoolFile::open(paths[0]);
    REQUIRE(file.ok());
    CHECK(file.value().session() == session);
    CHECK(file.value().first_seq() == 12);
    CHECK(all_of(file.value()) == events);
    file.value().remove();
    CHECK(SpoolFile::list(place).empty());
    CHECK(SpoolFile::list(directory.path() + "/none").empty());
}

TEST_CASE("a spool file whose writer was killed ends before the torn record") {
    const TemporaryDirectory directory;
    std::string path;
    {
        auto file = SpoolFile::create(directory.path(), session, 1);
        REQUIRE(file.ok());
        path = file.value().path();
        REQUIRE(file.value().append(note("kept")).ok());
        REQUIRE(file.value().append(stream_event(AgentStream::output, "torn away")).ok());
    }
    const std::string whole = text_of(path);
    const std::size_t kept = whole.find("{\"type\":\"turn.output\"}");
    REQUIRE(kept != std::string::npos);
    for (std::size_t size = whole.size() - 1; size > kept; --size) {
        CAPTURE(size);
        REQUIRE(::truncate(path.c_str(), static_cast<off_t>(size)) == 0);
        const auto file = SpoolFile::open(path);
        REQUIRE(file.ok());
        CHECK(all_of(file.value()) == std::vector<PendingEvent>{note("kept")});
    }
}

TEST_CASE("events can be put before others that were not delivered") {
    const TemporaryDirectory directory;
    auto file = SpoolFile::create(directory.path(), session, 1);
    REQUIRE(file.ok());
    for (const char* const name : {"one", "two", "three"}) {
        REQUIRE(file.value().append(note(name)).ok());
    }
    off_t at = SpoolFile::first_record();
    REQUIRE(file.value().read(at).ok());
    REQUIRE(file.value().put_before(at, 2, {note("new")}).ok());
    CHECK(file.value().first_seq() == 2);
    CHECK(
        all_of(file.value()) == std::vector<PendingEvent>{note("new"), note("two"), note("three")});
    REQUIRE(file.value().append(note("four")).ok());
    CHECK(all_of(file.value()).size() == 4);
    CHECK(SpoolFile::open(file.value().path()).error().code == Errc::busy);
    CHECK(SpoolFile::list(directory.path()).size() == 1);
    REQUIRE(file.value().clear(9).ok());
    CHECK(all_of(file.value()).empty());
    CHECK(file.value().first_seq() == 9);
}

TEST_CASE("a file that is no spool file is refused") {
    const TemporaryDirectory directory;
    const std::string path = directory.path() + "/" + session + ".spool";
    for (const char* const text :
         {"",
          "agent-relay spool 1 01M7J690Z2TM97TN46F1TWFTA9 0000000000000000000\n",
          "agent-relay spool 2 01M7J690Z2TM97TN46F1TWFTA9 00000000000000000001\n",
          "agent-relay spool 1 01M7J690Z2TM97TN46F1TWFTAU 00000000000000000001\n",
          "agent-relay spool 1 01M7J690Z2TM97TN46F1TWFTA9 00000000000000000000\n"}) {
        CAPTURE(text);
        std::ofstream(path) << text;
        CHECK(SpoolFile::open(path).error().code == Errc::corrupt);
    }
    CHECK(SpoolFile::open(path + "x").error().code == Errc::not_found);
}
