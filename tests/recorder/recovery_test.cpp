// SPDX-License-Identifier: Apache-2.0
#include "layout/crc32c.hpp"
#include "layout/journal_batch.hpp"
#include "layout/little_endian.hpp"
#include "recorder/recovery.hpp"
#include "recorder/session.hpp"
#include "tests/recorder/recorder_world.hpp"
#include "tests/sim/session_oracle.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <functional>

namespace relay::tests {
namespace {

using recorder::Errc;
using recorder::Session;
using recorder::Step;
using recorder::Verdict;
using Op = ModelDisk::Op;
using Fault = ModelDisk::Fault;

const std::string stream = "turns/001-output.md";

// A session with two turns and a checkpoint of the journal between them, spoken to by a client that
// knows what was acknowledged.
class Story {
public:
    explicit Story(std::uint64_t seed) : world(seed) {}

    // From the start of the first process to its last step, or to where a fault ended it.
    void tell() {
        {
            auto report = world.recover();
            if (!report.ok()) {
                return;
            }
        }
        files_ = world.files(1, "/one");
        recorder::SessionState state;
        state.meta.id = files_->id;
        state.meta.slug = "270115-quiet-harbor";
        state.meta.agent = "codex";
        state.claim = RecorderWorld::claim("/one");
        Step first;
        session_ = std::make_unique<Session>(Session::begin(std::move(state), 1, now(), first));
        take(std::move(first));
        tell_turn("first");
        wheels();
        for (int round = 0; round < 4; ++round) {
            static_cast<void>(world.pipeline->request_checkpoint());
            wheels();
        }
        tell_turn("second");
        say(layout::TurnStart{.prompt = "third", .model = std::nullopt});
        say(bytes("an answer cut off"));
        wheels();
        session_.reset();
        files_.reset();
    }

    [[nodiscard]] SessionOracle::Found found() const {
        const std::string root = RecorderWorld::root(1, "/one");
        return world.disk.peek_files(root.substr(0, root.size() - 1));
    }

    // What stays true after every recovery.
    void check(const recorder::RecoveryReport& report) {
        REQUIRE(report.damaged_copy.empty());
        const SessionOracle::Found files = found();
        if (files.empty()) {
            REQUIRE(oracle.acked() == 0);
            return;
        }
        REQUIRE(report.sessions.size() == 1);
        const std::int64_t seq = report.sessions.front().state.client_seq;
        const auto count = oracle.match(files, {}, seq);
        REQUIRE_MESSAGE(
            count,
            "acked " << oracle.acked() << ", seq " << seq << ": "
                     << SessionOracle::difference(oracle.outcome(), files, {}));
    }

    RecorderWorld world;
    SessionOracle oracle;

private:
    static layout::TurnBytes bytes(std::string_view text) {
        return {.stream = layout::Stream::output, .channel = layout::Channel::text, .bytes = text};
    }
    [[nodiscard]] layout::Timestamp now() const { return world.clock.now(); }

    void tell_turn(std::string_view prompt) {
        say(layout::TurnStart{.prompt = prompt, .model = std::nullopt});
        say(bytes("some words"));
        wheels();
        say(bytes(" and more"));
        say(layout::TurnEnd{});
        wheels();
    }
    void say(layout::EventBody body) {
        layout::Event event;
        event.seq = session_->last_client_seq() + 1;
        event.body = std::move(body);
        auto result = session_->handle(event, now());
        REQUIRE(std::holds_alternative<Step>(result));
        take(std::get<Step>(std::move(result)));
    }
    void take(Step step) {
        recorder::WorkItem item;
        item.files = files_;
        item.waiter.connection = oracle.submit(step.change);
        item.change = std::move(step.change);
        world.pipeline->submit(std::move(item));
    }
    void wheels() {
        world.turn_wheels();
        for (const auto& [number, verdict] : world.verdicts) {
            if (verdict == Verdict::visible || verdict == Verdict::deferred) {
                oracle.acknowledge(number);
            }
        }
    }

