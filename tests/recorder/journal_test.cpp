// SPDX-License-Identifier: Apache-2.0
#include "layout/crc32c.hpp"
#include "layout/little_endian.hpp"
#include "recorder/journal.hpp"
#include "tests/support/model_disk.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <map>
#include <string>

namespace relay::recorder {
namespace {

using tests::ModelDisk;
using tests::Random;
using Op = ModelDisk::Op;

constexpr std::int64_t segment_size = 32 * 1024;

class JournalWorld {
public:
    explicit JournalWorld(std::uint64_t seed = 1) : disk({"/journal"}, seed) { open(); }
    ~JournalWorld() { close(); }
    JournalWorld(const JournalWorld&) = delete;
    JournalWorld& operator=(const JournalWorld&) = delete;

    void open() {
        directory = std::move(disk.open_directory("/journal").value());
        auto opened = Journal::open(*directory, limits, [this] { return random.next(); });
        REQUIRE(opened.ok());
        journal = std::move(opened.value());
    }
    void close() {
        journal.reset();
        directory.reset();
    }
    void start() { REQUIRE(journal->start({}, checkpoint.next_generation, checkpoint.lsn).ok()); }
    Result<std::uint64_t> write(std::string_view payload) {
        std::string buffer(layout::batch_header_bytes, '\0');
        buffer += payload;
        return journal->write(buffer);
    }
    std::uint64_t must_write(std::string_view payload) {
        auto written = write(payload);
        REQUIRE_MESSAGE(written.ok(), (written.ok() ? "" : written.error().context));
        return written.value();
    }
    // As a new process sees it.
    JournalScan scan() {
        close();
        disk.power_on();
        disk.set_faults({});
        open();
        auto scanned = journal->scan(checkpoint);
        REQUIRE(scanned.ok());
        return std::move(scanned.value());
    }
    void cut_power(std::uint64_t seed) {
        Random draw(seed);
        disk.lose_power(draw);
    }
    std::string payload(const BatchPlace& place) {
        auto read = journal->read_payload(place);
        REQUIRE(read.ok());
        return read.value();
    }

    ModelDisk disk;
    JournalLimits limits{.segment_bytes = segment_size, .segments_max = 3};
    Random random{99};
    layout::CheckpointRecord checkpoint;
    std::unique_ptr<Directory> directory;
    std::unique_ptr<Journal> journal;
};

}  // namespace

TEST_CASE("what the journal wrote is found again in order") {
    JournalWorld world;
    world.start();
    for (int number = 1; number <= 12; ++number) {
        CHECK(
            world.must_write("batch " + std::to_string(number))
            == static_cast<std::uint64_t>(number));
    }
    const JournalScan scan = world.scan();
    CHECK(scan.verdict == TailVerdict::clean);
    REQUIRE(scan.chain.size() == 12);
    for (std::size_t index = 0; index < scan.chain.size(); ++index) {
        CHECK(world.payload(scan.chain[index]) == "batch " + std::to_string(index + 1));
    }
    CHECK(scan.highest_lsn == 12);
}

TEST_CASE("every batch that was written survives every power loss") {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        JournalWorld world(seed);
        world.start();
        for (int number = 1; number <= 10; ++number) {
            world.must_write(std::string(static_cast<std::size_t>(number) * 400, 'x'));
        }
        world.cut_power(seed);
        const JournalScan scan = world.scan();
        REQUIRE(scan.chain.size() == 10);
        REQUIRE(scan.verdict == TailVerdict::clean);
    }
}

