// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/client_crowd.hpp"
#include "tests/end_to_end/recording.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/loop_file_system.hpp"
#include "tests/support/service_manager.hpp"

#include <boost/filesystem.hpp>
#include <doctest/doctest.h>

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

// The daemon under a service manager: what it says and when, and that nobody loses anything by its coming
// and going.

namespace relay::tests {
namespace {

using std::chrono::milliseconds;

bool says(const std::string& text, const std::string& words) {
    return text.find(words) != std::string::npos;
}

bool has(const std::vector<std::string>& messages, const std::string& beginning) {
    return std::any_of(messages.begin(), messages.end(), [&beginning](const std::string& message) {
        return message.starts_with(beginning);
    });
}

TEST_CASE("a client that came before the service is served and the manager hears of every step") {
    ServiceManager manager(small_journal());
    WireClient early(manager.service().socket());
    REQUIRE(early.send_line(R"({"type":"hello","id":1})"));
    manager.service().spawn();
    const std::vector<std::string> start = manager.hear("READY=1\n");
    REQUIRE_MESSAGE(!start.empty(), manager.service().log());
    CHECK(start.front() == "STATUS=Recovering");
    CHECK(has(start, "EXTEND_TIMEOUT_USEC="));
    // A recovery after a failure of the disk has a watchdog that a first one has not.
    CHECK(has(start, "WATCHDOG=1"));
    CHECK_MESSAGE(says(start.back(), "STATUS=Recording 0 sessions of 0 clients"), start.back());
    CHECK(is_ack(early.read()));

    const Recording session = start_session(early, manager.service().work());
    const std::vector<std::string> reload = [&manager] {
        manager.service().signal(SIGHUP);
        return manager.hear("READY=1\n");
    }();
    REQUIRE(reload.size() == 2);
    CHECK(reload[0].starts_with("RELOADING=1\nMONOTONIC_USEC="));
    CHECK_MESSAGE(says(reload[1], "STATUS=Recording 1 session of 1 client, "), reload[1]);

    manager.service().signal(SIGTERM);
    const std::vector<std::string> stop =
        manager.hear("STATUS=Stopping: waiting for the last sync");
    REQUIRE(!stop.empty());
    CHECK(stop.front() == "STOPPING=1");
    CHECK(has(stop, "EXTEND_TIMEOUT_USEC="));
    CHECK(manager.service().wait() == 0);
    // The socket is the manager's: who comes now waits for the next start.
    CHECK(exists(manager.service().socket()));
    WireClient late(manager.service().socket());
    REQUIRE(late.connected());
    manager.service().spawn();
    CHECK_ACK(late.ask("session.attach", session.id));
}

TEST_CASE("an activated daemon names in its log the socket that it was given") {
    ServiceManager manager(small_journal({"--socket", "/run/elsewhere/relay.sock"}));
    manager.service().spawn();
    REQUIRE_MESSAGE(!manager.hear("READY=1\n").empty(), manager.service().log());
    CHECK_MESSAGE(
        says(manager.service().log(), "ready socket=" + manager.service().socket()),
        manager.service().log());
}

TEST_CASE("the real socket activation of systemd is understood") {
    DaemonProcess daemon(small_journal({"--idle-exit", "1s"}));
    std::vector<std::string> launcher{
        "/usr/bin/systemd-socket-activate", "--listen=" + daemon.socket(), "--fdname=relay"};
    for (const auto& [name, value] : daemon.environment()) {
        launcher.push_back("--setenv=" + name + "=" + value);
    }
    REQUIRE_MESSAGE(exists(launcher.front()), "install systemd: scripts/setup does");
    daemon.launcher() = launcher;
    daemon.spawn();
    REQUIRE(eventually([&daemon] { return exists(daemon.socket()); }));
    REQUIRE(eventually([&daemon] { return daemon.answers(); }));
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "p"}}));
    CHECK_ACK(client.ask("session.end", session.id));
    client.close();
    CHECK_MESSAGE(daemon.wait() == 0, daemon.log());
    CHECK(exists(daemon.socket()));
    CHECK(session.meta()["status"] == "completed");
}

