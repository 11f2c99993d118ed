// SPDX-License-Identifier: Apache-2.0

// Clients of the same user who are too many, too slow or too generous, and a machine that gives too little:
// whoever behaves is recorded all the same.

#include "tests/end_to_end/recording.hpp"
#include "tests/support/eventually.hpp"

#include <boost/filesystem.hpp>
#include <doctest/doctest.h>

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>

namespace relay::tests {
namespace {

namespace filesystem = boost::filesystem;

// Words that run the daemon in a shell after `line`.
std::vector<std::string> shell_before(const std::string& line) {
    return {"/bin/sh", "-c", line + R"(; exec "$0" "$@")"};
}

std::size_t descriptors_of(const DaemonProcess& daemon) {
    std::size_t count = 0;
    boost::system::error_code ignored;
    const std::string directory = "/proc/" + std::to_string(daemon.pid()) + "/fd";
    for (filesystem::directory_iterator entry(directory, ignored), end; entry != end;
         entry.increment(ignored)) {
        ++count;
    }
    return count;
}

// A client that behaves, and how long the daemon keeps it waiting.
class Regular {
public:
    explicit Regular(DaemonProcess& daemon) : client_(daemon.socket()) {
        session_ = start_session(client_, daemon.work());
        CHECK_ACK(session_.answer);
        CHECK_ACK(client_.ask("turn.start", session_.id, {{"prompt", "p"}}));
    }

    void speak(int events) {
        for (int event = 0; event < events; ++event) {
            const auto asked_at = std::chrono::steady_clock::now();
            const std::string text = "word " + std::to_string(said_.size()) + "\n";
            const Json answer = client_.ask("turn.output", session_.id, {{"text", text}});
            CHECK_ACK(answer);
            said_ += text;
            slowest_ = std::max(slowest_, std::chrono::steady_clock::now() - asked_at);
        }
    }

