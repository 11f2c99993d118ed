// SPDX-License-Identifier: Apache-2.0
#include "tests/support/service_manager.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace relay::tests {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

int bind_socket(const std::string& path, int type) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    REQUIRE(path.size() < sizeof address.sun_path);
    std::copy(path.begin(), path.end(), address.sun_path);
    const int fd = ::socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    REQUIRE(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    return fd;
}

DaemonSetup notified_at(DaemonSetup setup, const std::string& path, milliseconds watchdog) {
    setup.environment["NOTIFY_SOCKET"] = path;
    if (watchdog.count() > 0) {
        setup.environment["WATCHDOG_USEC"] = std::to_string(watchdog.count() * 1000);
    }
    return setup;
}

bool is_readable(int fd, milliseconds limit) {
    pollfd wait{fd, POLLIN, 0};
    return ::poll(&wait, 1, static_cast<int>(std::max<std::int64_t>(limit.count(), 0))) == 1;
}

std::string received(int fd) {
    std::array<char, 4096> buffer{};
    const ssize_t got = ::recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
    return got < 0 ? "" : std::string(buffer.data(), static_cast<std::size_t>(got));
}

}  // namespace

ServiceManager::ServiceManager(DaemonSetup setup, milliseconds watchdog)
    : service_(notified_at(std::move(setup), directory_.path() + "/notify", watchdog)),
      listening_(bind_socket(service_.socket(), SOCK_STREAM)),
      notified_(bind_socket(directory_.path() + "/notify", SOCK_DGRAM)) {
    REQUIRE(::listen(listening_, 128) == 0);
    // Inherited on purpose; bash, because others know one digit of a descriptor.
    ::fcntl(listening_, F_SETFD, 0);
    service_.launcher() = {
        "/bin/bash",
        "-c",
        "export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=relay; exec \"$@\" 3<&"
            + std::to_string(listening_)
            + (listening_ == 3 ? "" : " " + std::to_string(listening_) + "<&-"),
        "bash"};
}

ServiceManager::~ServiceManager() {
    gone_ = true;
    if (thread_.joinable()) {
        thread_.join();
    }
    service_.kill();
    ::close(listening_);
    ::close(notified_);
}

void ServiceManager::activate() {
    thread_ = std::thread([this] {
        while (!gone_) {
            if (!service_.running()) {
                pid_ = 0;
                runs_ = false;
                if (is_readable(listening_, milliseconds(5))) {
                    service_.spawn();
                    pid_ = service_.pid();
                    runs_ = true;
                    ++starts_;
                }
            }
            ::poll(nullptr, 0, 1);
        }
        service_.kill();  // the thread that started it ends, and so would it
    });
}

void ServiceManager::signal_service(int number) {
    if (const pid_t pid = pid_; pid > 0) {
        ::kill(pid, number);
    }
}

std::vector<std::string> ServiceManager::hear(const std::string& beginning, milliseconds limit) {
    std::vector<std::string> heard;
    const auto deadline = steady_clock::now() + limit;
    while (
        is_readable(notified_, std::chrono::ceil<milliseconds>(deadline - steady_clock::now()))) {
        heard.push_back(received(notified_));
        if (heard.back().starts_with(beginning)) {
            return heard;
        }
    }
    return {};
}

bool ServiceManager::hears_anew(const std::string& beginning, milliseconds limit) {
    while (is_readable(notified_, milliseconds(0))) {
        static_cast<void>(received(notified_));
    }
    return !hear(beginning, limit).empty();
}

}  // namespace relay::tests
