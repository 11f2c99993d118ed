// SPDX-License-Identifier: Apache-2.0
#include "daemon/service_notifier.hpp"
#include "tests/support/temporary_directory.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>

using relay::daemon::ServiceNotifier;
using relay::daemon::take_listen_fds;
using relay::tests::TemporaryDirectory;

namespace {

// A Unix socket bound to `name`, which begins with a zero byte when it is abstract.
class BoundSocket {
public:
    BoundSocket(const std::string& name, int type)
        : fd_(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::copy(name.begin(), name.end(), address.sun_path);
        const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
        REQUIRE(::bind(fd_, reinterpret_cast<const sockaddr*>(&address), size) == 0);
    }
    BoundSocket(const BoundSocket&) = delete;
    BoundSocket& operator=(const BoundSocket&) = delete;
    ~BoundSocket() { ::close(fd_); }

    [[nodiscard]] int fd() const { return fd_; }
    [[nodiscard]] std::string next() const {
        std::array<char, 4096> buffer{};
        const ssize_t got = ::recv(fd_, buffer.data(), buffer.size(), MSG_DONTWAIT);
        return got < 0 ? "" : std::string(buffer.data(), static_cast<std::size_t>(got));
    }

private:
    int fd_;
};

relay::layout::Environment variables(std::map<std::string, std::string> values) {
    return [values = std::move(values)](const char* name) -> std::optional<std::string> {
        const auto found = values.find(name);
        return found == values.end() ? std::nullopt : std::optional(found->second);
    };
}

// Runs `body` in a process of its own, since it rearranges descriptors and variables, and returns what
// it returned.
int in_child(const std::function<int()>& body) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        ::_exit(body());
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void hand_over(int fd, const std::string& pid, const char* count, const char* names) {
    for (const int target : {3, 4}) {
        ::dup2(fd, target);
        ::fcntl(target, F_SETFD, 0);  // dup2() leaves the flag when `fd` is the target itself
    }
    ::setenv("LISTEN_PID", pid.c_str(), 1);
    ::setenv("LISTEN_FDS", count, 1);
    ::setenv("LISTEN_FDNAMES", names, 1);
}

bool variables_are_gone() {
    return ::getenv("LISTEN_PID") == nullptr && ::getenv("LISTEN_FDS") == nullptr
           && ::getenv("LISTEN_FDNAMES") == nullptr;
}

}  // namespace

