// SPDX-License-Identifier: Apache-2.0
#include "tests/end_to_end/forked_child.hpp"
#include "tests/end_to_end/recording.hpp"
#include "tests/support/eventually.hpp"

#include <boost/filesystem.hpp>
#include <doctest/doctest.h>

#include <linux/magic.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

namespace relay::tests {
namespace {

bool says(const std::string& text, const std::string& words) {
    return text.find(words) != std::string::npos;
}

TEST_CASE("the daemon tells its version and its flags and refuses others") {
    ProgramEnd end = run_program({daemon_binary(), "--version"});
    CHECK(end.status == 0);
    CHECK(says(end.out, "agent-relayd 0.1.0"));
    CHECK(end.err.empty());
    end = run_program({daemon_binary(), "--help"});
    CHECK(end.status == 0);
    CHECK(says(end.out, "--socket"));
    end = run_program({daemon_binary(), "--sokcet", "x"});
    CHECK(end.status != 0);
    CHECK(says(end.err, "--sokcet"));
    CHECK(end.out.empty());
}

TEST_CASE("a configuration that is wrong ends the start with 78 and names the place") {
    DaemonProcess daemon(small_journal());
    const std::string config = daemon.root() + "/config.toml";
    write_text(config, "[daemon]\norphan_grace = \"soon\"\n");
    std::vector<std::string> arguments = daemon.arguments();
    arguments.insert(arguments.end(), {"--config", config});
    ProgramEnd end = run_program(arguments, daemon.environment());
    CHECK(end.status == 78);
    CHECK(says(end.err, config + ":2:"));
    CHECK(says(end.err, "orphan_grace"));
    write_text(config, "[daemon\n");
    end = run_program(arguments, daemon.environment());
    CHECK(end.status == 78);
    CHECK(says(end.err, config + ":1:"));
    arguments = daemon.arguments();
    arguments.insert(arguments.end(), {"--set", "daemon.nonsense=1"});
    end = run_program(arguments, daemon.environment());
    CHECK(end.status == 78);
    CHECK(says(end.err, "daemon.nonsense"));
}

TEST_CASE("a second daemon gives way to the first and names it") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    const ProgramEnd second = run_program(daemon.arguments(), daemon.environment());
    CHECK(second.status > 0);
    CHECK(says(second.err, std::to_string(daemon.pid())));
    // Also one with a socket of its own: the journal has one writer.
    std::vector<std::string> arguments = daemon.arguments();
    arguments.insert(arguments.end(), {"--socket", daemon.root() + "/other.sock"});
    const ProgramEnd third = run_program(arguments, daemon.environment());
    CHECK(third.status > 0);
    CHECK(says(third.err, std::to_string(daemon.pid())));
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "p"}}));
    CHECK(daemon.answers());
}

TEST_CASE("a stale socket file is taken over and any other file is not") {
    DaemonProcess daemon(small_journal());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = daemon.socket();
    std::memcpy(address.sun_path, path.data(), path.size());
    const int stale = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(::bind(stale, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
    ::close(stale);
    REQUIRE(exists(path));
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    REQUIRE_MESSAGE(daemon.restart(), daemon.log());
    CHECK(daemon.terminate() == 0);
    CHECK_FALSE(exists(path));

    write_text(path, "a file of the user");
    const ProgramEnd refused = run_program(daemon.arguments(), daemon.environment());
    CHECK(refused.status > 0);
    CHECK(says(refused.err, path));
    CHECK(read_text(path) == "a file of the user");
}

TEST_CASE("a stop under load finishes what was accepted and leaves sessions active") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work(), {{"seq", 1}});
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "p"}, {"seq", 2}}));
    const auto text = [](std::int64_t seq) {
        return "piece " + std::to_string(seq) + "\n";
    };
    std::atomic<std::int64_t> acked = 2;
    std::int64_t sent = 2;
    std::string odd;
    std::thread talker([&] {
        bool open = true;
        while (open) {
            std::string lines;
            const std::int64_t first = sent + 1;
            for (std::int64_t seq = first; seq < first + 50; ++seq) {
                lines +=
                    event("turn.output", session.id, {{"text", text(seq)}, {"seq", seq}, {"id", 1}})
                        .dump()
                    + "\n";
            }
            open = client.send_bytes(lines);
            sent += 50;
            for (int count = 0; count < 50; ++count) {
                const Json answer = client.read();
                if (is_ack(answer)) {
                    acked = answer.value("seq", std::int64_t{0});
                } else if (code_of(answer) != "shutting_down" && !answer.is_discarded()) {
                    odd = answer.dump();
                }
                open = open && !answer.is_discarded();
            }
        }
    });
    CHECK(eventually([&] { return acked > 500; }));
    CHECK(daemon.terminate() == 0);
    talker.join();
    CHECK_MESSAGE(odd.empty(), odd);
    std::string at_least;
    for (std::int64_t seq = 3; seq <= acked; ++seq) {
        at_least += text(seq);
    }
    const std::string recorded = session.text("turns/001-output.md");
    CHECK(recorded.starts_with(at_least));
    CHECK(session.meta()["status"] == "active");
    CHECK_FALSE(session.has("turns/001-state.json"));
    CHECK_FALSE(session.has("resume.json"));

    const std::size_t log_before = daemon.log().size();
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    CHECK_MESSAGE(says(daemon.log().substr(log_before), "orderly stop"), daemon.log());
    CHECK(session.text("turns/001-output.md") == recorded);
    client = WireClient(daemon.socket());
    const Json answer = client.ask("session.attach", session.id);
    CHECK_ACK(answer);
    const std::int64_t last = answer.value("last_seq", std::int64_t{0});
    CHECK(last >= acked);
    CHECK(last <= sent);
    CHECK_ACK(client.ask("turn.end", session.id, {{"seq", last + 1}}));
    CHECK(damage_of(session.path).empty());
}

