// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command_line.hpp"
#include "layout/result.hpp"

#include <chrono>
#include <string>
#include <string_view>

namespace relay::cli {

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

private:
    using Deadline = std::chrono::steady_clock::time_point;

    explicit Client(int fd) : fd_(fd) {}
    [[nodiscard]] layout::Status send(std::string_view bytes, Deadline deadline) const;
    [[nodiscard]] layout::Result<std::string> read_line(Deadline deadline);

    int fd_;
    std::string received_;      // bytes after the last line handed out
    std::size_t searched_ = 0;  // of received_, known to hold no newline
};

// The socket that the flags or the environment name; absolute.
[[nodiscard]] layout::Result<std::string>
find_socket(const CommandLine& line, const Surroundings& surroundings);

// "agent-relayd is not running (no answer at …); start it with: agent-relay daemon start"
[[nodiscard]] std::string not_running(const std::string& socket);

// The sentence for a connection that could not be made.
[[nodiscard]] std::string unreachable(const std::string& socket, const layout::Error& error);

}  // namespace relay::cli