    std::unique_ptr<Session> session_;
    std::shared_ptr<recorder::SessionFiles> files_;
};

Fault at(std::int64_t operation, bool power) {
    Fault fault;
    fault.at_operation = operation;
    fault.lose_power_instead = power;
    fault.end_process_instead = !power;
    return fault;
}

// Ends the story before its operation number `step`. False when the story has fewer.
bool end_story_before(Story& story, std::int64_t step, bool power) {
    story.world.disk.set_faults({at(step, power)});
    story.tell();
    const bool struck = !story.world.disk.faults_left();
    story.world.disk.set_faults({});
    story.world.kill();
    return struck;
}

void end_anywhere(bool power) {
    std::int64_t steps = 0;
    for (;; ++steps) {
        Story story(static_cast<std::uint64_t>(steps) + 1);
        const bool struck = end_story_before(story, steps, power);
        story.check(story.world.must_recover());
        // A second recovery changes no byte.
        const auto before = story.world.disk.seen_tree("/one");
        story.check(story.world.must_recover());
        REQUIRE(story.world.disk.seen_tree("/one") == before);
        if (!struck) {
            break;
        }
    }
    CHECK(steps > 150);
}

// The same, and every recovery that follows ends before each of its own operations once.
void end_anywhere_twice(bool power, bool power_in_recovery) {
    for (std::int64_t step = 0;; step += 7) {
        bool struck = true;
        for (std::int64_t inner = 0;; ++inner) {
            Story story(static_cast<std::uint64_t>(step * 1'000 + inner) + 1);
            struck = end_story_before(story, step, power);
            ModelDisk& disk = story.world.disk;
            disk.set_faults({at(disk.operations() + inner, power_in_recovery)});
            const bool recovered = story.world.recover().ok() && disk.faults_left();
            disk.set_faults({});
            story.world.kill();
            story.check(story.world.must_recover());
            if (recovered) {
                break;
            }
        }
        if (!struck) {
            break;
        }
    }
}

// One session on each of two disks; three batches, of which the last carries on with both.
struct Damaged : RecorderWorld {
    Damaged() {
        must_recover();
        const auto one = files(1, "/one");
        const auto two = files(2, "/two");
        submit(one, 1, {append("events.jsonl", 0, "1\n"), replace("meta.json", meta(1))}, true);
        submit(two, 2, {append("events.jsonl", 0, "1\n"), replace("meta.json", meta(2))}, true);
        static_cast<void>(pipeline->commit_step());
        submit(one, 3, {append(stream, 0, "aaaa")});
        static_cast<void>(pipeline->commit_step());
        submit(one, 4, {append(stream, 4, "bbbb")});
        submit(two, 5, {append(stream, 0, "cccc")});
        static_cast<void>(pipeline->commit_step());
        submit(two, 6, {append(stream, 4, "dddd")});
        static_cast<void>(pipeline->commit_step());
    }
    static std::string meta(std::uint8_t number) {
        layout::Meta meta;
        meta.id = ulid(number);
        meta.agent = "codex";
        return layout::encode_meta(meta);
    }
    void flip(std::size_t at) {
        const std::string path = "/journal/segment-0001";
        std::string bytes = seen(path);
        bytes[at] = static_cast<char>(bytes[at] ^ 1);
        disk.user_edit_in_place(path, bytes);
    }
};

}  // namespace

TEST_CASE("power loss before any step loses nothing that was acknowledged") {
    end_anywhere(true);
}

TEST_CASE("a crash before any step loses nothing that was acknowledged") {
    end_anywhere(false);
}

TEST_CASE("power loss before any step of the recovery from a crash loses nothing") {
    end_anywhere_twice(false, true);
}

TEST_CASE("power loss before any step of the recovery from a power loss loses nothing") {
    end_anywhere_twice(true, true);
}

TEST_CASE("a crash before any step of a recovery loses nothing") {
    end_anywhere_twice(true, false);
}

TEST_CASE("an error at any step of a recovery loses nothing") {
    for (const int number : {EIO, ENOSPC, EROFS}) {
        for (std::int64_t inner = 0;; ++inner) {
            Story story(static_cast<std::uint64_t>(inner) + 1);
            static_cast<void>(end_story_before(story, 190, false));
            ModelDisk& disk = story.world.disk;
            Fault fault;
            fault.at_operation = disk.operations() + inner;
            fault.os_errno = number;
            disk.set_faults({fault});
            const bool ended = story.world.recover().ok() && disk.faults_left();
            disk.set_faults({});
            story.world.cut_power(static_cast<std::uint64_t>(inner));
            story.check(story.world.must_recover());
            if (ended) {
                break;
            }
        }
    }
}

TEST_CASE("damage in the middle of the journal is reported and kept and costs only whom it hit") {
    Damaged world;
    // The second batch holds nothing but the first session's "aaaa".
    world.flip(2 * 4096 + 70);
    const auto report = world.must_recover();
    CHECK(report.tail == "acknowledged batch unreadable");
    REQUIRE_FALSE(report.damaged_copy.empty());
    CHECK(world.disk.seen("/journal/" + report.damaged_copy + "/segment-0001"));
    CHECK(world.disk.seen("/journal/" + report.damaged_copy + "/checkpoint.0"));
    // The second session lost nothing and goes on; the first one stops before the hole.
    CHECK(world.seen(RecorderWorld::root(2, "/two") + stream) == "ccccdddd");
    CHECK(world.seen(RecorderWorld::root(1, "/one") + stream) == "(absent)");
    REQUIRE(report.sessions.size() == 2);
    for (const auto& session : report.sessions) {
        CHECK(session.damaged == (session.files->id == RecorderWorld::ulid(1)));
    }
    REQUIRE(report.remarks.size() == 1);
    CHECK(report.remarks[0].find(RecorderWorld::ulid(1).text()) != std::string::npos);
    // It is over: the next start finds a sound journal, and the numbers of the lost are not used again.
    CHECK(world.must_recover().damaged_copy.empty());
    CHECK(world.pipeline->durable_lsn() == 4);
}

TEST_CASE("every bit of an acknowledged batch with a successor is worth a report") {
    for (std::size_t byte = 0; byte < 64; ++byte) {
        Damaged world;
        world.flip(2 * 4096 + byte);
        REQUIRE_MESSAGE(!world.must_recover().damaged_copy.empty(), "byte " << byte);
    }
}

TEST_CASE("damage to the last batch is told once that was vouched for") {
    constexpr std::size_t last_batch = std::size_t{4} * 4096;
    for (const bool vouched : {false, true}) {
        Damaged world;
        if (vouched) {
            world.pipeline->vouch();
            REQUIRE(world.pipeline->commit_step() == recorder::Pipeline::Commit::done);
        }
        world.flip(last_batch + 70);
        CHECK(world.must_recover().damaged_copy.empty() != vouched);
        CHECK(world.seen(RecorderWorld::root(2, "/two") + stream) == "cccc");
    }
}

TEST_CASE("a batch that only vouches is nothing to be missed when it is damaged") {
    Damaged world;
    world.pipeline->vouch();
    REQUIRE(world.pipeline->commit_step() == recorder::Pipeline::Commit::done);
    world.flip(std::size_t{5} * 4096 + 30);
    CHECK(world.must_recover().damaged_copy.empty());
    CHECK(world.seen(RecorderWorld::root(2, "/two") + stream) == "ccccdddd");
}

TEST_CASE(
    "a damaged journal is kept again when recovery is interrupted and the clock stands still") {
    Damaged world;
    world.flip(2 * 4096 + 70);
    world.disk.set_faults({{.at_operation = 0, .end_process_instead = true, .only = Op::rename}});
    CHECK_FALSE((world.recover().ok() && world.disk.has_power()));
    world.disk.set_faults({});
    const auto report = world.must_recover();
    CHECK(report.damaged_copy.ends_with("-2"));
    CHECK(world.seen(RecorderWorld::root(2, "/two") + stream) == "ccccdddd");
}

TEST_CASE("a kind of change that this version does not know stops the start and touches nothing") {
    Damaged world;
    const std::string path = "/journal/segment-0001";
    std::string bytes = world.seen(path);
    // The first effect of the last batch becomes one of a future version, with a valid checksum.
    const std::size_t batch = 4 * 4096;
    bytes[batch + layout::batch_header_bytes + 40] = 99;
    const auto header = layout::get_le<std::uint32_t>(bytes, batch + 40);
    layout::put_le(
        bytes.data() + batch + 4,
        layout::crc32c(std::string_view(bytes).substr(batch + 8, 64 - 8 + header)));
    world.disk.user_edit_in_place(path, bytes);
    const auto before = world.disk.seen_tree("/one");
    const auto report = world.recover();
    REQUIRE_FALSE(report.ok());
    CHECK(report.error().code == Errc::invalid);
    CHECK(world.disk.seen_tree("/one") == before);
}

TEST_CASE("segments without a checkpoint are damage and not a new journal") {
    Damaged world;
    world.kill();
    world.disk.user_remove_tree("/journal/checkpoint.0");
    world.disk.user_remove_tree("/journal/checkpoint.1");
    const auto report = world.recover();
    REQUIRE_FALSE(report.ok());
    CHECK(report.error().code == Errc::corrupt);
}

TEST_CASE("a second daemon on the same journal does not start") {
    RecorderWorld world;
    world.must_recover();
    recorder::Pipeline second(world.disk, world.clock, world, world.limits);
    recorder::RecoveryOptions options;
    options.journal_directory = "/journal";
    options.random = [] {
        return std::uint64_t{1};
    };
    const auto report = recorder::Recovery(second).run(options);
    REQUIRE_FALSE(report.ok());
    CHECK(report.error().code == Errc::busy);
    CHECK(report.error().context.find("42") != std::string::npos);
}

TEST_CASE("a full journal disk is no reason not to start") {
    RecorderWorld world;
    world.must_recover();
    world.kill();
    world.disk.set_capacity("/journal", 0);
    CHECK(world.recover().ok());
}

TEST_CASE("sessions whose disk is away at the start wait and are complete when it is back") {
    RecorderWorld world;
    world.must_recover();
    {
        const auto one = world.files(1, "/one");
        world.submit(
            one,
            1,
            {RecorderWorld::append("events.jsonl", 0, "1\n"),
             RecorderWorld::replace("meta.json", Damaged::meta(1))},
            true);
        world.turn_wheels();
        world.checkpoint();
        world.submit(one, 2, {RecorderWorld::append(stream, 0, "aaaa")});
    }
    SUBCASE("with changes that it lacks") {
        CHECK(world.pipeline->commit_step() == recorder::Pipeline::Commit::done);
    }
    SUBCASE("with nothing to do") {
        world.turn_wheels();
        world.checkpoint();
    }
    world.kill();
    // What a crash in the middle of a seal leaves.
    const std::string half_written = RecorderWorld::root(1, "/one") + ".resume.json.tmp";
    world.disk.user_write(half_written, "{");
    world.disk.set_read_only("/one", true);
    for (int start = 0; start < 3; ++start) {
        const auto report = world.must_recover();
        CHECK(report.sessions.empty());
        REQUIRE(report.waiting.size() == 1);
        CHECK(report.waiting[0] == RecorderWorld::ulid(1));
    }
    world.disk.set_read_only("/one", false);
    world.notices.clear();
    world.run_for(1'000);
    CHECK(world.seen(RecorderWorld::root(1, "/one") + stream) == "aaaa");
    CHECK_FALSE(world.disk.seen(half_written));
    REQUIRE(world.notices.size() == 1);
    REQUIRE(world.notices[0].deferral);
    CHECK(world.files(1, "/one")->client_seq == 2);
    world.checkpoint();
    CHECK(world.spills() == 0);
}

TEST_CASE("a session deleted while no daemon ran is no trouble to its neighbours") {
    RecorderWorld world;
    world.must_recover();
    for (const std::uint8_t number : {std::uint8_t{1}, std::uint8_t{2}}) {
        world.submit(
            world.files(number, "/one"),
            number,
            {RecorderWorld::append("events.jsonl", 0, "1\n"),
             RecorderWorld::replace("meta.json", Damaged::meta(number))},
            true);
    }
    world.turn_wheels();
    world.checkpoint();
    world.submit(world.files(1, "/one"), 3, {RecorderWorld::append(stream, 0, "aaaa")});
    world.submit(world.files(2, "/one"), 4, {RecorderWorld::append(stream, 0, "bbbb")});
    static_cast<void>(world.pipeline->commit_step());
    world.kill();
    const std::string gone = RecorderWorld::root(1, "/one");
    world.disk.user_remove_tree(gone.substr(0, gone.size() - 1));
    const auto report = world.must_recover();
    CHECK(world.seen(RecorderWorld::root(2, "/one") + stream) == "bbbb");
    REQUIRE(report.sessions.size() == 1);
    REQUIRE(report.remarks.size() == 1);
    CHECK(report.remarks[0].find("deleted") != std::string::npos);
    CHECK_FALSE(world.pipeline->volumes().front()->sick());
}

TEST_CASE("no step of a recovery shows a turn before the seal of the one before it") {
    RecorderWorld world;
    world.must_recover();
    {
        const auto files = world.files(1, "/one");
        world.submit(
            files,
            1,
            {RecorderWorld::append("events.jsonl", 0, "1\n"),
             RecorderWorld::replace("meta.json", Damaged::meta(1))},
            true);
        world.submit(files, 2, {RecorderWorld::append(stream, 0, "a")});
        SUBCASE("of a turn that was ended") {
            world.submit(files, 3, {RecorderWorld::replace("turns/001-state.json", "{}")});
            world.submit(files, 4, {RecorderWorld::append("turns/002-output.md", 0, "b")});
        }
        SUBCASE("of a turn that the next one ended") {
            world.submit(
                files,
                3,
                {RecorderWorld::replace("turns/001-state.json", "{}"),
                 RecorderWorld::append("turns/002-output.md", 0, "b")});
        }
    }
    // Durable, and not in the files yet.
    REQUIRE(world.pipeline->commit_step() == recorder::Pipeline::Commit::done);
    world.kill();
    const std::string root = RecorderWorld::root(1, "/one");
    bool in_order = true;
    world.disk.set_observer([&](Op, const std::string&) {
        in_order = in_order
                   && (!world.disk.peek(root + "turns/002-output.md")
                       || world.disk.peek(root + "turns/001-state.json"));
    });
    world.must_recover();
    world.disk.set_observer({});
    CHECK(in_order);
    CHECK(world.seen(root + "turns/002-output.md") == "b");
}

TEST_CASE("a sealed prompt is whole after a power loss in the recovery that writes it again") {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
        RecorderWorld world(seed);
        world.must_recover();
        const std::string prompt = RecorderWorld::root(1, "/one") + "turns/001-prompt.md";
        const std::string text(700, 'p');
        {
            const auto files = world.files(1, "/one");
            layout::Effect given{
                .kind = layout::EffectKind::replace,
                .name = "turns/001-prompt.md",
                .data = text,
                .offset = 0};
            world.submit(files, 1, {given}, true);
            layout::Effect settled{
                .kind = layout::EffectKind::settle,
                .name = "turns/001-prompt.md",
                .data = {},
                .offset = 0};
            world.submit(files, 2, {settled, RecorderWorld::replace("turns/001-state.json", "{}")});
        }
        world.turn_wheels();
        REQUIRE(world.verdict(2) == Verdict::visible);
        world.kill();
        world.disk.set_faults(
            {{.at_operation = 0,
              .lose_power_instead = true,
              .only = Op::sync_file_system,
              .mount_point = "/one"}});
        CHECK_FALSE((world.recover().ok() && world.disk.has_power()));
        world.kill();
        if (world.disk.seen(RecorderWorld::root(1, "/one") + "turns/001-state.json")) {
            REQUIRE(world.seen(prompt) == text);
        }
    }
}

TEST_CASE("a session that the checkpoint knew before its first event may begin after a restart") {
    RecorderWorld world;
    world.must_recover();
    {
        const auto first = world.files(1, "/one");
        const auto second = world.files(2, "/one");
        world.submit(second, 1, {RecorderWorld::append("events.jsonl", 0, "1\n")}, true);
        world.turn_wheels();
        world.checkpoint();  // the first one is known to it, and nothing else
    }
    const auto report = world.must_recover();
    for (const std::string& remark : report.remarks) {
        CHECK(remark.find(RecorderWorld::ulid(1).text()) == std::string::npos);
    }
    world.submit(
        world.files(1, "/one"), 2, {RecorderWorld::append("events.jsonl", 0, "1\n")}, true);
    world.turn_wheels();
    CHECK(world.verdict(2) == Verdict::visible);
}

namespace {

// A disk whose journal lies in memory.
class MemoryDirectory final : public recorder::Directory {
public:
    explicit MemoryDirectory(std::unique_ptr<Directory> real) : real_(std::move(real)) {}

    recorder::Result<std::unique_ptr<recorder::File>>
    open_file(std::string_view name, recorder::OpenMode mode) override {
        return real_->open_file(name, mode);
    }
    recorder::Result<std::unique_ptr<Directory>> open_directory(std::string_view name) override {
        return real_->open_directory(name);
    }
    recorder::Status make_directory(std::string_view name) override {
        return real_->make_directory(name);
    }
    recorder::Status rename(std::string_view from, std::string_view to) override {
        return real_->rename(from, to);
    }
    recorder::Status rename_new(std::string_view from, std::string_view to) override {
        return real_->rename_new(from, to);
    }
    recorder::Status remove(std::string_view name) override { return real_->remove(name); }
    recorder::Status make_symbolic_link(std::string_view target, std::string_view name) override {
        return real_->make_symbolic_link(target, name);
    }
    recorder::Result<recorder::FileStat> stat(std::string_view name) override {
        return real_->stat(name);
    }
    recorder::Result<recorder::FileStat> stat() override { return real_->stat(); }
    recorder::Result<bool> deleted() override { return real_->deleted(); }
    recorder::Result<std::vector<std::string>> list() override { return real_->list(); }
    recorder::Status sync() override { return real_->sync(); }
    recorder::Status sync_file_system() override { return real_->sync_file_system(); }
    recorder::Result<std::string> path() override { return real_->path(); }
    recorder::Result<recorder::Durability> durability() override {
        return recorder::Durability::memory;
    }
    recorder::Status lock() override { return real_->lock(); }
    void prefer_in_place_writes() override {}

private:
    std::unique_ptr<Directory> real_;
};

class MemoryDisk final : public recorder::Disk {
public:
    recorder::Result<std::unique_ptr<recorder::Directory>>
    open_directory(const std::string& path) override {
        auto opened = real.open_directory(path);
        if (!opened.ok()) {
            return opened.error();
        }
        return std::unique_ptr<recorder::Directory>(
            std::make_unique<MemoryDirectory>(std::move(opened.value())));
    }
    ModelDisk real{{"/journal"}};
};

}  // namespace

TEST_CASE("a journal in memory is refused unless it is asked for") {
    MemoryDisk disk;
    RecorderWorld listener;
    for (const bool allowed : {false, true}) {
        recorder::Pipeline pipeline(disk, listener.clock, listener, listener.limits);
        recorder::RecoveryOptions options;
        options.journal_directory = "/journal";
        options.unsafe_journal = allowed;
        options.random = [] {
            return std::uint64_t{1};
        };
        const auto report = recorder::Recovery(pipeline).run(options);
        CHECK(report.ok() == allowed);
        if (!allowed) {
            CHECK(report.error().code == Errc::unsafe);
        }
    }
}

}  // namespace relay::tests