TEST_CASE("a stop that the disk refuses ends the process and says so") {
    DaemonProcess daemon;
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    for (const char* const slot : {"/journal/checkpoint.0", "/journal/checkpoint.1"}) {
        std::filesystem::remove(daemon.state() + slot);
        std::filesystem::create_directory(daemon.state() + slot);
    }
    CHECK(daemon.terminate() == 74);
    CHECK(says(daemon.log(), "stop incomplete"));
}

TEST_CASE("a restart leaves the turn of a living owner open") {
    DaemonProcess daemon(small_journal({"--orphan-grace", "60s"}));
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "p"}}));
    CHECK_ACK(client.ask("turn.output", session.id, {{"text", "one "}}));
    for (const bool politely : {false, true}) {
        if (politely) {
            CHECK(daemon.terminate() == 0);
            REQUIRE_MESSAGE(daemon.start(), daemon.log());
        } else {
            REQUIRE_MESSAGE(daemon.restart(), daemon.log());
        }
        CHECK(session.meta()["status"] == "active");
        CHECK_FALSE(session.has("turns/001-state.json"));
    }
    client = WireClient(daemon.socket());
    const Json answer = client.ask("session.attach", session.id);
    CHECK(answer.value("turn", 0) == 1);
    CHECK_ACK(client.ask("turn.output", session.id, {{"text", "two"}}));
    CHECK_ACK(client.ask("turn.end", session.id));
    CHECK(session.text("turns/001-output.md") == "one two");
    CHECK(damage_of(session.path).empty());
}

TEST_CASE("a turn that had said nothing before a restart goes on in its own files") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "p"}}));
    REQUIRE_MESSAGE(daemon.restart(), daemon.log());
    client = WireClient(daemon.socket());
    CHECK_ACK(client.ask("session.attach", session.id));
    CHECK_ACK(client.ask("turn.output", session.id, {{"text", "words"}}));
    CHECK(session.text("turns/001-output.md") == "words");
    CHECK_ACK(client.ask("turn.end", session.id));
    CHECK_FALSE(session.has("recovered"));
    CHECK_FALSE(session.meta()["capture"].contains("conflicts"));
    CHECK(damage_of(session.path).empty());
}

TEST_CASE("a living owner that does not come back after a restart is a disconnect") {
    DaemonProcess daemon(small_journal({"--orphan-grace", "300ms"}));
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "p"}}));
    REQUIRE_MESSAGE(daemon.restart(), daemon.log());
    REQUIRE(eventually([&] { return session.has("resume.json"); }));
    CHECK(eventually([&] { return session.meta()["status"] == "checkpointed"; }));
    CHECK(session.json("resume.json")["checkpoint_reason"] == "disconnect");
}

