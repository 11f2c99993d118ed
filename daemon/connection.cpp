// SPDX-License-Identifier: Apache-2.0
#include "daemon/connection.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace relay::daemon {

namespace asio = boost::asio;

namespace {

// Read through one buffer for all connections: the io thread reads one socket at a time, and an idle
// client then costs no buffer at all.
constexpr std::size_t read_bytes = std::size_t{256} * 1024;
std::array<char, read_bytes>& read_buffer() {
    static std::array<char, read_bytes> buffer;
    return buffer;
}

// One client's turn, then the next one's.
constexpr int reads_a_turn = 4;

// A client that leaves this much of our answers unread is not read from either.
constexpr std::size_t outgoing_pause_bytes = 1 << 20;
constexpr std::size_t outgoing_resume_bytes = std::size_t{64} * 1024;
// What a client that reads its answers keeps of the room for them.
constexpr std::size_t outgoing_kept_bytes = 1024;

// How long a client that is being closed may take to read its last lines.
constexpr std::chrono::seconds closing_patience{30};

}  // namespace

struct Connection::LastCall {
    explicit LastCall(asio::io_context& io) : timer(io) {}
    asio::steady_timer timer;
};

Connection::Connection(
    asio::io_context& io,
    SocketWatch& watch,
    MemoryBudget& budget,
    int fd,
    std::uint64_t number,
    std::int64_t peer_pid,
    std::size_t line_bytes_max,
    Events& events)
    : io_(io),
      watch_(watch),
      budget_(budget),
      fd_(fd),
      number_(number),
      peer_pid_(peer_pid),
      line_bytes_max_(line_bytes_max),
      events_(events) {
}

Connection::~Connection() = default;

void Connection::start() {
    wait_readable();
}

bool Connection::may_read() const {
    return open_ && !ended_ && !closing_ && pauses_ == 0 && !resuming_;
}

void Connection::wait_readable() {
    if (may_read()) {
        watch_for(watched_ | EPOLLIN);
    }
}

void Connection::watch_for(std::uint32_t events) {
    if (events == watched_) {
        return;
    }
    if (!watch_.watch(fd_.get(), events, shared_from_this())) {
        finish();  // no memory for it in the kernel; the client tries again
        return;
    }
    watched_ = events;
}

// A pause takes nothing back from the kernel: most are over before anything comes. What comes all the same
// ends the watching.
void Connection::socket_ready(std::uint32_t events) {
    constexpr std::uint32_t broken = EPOLLERR | EPOLLHUP;
    if (writing_ && (events & (EPOLLOUT | broken)) != 0) {
        writing_ = false;
        watch_for(watched_ & ~std::uint32_t{EPOLLOUT});
        flush();
        if (open_ && unsent_bytes() == 0) {
            events_.flushed(*this);
        }
    }
    if (!open_ || (events & (EPOLLIN | broken)) == 0) {
        return;
    }
    if (may_read()) {
        read_some();
    } else {
        watch_for(watched_ & ~std::uint32_t{EPOLLIN});
    }
}

void Connection::read_some() {
    for (int turn = 0; turn < reads_a_turn && may_read(); ++turn) {
        auto& buffer = read_buffer();
        const std::size_t wanted = budget_.read_bytes(buffer.size());
        const ssize_t count = ::recv(fd_.get(), buffer.data(), wanted, MSG_DONTWAIT);
        if (count > 0) {
            take({buffer.data(), static_cast<std::size_t>(count)});
            if (static_cast<std::size_t>(count) < wanted) {
                break;  // that was all; waiting again tells of whatever came since
            }
            continue;
        }
        if (count < 0 && errno == EAGAIN) {
            break;
        }
        if (count < 0 && errno == EINTR) {
            continue;
        }
        // End of file, or ECONNRESET from a client killed with unread answers: the bytes it had sent
        // came before either.
        ended_ = true;
    }
    check_drained();
    if (ended_ && pauses_ == 0 && open_) {
        finish();
        return;
    }
    wait_readable();
}

// Hands out the whole lines of `bytes` until somebody asks for a pause; returns how many bytes were used.
std::size_t Connection::deliver_lines(std::string_view bytes) {
    std::size_t used = 0;
    std::size_t from = scanned_;
    scanned_ = 0;
    delivering_ = true;
    while (open_ && !closing_ && pauses_ == 0) {
        const std::size_t end = bytes.find('\n', std::max(used, from));
        if (end == std::string_view::npos) {
            if (bytes.size() - used > line_bytes_max_) {
                events_.line_too_long(*this);
            }
            break;
        }
        const std::string_view line = bytes.substr(used, end - used);
        if (line.size() > line_bytes_max_) {
            events_.line_too_long(*this);
            break;
        }
        used = end + 1;
        events_.line_arrived(*this, line);
    }
    delivering_ = false;
    return used;
}

