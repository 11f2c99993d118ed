// SPDX-License-Identifier: Apache-2.0
#include "tests/end_to_end/recording.hpp"
#include "tests/support/eventually.hpp"

#include <doctest/doctest.h>

#include <unistd.h>

#include <algorithm>

namespace relay::tests {
namespace {

// A small ext4 file system of its own in an image, mounted below `directory`. Needs root and loop devices.
class LoopDisk {
public:
    explicit LoopDisk(const std::string& directory)
        : image_(directory + "/disk.img"), mount_point_(directory + "/disk") {
        // No blocks kept back for root: the daemon under test may be root.
        mounted_ = ::geteuid() == 0
                   && run_shell(
                          "truncate -s 24M '" + image_ + "' && mkfs.ext4 -q -F -m 0 '" + image_
                          + "' && mkdir '" + mount_point_ + "' && mount -o loop '" + image_ + "' '"
                          + mount_point_ + "'")
                              .status
                          == 0;
    }
    LoopDisk(const LoopDisk&) = delete;
    LoopDisk& operator=(const LoopDisk&) = delete;
    ~LoopDisk() {
        if (mounted_) {
            static_cast<void>(run_shell("umount -l '" + mount_point_ + "'"));
        }
    }

    [[nodiscard]] bool mounted() const { return mounted_; }
    [[nodiscard]] const std::string& path() const { return mount_point_; }

    void fill() const {
        static_cast<void>(run_shell(
            "dd if=/dev/zero of='" + mount_point_ + "/filler' bs=64k; dd if=/dev/zero of='"
            + mount_point_ + "/crumbs' bs=1k; sync -f '" + mount_point_ + "'"));
    }
    void free() const {
        static_cast<void>(
            run_shell("rm -f '" + mount_point_ + "/filler' '" + mount_point_ + "/crumbs'"));
    }
    [[nodiscard]] bool remount(const std::string& mode) const {
        return run_shell("mount -o remount," + mode + " '" + mount_point_ + "'").status == 0;
    }

private:
    std::string image_;
    std::string mount_point_;
    bool mounted_ = false;
};

struct Scene {
    DaemonProcess daemon;
    LoopDisk disk;  // unmounted before the daemon's directory goes
    std::string repo;
    WireClient client{""};
    WireClient other{""};
    Recording session;  // on the small disk
    Recording healthy;  // elsewhere
    std::string said;

    Scene() : daemon(repo_stores()), disk(daemon.root()), repo(disk.path() + "/repo") {}

    static DaemonSetup repo_stores() {
        DaemonSetup setup = small_journal({"--checkpoint-interval", "200ms"});
        setup.relocated = false;
        return setup;
    }

    ~Scene() { daemon.kill(); }
    Scene(const Scene&) = delete;
    Scene& operator=(const Scene&) = delete;

    bool begin() {
        if (!disk.mounted()) {
            MESSAGE("skipped: needs root and a loop device for a small ext4 file system");
            return false;
        }
        REQUIRE(make_repository(repo));
        REQUIRE_MESSAGE(daemon.start(), daemon.log());
        client = WireClient(daemon.socket());
        other = WireClient(daemon.socket());
        session = start_session(client, repo);
        healthy = start_session(other, daemon.work());
        REQUIRE(session.path.starts_with(disk.path()));
        CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "p"}}));
        CHECK_ACK(other.ask("turn.start", healthy.id, {{"prompt", "p"}}));
        CHECK_FALSE(say("well ").value("deferred", false));
        return true;
    }

    Json say(const std::string& text) {
        Json answer = client.ask("turn.output", session.id, {{"text", text}});
        CHECK_ACK(answer);
        said += text;
        return answer;
    }

    bool say_until(bool deferred, const std::string& text) {
        return eventually([&] { return say(text).value("deferred", false) == deferred; });
    }

    // The session on the other disk is acked as ever; the slowest of many acks.
    void check_healthy_is_fast() {
        std::chrono::steady_clock::duration slowest{};
        for (int round = 0; round < 100; ++round) {
            const auto asked_at = std::chrono::steady_clock::now();
            const Json answer = other.ask("turn.output", healthy.id, {{"text", "w"}});
            slowest = std::max(slowest, std::chrono::steady_clock::now() - asked_at);
            CHECK_ACK(answer);
            CHECK_FALSE(answer.value("deferred", false));
        }
        CHECK(slowest < std::chrono::seconds(2));
    }

    void attach_in_the_end() {
        REQUIRE(eventually([this] { return is_ack(client.ask("session.attach", session.id)); }));
    }

    // What status says of the small disk.
    std::string state_of_disk() {
        const Json status = other.request({{"type", "status"}});
        for (const Json& volume : status.value("volumes", Json::array())) {
            if (volume.value("anchor", "").starts_with(disk.path())) {
                return volume.value("state", "");
            }
        }
        return "not there: " + status.dump();
    }

    void check_all_arrives() {
        const bool arrived =
            eventually([this] { return session.text("turns/001-output.md") == said; });
        CHECK_MESSAGE(
            arrived,
            session.text("turns/001-output.md").size() << " of " << said.size() << " bytes");
        CHECK(say_until(/*deferred=*/false, "well again "));
        CHECK_ACK(client.ask("turn.end", session.id));
        const bool whole = session.text("turns/001-output.md") == said;
        CHECK(whole);
        CHECK_ACK(client.ask("session.end", session.id));
        CHECK(session.meta()["status"] == "completed");
        CHECK(session.meta()["capture"]["deferred"]["reason"].is_string());
        CHECK(session.meta()["capture"]["dropped"] == 0);
        CHECK_MESSAGE(damage_of(session.path).empty(), damage_of(session.path));
        CHECK(state_of_disk() == "well");
    }
};

