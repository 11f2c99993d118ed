// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/result.hpp"

#include <chrono>
#include <string>
#include <string_view>

namespace relay::delivery {

// One connection to the daemon, one request at a time. Every call ends by its timeout.
class Client {
public:
    // Errc::not_found when nobody listens at `path`, Errc::busy when nobody took the connection in time,
    // Errc::unsafe when the socket belongs to another user.
    [[nodiscard]] static layout::Result<Client>
    connect(const std::string& path, std::chrono::milliseconds timeout);

    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;
    Client(Client&& other) noexcept;
    Client& operator=(Client&&) = delete;
    ~Client();

    // Sends `line`, which is a JSON object without a newline, and returns the answer to it, as received and
    // without a newline: the first ack or error with this `id` (JSON text), or an error without an id, which
    // is about a line so wrong that its id could not be read. Errc::closed when the connection ends first,
    // Errc::busy when there is no answer in time; whether the request took effect is then unknown.
    [[nodiscard]] layout::Result<std::string>
    ask(std::string_view line, std::string_view id, std::chrono::milliseconds timeout);

    // For whoever sends without waiting for each answer; non-blocking. Never mixed with an ask() on its way.
    [[nodiscard]] int descriptor() const { return fd_; }

private:
    using Deadline = std::chrono::steady_clock::time_point;

    explicit Client(int fd) : fd_(fd) {}
    [[nodiscard]] layout::Status send(std::string_view bytes, Deadline deadline) const;
    [[nodiscard]] layout::Result<std::string> read_line(Deadline deadline);

    int fd_;
    std::string received_;      // bytes after the last line handed out
    std::size_t searched_ = 0;  // of received_, known to hold no newline
};

}  // namespace relay::delivery