TEST_CASE("sixty idle exits are noticed by no client") {
    ServiceManager manager(small_journal({"--idle-exit", "10ms"}));
    manager.activate();
    Random random(60);
    std::vector<Recording> sessions;
    for (int round = 0; round < 120; ++round) {
        WireClient client(manager.service().socket());
        REQUIRE(client.connected());
        const Recording session = start_session(client, manager.service().work());
        REQUIRE_MESSAGE(!session.id.empty(), session.answer.dump());
        CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", std::to_string(round)}}));
        CHECK_ACK(client.ask("turn.output", session.id, {{"text", "words\n"}}));
        CHECK_ACK(client.ask("session.end", session.id));
        client.close();
        sessions.push_back(session);
        if (round % 2 == 0) {
            REQUIRE(eventually([&manager] { return !manager.is_running(); }));
        } else {
            ::poll(nullptr, 0, static_cast<int>(random.below(20)));  // about when it leaves
        }
    }
    CHECK(manager.starts() >= 60);
    for (const Recording& session : sessions) {
        CHECK(session.text("turns/001-output.md") == "words\n");
        CHECK(session.meta()["status"] == "completed");
        CHECK(damage_of(session.path).empty());
    }
}

TEST_CASE("restarts and kills under load lose and double nothing while the socket stays") {
    ServiceManager manager(
        small_journal({"--checkpoint-interval", "200ms", "--orphan-grace", "10min"}));
    manager.activate();
    Random random(7);
    ClientCrowd crowd(manager.service(), 6, random, Patience::crashes);
    for (int round = 0; round < 16; ++round) {
        const std::int64_t acked = crowd.acked();
        CHECK(eventually([&] { return crowd.acked() > acked + 50; }));
        ::poll(nullptr, 0, static_cast<int>(random.below(50)));
        const int starts = manager.starts();
        manager.signal_service(round % 2 == 0 ? SIGTERM : SIGKILL);
        CHECK(eventually([&] { return manager.starts() > starts; }));
    }
    CHECK(crowd.finish());
    crowd.join();
    CHECK(manager.starts() >= 17);
    const std::string complaints = crowd.complaints();
    CHECK_MESSAGE(complaints.empty(), complaints);
}

TEST_CASE("the watchdog is fed by a daemon that moves and by none that stands still") {
    ServiceManager manager(small_journal(), milliseconds(200));
    manager.service().spawn();
    REQUIRE(!manager.hear("READY=1\n").empty());
    CHECK(manager.hears_anew("WATCHDOG=1", milliseconds(5000)));
    CHECK(manager.hears_anew("STATUS=Recording 0 sessions", milliseconds(5000)));
    manager.service().signal(SIGSTOP);
    // What was under way when the signal came may still be heard.
    static_cast<void>(manager.hears_anew("WATCHDOG=1", milliseconds(150)));
    CHECK_FALSE(manager.hears_anew("WATCHDOG=1", milliseconds(1000)));
    manager.service().signal(SIGCONT);
    CHECK(manager.hears_anew("WATCHDOG=1", milliseconds(5000)));
}

TEST_CASE("the watchdog falls silent when the journal hangs and goes on when it goes on") {
    const std::string hindrance = LoopFileSystem::hindrance("ext4");
    if (!hindrance.empty()) {
        MESSAGE("NOT TESTED: " << hindrance);
        return;
    }
    const TemporaryDirectory directory;
    LoopFileSystem disk(
        "ext4",
        directory.path() + "/image",
        directory.path() + "/disk",
        LoopFileSystem::mebibytes_min("ext4"));
    REQUIRE(disk.mounted());
    ServiceManager manager(
        small_journal({"--journal-dir", disk.path() + "/journal"}), milliseconds(300));
    REQUIRE_MESSAGE(manager.service().start(), manager.service().log());
    WireClient client(manager.service().socket());
    const Recording session = start_session(client, manager.service().work());
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "p"}}));
    // At first the io thread itself may hang; a journal that did then is the commit thread's for a while, and io lives on.
    std::string said;
    bool served_others = false;
    for (int round = 0; round < 2 && !served_others; ++round) {
        CAPTURE(round);
        REQUIRE(disk.freeze());
        // Nothing may leave this loop before the disk has thawed: no process that waits for it can be ended.
        CHECK(client.send(event("turn.output", session.id, {{"text", "late "}, {"id", "last"}})));
        said += "late ";
        static_cast<void>(manager.hears_anew("WATCHDOG=1", milliseconds(1000)));
        static_cast<void>(manager.hears_anew("WATCHDOG=1", milliseconds(500)));
        CHECK_FALSE(manager.hears_anew("WATCHDOG=1", milliseconds(1500)));
        served_others =
            manager.hears_anew("STATUS=The journal has taken nothing", milliseconds(1500))
            && manager.service().answers();
        CHECK(disk.thaw());
        CHECK_ACK(client.read());
        CHECK(manager.hears_anew("WATCHDOG=1", milliseconds(5000)));
    }
    CHECK(served_others);
    CHECK(session.text("turns/001-output.md") == said);
    CHECK(manager.service().terminate() == 0);
}