    void check_whole() {
        CHECK_ACK(client_.ask("turn.end", session_.id));
        CHECK_ACK(client_.ask("session.end", session_.id));
        // Who is short of descriptors may put a session's files off, but not for ever.
        CHECK(eventually([this] { return session_.text("turns/001-output.md") == said_; }));
        CHECK_MESSAGE(damage_of(session_.path).empty(), damage_of(session_.path));
        CHECK(slowest_ < std::chrono::seconds(sanitized ? 10 : 2));
    }

private:
    WireClient client_;
    Recording session_;
    std::string said_;
    std::chrono::steady_clock::duration slowest_{};
};

TEST_CASE("ten thousand half open connections keep nobody else waiting and leave nothing behind") {
    constexpr rlim_t crowd_size = 10'000;
    rlimit limit{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
    if (limit.rlim_max < crowd_size + 500) {
        MESSAGE("skipped: only " << limit.rlim_max << " descriptors are allowed here");
        return;
    }
    limit.rlim_cur = limit.rlim_max;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    Regular regular(daemon);
    const std::size_t before = descriptors_of(daemon);
    {
        std::vector<WireClient> crowd;
        crowd.reserve(crowd_size);
        for (rlim_t number = 0; number < crowd_size; ++number) {
            crowd.emplace_back(daemon.socket());
            REQUIRE(crowd.back().connected());
            // Half of them have begun a line.
            if (number % 2 == 0) {
                CHECK(crowd.back().send_bytes(R"({"type":"hello)"));
            }
        }
        CHECK(eventually([&] { return descriptors_of(daemon) >= before + crowd_size; }));
        regular.speak(200);
        if (!sanitized) {
            CHECK(daemon.resident_kib() < (64L << 10) + 16 * static_cast<long>(crowd_size));
        }
    }
    CHECK(eventually([&] { return descriptors_of(daemon) <= before; }));
    regular.speak(20);
    regular.check_whole();
}

TEST_CASE("senders of a byte at a time are heard and keep nobody else waiting") {
    constexpr int slow_ones = 200;
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    Regular regular(daemon);
    std::vector<WireClient> crowd;
    for (int number = 0; number < slow_ones; ++number) {
        crowd.emplace_back(daemon.socket());
    }
    const std::string line = R"({"type":"hello","id":"slowly"})"
                             "\n";
    for (const char byte : line) {
        for (WireClient& slow : crowd) {
            CHECK(slow.send_bytes({&byte, 1}));
        }
        regular.speak(5);
    }
    for (WireClient& slow : crowd) {
        CHECK(slow.read().value("id", "") == "slowly");
    }
    regular.check_whole();
}

TEST_CASE("descriptors that come with a message are closed") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    Regular regular(daemon);
    WireClient client(daemon.socket());
    const std::size_t before = descriptors_of(daemon);
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    for (int round = 0; round < 100; ++round) {
        std::string line = R"({"type":"hello","id":1})"
                           "\n";
        iovec piece{line.data(), line.size()};
        alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
        msghdr message{};
        message.msg_iov = &piece;
        message.msg_iovlen = 1;
        message.msg_control = room;
        message.msg_controllen = sizeof(room);
        cmsghdr* const header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        std::memcpy(CMSG_DATA(header), &ends[1], sizeof(int));
        REQUIRE(::sendmsg(client.descriptor(), &message, MSG_NOSIGNAL) > 0);
        CHECK_ACK(client.read());
    }
    // A hundred were passed; its own come and go.
    CHECK(descriptors_of(daemon) < before + 10);
    // Nobody has the writing end any more, or this would wait for ever.
    ::close(ends[1]);
    pollfd reading{ends[0], POLLIN, 0};
    CHECK(::poll(&reading, 1, 20'000) == 1);
    CHECK((reading.revents & POLLHUP) != 0);
    ::close(ends[0]);
    regular.speak(10);
    regular.check_whole();
}

TEST_CASE("a daemon with sixty four descriptors records what it accepts") {
    DaemonSetup setup = small_journal({"--checkpoint-interval", "100ms"});
    setup.launcher = shell_before("ulimit -n 64");
    DaemonProcess daemon(std::move(setup));
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    Regular regular(daemon);
    // More connections than there are descriptors: each is served, refused with a word, or waits.
    std::vector<WireClient> crowd;
    for (int number = 0; number < 100; ++number) {
        crowd.emplace_back(daemon.socket());
        static_cast<void>(crowd.back().send_line(R"({"type":"hello","id":1})"));
    }
    regular.speak(20);
    crowd.clear();
    CHECK(eventually([&] { return daemon.answers(); }));
    // More sessions than files can be open.
    std::vector<std::unique_ptr<Regular>> others;
    for (int number = 0; number < 12; ++number) {
        others.push_back(std::make_unique<Regular>(daemon));
        others.back()->speak(5);
    }
    for (int round = 0; round < 3; ++round) {
        for (const auto& other : others) {
            other->speak(3);
        }
    }
    for (const auto& other : others) {
        other->check_whole();
    }
    regular.check_whole();
    CHECK(daemon.terminate() == 0);
}

// A control group of its own with this much memory and no swap; gone with the object.
class MemoryLimit {
public:
    explicit MemoryLimit(long bytes) {
        for (const std::string root : {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"}) {
            const bool old = root.ends_with("memory");
            const std::string bound = old ? "/memory.limit_in_bytes" : "/memory.max";
            const std::string path = root + "/relay-test-" + std::to_string(::getpid());
            if (::mkdir(path.c_str(), 0755) != 0) {
                continue;
            }
            path_ = path;
            if (exists(path + bound)) {
                write_text(path + bound, std::to_string(bytes));
                usable_ = read_text(path + bound).starts_with(std::to_string(bytes));
                return;
            }
            ::rmdir(path.c_str());
            path_.clear();
        }
    }
    MemoryLimit(const MemoryLimit&) = delete;
    MemoryLimit& operator=(const MemoryLimit&) = delete;
    ~MemoryLimit() {
        if (!path_.empty()) {
            static_cast<void>(eventually([this] { return ::rmdir(path_.c_str()) == 0; }));
        }
    }

    [[nodiscard]] bool usable() const { return usable_; }
    [[nodiscard]] std::string procs() const { return path_ + "/cgroup.procs"; }

private:
    std::string path_;
    bool usable_ = false;
};

TEST_CASE("sixty four mebibytes of memory are enough under load") {
    const MemoryLimit limit(64L << 20);
    if (!limit.usable() || sanitized) {
        MESSAGE("skipped: needs root, the memory controller and a build without sanitizers");
        return;
    }
    DaemonSetup setup = small_journal({"--checkpoint-interval", "200ms"});
    setup.flags.insert(setup.flags.end(), {"--set", "daemon.max_inflight_bytes=8MiB"});
    setup.launcher = shell_before("echo $$ >" + limit.procs());
    DaemonProcess daemon(std::move(setup));
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    const pid_t pid = daemon.pid();
    REQUIRE(read_text(limit.procs()).find(std::to_string(pid)) != std::string::npos);
    std::vector<WireClient> clients;
    std::vector<Recording> sessions;
    for (int number = 0; number < 50; ++number) {
        clients.emplace_back(daemon.socket());
        sessions.push_back(start_session(clients.back(), daemon.work()));
        CHECK_ACK(clients.back().ask("turn.start", sessions.back().id, {{"prompt", "p"}}));
    }
    const std::string piece(128 << 10, 'm');
    constexpr int rounds = 40;
    for (int round = 0; round < rounds; ++round) {
        for (std::size_t index = 0; index < clients.size(); ++index) {
            CHECK(clients[index].send(
                event("turn.output", sessions[index].id, {{"text", piece}, {"id", round}})));
        }
    }
    for (std::size_t index = 0; index < clients.size(); ++index) {
        for (int round = 0; round < rounds; ++round) {
            CHECK_ACK(clients[index].read(std::chrono::seconds(60)));
        }
        CHECK(sessions[index].text("turns/001-output.md").size() == rounds * piece.size());
    }
    CHECK(daemon.running());
    CHECK(daemon.pid() == pid);
    daemon.kill();
}

TEST_CASE("what clients send behind a line that waits takes no more memory than they may") {
    constexpr int crowd_size = 500;
    constexpr int lines = 150;
    DaemonSetup setup = small_journal();
    setup.flags.insert(setup.flags.end(), {"--set", "daemon.max_inflight_bytes=8MiB"});
    DaemonProcess daemon(std::move(setup));
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    std::vector<WireClient> crowd;
    for (int number = 0; number < crowd_size; ++number) {
        crowd.emplace_back(daemon.socket());
        CHECK_ACK(crowd.back().request({{"type", "hello"}}));
    }
    const long before_kib = daemon.resident_kib();
    daemon.signal(SIGSTOP);
    const std::string text(1024, 'b');
    for (int number = 0; number < crowd_size; ++number) {
        const std::string id = "01J0000000000000000000" + std::to_string(1000 + number);
        std::string all = event(
                              "session.start",
                              id,
                              {{"agent", "custom"}, {"cwd", daemon.work()}, {"id", "started"}})
                              .dump()
                          + "\n" + event("turn.start", id, {{"prompt", "p"}}).dump() + "\n";
        for (int line = 0; line < lines; ++line) {
            all += event("turn.output", id, {{"text", text}}).dump() + "\n";
        }
        all += event("session.end", id, {{"id", "ended"}}).dump() + "\n";
        CHECK(crowd[static_cast<std::size_t>(number)].send_bytes(all));
    }
    daemon.signal(SIGCONT);
    for (WireClient& client : crowd) {
        CHECK_ACK(client.read(std::chrono::seconds(60)));
        CHECK_ACK(client.read(std::chrono::seconds(60)));
    }
    const long most_kib = daemon.most_resident_kib();
    MESSAGE("from " << before_kib << " to at most " << most_kib << " KiB");
    if (!sanitized) {
        // All that was sent, kept at once, takes more than 100 MiB.
        CHECK(most_kib < before_kib + (32 << 10) + 16L * crowd_size);
    }
}

TEST_CASE("what huge events needed is given back when they are answered") {
    DaemonProcess daemon;
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "p"}}));
    CHECK_ACK(client.ask("turn.output", session.id, {{"text", "small"}}));
    const long before_kib = daemon.resident_kib();
    std::size_t sent = std::string("small").size();
    for (const std::size_t mebibytes : {3U, 12U, 5U, 9U, 4U, 11U}) {
        const std::string text(mebibytes << 20, 'h');
        CHECK_ACK(client.ask("turn.output", session.id, {{"text", text}}));
        sent += text.size();
    }
    CHECK(session.text("turns/001-output.md").size() == sent);
    if (!sanitized) {
        constexpr long more_kib_most = 4 << 10;
        long after_kib = 0;
        // The ack leaves before the last hand that had the event lets go of it.
        CHECK_MESSAGE(
            eventually([&] {
                after_kib = daemon.resident_kib();
                return after_kib < before_kib + more_kib_most;
            }),
            "from " << before_kib << " to " << after_kib << " KiB");
    }
    daemon.kill();
}

}  // namespace
}  // namespace relay::tests