void Connection::take(std::string_view bytes) {
    if (!held_.empty()) {
        held_.append(bytes);
        deliver_held();
        return;
    }
    const std::size_t used = deliver_lines(bytes);
    held_.assign(bytes.substr(used));
    scanned_ = pauses_ == 0 ? held_.size() : 0;
    account();
}

void Connection::deliver_held() {
    std::string bytes = std::exchange(held_, {});
    const std::size_t used = deliver_lines(bytes);
    held_ = used == 0 ? std::move(bytes) : bytes.substr(used);
    scanned_ = pauses_ == 0 ? held_.size() : 0;
    account();
}

void Connection::account() {
    const std::size_t now = open_ ? held_.capacity() + outgoing_.capacity() : 0;
    if (now != accounted_) {
        budget_.held(static_cast<std::int64_t>(now) - static_cast<std::int64_t>(accounted_));
        accounted_ = now;
    }
}

void Connection::pause() {
    ++pauses_;
}

void Connection::resume() {
    if (--pauses_ > 0 || !open_) {
        return;
    }
    if (delivering_ || resuming_) {
        return;  // what is delivering goes on by itself
    }
    // Not from here: the caller is in the middle of something. Nothing is read until then, so that nothing
    // gathers behind lines that wait.
    resuming_ = true;
    asio::post(io_, [self = shared_from_this()] {
        self->resuming_ = false;
        if (!self->open_ || self->pauses_ > 0) {
            return;
        }
        self->deliver_held();
        self->check_drained();
        if (self->ended_ && self->pauses_ == 0 && self->open_) {
            self->finish();
            return;
        }
        self->wait_readable();
    });
}

void Connection::drain() {
    draining_ = true;
    if (pauses_ == 0 && !delivering_ && !resuming_) {
        read_some();
    }
}

void Connection::check_drained() {
    if (!draining_ || !open_ || pauses_ > 0) {
        return;
    }
    int waiting = 0;
    const bool empty = ended_ || (::ioctl(fd_.get(), FIONREAD, &waiting) == 0 && waiting == 0);
    if (empty) {
        draining_ = false;
        events_.drained(*this);
    }
}

void Connection::flush() {
    while (open_ && !writing_ && sent_ < outgoing_.size()) {
        const ssize_t count = ::send(
            fd_.get(),
            outgoing_.data() + sent_,
            outgoing_.size() - sent_,
            MSG_DONTWAIT | MSG_NOSIGNAL);
        if (count > 0) {
            sent_ += static_cast<std::size_t>(count);
            blocked_since_ = std::chrono::steady_clock::now();
            continue;
        }
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0 && errno == EAGAIN) {
            wait_writable();
            break;
        }
        // The peer is gone. What it sent may still be unread, so only the sending ends here.
        sent_ = outgoing_.size();
    }
    watch_outgoing();
}

void Connection::watch_outgoing() {
    if (sent_ == outgoing_.size()) {
        outgoing_.clear();
        sent_ = 0;
        if (outgoing_.capacity() > outgoing_kept_bytes) {
            outgoing_.shrink_to_fit();
        }
        if (closing_) {
            finish();
            return;
        }
    }
    const std::size_t unsent = unsent_bytes();
    if (!output_paused_ && unsent > outgoing_pause_bytes) {
        output_paused_ = true;
        pause();
    } else if (output_paused_ && unsent < outgoing_resume_bytes) {
        output_paused_ = false;
        resume();
    }
    account();
}

void Connection::wait_writable() {
    if (writing_ || !open_) {
        return;
    }
    if (sent_ > 0) {
        outgoing_.erase(0, sent_);
        sent_ = 0;
    }
    writing_ = true;
    watch_for(watched_ | EPOLLOUT);
}

void Connection::close_after_flush() {
    closing_ = true;
    flush();
    if (!open_) {
        return;
    }
    last_call_ = std::make_unique<LastCall>(io_);
    last_call_->timer.expires_after(closing_patience);
    last_call_->timer.async_wait(
        [self = shared_from_this()](const boost::system::error_code& error) {
            if (!error) {
                self->close();
            }
        });
}

void Connection::close() {
    if (open_) {
        finish();
    }
}

void Connection::finish() {
    if (!std::exchange(open_, false)) {
        return;
    }
    const auto self = shared_from_this();
    if (watched_ != 0) {
        static_cast<void>(watch_.watch(fd_.get(), 0, self));  // forgetting cannot fail
        watched_ = 0;
    }
    static_cast<void>(fd_.close());  // nothing was promised about what the peer has not read
    if (last_call_) {
        last_call_->timer.cancel();
    }
    account();
    events_.closed(*this);
}

}  // namespace relay::daemon
