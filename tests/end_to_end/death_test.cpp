// SPDX-License-Identifier: Apache-2.0
#include "tests/end_to_end/forked_child.hpp"
#include "tests/end_to_end/recording.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/random.hpp"

#include <doctest/doctest.h>

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>

namespace relay::tests {
namespace {

// Far below the grace: what happens within it did not wait for it.
constexpr std::chrono::milliseconds promptly = std::chrono::seconds(10);

Recording recording_of(const DaemonProcess& daemon, const std::string& id) {
    Recording session;
    session.id = id;
    session.path = daemon.state() + "/sessions/" + id;
    return session;
}

void check_interrupted(const Recording& session, const std::string& reason) {
    const Json meta = session.meta();
    CHECK(meta["status"] == "checkpointed");
    CHECK(meta["checkpoint_reason"] == reason);
    CHECK(meta["current_turn"].is_null());
    CHECK(session.json("turns/001-state.json")["status"] == "interrupted");
    const Json packet = session.json("resume.json");
    REQUIRE(packet.is_object());
    CHECK(packet["checkpoint_reason"] == reason);
    CHECK(packet["last_turn"]["status"] == "interrupted");
    CHECK_FALSE(packet.contains("next_task"));
    CHECK(damage_of(session.path).empty());
}

bool is_checkpointed(const Recording& session) {
    const Json meta = session.meta();
    return meta.is_object() && meta.value("status", "") == "checkpointed";
}

std::string numbered(int number) {
    return "line " + std::to_string(number) + " of what was said\n";
}

enum class Acks { wanted, unwanted };

// Says as many lines as the kernel takes and reads no answer. `accepted` counts them.
int talk_without_listening(
    const std::string& socket,
    const std::string& cwd,
    const std::string& id,
    int lines,
    Acks acks,
    std::atomic<int>& accepted) {
    WireClient client(socket);
    if (start_session(client, cwd, {{"session", id}}).id != id
        || !is_ack(client.ask("turn.start", id, {{"prompt", "p"}}))) {
        return 1;
    }
    for (int number = 0; number < lines; ++number) {
        Json line = event("turn.output", id, {{"text", numbered(number)}});
        if (acks == Acks::wanted) {
            line["id"] = number;
        }
        const std::string bytes = line.dump() + "\n";
        if (::send(client.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL)
            != static_cast<ssize_t>(bytes.size())) {
            return 2;
        }
        accepted = number + 1;
    }
    ::pause();
    return 0;
}

void check_everything_accepted_is_recorded(int lines, Acks acks, int kill_after) {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    void* const shared =
        ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(shared != MAP_FAILED);
    auto* const accepted = new (shared) std::atomic<int>(0);
    const Recording session = recording_of(daemon, new_ulid());
    ForkedChild child([&] {
        return talk_without_listening(
            daemon.socket(), daemon.work(), session.id, lines, acks, *accepted);
    });
    while (*accepted < kill_after && ::kill(child.pid(), 0) == 0) {
    }
    child.kill();
    const int said = *accepted;
    ::munmap(shared, 4096);
    REQUIRE(said >= kill_after);

    REQUIRE(eventually([&] { return is_checkpointed(session); }, promptly));
    check_interrupted(session, "crash");
    const std::string recorded = session.text("turns/001-output.md");
    std::string expected;
    for (int number = 0; number < said; ++number) {
        expected += numbered(number);
    }
    // The send that was under way when the signal came may have been taken and not counted.
    const bool exact = recorded == expected || recorded == expected + numbered(said);
    CHECK_MESSAGE(exact, "said " << expected.size() << " bytes, recorded " << recorded.size());
}

TEST_CASE("everything that the kernel took from a killed client is recorded") {
    check_everything_accepted_is_recorded(5000, Acks::unwanted, 5000);
}

TEST_CASE("unread acks of a killed client cost none of its words") {
    check_everything_accepted_is_recorded(1500, Acks::wanted, 1500);
}

TEST_CASE("a client killed in the middle of talking loses nothing that was taken") {
    Random random(static_cast<std::uint64_t>(::getpid()));
    for (int round = 0; round < 3; ++round) {
        const int kill_after = 1 + static_cast<int>(random.below(2000));
        CAPTURE(kill_after);
        check_everything_accepted_is_recorded(1'000'000, Acks::unwanted, kill_after);
    }
}

TEST_CASE("half a line of a killed client is not recorded") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    const Recording session = recording_of(daemon, new_ulid());
    Signpost ready;
    ForkedChild child([&] {
        WireClient client(daemon.socket());
        const bool good =
            start_session(client, daemon.work(), {{"session", session.id}}).id == session.id
            && is_ack(client.ask("turn.start", session.id, {{"prompt", "p"}}));
        const std::string line = event("turn.output", session.id, {{"text", "half"}}).dump();
        client.send_bytes(line.substr(0, line.size() - 1));
        ready.raise();
        ::pause();
        return good ? 0 : 1;
    });
    ready.close_sender();
    REQUIRE(ready.await());
    child.kill();
    REQUIRE(eventually([&] { return is_checkpointed(session); }, promptly));
    check_interrupted(session, "crash");
    CHECK(session.text("turns/001-output.md").empty());
}

TEST_CASE("a closed connection of a living process waits for the grace and is a disconnect") {
    DaemonProcess daemon(small_journal({"--orphan-grace", "1500ms"}));
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "p"}}));
    CHECK_ACK(client.ask("turn.output", session.id, {{"text", "words"}}));
    const auto closed_at = std::chrono::steady_clock::now();
    client.close();
    REQUIRE(eventually([&] { return is_checkpointed(session); }));
    CHECK(std::chrono::steady_clock::now() - closed_at >= std::chrono::milliseconds(1400));
    check_interrupted(session, "disconnect");
    CHECK(session.text("turns/001-output.md") == "words");
}

