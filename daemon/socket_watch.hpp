// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

namespace boost::asio {
class io_context;
}  // namespace boost::asio

namespace relay::daemon {

// Tells which of many sockets are ready, for all of them in one handler and with one question to the kernel,
// where Asio takes a handler and a system call for each. So everything that has come is read before what was
// posted meanwhile is done. Belongs to the io thread.
class SocketWatch {
public:
    class Listener {
    public:
        Listener() = default;
        virtual ~Listener() = default;
        Listener(const Listener&) = delete;
        Listener& operator=(const Listener&) = delete;

        // The events of epoll(7). Told again and again for as long as they hold.
        virtual void socket_ready(std::uint32_t events) = 0;
    };

    explicit SocketWatch(boost::asio::io_context& io);
    ~SocketWatch();
    SocketWatch(const SocketWatch&) = delete;
    SocketWatch& operator=(const SocketWatch&) = delete;

    // From now on these events of `fd`; none: it is forgotten, which must come before it is closed. The
    // listener is kept alive while it is told, and by nothing else. False when the kernel refuses.
    [[nodiscard]] bool
    watch(int fd, std::uint32_t events, const std::shared_ptr<Listener>& listener);

private:
    struct State;
    void wait();
    void tell();

    std::unique_ptr<State> state_;
};

}  // namespace relay::daemon
