// SPDX-License-Identifier: Apache-2.0
#include "tests/support/wire_client.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace relay::tests {

namespace {

int connect_to(const std::string& socket) {
    sockaddr_un address{};
    if (socket.size() >= sizeof(address.sun_path)) {
        return -1;
    }
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, socket.data(), socket.size());
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const auto* const generic = reinterpret_cast<const sockaddr*>(&address);
    if (::connect(fd, generic, sizeof(address)) != 0) {
        ::close(fd);
        return -1;
    }
    return fd;
}

}  // namespace

WireClient::WireClient(const std::string& socket) : fd_(connect_to(socket)) {
}

WireClient::WireClient(WireClient&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      ended_(other.ended_),
      incoming_(std::move(other.incoming_)),
      scanned_(other.scanned_),
      last_id_(other.last_id_) {
}

WireClient& WireClient::operator=(WireClient&& other) noexcept {
    if (this != &other) {
        close();
        fd_ = std::exchange(other.fd_, -1);
        ended_ = other.ended_;
        incoming_ = std::move(other.incoming_);
        scanned_ = other.scanned_;
        last_id_ = other.last_id_;
    }
    return *this;
}

WireClient::~WireClient() {
    close();
}

void WireClient::close() {
    if (fd_ >= 0) {
        ::close(fd_);
        fd_ = -1;
    }
}

bool WireClient::receive(std::chrono::milliseconds limit) {
    if (fd_ < 0 || ended_) {
        return false;
    }
    pollfd wanted{fd_, POLLIN, 0};
    if (::poll(&wanted, 1, static_cast<int>(limit.count())) <= 0) {
        return false;
    }
    std::array<char, 65536> buffer{};
    const ssize_t count = ::recv(fd_, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count > 0) {
        incoming_.append(buffer.data(), static_cast<std::size_t>(count));
        return true;
    }
    // A reset is an end like any other: what came before it has been read.
    ended_ = count == 0 || (errno != EAGAIN && errno != EINTR);
    return ended_;
}

bool WireClient::send_bytes(std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t count =
            fd_ < 0 ? -1 : ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count > 0) {
            bytes.remove_prefix(static_cast<std::size_t>(count));
            continue;
        }
        if (fd_ < 0 || ended_ || (errno != EAGAIN && errno != EINTR)) {
            return false;
        }
        pollfd wanted{fd_, POLLIN | POLLOUT, 0};
        if (::poll(&wanted, 1, static_cast<int>(patience.count())) <= 0) {
            return false;
        }
        if ((wanted.revents & POLLIN) != 0) {
            receive(std::chrono::milliseconds(0));
        }
    }
    return true;
}

bool WireClient::send_line(std::string_view line) {
    return send_bytes(std::string(line) + "\n");
}

std::optional<std::string> WireClient::read_line(std::chrono::milliseconds limit) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (true) {
        const std::size_t newline = incoming_.find('\n', scanned_);
        if (newline != std::string::npos) {
            std::string line = incoming_.substr(0, newline);
            incoming_.erase(0, newline + 1);
            scanned_ = 0;
            return line;
        }
        scanned_ = incoming_.size();
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
            deadline - std::chrono::steady_clock::now());
        const bool more = receive(std::max(left, std::chrono::milliseconds(0)));
        if (ended_ || (!more && left.count() <= 0)) {
            return std::nullopt;
        }
    }
}

Json WireClient::read(std::chrono::milliseconds limit) {
    const std::optional<std::string> line = read_line(limit);
    return line ? Json::parse(*line, nullptr, /*allow_exceptions=*/false)
                : Json(Json::value_t::discarded);
}

bool WireClient::read_to_end(std::chrono::milliseconds limit) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (!ended_ && std::chrono::steady_clock::now() < deadline) {
        incoming_.clear();
        scanned_ = 0;
        receive(std::chrono::milliseconds(100));
    }
    return ended_;
}

Json WireClient::request(Json request, std::chrono::milliseconds limit) {
    const std::string id = "r" + std::to_string(++last_id_);
    request["id"] = id;
    if (!send(request)) {
        return Json::object();
    }
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (true) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
            deadline - std::chrono::steady_clock::now());
        Json answer = read(std::max(left, std::chrono::milliseconds(0)));
        if (answer.is_discarded()) {
            return Json::object();
        }
        if (answer.contains("id") && answer["id"] == id) {
            return answer;
        }
    }
}

Json WireClient::ask(std::string_view type, const std::string& session, const Json& fields) {
    return request(event(type, session, fields));
}

Json event(std::string_view type, const std::string& session, const Json& fields) {
    Json line{{"type", type}, {"session", session}};
    line.update(fields);
    return line;
}

}  // namespace relay::tests
