// SPDX-License-Identifier: Apache-2.0
#include "delivery/outbox.hpp"
#include "tests/support/temporary_directory.hpp"

#include <doctest/doctest.h>

#include <poll.h>

#include <string>
#include <vector>

using relay::delivery::AgentStream;
using relay::delivery::Outbox;
using relay::delivery::PendingEvent;
using relay::delivery::SpoolFile;
using relay::layout::Result;
using relay::tests::TemporaryDirectory;

namespace {

const std::string session = "01M7J690Z2TM97TN46F1TWFTA9";

std::string note(const std::string& text) {
    return R"({"type":"turn.note","kind":")" + text + R"("})";
}

// Everything that can be taken: "3:members|bytes".
std::vector<std::string> take_all(Outbox& outbox) {
    std::vector<std::string> taken;
    while (const auto next = outbox.take()) {
        taken.push_back(
            std::to_string(next->seq) + ":"
            + (next->event.is_stream ? next->event.bytes : next->event.members));
    }
    return taken;
}

bool is_awake(const Outbox& outbox) {
    pollfd wait{outbox.wake_descriptor(), POLLIN, 0};
    return ::poll(&wait, 1, 0) == 1;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("the outbox numbers events and joins bytes that nobody has taken") {
    const TemporaryDirectory directory;
    Outbox outbox(session, directory.path() + "/spool");
    CHECK_FALSE(is_awake(outbox));
    outbox.event(note("a"));
    CHECK(is_awake(outbox));
    outbox.bytes(AgentStream::output, "one ");
    outbox.bytes(AgentStream::output, "two");
    outbox.bytes(AgentStream::error, "three");
    outbox.bytes(AgentStream::output, "");
    CHECK(take_all(outbox) == Lines{"1:" + note("a"), "2:one two", "3:three"});
    outbox.clear_wake();
    outbox.bytes(AgentStream::error, "four");  // the one before is on its way
    CHECK(is_awake(outbox));
    CHECK(take_all(outbox) == Lines{"4:four"});
    outbox.acknowledge(4);
    CHECK(outbox.is_empty());
    const std::string large(Outbox::stream_event_bytes_max + 1, 'x');
    outbox.bytes(AgentStream::output, large);
    const Lines parts = take_all(outbox);
    REQUIRE(parts.size() == 2);
    CHECK(parts[0] == "5:" + large.substr(1));
    CHECK(parts[1] == "6:x");
    CHECK(SpoolFile::list(directory.path() + "/spool").empty());
}

TEST_CASE("after a lost connection the outbox goes on behind what was recorded") {
    for (const bool on_disk : {false, true}) {
        CAPTURE(on_disk);
        const TemporaryDirectory directory;
        Outbox outbox(session, directory.path());
        for (const char* const name : {"a", "b", "c"}) {
            outbox.event(note(name));
        }
        CHECK(outbox.take()->seq == 1);
        CHECK(outbox.take()->seq == 2);
        if (on_disk) {
            outbox.spill();
        }
        CHECK(take_all(outbox) == Lines{"3:" + note("c")});
        outbox.acknowledge(1);
        CHECK_FALSE(outbox.rewind(0));  // acknowledged means that the daemon has it
        CHECK_FALSE(outbox.rewind(4));
        REQUIRE(outbox.rewind(2));
        CHECK(outbox.acknowledged() == 2);
        CHECK(outbox.peek()->members == note("c"));
        CHECK(take_all(outbox) == Lines{"3:" + note("c")});
        REQUIRE(outbox.rewind(2));
        outbox.put_before({{note("new"), {}, false}, {note("newer"), {}, false}});
        outbox.event(note("d"));
        CHECK(
            take_all(outbox)
            == Lines{"3:" + note("new"), "4:" + note("newer"), "5:" + note("c"), "6:" + note("d")});
        REQUIRE(outbox.rewind(4));
        outbox.replace_next({note("other"), {}, false});
        CHECK(take_all(outbox) == Lines{"5:" + note("other"), "6:" + note("d")});
        outbox.acknowledge(6);
        CHECK(outbox.is_empty());
    }
}

TEST_CASE("an outbox that grows moves to disk and back") {
    const TemporaryDirectory directory;
    Outbox outbox(session, directory.path());
    const std::string chunk(Outbox::stream_event_bytes_max, 'x');
    constexpr int chunks = 200;  // 12 MiB
    for (int count = 0; count < chunks; ++count) {
        outbox.bytes(AgentStream::output, chunk);
    }
    CHECK(SpoolFile::list(directory.path()).size() == 1);
    outbox.bytes(AgentStream::error, "last");
    for (int seq = 1; seq <= chunks; ++seq) {
        const auto next = outbox.take();
        REQUIRE(next);
        CHECK(next->seq == seq);
        CHECK(next->event.bytes == chunk);
        outbox.acknowledge(seq);
    }
    CHECK(take_all(outbox) == Lines{"201:last"});
    outbox.acknowledge(201);
    CHECK(outbox.is_empty());
    outbox.event(note("in memory"));
    CHECK(take_all(outbox) == Lines{"202:" + note("in memory")});
    // And once more, through the same file.
    outbox.spill();
    outbox.event(note("on disk"));
    CHECK(take_all(outbox) == Lines{"203:" + note("on disk")});
    outbox.acknowledge(203);
    Result<std::string> left_in = std::string();
    CHECK(outbox.close(left_in));
    CHECK(SpoolFile::list(directory.path()).empty());
}

TEST_CASE("what an outbox could not deliver is there for another process") {
    for (const bool spilled : {false, true}) {
        CAPTURE(spilled);
        const TemporaryDirectory directory;
        {
            Outbox outbox(session, directory.path());
            for (const char* const name : {"a", "b", "c"}) {
                outbox.event(note(name));
            }
            REQUIRE(outbox.take());
            if (spilled) {
                outbox.spill();
            }
            outbox.acknowledge(1);
            Result<std::string> left_in = std::string();
            CHECK_FALSE(outbox.close(left_in));
            REQUIRE(left_in.ok());
            CHECK(SpoolFile::list(directory.path()) == Lines{left_in.value()});
        }
        auto file = SpoolFile::open(SpoolFile::list(directory.path()).at(0));
        REQUIRE(file.ok());
        Outbox outbox(std::move(file.value()));
        CHECK(outbox.session() == session);
        REQUIRE(outbox.rewind(1));
        CHECK(take_all(outbox) == Lines{"2:" + note("b"), "3:" + note("c")});
        outbox.acknowledge(3);
        Result<std::string> left_in = std::string();
        CHECK(outbox.close(left_in));
        CHECK(SpoolFile::list(directory.path()).empty());
    }
}

TEST_CASE("an outbox without a disk keeps what it can and says how much it lost") {
    Outbox outbox(session, "/proc/no/spool/here");
    const std::string chunk(Outbox::stream_event_bytes_max, 'x');
    for (int count = 0; count < 1100; ++count) {  // 69 MiB
        outbox.bytes(AgentStream::output, chunk);
    }
    std::int64_t kept = 0;
    while (const auto next = outbox.take()) {
        kept = next->seq;
    }
    CHECK(kept > 1000);
    CHECK(kept < 1100);
    Result<std::string> left_in = std::string();
    CHECK_FALSE(outbox.close(left_in));
    CHECK_FALSE(left_in.ok());
}
