// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/result.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace boost::asio {
class io_context;
}  // namespace boost::asio

namespace relay::daemon {

// The socket that clients find us at. Belongs to the io thread.
class Listener {
public:
    // A connected socket of our own user, to be taken over, and the process at its other end. A peer of
    // another user is closed before this is called, and reported to `refused`.
    using Accepted = std::function<void(int fd, std::int64_t peer_pid)>;
    using Refused = std::function<void(std::int64_t peer_uid)>;

    Listener(boost::asio::io_context& io, Accepted accepted, Refused refused);
    ~Listener();
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

    // Binds `path`, mode 0600, in a directory of mode 0700 that is made when it is missing. A socket file
    // left behind is replaced: the caller holds the instance lock, so nobody else listens there.
    [[nodiscard]] layout::Status bind(const std::string& path);
    // Takes over a listening socket that the service manager opened; it is never removed by us.
    [[nodiscard]] layout::Status adopt(int fd);

    // Where clients find it, whoever bound it.
    [[nodiscard]] std::string path() const;

    void start();
    // No further connections; removes the socket file that bind() made.
    void stop();

private:
    struct Socket;
    void wait();
    void accept_some();
    bool accept_one();

    std::unique_ptr<Socket> socket_;
    Accepted accepted_;
    Refused refused_;
    std::string bound_path_;
    int spare_fd_ =
        -1;  // given up for a moment when descriptors run out, so that a client hears it
};

}  // namespace relay::daemon
