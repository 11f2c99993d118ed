// SPDX-License-Identifier: Apache-2.0
#include "recorder/volume.hpp"
#include "tests/recorder/recorder_world.hpp"

#include <doctest/doctest.h>

#include <cerrno>

namespace relay::tests {
namespace {

using recorder::Verdict;
using recorder::Volume;
using Op = ModelDisk::Op;

const std::string stream = "turns/001-stream.md";

// Two sessions on two disks, begun and settled.
struct TwoSessions : RecorderWorld {
    TwoSessions() {
        must_recover();
        first = files(1, "/one");
        second = files(2, "/two");
        submit(first, 1, {replace("meta.json", "{1}")}, true);
        submit(second, 2, {replace("meta.json", "{2}")}, true);
        turn_wheels();
        REQUIRE(verdict(1) == Verdict::visible);
        REQUIRE(verdict(2) == Verdict::visible);
    }
    ~TwoSessions() override {
        first.reset();
        second.reset();
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
        RecorderWorld::ulid(3), claim, recorder::Pipeline::volume_name(world.disk, claim));
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
    world.disk.set_observer(nullptr);
    CHECK(world.verdict(10) == Verdict::visible);
    CHECK(world.verdict(11) == Verdict::deferred);
}

}  // namespace relay::tests
