// SPDX-License-Identifier: Apache-2.0
#include "recorder/pipeline.hpp"
#include "tests/recorder/recorder_world.hpp"
#include "tests/support/eventually.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <thread>

namespace relay::tests {
namespace {

using recorder::Pipeline;
using recorder::Verdict;
using Op = ModelDisk::Op;

const std::string stream = "turns/001-stream.md";

}  // namespace

TEST_CASE("a change is answered after it is durable and visible and not before") {
    RecorderWorld world;
    world.must_recover();
    const auto files = world.files(1, "/one");
    world.submit(files, 1, {RecorderWorld::append(stream, 0, "a")}, true);
    CHECK(world.all.empty());
    CHECK(world.pipeline->commit_step() == Pipeline::Commit::done);
    CHECK(world.all.empty());
    CHECK(world.seen(world.root(1, "/one") + stream) == "(absent)");
    CHECK(world.pipeline->volumes().front()->apply_step());
    CHECK(world.verdict(1) == Verdict::visible);
    CHECK(world.seen(world.root(1, "/one") + stream) == "a");
    CHECK(world.pipeline->commit_step() == Pipeline::Commit::idle);
    CHECK(world.pipeline->changes() == 1);
}

TEST_CASE("what lies on the journal's own disk is applied where it is committed") {
    RecorderWorld world;
    world.disk.share_device("/one", "/journal");
    world.must_recover();
    const auto near = world.files(1, "/one");
    const auto far = world.files(2, "/two");
    world.submit(near, 1, {RecorderWorld::append(stream, 0, "a")}, true);
    world.submit(far, 2, {RecorderWorld::append(stream, 0, "b")}, true);
    CHECK(world.calls_to_commit == 1);
    CHECK(world.pipeline->commit_here() == Pipeline::Commit::done);
    CHECK(world.verdict(1) == Verdict::visible);
    CHECK(world.seen(world.root(1, "/one") + stream) == "a");
    CHECK_FALSE(world.verdicts.contains(2));
    CHECK(world.pipeline->volumes().back()->apply_step());
    CHECK(world.verdict(2) == Verdict::visible);
    CHECK(world.pipeline->commit_here() == Pipeline::Commit::idle);
    world.submit(near, 3, {RecorderWorld::append(stream, 1, "c")});
    CHECK(world.calls_to_commit == 2);
}

TEST_CASE(
    "a journal that is slow or has no room is left to its own thread until it is quick again") {
    RecorderWorld world;
    world.disk.share_device("/one", "/journal");
    world.must_recover();
    const auto files = world.files(1, "/one");
    const auto commit_slowly = [&world] {
        world.disk.set_observer([&world](ModelDisk::Op op, const std::string& mount) {
            if (op == Op::sync && mount == "/journal") {
                world.clock.steady += 30;
            }
        });
        const auto outcome = world.pipeline->commit_here();
        world.disk.set_observer(nullptr);
        return outcome;
    };
    world.submit(files, 1, {RecorderWorld::append(stream, 0, "a")}, true);
    CHECK(commit_slowly() == Pipeline::Commit::done);
    world.submit(files, 2, {RecorderWorld::append(stream, 1, "b")});
    CHECK(world.pipeline->commit_here() == Pipeline::Commit::idle);
    CHECK(world.pipeline->queued() == 1);
    world.pipeline->wait_commit();  // returns: it was handed the work
    CHECK(world.pipeline->commit_step() == Pipeline::Commit::done);
    // Quick again. It gives the work back and says so, should there be some.
    world.submit(files, 3, {RecorderWorld::append(stream, 2, "c")});
    CHECK(world.pipeline->commit_here() == Pipeline::Commit::idle);
    const int calls = world.calls_to_commit;
    std::thread commit_thread([&world] { world.pipeline->wait_commit(); });
    CHECK(eventually([&] { return world.pipeline->commit_here() == Pipeline::Commit::done; }));
    CHECK(world.calls_to_commit == calls + 1);
    world.pipeline->stop();
    commit_thread.join();
    CHECK(world.verdict(1) == Verdict::visible);
    CHECK(world.pipeline->queued() == 0);
}

TEST_CASE("what waits is one batch and a batch has a bound") {
    RecorderWorld world;
    world.limits.batch_bytes_max = 3'000;
    world.must_recover();
    const auto files = world.files(1, "/one");
    world.submit(files, 1, {RecorderWorld::append(stream, 0, "")}, true);
    const std::string chunk(1'000, 'x');
    for (std::uint64_t ticket = 2; ticket <= 7; ++ticket) {
        const auto offset = static_cast<std::int64_t>(ticket - 2) * 1'000;
        world.submit(files, ticket, {RecorderWorld::append(stream, offset, chunk)});
    }
    for (int batch = 0; batch < 3; ++batch) {
        CHECK(world.pipeline->commit_step() == Pipeline::Commit::done);
    }
    CHECK(world.pipeline->commit_step() == Pipeline::Commit::idle);
    CHECK(world.pipeline->batches() == 3);
    world.turn_wheels();
    CHECK(world.seen(world.root(1, "/one") + stream).size() == 6'000);
}

TEST_CASE("the last batch is vouched for once unless a checkpoint covers it") {
    RecorderWorld world;
    world.must_recover();
    world.pipeline->vouch();
    CHECK(world.pipeline->queued() == 0);
    const auto files = world.files(1, "/one");
    world.submit(files, 1, {RecorderWorld::append(stream, 0, "a")}, true);
    world.pipeline->vouch();
    CHECK(world.pipeline->queued() == 1);  // what waits will vouch
    CHECK(world.pipeline->commit_step() == Pipeline::Commit::done);
    const std::uint64_t last = world.pipeline->durable_lsn();
    world.pipeline->vouch();
    CHECK(world.pipeline->commit_step() == Pipeline::Commit::done);
    CHECK(world.pipeline->durable_lsn() == last + 1);
    CHECK(world.pipeline->changes() == 1);  // a flush counts changes
    world.pipeline->vouch();
    CHECK(world.pipeline->queued() == 0);
    world.submit(files, 2, {RecorderWorld::append(stream, 1, "b")});
    world.checkpoint();
    world.pipeline->vouch();
    CHECK(world.pipeline->queued() == 0);
    CHECK(world.verdict(2) == Verdict::visible);
}

TEST_CASE("a journal without room does without the batch that only vouches") {
    RecorderWorld world;
    world.must_recover();
    world.submit(world.files(1, "/one"), 1, {RecorderWorld::append(stream, 0, "a")}, true);
    CHECK(world.pipeline->commit_step() == Pipeline::Commit::done);
    world.pipeline->vouch();
    world.disk.set_faults(
        {{.at_operation = 0, .os_errno = ENOSPC, .only = Op::write, .mount_point = "/journal"}});
    CHECK(world.pipeline->commit_step() == Pipeline::Commit::idle);
    CHECK(world.pipeline->queued() == 0);
    CHECK_FALSE(world.pipeline->failure());
}

TEST_CASE("a failed journal answers everything with failed and nothing is applied") {
    RecorderWorld world;
    world.must_recover();
    const auto files = world.files(1, "/one");
    world.disk.set_faults(
        {{.at_operation = 0, .os_errno = EIO, .only = Op::sync, .mount_point = "/journal"}});
    world.submit(files, 1, {RecorderWorld::append(stream, 0, "a")}, true);
    CHECK(world.pipeline->commit_step() == Pipeline::Commit::failed);
    CHECK(world.verdict(1) == Verdict::failed);
    REQUIRE(world.pipeline->failure());
    world.submit(files, 2, {RecorderWorld::append(stream, 1, "b")});
    CHECK(world.pipeline->commit_step() == Pipeline::Commit::failed);
    CHECK(world.verdict(2) == Verdict::failed);
    world.run_for(2'000);
    CHECK(world.seen(world.root(1, "/one") + stream) == "(absent)");
}

TEST_CASE("a full journal waits for a checkpoint and loses nothing") {
    RecorderWorld world;
    world.limits.journal.segments_max = 2;
    world.must_recover();
    const auto files = world.files(1, "/one");
    world.submit(files, 1, {RecorderWorld::append(stream, 0, "")}, true);
    const std::string chunk(3'500, 'x');
    std::uint64_t ticket = 1;
    auto committed = world.pipeline->commit_step();
    while (committed == Pipeline::Commit::done) {
        const auto offset = static_cast<std::int64_t>(ticket - 1) * 3'500;
        world.submit(files, ++ticket, {RecorderWorld::append(stream, offset, chunk)});
        committed = world.pipeline->commit_step();
    }
    CHECK(committed == Pipeline::Commit::blocked);
    CHECK(world.pipeline->queued() == 1);
    CHECK(world.pipeline->checkpoint_trouble());
    for (int round = 0; round < 6; ++round) {
        world.turn_wheels();
    }
    CHECK(world.pipeline->queued() == 0);
    CHECK(world.verdict(ticket) == Verdict::visible);
    CHECK_FALSE(world.pipeline->checkpoint_trouble());
    CHECK(world.seen(world.root(1, "/one") + stream).size() == (ticket - 1) * 3'500);
}

TEST_CASE("the only segment of a full disk begins anew once a checkpoint has freed it") {
    RecorderWorld world;
    world.must_recover();
    world.disk.set_capacity("/journal", world.disk.used("/journal") + 8'192);
    const auto files = world.files(1, "/one");
    world.submit(files, 1, {RecorderWorld::append(stream, 0, "")}, true);
    const std::string chunk(3'500, 'x');
    constexpr std::uint64_t last = 60;  // three segments' worth
    for (std::uint64_t ticket = 2; ticket <= last; ++ticket) {
        const auto offset = static_cast<std::int64_t>(ticket - 2) * 3'500;
        world.submit(files, ticket, {RecorderWorld::append(stream, offset, chunk)});
        for (int round = 0; round < 4; ++round) {
            world.turn_wheels();
        }
    }
    CHECK(world.verdict(last) == Verdict::visible);
    CHECK_FALSE(world.pipeline->failure());
    world.cut_power();
    world.must_recover();
    CHECK(world.seen(world.root(1, "/one") + stream).size() == (last - 1) * 3'500);
}

TEST_CASE("a journal disk that stays full refuses events in the end") {
    RecorderWorld world;
    world.must_recover();
    const auto files = world.files(1, "/one");
    world.submit(files, 1, {RecorderWorld::append(stream, 0, "a")}, true);
    world.turn_wheels();
    world.disk.set_faults(
        {{.at_operation = 0,
          .os_errno = ENOSPC,
          .for_ever = true,
          .only = Op::write,
          .mount_point = "/journal"}});
    world.submit(files, 2, {RecorderWorld::append(stream, 1, "b")});
    CHECK(world.pipeline->commit_step() == Pipeline::Commit::blocked);
    world.clock.steady += world.limits.no_space_patience_ms - 1;
    CHECK(world.pipeline->commit_step() == Pipeline::Commit::blocked);
    CHECK_FALSE(world.verdicts.contains(2));
    world.clock.steady += 1;
    CHECK(world.pipeline->commit_step() == Pipeline::Commit::failed);
    CHECK(world.verdict(2) == Verdict::no_space);
    world.disk.set_faults({});
    // What was refused is out of the session's order now: only a new start mends that.
    world.submit(files, 3, {RecorderWorld::append(stream, 1, "c")});
    CHECK(world.pipeline->commit_step() == Pipeline::Commit::failed);
    CHECK(world.verdict(3) == Verdict::no_space);
    world.must_recover();
    CHECK(world.seen(world.root(1, "/one") + stream) == "a");
}

TEST_CASE("a checkpoint that failed is not tried again at once whoever asks") {
    RecorderWorld world;
    world.must_recover();
    const auto files = world.files(1, "/one");
    world.submit(files, 1, {RecorderWorld::append(stream, 0, "a")}, true);
    world.turn_wheels();
    world.disk.set_faults(
        {{.at_operation = 0,
          .os_errno = EIO,
          .for_ever = true,
          .only = Op::sync,
          .mount_point = "/journal"}});
    const std::uint64_t ticket = world.pipeline->request_checkpoint();
    for (int round = 0; round < 5; ++round) {
        world.turn_wheels();
    }
    REQUIRE(world.pipeline->checkpoint_trouble());
    const std::int64_t before = world.disk.operations();
    for (int round = 0; round < 5; ++round) {
        CHECK_FALSE(world.pipeline->checkpoint_step());
    }
    CHECK(world.disk.operations() == before);
    world.disk.set_faults({});
    world.clock.steady += 1'000;
    for (int round = 0; round < 5; ++round) {
        world.turn_wheels();
    }
    CHECK(world.pipeline->checkpoints_done() >= ticket);
    CHECK_FALSE(world.pipeline->checkpoint_trouble());
}

TEST_CASE("an orderly stop leaves an empty journal") {
    RecorderWorld world;
    world.must_recover();
    {
        const auto files = world.files(1, "/one");
        world.submit(files, 1, {RecorderWorld::append(stream, 0, "a")}, true);
        static_cast<void>(world.pipeline->commit_step());
        static_cast<void>(world.pipeline->volumes().front()->apply_step());
    }
    REQUIRE(world.pipeline->finish().ok());
    world.cut_power();
    CHECK(world.seen(world.root(1, "/one") + stream) == "a");
    const auto report = world.must_recover();
    CHECK(report.batches == 0);
    CHECK(report.tail == "orderly stop");
}

TEST_CASE("an orderly stop of a failed journal does not call it empty") {
    RecorderWorld world;
    world.must_recover();
    auto files = world.files(1, "/one");
    world.submit(files, 1, {RecorderWorld::append(stream, 0, "a")}, true);
    world.turn_wheels();
    world.disk.set_faults(
        {{.at_operation = 0, .os_errno = EIO, .only = Op::sync, .mount_point = "/journal"}});
    world.submit(files, 2, {RecorderWorld::append(stream, 1, "b")});
    CHECK(world.pipeline->commit_step() == Pipeline::Commit::failed);
    files.reset();
    REQUIRE(world.pipeline->finish().ok());
    const auto report = world.must_recover();
    CHECK(report.batches == 1);
    // Its number is not used again, or this one would be taken for what follows.
    CHECK(world.pipeline->durable_lsn() == 2);
}

TEST_CASE("one more change of a session that was let go survives a crash") {
    RecorderWorld world;
    world.must_recover();
    const std::string meta = world.root(1, "/one") + "meta.json";
    world.submit(
        world.files(1, "/one"), 1, {RecorderWorld::replace("meta.json", "{end}")}, true, true);
    world.turn_wheels();
    world.checkpoint();
    world.checkpoint();
    REQUIRE(world.pipeline->volumes().front()->sessions().empty());
    // Nobody attaches: the change itself claims nothing.
    world.submit(
        world.files(1, "/one"), 2, {RecorderWorld::replace("meta.json", "{renamed}")}, false, true);
    SUBCASE("applied") {
        world.turn_wheels();
        CHECK(world.verdict(2) == Verdict::visible);
    }
    SUBCASE("not applied") {
        CHECK(world.pipeline->commit_step() == Pipeline::Commit::done);
    }
    world.cut_power();
    world.must_recover();
    CHECK(world.seen(meta) == "{renamed}");
}

TEST_CASE("a spill is there until the checkpoint that makes it needless is durable") {
    RecorderWorld world;
    world.must_recover();
    auto files = world.files(1, "/one");
    world.submit(files, 1, {RecorderWorld::append(stream, 0, "")}, true);
    world.turn_wheels();
    world.checkpoint();
    world.disk.set_capacity("/one", world.disk.used("/one"));
    world.submit(files, 2, {RecorderWorld::append(stream, 0, "abc")});
    world.turn_wheels();
    CHECK(world.verdict(2) == Verdict::deferred);
    world.checkpoint();
    REQUIRE(world.spills() == 1);
    world.disk.set_capacity("/one", ModelDisk::unlimited);
    world.clock.steady += 60'000;
    const auto volume = world.pipeline->volumes().front();
    static_cast<void>(volume->apply_step());
    REQUIRE_FALSE(volume->sick());
    static_cast<void>(world.pipeline->request_checkpoint());
    static_cast<void>(world.pipeline->checkpoint_step());
    static_cast<void>(volume->apply_step());
    static_cast<void>(volume->seal_step());
    static_cast<void>(volume->sync_step());
    // The checkpoint cannot be written: the client's number is in the spill alone.
    world.disk.set_faults(
        {{.at_operation = 0, .os_errno = EIO, .only = Op::sync, .mount_point = "/journal"}});
    static_cast<void>(world.pipeline->checkpoint_step());
    CHECK(world.spills() == 1);
    files.reset();
    world.cut_power();
    world.must_recover();
    const auto again = world.pipeline->volumes().front()->find(RecorderWorld::ulid(1));
    REQUIRE(again);
    CHECK(again->client_seq == 2);
    CHECK(world.spills() == 0);
}

TEST_CASE("the last ulid of a checkpoint is never issued again") {
    RecorderWorld world;
    world.must_recover();
    world.pipeline->note_last_ulid(RecorderWorld::ulid(9));
    world.pipeline->note_last_ulid(RecorderWorld::ulid(4));
    REQUIRE(world.pipeline->finish().ok());
    CHECK(world.must_recover().last_ulid == RecorderWorld::ulid(9));
}

TEST_CASE("a session has one set of files whatever its disk is called") {
    RecorderWorld world;
    world.must_recover();
    const auto files = world.files(1, "/one");
    CHECK(
        world.pipeline->files_for(RecorderWorld::ulid(1), RecorderWorld::claim("/one"), "path:/one")
        == files);
    CHECK(world.pipeline->volumes().size() == 1);
}

TEST_CASE("no segment is written over before the checkpoint that frees it is durable") {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        RecorderWorld world(seed);
        world.must_recover();
        auto files = world.files(1, "/one");
        world.submit(files, 1, {RecorderWorld::append(stream, 0, "")}, true);
        // The journal's disk takes commits and no checkpoint.
        const std::string chunk(3'500, 'x');
        std::uint64_t ticket = 1;
        std::uint64_t acked = 0;
        for (int round = 0; round < 120; ++round) {
            const auto offset = static_cast<std::int64_t>(ticket - 1) * 3'500;
            world.submit(files, ++ticket, {RecorderWorld::append(stream, offset, chunk)});
            world.disk.set_read_only("/journal", false);
            static_cast<void>(world.pipeline->commit_step());
            static_cast<void>(world.pipeline->volumes().front()->apply_step());
            static_cast<void>(world.pipeline->volumes().front()->sync_step());
            world.disk.set_read_only("/journal", true);
            static_cast<void>(world.pipeline->checkpoint_step());
            world.clock.steady += 300;
        }
        world.disk.set_read_only("/journal", false);
        for (const auto& [number, verdict] : world.verdicts) {
            acked = verdict == Verdict::visible ? std::max(acked, number) : acked;
        }
        files.reset();
        CHECK(acked < ticket);  // the journal was full in the end
        world.cut_power(seed);
        const auto report = world.must_recover();
        CHECK(report.damaged_copy.empty());
        CHECK(world.seen(world.root(1, "/one") + stream).size() >= (acked - 1) * 3'500);
    }
}

TEST_CASE("a session is not read back from a disk that is ill") {
    RecorderWorld world;
    world.must_recover();
    const auto files = world.files(1, "/one");
    world.submit(files, 1, {RecorderWorld::append(stream, 0, "a")}, true);
    world.turn_wheels();
    CHECK(world.pipeline->is_readable(RecorderWorld::ulid(1)));
    world.disk.set_capacity("/one", world.disk.used("/one"));
    world.submit(files, 2, {RecorderWorld::append(stream, 1, "b")});
    world.turn_wheels();
    CHECK_FALSE(world.pipeline->is_readable(RecorderWorld::ulid(1)));
    CHECK(world.pipeline->is_readable(RecorderWorld::ulid(2)));
    world.disk.set_capacity("/one", ModelDisk::unlimited);
    world.run_for(2'000);
    CHECK(world.pipeline->is_readable(RecorderWorld::ulid(1)));
}

}  // namespace relay::tests
