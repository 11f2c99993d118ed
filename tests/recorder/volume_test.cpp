// SPDX-License-Identifier: Apache-2.0
#include "recorder/volume.hpp"
#include "tests/recorder/recorder_world.hpp"

#include <doctest/doctest.h>

#include <cerrno>

namespace relay::tests {
namespace {

using recorder::Verdict;
using Op = ModelDisk::Op;

const std::string stream = "turns/001-stream.md";

// Two sessions on two disks, begun and settled.
struct TwoSessions : RecorderWorld {
    explicit TwoSessions(std::int64_t segments_max = 3) {
        limits.journal.segments_max = segments_max;
        must_recover();
        first = files(1, "/one");
        second = files(2, "/two");
        submit(first, 1, {replace("meta.json", "{1}")}, true);
        submit(second, 2, {replace("meta.json", "{2}")}, true);
        turn_wheels();
        REQUIRE(verdict(1) == Verdict::visible);
        REQUIRE(verdict(2) == Verdict::visible);
    }
    void grow(std::uint64_t ticket) {
        const auto offset = static_cast<std::int64_t>(ticket - 10);
        submit(first, ticket, {append(stream, offset, "a")});
        submit(second, ticket + 1'000, {append(stream, offset, "b")});
    }
    [[nodiscard]] std::int64_t deferrals() const {
        return std::count_if(notices.begin(), notices.end(), [](const recorder::Notice& notice) {
            return notice.deferral.has_value();
        });
    }

    std::shared_ptr<recorder::SessionFiles> first;
    std::shared_ptr<recorder::SessionFiles> second;
};

}  // namespace

TEST_CASE("changes of one session stay in order when one of them waits for a sync") {
    TwoSessions world;
    world.submit(world.first, 10, {RecorderWorld::append(stream, 0, "a")});
    world.submit(world.first, 11, {RecorderWorld::replace("meta.json", "{11}")});
    world.submit(world.first, 12, {RecorderWorld::replace("meta.json", "{12}")});
    world.submit(world.first, 13, {RecorderWorld::append(stream, 1, "b")});
    world.turn_wheels();
    for (const std::uint64_t ticket : {10U, 11U, 12U, 13U}) {
        CHECK(world.verdict(ticket) == Verdict::visible);
    }
    CHECK(world.seen(world.root(1, "/one") + stream) == "ab");
    CHECK(world.seen(world.root(1, "/one") + "meta.json") == "{12}");
}

TEST_CASE("nobody waits for another session's seal") {
    TwoSessions world;
    const auto third = world.files(3, "/one");
    world.submit(third, 3, {RecorderWorld::append(stream, 0, "")}, true);
    world.turn_wheels();
    world.submit(world.first, 10, {RecorderWorld::replace("meta.json", "{10}")});
    world.submit(third, 11, {RecorderWorld::append(stream, 0, "c")});
    static_cast<void>(world.pipeline->commit_step());
    const auto volume = world.pipeline->volumes().front();
    CHECK(volume->apply_step());
    CHECK(world.verdict(11) == Verdict::visible);
    CHECK_FALSE(world.verdicts.contains(10));
    CHECK(world.seen(world.root(1, "/one") + "meta.json") == "{1}");
    // Its own next change waits, and does not make anybody spin.
    world.submit(world.first, 12, {RecorderWorld::append(stream, 0, "a")});
    static_cast<void>(world.pipeline->commit_step());
    CHECK(volume->apply_step());
    CHECK_FALSE(volume->apply_step());
    CHECK_FALSE(world.verdicts.contains(12));
    CHECK(volume->seal_step());
    CHECK(world.verdict(10) == Verdict::visible);
    CHECK(volume->apply_step());
    CHECK(world.verdict(12) == Verdict::visible);
}

TEST_CASE("a capture waits for the seals it was asked to cover and for no later ones") {
    TwoSessions world;
    const auto volume = world.pipeline->volumes().front();
    world.submit(world.first, 10, {RecorderWorld::replace("meta.json", "{10}")});
    static_cast<void>(world.pipeline->commit_step());
    static_cast<void>(volume->apply_step());
    const std::uint64_t asked = world.pipeline->durable_lsn();
    volume->request_sync();
    world.submit(world.first, 11, {RecorderWorld::replace("meta.json", "{11}")});
    static_cast<void>(world.pipeline->commit_step());
    CHECK_FALSE(volume->apply_step());  // the sealer's turn
    CHECK_FALSE(volume->sync_step());
    CHECK(volume->seal_step());
    CHECK(volume->apply_step());
    CHECK(volume->sync_step());
    CHECK(volume->synced_lsn() == asked);
    CHECK_FALSE(world.verdicts.contains(11));
    CHECK(volume->apply_step());
    CHECK(volume->seal_step());
    CHECK(world.verdict(11) == Verdict::visible);
}

TEST_CASE(
    "a capture asked for in the middle of a batch vouches for no part of it that is held back") {
    RecorderWorld world;
    world.disk.share_device("/one", "/journal");
    world.must_recover();
    auto files = world.files(1, "/one");
    world.submit(files, 1, {RecorderWorld::append(stream, 0, "")}, true);
    world.turn_wheels();
    world.submit(files, 10, {RecorderWorld::replace("meta.json", "{10}")});
    world.submit(files, 11, {RecorderWorld::append(stream, 0, "a")});
    const auto volume = world.pipeline->volumes().front();
    bool asked = false;
    world.disk.set_observer([&](Op op, const std::string& mount) {
        if (op == Op::write && mount == "/one" && !asked) {
            asked = true;  // the batch is not dispatched to its end yet
            static_cast<void>(world.pipeline->request_checkpoint());
            static_cast<void>(world.pipeline->checkpoint_step());
        }
    });
    static_cast<void>(world.pipeline->commit_here());
    world.disk.set_observer(nullptr);
    REQUIRE(asked);
    static_cast<void>(volume->seal_step());
    static_cast<void>(volume->apply_step());
    static_cast<void>(volume->sync_step());
    static_cast<void>(world.pipeline->checkpoint_step());
    static_cast<void>(volume->apply_step());
    REQUIRE(world.verdict(11) == Verdict::visible);
    files.reset();
    world.cut_power();
    world.must_recover();
    CHECK(world.seen(world.root(1, "/one") + stream) == "a");
}

TEST_CASE("an ill disk answers for seals and for what is held behind them in their order") {
    TwoSessions world;
    world.submit(world.first, 10, {RecorderWorld::replace("meta.json", "{10}")});
    world.submit(world.first, 11, {RecorderWorld::append(stream, 0, "a")});
    static_cast<void>(world.pipeline->commit_step());
    const auto volume = world.pipeline->volumes().front();
    static_cast<void>(volume->apply_step());
    world.order.clear();
    SUBCASE("while they wait") {
        volume->declare_sick({recorder::Errc::io, EIO, "ill for a moment"});
    }
    SUBCASE("when their sync fails") {
        world.disk.set_faults(
            {{.at_operation = 0, .os_errno = EIO, .only = Op::sync, .mount_point = "/one"}});
        static_cast<void>(volume->seal_step());
    }
    CHECK(world.order == std::vector<std::uint64_t>{10, 11});
    CHECK(world.verdict(10) == Verdict::deferred);
    CHECK(world.verdict(11) == Verdict::deferred);
    world.run_for(1'000);
    CHECK(world.seen(world.root(1, "/one") + "meta.json") == "{10}");
    CHECK(world.seen(world.root(1, "/one") + stream) == "a");
    CHECK(world.order == std::vector<std::uint64_t>{10, 11});
}

TEST_CASE("an illness that comes from elsewhere in the middle of a step answers in order") {
    TwoSessions world;
    world.submit(world.first, 10, {RecorderWorld::append(stream, 0, "a")});
    world.submit(world.first, 11, {RecorderWorld::replace("meta.json", "{11}")});
    world.submit(world.first, 12, {RecorderWorld::append(stream, 1, "b")});
    static_cast<void>(world.pipeline->commit_step());
    const auto volume = world.pipeline->volumes().front();
    world.order.clear();
    int writes = 0;
    world.disk.set_observer([&](Op op, const std::string& mount) {
        // The second one is that of the document, which is with nobody's finished changes.
        if (op == Op::write && mount == "/one" && ++writes == 2) {
            volume->declare_sick({recorder::Errc::io, EIO, "ill for a moment"});
        }
    });
    static_cast<void>(volume->apply_step());
    world.disk.set_observer(nullptr);
    REQUIRE(writes >= 2);
    CHECK(world.order == std::vector<std::uint64_t>{10, 11, 12});
    world.run_for(1'000);
    CHECK(world.seen(world.root(1, "/one") + stream) == "ab");
}

TEST_CASE("a disk that refuses is deferred and heals by itself and no other disk notices") {
    TwoSessions world;
    const std::string one = world.root(1, "/one");
    SUBCASE("full") {
        world.disk.set_capacity("/one", world.disk.used("/one"));
    }
    SUBCASE("read-only") {
        world.disk.set_read_only("/one", true);
        world.first->close();
    }
    world.grow(10);
    world.turn_wheels();
    CHECK(world.verdict(10) == Verdict::deferred);
    CHECK(world.verdict(1'010) == Verdict::visible);
    world.grow(11);
    world.turn_wheels();
    CHECK(world.verdict(11) == Verdict::deferred);
    CHECK(world.verdict(1'011) == Verdict::visible);
    const auto health = world.pipeline->volumes().front()->health();
    CHECK(health.sick);
    CHECK_FALSE(health.reason.empty());
    // Checkpoints go on: what the disk does not take is spilled, and the journal is recycled.
    world.checkpoint();
    CHECK(world.spills() == 1);
    world.run_for(2'000);
    CHECK(world.pipeline->volumes().front()->sick());
    CHECK(world.deferrals() == 0);

    world.disk.set_capacity("/one", ModelDisk::unlimited);
    world.disk.set_read_only("/one", false);
    world.run_for(35'000);
    CHECK_FALSE(world.pipeline->volumes().front()->sick());
    CHECK(world.seen(one + stream) == "aa");
    CHECK(world.deferrals() == 1);
    world.grow(12);
    world.turn_wheels();
    CHECK(world.verdict(12) == Verdict::visible);
    CHECK(world.seen(one + stream) == "aaa");
    world.checkpoint();
    CHECK(world.spills() == 0);
}

TEST_CASE("a disk that is well again catches up however much comes in meanwhile") {
    TwoSessions world(/*segments_max=*/400);
    const auto volume = world.pipeline->volumes().front();
    world.grow(10);
    static_cast<void>(world.pipeline->commit_step());
    volume->declare_sick({recorder::Errc::io, EIO, "ill for a moment"});
    world.clock.steady += 1'000;
    // Somebody commits one more change each time the journal is looked into.
    std::uint64_t ticket = 10;
    bool nested = false;
    const auto commit_another = [&](Op op, const std::string& mount) {
        if (op == Op::read && mount == "/journal" && !nested && ticket < 100) {
            nested = true;
            world.grow(++ticket);
            static_cast<void>(world.pipeline->commit_step());
            nested = false;
        }
    };
    const auto somebody_waits = [&] {
        return ticket > 11 && !world.verdicts.contains(ticket);
    };
    world.disk.set_observer(commit_another);
    world.order.clear();
    SUBCASE("they wait for the end of it") {
        REQUIRE(volume->apply_step());
        CHECK_FALSE(volume->sick());
        REQUIRE(ticket < 20);
        static_cast<void>(volume->apply_step());
        CHECK(world.verdict(11) == Verdict::deferred);
        CHECK(world.verdict(ticket) == Verdict::visible);
    }
    SUBCASE("unless it fails after all") {
        world.disk.set_observer([&](Op op, const std::string& mount) {
            commit_another(op, mount);
            if (somebody_waits()) {
                world.disk.set_faults({{.os_errno = EIO, .for_ever = true, .mount_point = "/one"}});
            }
        });
        REQUIRE(volume->apply_step());
        CHECK(volume->sick());
        CHECK(world.verdict(ticket) == Verdict::deferred);
        world.disk.set_faults({});
    }
    SUBCASE("unless it hangs after all") {
        bool hung = false;
        world.disk.set_observer([&](Op op, const std::string& mount) {
            commit_another(op, mount);
            if (op == Op::write && mount == "/one" && somebody_waits() && !hung) {
                hung = true;
                world.clock.steady += 60'000;
                volume->check_stall(5'000);
                CHECK(world.verdict(ticket) == Verdict::deferred);
            }
        });
        REQUIRE(volume->apply_step());
        CHECK(hung);
        CHECK_FALSE(volume->sick());
    }
    SUBCASE("unless it is too much") {
        bool flooded = false;
        world.disk.set_observer([&](Op op, const std::string& mount) {
            commit_another(op, mount);
            if (!somebody_waits() || nested || flooded) {
                return;
            }
            flooded = true;
            nested = true;
            const std::string much(20'000, 'x');
            const auto other = world.files(3, "/one");
            for (std::uint64_t flood = 5'000; flood < 5'500; ++flood) {
                world.submit(other, flood, {RecorderWorld::replace("meta.json", much)}, true);
                static_cast<void>(world.pipeline->commit_step());
            }
            nested = false;
            CHECK(world.verdict(ticket) == Verdict::deferred);
            CHECK(world.verdict(5'499) == Verdict::deferred);
        });
        REQUIRE(volume->apply_step());
        CHECK(flooded);
    }
    world.disk.set_observer(nullptr);
    world.run_for(35'000);
    CHECK_FALSE(volume->sick());
    std::erase_if(world.order, [](std::uint64_t told) { return told >= 1'000; });
    CHECK(std::is_sorted(world.order.begin(), world.order.end()));
    CHECK(world.order.size() == ticket - 10);
    CHECK(world.seen(world.root(1, "/one") + stream) == std::string(ticket - 9, 'a'));
}

TEST_CASE("a disk that is unmounted for a while gets everything and nobody else does") {
    TwoSessions world;
    const auto volume = world.pipeline->volumes().front();
    bool known_to_checkpoint = false;
    SUBCASE("with sessions that a checkpoint knows") {
        known_to_checkpoint = true;
    }
    SUBCASE("with sessions that the journal alone knows") {
    }
    if (known_to_checkpoint) {
        world.checkpoint();
    }
    world.grow(10);
    world.turn_wheels();
    // As if the mount point were a directory in use: the repository's path leads somewhere.
    world.disk.user_unmount("/one", {"repo"});
    world.grow(11);
    world.run_for(6'000);
    CHECK(volume->sick());
    CHECK(volume->health().reason == "the file system at /one/repo is not mounted");
    world.grow(12);
    world.run_for(40'000);
    CHECK(world.verdict(12) == Verdict::deferred);
    CHECK(world.verdict(1'012) == Verdict::visible);
    CHECK(world.disk.seen_beneath("/one").size() == 1);

    bool renumbered = false;
    SUBCASE("it comes back under its number") {
    }
    SUBCASE("it comes back under another number") {
        renumbered = true;
    }
    world.disk.user_mount("/one", renumbered);
    world.run_for(35'000);
    CHECK_FALSE(volume->sick());
    CHECK(world.seen(world.root(1, "/one") + stream) == "aaa");
    world.grow(13);
    world.turn_wheels();
    CHECK(world.verdict(13) == Verdict::visible);
}

TEST_CASE("a disk that is not mounted when the process begins is waited for") {
    TwoSessions world;
    world.checkpoint();
    world.grow(10);
    world.turn_wheels();
    world.first.reset();
    world.second.reset();
    world.kill();
    world.disk.user_unmount("/one", {"repo"});
    const auto report = world.must_recover();
    REQUIRE(report.waiting.size() == 1);
    CHECK(report.waiting.front() == RecorderWorld::ulid(1));
    CHECK(world.disk.seen_beneath("/one").size() == 1);
    // The disk that is there instead is well.
    const auto other = world.pipeline->files_for(
        RecorderWorld::ulid(3),
        RecorderWorld::claim("/one"),
        recorder::Pipeline::volume_name(world.disk, RecorderWorld::claim("/one")).value());
    world.submit(other, 20, {RecorderWorld::replace("meta.json", "{3}")}, true);
    world.turn_wheels();
    CHECK(world.verdict(20) == Verdict::visible);
    world.run_for(6'000);

    world.disk.user_mount("/one", /*renumbered=*/true);
    world.run_for(35'000);
    CHECK(world.seen(world.root(1, "/one") + stream) == "a");
    CHECK(world.deferrals() == 1);
}

TEST_CASE("a place is known by its disk and not guessed when that fails") {
    TwoSessions world;
    const layout::Claim claim = RecorderWorld::claim("/one");
    const auto known = recorder::Pipeline::volume_name(world.disk, claim);
    REQUIRE(known.ok());
    for (const Op look : {Op::open, Op::stat}) {
        world.disk.set_faults({{.at_operation = 0, .os_errno = EIO, .only = look}});
        CHECK_FALSE(recorder::Pipeline::volume_name(world.disk, claim).ok());
    }
    // Closed to us, which the next look may find mended: it is waited for.
    world.disk.set_faults({{.at_operation = 0, .os_errno = EACCES, .only = Op::open}});
    const auto closed = recorder::Pipeline::volume_name(world.disk, claim);
    REQUIRE(closed.ok());
    CHECK(closed.value() != known.value());
}

TEST_CASE("a failed sync is answered by applying again and never by syncing again") {
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
        TwoSessions world;
        world.grow(10);
        world.turn_wheels();
        world.disk.set_faults({{.at_operation = 0, .os_errno = EIO, .only = Op::sync_file_system}});
        static_cast<void>(world.pipeline->request_checkpoint());
        for (int round = 0; round < 6; ++round) {
            world.turn_wheels();
        }
        REQUIRE_FALSE(world.disk.faults_left());
        world.run_for(3'000);
        world.checkpoint();
        world.cut_power(seed);
        REQUIRE(world.seen(world.root(1, "/one") + stream) == "a");
        REQUIRE(world.seen(world.root(2, "/two") + stream) == "b");
    }
}

TEST_CASE("a write-back that failed behind our back is noticed at the checkpoint and made good") {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        TwoSessions world;
        world.grow(10);
        world.turn_wheels();
        world.disk.fail_writeback(world.root(1, "/one") + stream);
        world.first->close();
        world.run_for(20'000);
        world.checkpoint();
        world.cut_power(seed);
        REQUIRE(world.seen(world.root(1, "/one") + stream) == "a");
    }
}

TEST_CASE("a deleted session is gone and its neighbours on the disk go on") {
    TwoSessions world;
    const auto third = world.files(3, "/one");
    world.submit(third, 3, {RecorderWorld::replace("meta.json", "{3}")}, true);
    world.turn_wheels();
    const std::string gone = world.root(1, "/one");
    world.disk.user_remove_tree(gone.substr(0, gone.size() - 1));
    SUBCASE("while its directory is open") {
    }
    SUBCASE("while its directory is closed") {
        world.first->close();
    }
    world.submit(world.first, 10, {RecorderWorld::append(stream, 0, "a")});
    world.submit(third, 11, {RecorderWorld::append(stream, 0, "c")});
    world.turn_wheels();
    CHECK(world.verdict(10) == Verdict::gone);
    CHECK(world.verdict(11) == Verdict::visible);
    CHECK_FALSE(world.pipeline->volumes().front()->sick());
    REQUIRE(world.notices.size() == 1);
    CHECK(world.notices[0].gone);
    // Once is enough.
    world.submit(world.first, 12, {RecorderWorld::append(stream, 1, "a")});
    world.turn_wheels();
    CHECK(world.verdict(12) == Verdict::gone);
    CHECK(world.notices.size() == 1);
}

TEST_CASE("a deleted repository takes its sessions with it and not the disk") {
    TwoSessions world;
    world.disk.user_write("/one/other/README", "");
    layout::Claim claim = RecorderWorld::claim("/one");
    claim.anchor = "/one/other";
    const auto third = world.pipeline->files_for(
        RecorderWorld::ulid(3), claim, recorder::Pipeline::volume_name(world.disk, claim).value());
    world.submit(third, 3, {RecorderWorld::replace("meta.json", "{3}")}, true);
    world.turn_wheels();
    world.disk.user_remove_tree("/one/repo");
    world.first->close();
    world.submit(world.first, 10, {RecorderWorld::append(stream, 0, "a")});
    world.submit(third, 11, {RecorderWorld::append(stream, 0, "c")});
    world.turn_wheels();
    CHECK(world.verdict(10) == Verdict::gone);
    CHECK(world.verdict(11) == Verdict::visible);
    world.checkpoint();
}

TEST_CASE("a temporary file that was swept away is put back by replay") {
    TwoSessions world;
    world.disk.set_faults(
        {{.at_operation = 0, .os_errno = ENOENT, .only = Op::rename, .mount_point = "/one"}});
    world.submit(world.first, 10, {RecorderWorld::replace("meta.json", "{10}")});
    world.turn_wheels();
    CHECK(world.verdict(10) == Verdict::deferred);
    world.run_for(1'000);
    CHECK(world.seen(world.root(1, "/one") + "meta.json") == "{10}");
    CHECK_FALSE(world.first->gone);
}

TEST_CASE("a disk that does not answer is sick and its late answer is not told twice") {
    TwoSessions world;
    const auto volume = world.pipeline->volumes().front();
    world.grow(10);
    static_cast<void>(world.pipeline->commit_step());
    // In the middle of the work the checkpoint thread looks, long after it began.
    bool looked = false;
    world.disk.set_observer([&](Op op, const std::string& mount) {
        if (!looked && op == Op::write && mount == "/one") {
            looked = true;
            world.clock.steady += 6'000;
            volume->check_stall(5'000);
        }
    });
    static_cast<void>(volume->apply_step());
    world.disk.set_observer(nullptr);
    REQUIRE(looked);
    CHECK(volume->sick());
    CHECK(world.verdict(10) == Verdict::deferred);
    CHECK(world.all.size() == 3);
    world.run_for(1'000);
    CHECK_FALSE(volume->sick());
    CHECK(world.seen(world.root(1, "/one") + stream) == "a");
    CHECK(world.verdict(10) == Verdict::deferred);
}

TEST_CASE("a disk that hangs keeps no finished change waiting and answers in order") {
    TwoSessions world;
    const auto volume = world.pipeline->volumes().front();
    const auto third = world.files(3, "/one");
    world.submit(third, 3, {RecorderWorld::append(stream, 0, "")}, true);
    world.turn_wheels();
    world.order.clear();
    world.submit(world.first, 10, {RecorderWorld::append(stream, 0, "a")});
    world.submit(third, 11, {RecorderWorld::append(stream, 0, "c")});
    world.submit(world.first, 12, {RecorderWorld::append(stream, 1, "b")});
    static_cast<void>(world.pipeline->commit_step());
    int writes = 0;
    std::vector<std::uint64_t> told;
    world.disk.set_observer([&](Op op, const std::string& mount) {
        if (op == Op::write && mount == "/one" && ++writes == 2) {
            world.clock.steady += 6'000;
            volume->check_stall(5'000);
            told = world.order;
        }
    });
    static_cast<void>(volume->apply_step());
    world.disk.set_observer(nullptr);
    CHECK(told == std::vector<std::uint64_t>{10, 11, 12});
    CHECK(world.order == told);
}

TEST_CASE("what is synced while the disk fell sick and healed says nothing about the new capture") {
    TwoSessions world;
    const auto volume = world.pipeline->volumes().front();
    world.grow(10);
    static_cast<void>(world.pipeline->commit_step());
    volume->request_sync();
    static_cast<void>(volume->apply_step());
    const std::uint64_t before = volume->synced_lsn();
    // While the sync is in the kernel the volume falls sick, heals, and captures anew.
    bool done = false;
    world.disk.set_observer([&](Op op, const std::string& mount) {
        if (done || op != Op::sync_file_system || mount != "/one") {
            return;
        }
        done = true;
        volume->declare_sick({recorder::Errc::io, EIO, "ill for a moment"});
        world.clock.steady += 1'000;
        static_cast<void>(volume->apply_step());
        volume->request_sync();
        static_cast<void>(volume->apply_step());
    });
    static_cast<void>(volume->sync_step());
    world.disk.set_observer(nullptr);
    REQUIRE(done);
    CHECK(volume->synced_lsn() == before);
    static_cast<void>(volume->sync_step());
    CHECK(volume->synced_lsn() > before);
}

TEST_CASE("a capture that an illness threw away is made again without being asked for") {
    TwoSessions world;
    const auto volume = world.pipeline->volumes().front();
    world.grow(10);
    static_cast<void>(world.pipeline->commit_step());
    volume->request_sync();
    static_cast<void>(volume->apply_step());
    volume->declare_sick({recorder::Errc::io, EIO, "ill for a moment"});
    world.clock.steady += 1'000;
    const std::uint64_t before = volume->synced_lsn();
    for (int round = 0; round < 3; ++round) {
        static_cast<void>(volume->apply_step());
        static_cast<void>(volume->seal_step());
        static_cast<void>(volume->sync_step());
    }
    CHECK(volume->synced_lsn() > before);
}

TEST_CASE("descriptors are given back and files go on where they were") {
    RecorderWorld world;
    world.limits.open_sessions_max = 4;
    world.must_recover();
    std::vector<std::shared_ptr<recorder::SessionFiles>> sessions;
    for (std::uint8_t number = 1; number <= 12; ++number) {
        sessions.push_back(world.files(number, "/one"));
        world.submit(
            sessions.back(),
            number,
            {RecorderWorld::append(stream, 0, ""), RecorderWorld::replace("meta.json", "{}")},
            true);
        world.turn_wheels();
        CHECK(world.disk.open_handles() < 30);
    }
    for (std::uint8_t number = 1; number <= 12; ++number) {
        world.submit(sessions[number - 1U], 100U + number, {RecorderWorld::append(stream, 0, "x")});
        world.turn_wheels();
        CHECK(world.verdict(100U + number) == Verdict::visible);
        CHECK(world.seen(world.root(number, "/one") + stream) == "x");
    }
    CHECK(world.notices.empty());
    sessions.clear();
}

TEST_CASE("an ended session leaves the checkpoint once it is synced") {
    TwoSessions world;
    const auto volume = world.pipeline->volumes().front();
    world.submit(world.first, 10, {RecorderWorld::replace("meta.json", "{end}")}, false, true);
    world.turn_wheels();
    world.checkpoint();
    CHECK(volume->sessions().size() == 1);  // somebody still holds it
    world.first.reset();
    world.checkpoint();
    CHECK(volume->sessions().empty());
}

TEST_CASE("no answer is lost when a later session of the same round meets an ill disk") {
    TwoSessions world;
    const auto third = world.files(3, "/one");
    world.submit(third, 3, {RecorderWorld::replace("meta.json", "{3}")}, true);
    world.turn_wheels();
    world.submit(world.first, 10, {RecorderWorld::replace("meta.json", "{10}")});
    world.submit(third, 11, {RecorderWorld::replace("meta.json", "{11}")});
    static_cast<void>(world.pipeline->commit_step());
    // Both documents are synced together; the second rename is refused.
    int renames = 0;
    world.disk.set_observer([&](Op op, const std::string& mount) {
        if (op == Op::rename && mount == "/one" && ++renames == 1) {
            world.disk.set_faults(
                {{.at_operation = 0, .os_errno = EIO, .only = Op::rename, .mount_point = "/one"}});
        }
    });
    static_cast<void>(world.pipeline->volumes().front()->apply_step());
    static_cast<void>(world.pipeline->volumes().front()->seal_step());
    world.disk.set_observer(nullptr);
    CHECK(world.verdict(10) == Verdict::visible);
    CHECK(world.verdict(11) == Verdict::deferred);
}

}  // namespace relay::tests
