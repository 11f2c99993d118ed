// SPDX-License-Identifier: Apache-2.0
#include "delivery/courier.hpp"
#include "tests/support/temporary_directory.hpp"

#include <doctest/doctest.h>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

using relay::delivery::Courier;
using relay::delivery::Outbox;
using relay::tests::TemporaryDirectory;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr milliseconds patience{50};
constexpr milliseconds ample{10'000};
constexpr milliseconds far_less_than_an_answer_may_take{10'000};

// Its kernel takes connections, and nobody reads.
class HangingDaemon {
public:
    HangingDaemon() : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        const std::string where = path();
        std::copy(where.begin(), where.end(), address.sun_path);
        REQUIRE(::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
        REQUIRE(::listen(fd_, 8) == 0);
    }
    HangingDaemon(const HangingDaemon&) = delete;
    HangingDaemon& operator=(const HangingDaemon&) = delete;
    ~HangingDaemon() { ::close(fd_); }

    [[nodiscard]] int descriptor() const { return fd_; }
    [[nodiscard]] std::string path() const { return directory_.path() + "/s"; }
    [[nodiscard]] std::string spool() const { return directory_.path() + "/spool"; }

private:
    TemporaryDirectory directory_;
    int fd_;
};

}  // namespace

TEST_CASE("a daemon that hangs is waited for as long as the caller's patience lasts") {
    const HangingDaemon daemon;
    const steady_clock::time_point began = steady_clock::now();
    for (const Courier::Origin origin : {Courier::Origin::own, Courier::Origin::left_behind}) {
        Outbox outbox("01M7J690Z2TM97TN46F1TWFTA9", daemon.spool());
        outbox.event(R"({"type":"session.start","agent":"a","cwd":"/"})");
        Courier courier(outbox, daemon.path(), 1, origin);
        courier.start();
        CHECK_FALSE(courier.finish(patience, patience));
        CHECK(courier.trouble() == "it does not answer");
    }
    Outbox outbox("01M7J690Z2TM97TN46F1TWFTA9", daemon.spool());
    outbox.event(R"({"type":"session.start","agent":"a","cwd":"/"})");
    Courier courier(outbox, daemon.path(), 1, Courier::Origin::left_behind);
    CHECK_FALSE(courier.deliver(patience, patience));
    CHECK(courier.reached());
    CHECK(steady_clock::now() - began < far_less_than_an_answer_may_take);
}

TEST_CASE("a session that its own last event has ended is not opened again") {
    const HangingDaemon listener;
    bool reopened = false;
    // Has recorded everything, and brings it to the files at a flush.
    std::thread daemon([&listener, &reopened] {
        const int fd = ::accept4(listener.descriptor(), nullptr, nullptr, SOCK_CLOEXEC);
        const std::string ack = R"({"type":"ack","id":0)";
        bool flushed = false;
        std::string line;
        for (char byte = 0; ::recv(fd, &byte, 1, 0) == 1;) {
            line += byte;
            if (byte != '\n') {
                continue;
            }
            const auto is = [&line](const char* words) {
                return line.find(words) != std::string::npos;
            };
            std::string answer =
                R"({"type":"error","id":0,"code":"ended","message":"it has ended"})";
            if (is("\"flush\"")) {
                flushed = true;
                answer = ack + "}";
            } else if (is("\"session.get\"")) {
                answer = ack + R"(,"meta":{"capture":{"last_seq":)" + (flushed ? "2" : "0") + "}}}";
            } else if (is("\"reopen\"")) {
                reopened = true;
                answer = ack + R"(,"last_seq":2,"turn":null})";
            }
            answer += '\n';
            CHECK(::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL) > 0);
            line.clear();
        }
        ::close(fd);
    });
    {
        Outbox outbox("01M7J690Z2TM97TN46F1TWFTA9", listener.spool());
        outbox.event(R"({"type":"session.start","agent":"a","cwd":"/"})");
        outbox.event(R"({"type":"session.end"})");
        Courier courier(outbox, listener.path(), 1, Courier::Origin::left_behind);
        CHECK(courier.deliver(ample, ample));
    }
    daemon.join();
    CHECK_FALSE(reopened);
}