TEST_CASE("a batch torn by a power loss ends the journal and is no damage") {
    int torn = 0;
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        JournalWorld world(seed);
        world.start();
        world.must_write("first");
        // Just before the sync of the second, which spans several sectors; for some it is a new segment.
        if (seed % 2 == 0) {
            world.must_write(std::string(5 * 4096, 'b'));
        }
        world.disk.set_faults({{.at_operation = 0, .lose_power_instead = true, .only = Op::sync}});
        CHECK_FALSE(world.write(std::string(9'000, 'c')).ok());
        const std::size_t whole = seed % 2 == 0 ? 2 : 1;
        const JournalScan scan = world.scan();
        REQUIRE(scan.verdict != TailVerdict::damaged);
        REQUIRE(scan.chain.size() >= whole);
        torn += scan.chain.size() == whole ? 1 : 0;
    }
    CHECK(torn > 100);
    CHECK(torn < 300);
}

TEST_CASE("a failed sync latches the journal for good") {
    JournalWorld world;
    world.start();
    world.must_write("kept");
    world.disk.set_faults({{.at_operation = 0, .os_errno = EIO, .only = Op::sync}});
    auto failed = world.write("lost");
    REQUIRE_FALSE(failed.ok());
    CHECK(failed.error().code == Errc::closed);
    failed = world.write("refused");
    REQUIRE_FALSE(failed.ok());
    CHECK(failed.error().code == Errc::closed);
    CHECK(failed.error().context.find("Input/output error") != std::string::npos);
    CHECK(world.journal->durable_lsn() == 1);
}

TEST_CASE("what only the page cache holds is on disk after the tail was rewritten") {
    JournalWorld world;
    world.start();
    world.must_write("first");
    world.disk.set_faults({{.at_operation = 0, .os_errno = EIO, .only = Op::sync}});
    CHECK_FALSE(world.write("second").ok());
    JournalScan scan = world.scan();
    REQUIRE(scan.chain.size() == 2);  // seen, and not on disk
    REQUIRE(world.journal->rewrite_tail(scan).ok());
    world.cut_power(3);
    scan = world.scan();
    REQUIRE(scan.chain.size() == 2);
    CHECK(world.payload(scan.chain[1]) == "second");
}

TEST_CASE("segments are recycled and their old batches are never taken for new ones") {
    JournalWorld world;
    world.start();
    std::uint64_t last = 0;
    for (int number = 0; number < 100; ++number) {
        last = world.must_write("number " + std::to_string(number));
        if (number % 5 == 4) {
            world.checkpoint.lsn = last - 1;
            world.checkpoint.next_generation = world.journal->next_generation();
            world.journal->release(last - 1);
        }
    }
    CHECK(world.disk.seen_tree("/journal").size() <= 3);
    const JournalScan scan = world.scan();
    REQUIRE(scan.chain.size() == 1);
    CHECK(world.payload(scan.chain[0]) == "number 99");
    CHECK(scan.severed.empty());
}

TEST_CASE("a batch of an earlier use is not taken although its number would follow") {
    JournalWorld world;
    world.start();
    for (int number = 1; number <= 5; ++number) {
        world.must_write("old " + std::to_string(number));
    }
    static_cast<void>(world.scan());
    // Numbers are never used twice; should they be, generation, salt and chain still tell.
    REQUIRE(world.journal->start({}, 2, 0).ok());
    world.must_write("new 1");
    const JournalScan scan = world.scan();
    REQUIRE(scan.chain.size() == 1);
    CHECK(world.payload(scan.chain[0]) == "new 1");
}

TEST_CASE("a full journal is busy and goes on after a release") {
    JournalWorld world;
    world.start();
    std::uint64_t last = 0;
    Result<std::uint64_t> written = std::uint64_t{0};
    while ((written = world.write(std::string(3'000, 'x'))).ok()) {
        last = written.value();
    }
    CHECK(written.error().code == Errc::busy);
    CHECK(last == 21);  // three segments of seven blocks behind the header
    CHECK(world.write("again").error().code == Errc::busy);
    world.journal->release(last);
    CHECK(world.must_write("room") == last + 1);
}

TEST_CASE("a full disk holds the journal up and does not end it") {
    JournalWorld world;
    world.start();
    for (int number = 1; number <= 7; ++number) {
        world.must_write("x");  // the first segment
    }
    world.disk.set_capacity("/journal", world.disk.used("/journal"));
    CHECK(world.write("8").error().code == Errc::no_space);
    CHECK(world.disk.used("/journal") == segment_size);  // half a segment is not left behind
    world.disk.set_capacity("/journal", ModelDisk::unlimited);
    CHECK(world.must_write("8") == 8);
}

TEST_CASE("an overwrite that a full disk refuses is done again with its segment header") {
    JournalWorld world;
    world.start();
    for (int round = 0; round < 2; ++round) {
        world.disk.set_faults(
            {{.at_operation = 0, .os_errno = ENOSPC, .short_write_bytes = 700, .only = Op::write}});
        const auto refused = world.write(std::string(6'000, 'a'));
        REQUIRE_FALSE(refused.ok());
        CHECK(refused.error().code == Errc::no_space);
        world.must_write(round == 0 ? "one" : "two");
    }
    world.cut_power(5);
    const JournalScan scan = world.scan();
    REQUIRE(scan.chain.size() == 2);
    CHECK(world.payload(scan.chain[0]) == "one");
    CHECK(world.payload(scan.chain[1]) == "two");
    CHECK(scan.verdict == TailVerdict::clean);
}

TEST_CASE("any flipped bit in acknowledged batches with a successor is called damage") {
    JournalWorld world;
    world.start();
    for (int number = 1; number <= 9; ++number) {
        world.must_write("batch " + std::to_string(number));
    }
    world.close();
    const std::map<std::string, std::string> tree = world.disk.seen_tree("/journal");
    Random random(4);
    for (const auto& [path, content] : tree) {
        const bool last_segment = path.ends_with("2");
        // The last batch of all has no successor that could vouch for it.
        const std::size_t end = last_segment ? 4096 + 4096 : 8 * 4096;
        for (std::size_t block = 0; block < end; block += 4096) {
            const std::size_t header_bytes = block == 0 ? 68 : 64 + 7;
            for (int draw = 0; draw < 20; ++draw) {
                std::string bad = content;
                const std::size_t at = block + random.below(header_bytes);
                bad[at] = static_cast<char>(bad[at] ^ static_cast<char>(1 << random.below(8)));
                world.disk.user_edit_in_place(path, bad);
                const JournalScan scan = world.scan();
                const std::string where = path + " at " + std::to_string(at);
                REQUIRE_MESSAGE(scan.verdict == TailVerdict::damaged, where);
                world.close();
            }
        }
        world.disk.user_edit_in_place(path, content);
    }
}

TEST_CASE("reading back serves what is kept and says so when it is gone") {
    JournalWorld world;
    world.start();
    for (int number = 1; number <= 14; ++number) {
        world.must_write("batch " + std::to_string(number));
    }
    std::string all;
    const auto collect = [&all](std::uint64_t lsn, std::string_view payload) {
        all += std::to_string(lsn) + "=" + std::string(payload) + ";";
        return Status(layout::Done{});
    };
    REQUIRE(world.journal->read(6, 9, collect).ok());
    CHECK(all == "6=batch 6;7=batch 7;8=batch 8;9=batch 9;");
    world.journal->release(7);
    const Status gone = world.journal->read(6, 9, collect);
    REQUIRE_FALSE(gone.ok());
    CHECK(gone.error().code == Errc::not_found);
    CHECK(world.journal->read(8, 14, collect).ok());
}

TEST_CASE("segments of another size or too many of them go when the journal starts") {
    JournalWorld world;
    world.start();
    for (int number = 0; number < 20; ++number) {
        world.must_write("x");
    }
    world.checkpoint.lsn = 20;
    world.limits.segments_max = 2;
    static_cast<void>(world.scan());
    world.start();
    CHECK(world.disk.seen_tree("/journal").size() == 2);
    world.limits.segment_bytes = 2 * segment_size;
    static_cast<void>(world.scan());
    world.start();
    CHECK(world.disk.seen_tree("/journal").size() == 1);
    CHECK(world.must_write(std::string(40'000, 'x')) == 21);
}

TEST_CASE(
    "a segment whose maker died before its name was durable has a durable name when it is used") {
    JournalWorld world;
    world.disk.set_faults(
        {{.at_operation = 0, .end_process_instead = true, .only = Op::sync_directory}});
    // The first directory sync is that of start(), the second that of the new segment.
    CHECK_FALSE(world.journal->start({}, 1, 0).ok());
    world.scan();
    REQUIRE(world.journal->start({}, 1, 0).ok());
    world.must_write("acknowledged");
    world.cut_power(11);
    CHECK(world.scan().chain.size() == 1);
}

TEST_CASE("an orderly stop is not believed when a segment is younger than it") {
    JournalWorld world;
    world.start();
    world.must_write("acknowledged");
    world.checkpoint.clean = true;  // says generation 1 was never used
    CHECK(world.scan().chain.size() == 1);
    world.checkpoint.next_generation = 2;
    world.checkpoint.lsn = 1;
    const JournalScan scan = world.scan();
    CHECK(scan.chain.empty());
    CHECK(scan.rule == "orderly stop");
    CHECK(world.journal->durable_lsn() == 1);
}

TEST_CASE("a journal of a newer version is not read") {
    JournalWorld world;
    world.start();
    world.must_write("x");
    world.close();
    std::string bytes = world.disk.seen("/journal/segment-0001").value();
    bytes[8] = 2;
    layout::put_le(bytes.data() + 4, layout::crc32c(std::string_view(bytes).substr(8, 4096 - 8)));
    world.disk.user_edit_in_place("/journal/segment-0001", bytes);
    world.open();
    const auto scanned = world.journal->scan(world.checkpoint);
    REQUIRE_FALSE(scanned.ok());
    CHECK(scanned.error().code == Errc::invalid);
    CHECK(scanned.error().context.find("version 2") != std::string::npos);
}

}  // namespace relay::recorder