TEST_CASE("an owner that died while the daemon was down is found dead at the start") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    Recording session;
    session.id = new_ulid();
    session.path = daemon.state() + "/sessions/" + session.id;
    Signpost ready;
    ForkedChild owner([&] {
        WireClient client(daemon.socket());
        const bool good =
            start_session(client, daemon.work(), {{"session", session.id}}).id == session.id
            && is_ack(client.ask("turn.start", session.id, {{"prompt", "p"}}))
            && is_ack(client.ask("turn.output", session.id, {{"text", "words"}}));
        ready.raise();
        ::pause();
        return good ? 0 : 1;
    });
    ready.close_sender();
    REQUIRE(ready.await());
    daemon.kill();
    owner.kill();
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    REQUIRE(eventually([&] { return session.has("resume.json"); }, std::chrono::seconds(10)));
    CHECK(session.json("turns/001-state.json")["status"] == "interrupted");
    CHECK(session.json("resume.json")["checkpoint_reason"] == "crash");
    CHECK(session.text("turns/001-output.md") == "words");
    CHECK(damage_of(session.path).empty());
}

TEST_CASE("a reload with a wrong configuration keeps the last good one and names the place") {
    DaemonProcess daemon(small_journal());
    const std::string config = daemon.config_file();
    boost::filesystem::create_directories(boost::filesystem::path(config).parent_path());
    write_text(config, "[daemon]\norphan_grace = \"60s\"\n");
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    write_text(config, "[daemon]\n\n  orphan_grace = [1]\n");
    daemon.signal(SIGHUP);
    CHECK(eventually([&] { return says(daemon.log(), config + ":3:"); }));
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "p"}}));

    // A good one is taken.
    write_text(config, "[daemon]\norphan_grace = \"100ms\"\n");
    const std::size_t log_before = daemon.log().size();
    daemon.signal(SIGHUP);
    CHECK(eventually([&] { return daemon.log().size() > log_before; }));
    client.close();
    CHECK(eventually([&] { return session.has("resume.json"); }));
}

TEST_CASE("another user is refused") {
    if (::geteuid() != 0) {
        MESSAGE("skipped: only root can become somebody else");
        return;
    }
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    const auto answer_to_stranger = [&daemon] {
        ForkedChild stranger([&daemon] {
            if (::setgid(65534) != 0 || ::setuid(65534) != 0) {
                return 3;
            }
            WireClient client(daemon.socket());
            if (!client.connected()) {
                return 0;
            }
            return is_ack(client.request({{"type", "status"}})) ? 2 : 1;
        });
        return stranger.wait();
    };
    CHECK(answer_to_stranger() == 0);
    // Even when the directories let them through.
    REQUIRE(::chmod(daemon.root().c_str(), 0711) == 0);
    REQUIRE(::chmod(daemon.socket().c_str(), 0666) == 0);
    CHECK(answer_to_stranger() == 1);
    CHECK(daemon.answers());
}

TEST_CASE("a journal on a file system without durability needs a word of consent") {
    struct statfs found {};
    if (::statfs("/dev/shm", &found) != 0
        || static_cast<unsigned long>(found.f_type) != TMPFS_MAGIC) {
        MESSAGE("skipped: /dev/shm is no tmpfs");
        return;
    }
    DaemonProcess daemon;
    const std::string journal = "/dev/shm/relay-test-" + std::to_string(::getpid());
    std::vector<std::string> arguments{
        daemon_binary(), "--socket", daemon.socket(), "--journal-dir", journal};
    const ProgramEnd refused = run_program(arguments, daemon.environment());
    CHECK(refused.status > 0);
    CHECK(says(refused.err, "tmpfs"));
    CHECK(says(refused.err, "--unsafe-journal"));

    daemon.flags() = {"--journal-dir", journal};
    CHECK_MESSAGE(daemon.start(), daemon.log());
    CHECK(daemon.terminate() == 0);
    boost::filesystem::remove_all(journal);
}

TEST_CASE("an idle daemon exits when it is told to and not while a session is active") {
    DaemonProcess daemon(small_journal({"--idle-exit", "1s", "--orphan-grace", "60s"}));
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    CHECK_FALSE(eventually([&] { return !daemon.running(); }, std::chrono::milliseconds(2500)));
    CHECK_ACK(client.ask("session.end", session.id));
    client.close();
    CHECK(daemon.wait() == 0);
}

}  // namespace
}  // namespace relay::tests
