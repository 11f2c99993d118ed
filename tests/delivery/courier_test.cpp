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

using relay::delivery::Courier;
using relay::delivery::Outbox;
using relay::tests::TemporaryDirectory;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr milliseconds patience{50};
constexpr milliseconds far_less_than_an_answer_may_take{10'000};

// A daemon that hangs: its kernel takes connections and nobody reads.
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