TEST_CASE("an attach within the grace continues the turn") {
    DaemonProcess daemon(small_journal({"--orphan-grace", "1s"}));
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "p"}}));
    CHECK_ACK(client.ask("turn.output", session.id, {{"text", "one "}}));
    client = WireClient(daemon.socket());
    REQUIRE(eventually([&] { return is_ack(client.ask("session.attach", session.id)); }));
    CHECK_FALSE(eventually([&] { return session.has("resume.json"); }, std::chrono::seconds(2)));
    CHECK_ACK(client.ask("turn.output", session.id, {{"text", "two"}}));
    CHECK_ACK(client.ask("turn.end", session.id));
    CHECK(session.text("turns/001-output.md") == "one two");
    CHECK(session.json("turns/001-state.json")["status"] == "completed");
}

TEST_CASE("the first of several to attach wins and the others are told who") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    client.close();
    std::vector<WireClient> rivals;
    for (int count = 0; count < 10; ++count) {
        rivals.emplace_back(daemon.socket());
    }
    REQUIRE(eventually([&] { return is_ack(rivals[0].ask("session.attach", session.id)); }));
    for (WireClient& rival : rivals) {
        rival.send(event("session.attach", session.id, {{"id", 1}}));
    }
    int refused = 0;
    for (WireClient& rival : rivals) {
        const Json answer = rival.read();
        refused += code_of(answer) == "not_owner" ? 1 : 0;
    }
    CHECK(refused == 9);
}

TEST_CASE("an owner that dies while a grandchild holds its socket is noticed") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    const Recording session = recording_of(daemon, new_ulid());
    Signpost ready;
    Signpost finished;  // nobody raises it: the grandchild waits for this process to close it
    ForkedChild child([&] {
        WireClient client(daemon.socket());
        const bool good =
            start_session(client, daemon.work(), {{"session", session.id}}).id == session.id
            && is_ack(client.ask("turn.start", session.id, {{"prompt", "p"}}))
            && client.send(event("turn.output", session.id, {{"text", "last words"}}));
        finished.close_sender();
        if (::fork() == 0) {
            static_cast<void>(finished.await());
            ::_exit(0);
        }
        ready.raise();
        ::pause();
        return good ? 0 : 1;
    });
    REQUIRE(ready.await());
    child.kill();
    REQUIRE(eventually([&] { return is_checkpointed(session); }, promptly));
    check_interrupted(session, "crash");
    CHECK(session.text("turns/001-output.md") == "last words");
}

TEST_CASE("a client that hangs up and then dies is sealed at its death") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    const Recording session = recording_of(daemon, new_ulid());
    Signpost ready;
    ForkedChild child([&] {
        WireClient client(daemon.socket());
        const bool good =
            start_session(client, daemon.work(), {{"session", session.id}}).id == session.id
            && is_ack(client.ask("turn.start", session.id, {{"prompt", "p"}}));
        client.close();
        ready.raise();
        ::pause();
        return good ? 0 : 1;
    });
    ready.close_sender();
    REQUIRE(ready.await());
    CHECK_FALSE(
        eventually([&] { return session.has("resume.json"); }, std::chrono::milliseconds(500)));
    child.kill();
    REQUIRE(eventually([&] { return is_checkpointed(session); }, promptly));
    CHECK(session.json("turns/001-state.json")["status"] == "interrupted");
}

TEST_CASE("the death of the process that a session names is a crash though the connection stays") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    ForkedChild agent([] {
        ::pause();
        return 0;
    });
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work(), {{"pid", agent.pid()}});
    CHECK(session.meta()["pid"] == agent.pid());
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "p"}}));
    CHECK_ACK(client.ask("turn.output", session.id, {{"text", "words"}}));
    agent.kill();
    REQUIRE(eventually([&] { return is_checkpointed(session); }, promptly));
    check_interrupted(session, "crash");
    CHECK(code_of(client.ask("turn.output", session.id, {{"text", "late"}})) == "ended");
}

TEST_CASE("a session that ended properly is left alone when its client dies") {
    DaemonProcess daemon(small_journal({"--orphan-grace", "100ms"}));
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "p"}}));
    CHECK_ACK(client.ask("session.end", session.id, {{"exit_code", 0}}));
    const std::string before = session.text("meta.json");
    client.close();
    CHECK_FALSE(
        eventually([&] { return session.text("meta.json") != before; }, std::chrono::seconds(1)));
    CHECK(session.meta()["status"] == "completed");
    CHECK_FALSE(session.has("resume.json"));
}

}  // namespace
}  // namespace relay::tests