TEST_CASE("a full disk defers its own sessions and no other and catches up by itself") {
    Scene scene;
    if (!scene.begin()) {
        return;
    }
    scene.disk.fill();
    const std::string block(32 * 1024, 'b');
    REQUIRE(scene.say_until(/*deferred=*/true, block));
    scene.check_healthy_is_fast();
    CHECK(scene.state_of_disk() == "deferred");
    // Whole turns go by while the disk is full; meta.json stays whole.
    for (int round = 0; round < 20; ++round) {
        CHECK(scene.say(block).value("deferred", false));
    }
    CHECK(scene.session.meta().is_object());
    CHECK(scene.said.starts_with(scene.session.text("turns/001-output.md")));
    scene.disk.free();
    scene.check_all_arrives();
}

TEST_CASE("a daemon killed while a disk is full has everything when it is free again") {
    Scene scene;
    if (!scene.begin()) {
        return;
    }
    scene.disk.fill();
    const std::string block(32 * 1024, 'b');
    REQUIRE(scene.say_until(/*deferred=*/true, block));
    for (int round = 0; round < 3; ++round) {
        // Long enough for checkpoints to come by: the journal may not forget what the disk lacks.
        static_cast<void>(eventually([] { return false; }, std::chrono::milliseconds(400)));
        REQUIRE_MESSAGE(scene.daemon.restart(), scene.daemon.log());
        scene.client = WireClient(scene.daemon.socket());
        scene.other = WireClient(scene.daemon.socket());
        CHECK_ACK(scene.other.ask("session.attach", scene.healthy.id));
        // The daemon may ask for patience, but what it takes it must keep.
        const Json attached = scene.client.ask("session.attach", scene.session.id);
        if (is_ack(attached)) {
            CHECK(scene.say(block).value("deferred", false));
        } else {
            CHECK_MESSAGE(code_of(attached) == "overloaded", attached.dump());
        }
    }
    scene.check_healthy_is_fast();
    scene.disk.free();
    scene.attach_in_the_end();
    scene.check_all_arrives();
}

TEST_CASE("a disk that is mounted read-only at the start of the daemon is waited for") {
    Scene scene;
    if (!scene.begin()) {
        return;
    }
    scene.daemon.kill();
    REQUIRE(scene.disk.remount("ro"));
    REQUIRE_MESSAGE(scene.daemon.start(), scene.daemon.log());
    scene.client = WireClient(scene.daemon.socket());
    scene.other = WireClient(scene.daemon.socket());
    CHECK_ACK(scene.other.ask("session.attach", scene.healthy.id));
    const Json attached = scene.client.ask("session.attach", scene.session.id);
    if (is_ack(attached)) {
        CHECK(scene.say("while read-only ").value("deferred", false));
    } else {
        CHECK_MESSAGE(code_of(attached) == "overloaded", attached.dump());
    }
    scene.check_healthy_is_fast();
    REQUIRE(scene.disk.remount("rw"));
    scene.attach_in_the_end();
    scene.check_all_arrives();
}

TEST_CASE("a disk that turns read-only under the daemon defers and catches up") {
    Scene scene;
    if (!scene.begin()) {
        return;
    }
    // The kernel refuses while a file is open for writing; when the daemon holds none, it is done.
    if (!scene.disk.remount("ro")) {
        MESSAGE("skipped: the kernel does not remount a disk that is being written to");
        return;
    }
    REQUIRE(scene.say_until(/*deferred=*/true, "while read-only "));
    scene.check_healthy_is_fast();
    REQUIRE(scene.disk.remount("rw"));
    scene.check_all_arrives();
}

TEST_CASE("a place that is mounted read-only defers its own sessions and no other of its disk") {
    if (::geteuid() != 0) {
        MESSAGE("skipped: only root can mount");
        return;
    }
    DaemonProcess daemon(Scene::repo_stores());
    const std::string repo = daemon.work() + "/repo";
    REQUIRE(make_repository(repo));
    REQUIRE(make_repository(daemon.work() + "/other"));
    if (run_shell(
            "mount --bind '" + repo + "' '" + repo + "' && mount -o remount,bind,ro '" + repo + "'")
            .status
        != 0) {
        MESSAGE("skipped: bind mounts are forbidden here");
        return;
    }
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording closed = start_session(client, repo);
    CHECK_MESSAGE(closed.answer.value("deferred", false), closed.answer.dump());
    const Json turn = client.ask("turn.start", closed.id, {{"prompt", "kept"}});
    CHECK(turn.value("deferred", false));
    const Recording open = start_session(client, daemon.work() + "/other");
    for (const Json& answer :
         {open.answer,
          client.ask("turn.start", open.id, {{"prompt", "p"}}),
          client.ask("turn.output", open.id, {{"text", "words"}})}) {
        CHECK_ACK(answer);
        CHECK_MESSAGE(!answer.value("deferred", false), answer.dump());
    }
    // And after a restart, which finds both.
    REQUIRE_MESSAGE(daemon.restart(), daemon.log());
    client = WireClient(daemon.socket());
    CHECK_ACK(client.ask("session.attach", open.id));
    const Json more = client.ask("turn.output", open.id, {{"text", " and more"}});
    CHECK_ACK(more);
    CHECK_FALSE(more.value("deferred", false));
    REQUIRE(run_shell("mount -o remount,bind,rw '" + repo + "'").status == 0);
    CHECK(eventually([&] { return closed.text("turns/001-prompt.md") == "kept"; }));
    CHECK(open.text("turns/001-output.md") == "words and more");
    CHECK(daemon.terminate() == 0);
    static_cast<void>(run_shell("umount -l '" + repo + "'"));
}

}  // namespace
}  // namespace relay::tests