TEST_CASE("an activated daemon waits for its disk instead of being started over and over") {
    ServiceManager manager(small_journal(), milliseconds(400));
    const std::string state = manager.service().state();
    boost::filesystem::create_directories(state);
    write_text(state + "/journal", "in the way");
    WireClient client(manager.service().socket());
    REQUIRE(client.send_line(R"({"type":"hello","id":1})"));
    manager.service().spawn();
    REQUIRE_MESSAGE(
        !manager.hear("STATUS=Waiting to try again: storage failed").empty(),
        manager.service().log());
    CHECK(manager.hears_anew("EXTEND_TIMEOUT_USEC=", milliseconds(5000)));
    CHECK(manager.hears_anew("WATCHDOG=1", milliseconds(5000)));
    CHECK(manager.service().running());
    boost::filesystem::remove(state + "/journal");
    manager.service().signal(SIGHUP);  // now rather than later
    CHECK(!manager.hear("READY=1\n").empty());
    CHECK(is_ack(client.read()));
    CHECK(manager.service().terminate() == 0);
}

TEST_CASE("an activated daemon waits until one that was started by hand is gone") {
    ServiceManager manager(small_journal({"--orphan-grace", "10min"}));
    DaemonSetup by_hand = small_journal({"--orphan-grace", "10min"});
    by_hand.environment["AGENT_RELAY_HOME"] = manager.service().root() + "/relay";
    DaemonProcess first(by_hand);
    REQUIRE_MESSAGE(first.start(), first.log());
    WireClient before(first.socket());
    const Recording session = start_session(before, first.work());
    CHECK_ACK(before.ask("turn.start", session.id, {{"prompt", "p"}}));
    WireClient client(manager.service().socket());
    manager.service().spawn();
    REQUIRE_MESSAGE(
        !manager.hear("STATUS=Waiting to try again: another daemon is running").empty(),
        manager.service().log());
    CHECK(first.terminate() == 0);
    manager.service().signal(SIGHUP);
    REQUIRE(!manager.hear("READY=1\n").empty());
    CHECK_ACK(client.ask("session.attach", session.id));
    CHECK_ACK(client.ask("turn.end", session.id));
    CHECK(damage_of(session.path).empty());
}

TEST_CASE("what no further start can mend ends with 78") {
    DaemonProcess daemon(small_journal());
    // Two sockets: nobody knows which is meant.
    const ProgramEnd two = run_program(
        {"/bin/bash",
         "-c",
         "export LISTEN_PID=$$ LISTEN_FDS=2; exec \"$@\"",
         "bash",
         daemon_binary(),
         "--socket",
         daemon.socket()},
        daemon.environment());
    CHECK(two.status == 78);
    CHECK(says(two.err, "LISTEN_FDS"));
    // A journal in memory, which only a flag allows.
    const std::string in_memory = "/dev/shm/relay-test-" + std::to_string(::getpid());
    const ProgramEnd memory = run_program(
        {daemon_binary(), "--socket", daemon.socket(), "--journal-dir", in_memory},
        daemon.environment());
    CHECK(memory.status == 78);
    CHECK(says(memory.err, "--unsafe-journal"));
    boost::filesystem::remove_all(in_memory);
}

}  // namespace
}  // namespace relay::tests