TEST_CASE("the service manager hears each message word for word") {
    const TemporaryDirectory directory;
    const std::string path = directory.path() + "/notify";
    const BoundSocket manager(path, SOCK_DGRAM);
    const ServiceNotifier notifier(variables({{"NOTIFY_SOCKET", path}}));
    CHECK(notifier.active());
    notifier.ready("Recording 3 sessions");
    CHECK(manager.next() == "READY=1\nSTATUS=Recording 3 sessions");
    notifier.status("two\nlines");
    CHECK(manager.next() == "STATUS=two lines");
    notifier.watchdog();
    CHECK(manager.next() == "WATCHDOG=1");
    notifier.reloading();
    const std::string reloading = manager.next();
    CHECK(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="));
    CHECK(std::stoll(reloading.substr(reloading.rfind('=') + 1)) > 0);
    notifier.stopping();
    CHECK(manager.next() == "STOPPING=1");
    notifier.extend_timeout(std::chrono::seconds(30));
    CHECK(manager.next() == "EXTEND_TIMEOUT_USEC=30000000");
}

TEST_CASE("the service manager is reached at an abstract address too") {
    const std::string name = "relay-notify-test-" + std::to_string(::getpid());
    const BoundSocket manager(std::string(1, '\0') + name, SOCK_DGRAM);
    const ServiceNotifier notifier(variables({{"NOTIFY_SOCKET", "@" + name}}));
    notifier.stopping();
    CHECK(manager.next() == "STOPPING=1");
}

TEST_CASE("without a usable service manager nothing is sent and nothing fails") {
    for (const std::string& address :
         {std::string(), std::string("relative"), std::string("/"), std::string(200, '/')}) {
        CAPTURE(address);
        const ServiceNotifier notifier(variables({{"NOTIFY_SOCKET", address}}));
        CHECK_FALSE(notifier.active());
        notifier.ready("x");
    }
    CHECK_FALSE(ServiceNotifier(variables({})).active());
    const ServiceNotifier gone(variables({{"NOTIFY_SOCKET", "/nonexistent/notify"}}));
    gone.ready("x");
}

TEST_CASE("the watchdog is fed twice in the time the manager allows") {
    const auto interval = [](std::map<std::string, std::string> values) {
        return ServiceNotifier(variables(std::move(values))).watchdog_interval();
    };
    const std::string self = std::to_string(::getpid());
    CHECK(interval({{"WATCHDOG_USEC", "30000000"}}) == std::chrono::seconds(15));
    CHECK(
        interval({{"WATCHDOG_USEC", "2000"}, {"WATCHDOG_PID", self}})
        == std::chrono::milliseconds(1));
    CHECK_FALSE(interval({{"WATCHDOG_USEC", "2000"}, {"WATCHDOG_PID", "1"}}).has_value());
    CHECK_FALSE(interval({{"WATCHDOG_USEC", "2000"}, {"WATCHDOG_PID", "x"}}).has_value());
    CHECK_FALSE(interval({}).has_value());
    for (const char* const text : {"", "0", "-5", "5s", "99999999999999999999"}) {
        CAPTURE(text);
        CHECK_FALSE(interval({{"WATCHDOG_USEC", text}}).has_value());
    }
}

TEST_CASE("listening sockets handed over are taken with their names and never leak into children") {
    const TemporaryDirectory directory;
    const BoundSocket socket(directory.path() + "/relay.sock", SOCK_STREAM);
    REQUIRE(::listen(socket.fd(), 1) == 0);
    CHECK(
        in_child([&socket] {
            hand_over(socket.fd(), std::to_string(::getpid()), "2", "events");
            const auto taken = take_listen_fds();
            const bool right = taken.ok() && taken.value().size() == 2 && taken.value()[0].fd == 3
                               && taken.value()[0].name == "events" && taken.value()[1].fd == 4
                               && taken.value()[1].name == "unknown";
            const bool closed =
                (::fcntl(3, F_GETFD) & FD_CLOEXEC) != 0 && (::fcntl(4, F_GETFD) & FD_CLOEXEC) != 0;
            return right && closed && variables_are_gone() ? 0 : 1;
        })
        == 0);
}

TEST_CASE("sockets meant for another process are left alone") {
    const TemporaryDirectory directory;
    const BoundSocket socket(directory.path() + "/relay.sock", SOCK_STREAM);
    REQUIRE(::listen(socket.fd(), 1) == 0);
    CHECK(
        in_child([&socket] {
            hand_over(socket.fd(), "1", "1", "events");
            const auto taken = take_listen_fds();
            const bool untouched = ::fcntl(3, F_GETFD) == 0;
            return taken.ok() && taken.value().empty() && untouched && variables_are_gone() ? 0 : 1;
        })
        == 0);
    CHECK(
        in_child([] {
            const auto taken = take_listen_fds();
            return taken.ok() && taken.value().empty() ? 0 : 1;
        })
        == 0);
}

TEST_CASE("a descriptor handed over that does not listen is refused by number and name") {
    const TemporaryDirectory directory;
    const BoundSocket socket(directory.path() + "/relay.sock", SOCK_STREAM);  // no listen()
    for (const char* const count : {"1", "100000"}) {
        CHECK(
            in_child([&socket, count] {
                hand_over(socket.fd(), std::to_string(::getpid()), count, "events");
                return take_listen_fds().ok() ? 1 : 0;
            })
            == 0);
    }
    CHECK(
        in_child([&socket] {
            hand_over(socket.fd(), std::to_string(::getpid()), "1", "events");
            const auto taken = take_listen_fds();
            return !taken.ok()
                           && taken.error().context
                                  == "descriptor 3 (\"events\"), handed over by LISTEN_FDS, is "
                                     "no listening Unix stream socket"
                       ? 0
                       : 1;
        })
        == 0);
}
