// SPDX-License-Identifier: Apache-2.0
#include "daemon/service_notifier.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace relay::daemon {

namespace {

constexpr int first_listen_fd = 3;             // SD_LISTEN_FDS_START
constexpr std::int64_t listen_fds_max = 1024;  // more than any unit names; bounds the loop

std::optional<std::int64_t> whole_number(const std::optional<std::string>& text) {
    std::int64_t number = 0;
    if (!text.has_value()) {
        return std::nullopt;
    }
    const char* const end = text->data() + text->size();
    const auto [rest, failure] = std::from_chars(text->data(), end, number);
    if (failure != std::errc{} || rest != end) {
        return std::nullopt;
    }
    return number;
}

std::optional<std::chrono::microseconds>
find_watchdog_interval(const layout::Environment& environment) {
    const std::optional<std::string> pid = environment("WATCHDOG_PID");
    if (pid.has_value() && whole_number(pid) != ::getpid()) {
        return std::nullopt;
    }
    const std::optional<std::int64_t> limit = whole_number(environment("WATCHDOG_USEC"));
    if (!limit.has_value() || *limit < 2) {
        return std::nullopt;
    }
    return std::chrono::microseconds(*limit / 2);
}

std::string on_one_line(std::string_view text) {
    std::string line(text);
    std::replace(line.begin(), line.end(), '\n', ' ');
    return line;
}

std::vector<std::string> split_names(const std::string& names) {
    std::vector<std::string> parts;
    std::size_t begin = 0;
    while (begin <= names.size()) {
        const std::size_t colon = std::min(names.find(':', begin), names.size());
        parts.push_back(names.substr(begin, colon - begin));
        begin = colon + 1;
    }
    return parts;
}

bool has_option(int fd, int option, int expected) {
    int value = 0;
    socklen_t size = sizeof value;
    return ::getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 && value == expected;
}

bool is_listening_unix_stream(int fd) {
    return has_option(fd, SO_DOMAIN, AF_UNIX) && has_option(fd, SO_TYPE, SOCK_STREAM)
           && has_option(fd, SO_ACCEPTCONN, 1);
}

}  // namespace

ServiceNotifier::ServiceNotifier(const layout::Environment& environment)
    : watchdog_interval_(find_watchdog_interval(environment)) {
    address_ = environment("NOTIFY_SOCKET").value_or("");
    const bool known_form = address_.starts_with('/') || address_.starts_with('@');
    if (!known_form || address_.size() < 2 || address_.size() >= sizeof(sockaddr_un::sun_path)) {
        return;
    }
    if (address_.front() == '@') {
        address_.front() = '\0';
    }
    fd_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

ServiceNotifier::~ServiceNotifier() {
    if (fd_ >= 0) {
        ::close(fd_);
    }
}

void ServiceNotifier::send(std::string_view message) const {
    if (fd_ < 0) {
        return;
    }
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::copy(address_.begin(), address_.end(), address.sun_path);
    // Neither an abstract name nor a path counts the zero that may follow it.
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
    // Dropped when it fails: see the class.
    static_cast<void>(::sendto(
        fd_,
        message.data(),
        message.size(),
        MSG_NOSIGNAL,
        reinterpret_cast<const sockaddr*>(&address),
        size));
}

void ServiceNotifier::ready(std::string_view status) const {
    send("READY=1\nSTATUS=" + on_one_line(status));
}

void ServiceNotifier::status(std::string_view text) const {
    send("STATUS=" + on_one_line(text));
}

void ServiceNotifier::watchdog() const {
    send("WATCHDOG=1");
}

void ServiceNotifier::reloading() const {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    const std::int64_t micros = std::int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1'000;
    send("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(micros));
}

void ServiceNotifier::stopping() const {
    send("STOPPING=1");
}

void ServiceNotifier::extend_timeout(std::chrono::microseconds more) const {
    send("EXTEND_TIMEOUT_USEC=" + std::to_string(more.count()));
}

layout::Result<std::vector<ListenFd>> take_listen_fds() {
    const layout::Environment environment = layout::process_environment();
    const bool ours = whole_number(environment("LISTEN_PID")) == ::getpid();
    const std::int64_t count = whole_number(environment("LISTEN_FDS")).value_or(0);
    const std::vector<std::string> names = split_names(environment("LISTEN_FDNAMES").value_or(""));
    for (const char* const variable : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) {
        ::unsetenv(variable);
    }
    std::vector<ListenFd> taken;
    if (!ours || count < 1) {
        return taken;
    }
    if (count > listen_fds_max) {
        return layout::Error{
            layout::Errc::invalid,
            0,
            "LISTEN_FDS hands over too many descriptors: " + std::to_string(count)};
    }
    for (std::size_t index = 0; index < static_cast<std::size_t>(count); ++index) {
        const int fd = first_listen_fd + static_cast<int>(index);
        const bool named = index < names.size() && !names[index].empty();
        std::string name = named ? names[index] : "unknown";
        if (::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 || !is_listening_unix_stream(fd)) {
            return layout::Error{
                layout::Errc::invalid,
                0,
                "descriptor " + std::to_string(fd) + " (\"" + name
                    + "\"), handed over by LISTEN_FDS, is no listening Unix stream socket"};
        }
        taken.push_back({fd, std::move(name)});
    }
    return taken;
}

}  // namespace relay::daemon
