// SPDX-License-Identifier: Apache-2.0
#include "delivery/client.hpp"

#include <nlohmann/json.hpp>

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <system_error>
#include <utility>

namespace relay::delivery {

namespace {

using layout::Done;
using layout::Errc;
using layout::Error;
using layout::Result;
using layout::Status;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t answer_bytes_max = 64 << 20;  // four times the largest event

Error failure(Errc code, int number, const std::string& what) {
    return Error{code, number, what + ": " + std::system_category().message(number)};
}

int remaining_ms(steady_clock::time_point deadline) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, std::numeric_limits<int>::max()));
}

// True when the socket is ready for `events` or has failed, false when the time is up.
Result<bool> wait_for(int fd, short events, steady_clock::time_point deadline) {
    while (true) {
        pollfd poll{fd, events, 0};
        const int ready = ::poll(&poll, 1, remaining_ms(deadline));
        if (ready >= 0) {
            return ready > 0;
        }
        if (errno != EINTR) {
            return failure(Errc::io, errno, "poll");
        }
    }
}

// Another user who managed to bind our path would be handed prompts. Root is the system's manager, which
// listens on behalf of a daemon that it starts.
bool peer_is_trusted(int fd) {
    ucred peer{};
    socklen_t size = sizeof peer;
    return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0
           && (peer.uid == ::geteuid() || peer.uid == 0);
}

Status connect_by(int fd, const std::string& path, steady_clock::time_point deadline) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) {
        return Error{
            Errc::invalid, 0, "the socket's path \"" + path + "\" is longer than 107 bytes"};
    }
    std::copy(path.begin(), path.end(), address.sun_path);
    while (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        // A Unix socket is never "in progress": a full backlog is EAGAIN, and no poll tells when it has room.
        if (errno != EAGAIN && errno != EINTR) {
            const bool nobody = errno == ENOENT || errno == ECONNREFUSED || errno == ENOTDIR;
            return failure(nobody ? Errc::not_found : Errc::io, errno, "connect to " + path);
        }
        if (remaining_ms(deadline) == 0) {
            return failure(Errc::busy, ETIMEDOUT, "connect to " + path);
        }
        const timespec pause{0, 10'000'000};
        ::nanosleep(&pause, nullptr);
    }
    return Done{};
}

bool answers(const std::string& line, const nlohmann::json& id) {
    const nlohmann::json answer = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!answer.is_object()) {
        return false;
    }
    const auto type = answer.find("type");
    const bool refused = type != answer.end() && *type == "error";
    const auto found = answer.find("id");
    return found == answer.end()
               ? refused
               : *found == id && (refused || (type != answer.end() && *type == "ack"));
}

}  // namespace

Client::Client(Client&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      received_(std::move(other.received_)),
      searched_(other.searched_) {
}

Client::~Client() {
    if (fd_ >= 0) {
        ::close(fd_);
    }
}

Result<Client> Client::connect(const std::string& path, milliseconds timeout) {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return failure(Errc::io, errno, "socket");
    }
    Client client(fd);
    Status connected = connect_by(fd, path, steady_clock::now() + timeout);
    if (!connected.ok()) {
        return connected.error();
    }
    if (!peer_is_trusted(fd)) {
        return Error{Errc::unsafe, 0, "the socket " + path + " belongs to another user"};
    }
    return client;
}

Status Client::send(std::string_view bytes, Deadline deadline) const {
    while (!bytes.empty()) {
        const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent >= 0) {
            bytes.remove_prefix(static_cast<std::size_t>(sent));
            continue;
        }
        if (errno == EPIPE || errno == ECONNRESET) {
            return failure(Errc::closed, errno, "send");
        }
        if (errno != EAGAIN && errno != EINTR) {
            return failure(Errc::io, errno, "send");
        }
        const Result<bool> ready = wait_for(fd_, POLLOUT, deadline);
        if (!ready.ok()) {
            return ready.error();
        }
        if (!ready.value()) {
            return failure(Errc::busy, ETIMEDOUT, "send");
        }
    }
    return Done{};
}

Result<std::string> Client::read_line(Deadline deadline) {
    std::array<char, 65536> buffer{};
    while (true) {
        const std::size_t newline = received_.find('\n', searched_);
        if (newline != std::string::npos) {
            std::string line = received_.substr(0, newline);
            received_.erase(0, newline + 1);
            searched_ = 0;
            return line;
        }
        searched_ = received_.size();
        if (received_.size() > answer_bytes_max) {
            return Error{Errc::invalid, 0, "the daemon's answer has no end"};
        }
        const Result<bool> ready = wait_for(fd_, POLLIN, deadline);
        if (!ready.ok()) {
            return ready.error();
        }
        if (!ready.value()) {
            return failure(Errc::busy, ETIMEDOUT, "wait for an answer");
        }
        const ssize_t got = ::recv(fd_, buffer.data(), buffer.size(), 0);
        if (got == 0 || (got < 0 && errno == ECONNRESET)) {
            return Error{Errc::closed, 0, "the daemon closed the connection"};
        }
        if (got < 0 && errno != EAGAIN && errno != EINTR) {
            return failure(Errc::io, errno, "receive");
        }
        received_.append(buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    }
}

Result<std::string> Client::ask(std::string_view line, std::string_view id, milliseconds timeout) {
    const Deadline deadline = steady_clock::now() + timeout;
    const nlohmann::json expected = nlohmann::json::parse(id, nullptr, /*allow_exceptions=*/false);
    const Status sent = send(std::string(line) + "\n", deadline);
    // A daemon that refuses a line for its length says so and hangs up while we still send.
    if (!sent.ok() && sent.error().code != Errc::closed) {
        return sent.error();
    }
    while (true) {
        Result<std::string> answer = read_line(deadline);
        if (!answer.ok() || answers(answer.value(), expected)) {
            return answer;
        }
    }
}

}  // namespace relay::delivery
