// SPDX-License-Identifier: Apache-2.0
#include "daemon/log.hpp"
#include "layout/timestamp.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <string>
#include <thread>
#include <vector>

using relay::daemon::Log;

namespace {

// Keeps the border between two write(2) calls, so that a test sees each of them.
class Writes {
public:
    Writes() {
        REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends_.data()) == 0);
    }
    Writes(const Writes&) = delete;
    Writes& operator=(const Writes&) = delete;
    ~Writes() {
        ::close(ends_[0]);
        ::close(ends_[1]);
    }

    [[nodiscard]] int fd() const { return ends_[1]; }

    // The next write(2), or nothing.
    [[nodiscard]] std::string next() const {
        std::array<char, 65536> buffer{};
        const ssize_t got = ::recv(ends_[0], buffer.data(), buffer.size(), MSG_DONTWAIT);
        return got < 0 ? "" : std::string(buffer.data(), static_cast<std::size_t>(got));
    }

private:
    std::array<int, 2> ends_{};
};

std::string logged_value(std::string_view value) {
    const Writes writes;
    Log(writes.fd(), Log::Style::journal).info("x", {{"k", value}});
    const std::string line = writes.next();
    REQUIRE(line.starts_with("<6>x k="));
    REQUIRE(line.ends_with("\n"));
    return line.substr(7, line.size() - 8);
}

}  // namespace

TEST_CASE("a log line is one write with priority and time and fields") {
    const Writes writes;
    const Log log(writes.fd(), Log::Style::file);
    const std::string path = "/x/relay.sock";
    log.info("ready", {{"socket", path}, {"sessions", "3"}});
    log.warn("slow");
    log.error("failed");
    const std::string line = writes.next();
    REQUIRE(line.size() > 27);
    CHECK(line.substr(0, 3) == "<6>");
    CHECK(relay::layout::parse_timestamp(line.substr(3, 24)).has_value());
    CHECK(line.substr(27) == " ready socket=/x/relay.sock sessions=3\n");
    CHECK(writes.next().starts_with("<4>"));
    CHECK(writes.next().starts_with("<3>"));
    CHECK(writes.next().empty());
}

TEST_CASE("a terminal gets no priority and the journal no time") {
    const Writes writes;
    Log(writes.fd(), Log::Style::terminal).info("ready");
    const std::string line = writes.next();
    CHECK(relay::layout::parse_timestamp(line.substr(0, 24)).has_value());
    CHECK(line.substr(24) == " ready\n");
    Log(writes.fd(), Log::Style::journal).info("ready");
    CHECK(writes.next() == "<6>ready\n");
}

TEST_CASE("a logged value never breaks out of its line or its quotes") {
    CHECK(logged_value("plain/value:1") == "plain/value:1");
    CHECK(logged_value("") == "\"\"");
    CHECK(logged_value("two words") == "\"two words\"");
    CHECK(logged_value("a=b") == "\"a=b\"");
    CHECK(logged_value("say \"hi\"") == R"("say \"hi\"")");
    CHECK(logged_value("back\\slash") == R"("back\\slash")");
    CHECK(logged_value("one\ntwo\tthree\r") == R"("one\ntwo\tthree\x0d")");
    CHECK(logged_value("\x1b[31m\x7f") == R"("\x1b[31m\x7f")");
    CHECK(
        logged_value("\xc2\x9b"
                     "31m")
        == "\\xc2\\x9b31m");
    CHECK(logged_value("grün") == "grün");
    CHECK(logged_value("\xff\xc3") == "\\xff\\xc3");
    CHECK(logged_value(std::string("a\0b", 3)) == R"("a\x00b")");
}

TEST_CASE("a log line stays short enough for a pipe to take it whole") {
    CHECK(logged_value(std::string(2'000, 'x')) == std::string(1'024, 'x') + "…");
    const Writes writes;
    const std::string long_value(1'000, '\x01');
    Log(writes.fd(), Log::Style::journal).info("x", {{"a", long_value}, {"b", long_value}});
    const std::string line = writes.next();
    CHECK(line.size() == 4'096);
    CHECK(line.back() == '\n');
    CHECK(line.find('\n') == line.size() - 1);
}

TEST_CASE("lines of several threads never mix") {
    const Writes writes;
    const Log log(writes.fd(), Log::Style::journal);
    std::vector<std::thread> threads;
    for (int number = 0; number < 4; ++number) {
        threads.emplace_back([&log] {
            for (int line = 0; line < 5; ++line) {
                log.info("tick", {{"a", "1"}, {"b", "2"}});
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    for (int line = 0; line < 20; ++line) {
        CHECK(writes.next() == "<6>tick a=1 b=2\n");
    }
    CHECK(writes.next().empty());
}

TEST_CASE("a log that cannot be written to is no failure") {
    Log(-1, Log::Style::file).error("nobody hears this");
}

TEST_CASE("the style of the log follows what stands behind the descriptor") {
    const Writes writes;
    struct stat status {};
    REQUIRE(::fstat(writes.fd(), &status) == 0);
    std::optional<std::string> stream =
        std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino);
    const auto environment = [&stream](const char* name) -> std::optional<std::string> {
        return std::string_view(name) == "JOURNAL_STREAM" ? stream : std::nullopt;
    };
    CHECK(Log::style_of(writes.fd(), environment) == Log::Style::journal);
    stream = "1:1";
    CHECK(Log::style_of(writes.fd(), environment) == Log::Style::file);
    stream.reset();
    CHECK(Log::style_of(writes.fd(), environment) == Log::Style::file);
    const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (terminal >= 0) {
        CHECK(Log::style_of(terminal, environment) == Log::Style::terminal);
        ::close(terminal);
    }
}

TEST_CASE(
    "under systemd an event is a set of journal fields and a line only when those are not taken") {
    const Writes lines;
    std::array<int, 2> journal{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, journal.data()) == 0);
    const Log log(lines.fd(), Log::Style::journal, journal[1]);
    log.warn("session gone", {{"session", "01M7"}, {"for-ms", "2\n3"}});
    std::array<char, 4096> buffer{};
    const ssize_t got = ::recv(journal[0], buffer.data(), buffer.size(), MSG_DONTWAIT);
    REQUIRE(got > 0);
    CHECK(
        std::string(buffer.data(), static_cast<std::size_t>(got))
        == "MESSAGE=session gone session=01M7 for-ms=\"2\\n3\"\nPRIORITY=4\n"
           "SYSLOG_IDENTIFIER=agent-relayd\nAGENT_RELAY_EVENT=session "
           "gone\nAGENT_RELAY_SESSION=01M7\n"
           "AGENT_RELAY_FOR_MS\n"
               + std::string("\x03\0\0\0\0\0\0\0", 8) + "2\n3\n");
    CHECK(lines.next().empty());
    ::close(journal[0]);
    log.info("ready");
    CHECK(lines.next() == "<6>ready\n");
    ::close(journal[1]);
}
