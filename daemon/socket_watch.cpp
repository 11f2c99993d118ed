// SPDX-License-Identifier: Apache-2.0
#include "daemon/socket_watch.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <sys/epoll.h>

#include <array>
#include <cstddef>
#include <unordered_map>

namespace relay::daemon {

namespace asio = boost::asio;

namespace {

// More are told in the next round, after what this one led to.
constexpr std::size_t told_a_round_max = 512;

}  // namespace

struct SocketWatch::State {
    explicit State(asio::io_context& io) : set(io, ::epoll_create1(EPOLL_CLOEXEC)) {}

    asio::posix::stream_descriptor
        set;  // the epoll instance; readable when one of its sockets is ready
    std::unordered_map<int, std::weak_ptr<Listener>> listeners;
    std::array<epoll_event, told_a_round_max> ready{};
    bool waiting = false;
};

SocketWatch::SocketWatch(asio::io_context& io) : state_(std::make_unique<State>(io)) {
}

SocketWatch::~SocketWatch() = default;

bool SocketWatch::watch(int fd, std::uint32_t events, const std::shared_ptr<Listener>& listener) {
    epoll_event wanted{};
    wanted.events = events;
    wanted.data.fd = fd;
    const int set = state_->set.native_handle();
    if (events == 0) {
        if (state_->listeners.erase(fd) > 0) {
            static_cast<void>(::epoll_ctl(set, EPOLL_CTL_DEL, fd, nullptr));  // it is there
        }
        return true;
    }
    const bool known = state_->listeners.contains(fd);
    if (::epoll_ctl(set, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &wanted) != 0) {
        return false;
    }
    state_->listeners[fd] = listener;
    wait();
    return true;
}

void SocketWatch::wait() {
    if (state_->waiting) {
        return;
    }
    state_->waiting = true;
    state_->set.async_wait(
        asio::posix::stream_descriptor::wait_read, [this](const boost::system::error_code& error) {
            if (error) {
                return;  // the watch is gone
            }
            state_->waiting = false;
            tell();
            wait();
        });
}

void SocketWatch::tell() {
    const int count = ::epoll_wait(
        state_->set.native_handle(),
        state_->ready.data(),
        static_cast<int>(state_->ready.size()),
        /*timeout=*/0);
    for (int index = 0; index < count; ++index) {
        const epoll_event& event = state_->ready[static_cast<std::size_t>(index)];
        // Whoever was told before may have closed this one; a number that is in use again by then was added
        // after the question, and the answer of the old socket is about nothing: a vain look, no harm.
        const auto found = state_->listeners.find(event.data.fd);
        if (found == state_->listeners.end()) {
            continue;
        }
        if (const auto listener = found->second.lock()) {
            listener->socket_ready(event.events);
        }
    }
}

}  // namespace relay::daemon
