// SPDX-License-Identifier: Apache-2.0
#include "cli/pump.hpp"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

namespace relay::cli {

namespace {

using layout::Errc;
using layout::Error;
using layout::Result;

// Fewer wake-ups, and far below what a user may have in pipes altogether.
constexpr int pipe_bytes = 256 << 10;
constexpr std::size_t chunk_bytes = 64 << 10;  // stays in a core's own cache on its way

void wait_for(int descriptor, short events) {
    pollfd wait{descriptor, events, 0};
    ::poll(&wait, 1, -1);
}

// All of it; false when the other side is gone or refuses.
bool write_all(int to, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(to, bytes.data(), bytes.size());
        if (written >= 0) {
            bytes.remove_prefix(static_cast<std::size_t>(written));
        } else if (errno == EAGAIN) {
            wait_for(to, POLLOUT);  // somebody who shares it made it so
        } else if (errno != EINTR) {
            return false;
        }
    }
    return true;
}

// So that the reader behind our own output sees its end when the agent's is there. The number stays taken.
void close_for_the_reader(int number) {
    const Descriptor nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    if (nowhere.valid()) {
        static_cast<void>(::dup2(nowhere.get(), number));
    }
}

// Everything after fork() in a program with threads: calls that take no lock.
[[noreturn]] void forward_for_ever(int from, int to, const sigset_t& mask) {
    std::array<char, 16384> buffer{};
    // As a program in the background has it, and one that sees for itself that nobody reads. Cannot fail for these.
    for (const int number : {SIGINT, SIGQUIT, SIGTSTP, SIGPIPE}) {
        static_cast<void>(::signal(number, SIG_IGN));
    }
    ::sigprocmask(SIG_SETMASK, &mask, nullptr);
    const int flags = ::fcntl(from, F_GETFL);
    ::fcntl(from, F_SETFL, flags & ~O_NONBLOCK);
    while (true) {
        const ssize_t got = ::read(from, buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0
            || !write_all(to, std::string_view(buffer.data(), static_cast<std::size_t>(got)))) {
            ::_exit(0);
        }
    }
}

}  // namespace

Result<Pipe> make_pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        return Error{Errc::io, errno, "make a pipe: " + std::system_category().message(errno)};
    }
    Pipe pipe{Descriptor(ends[0]), Descriptor(ends[1])};
    // A smaller one works, too.
    static_cast<void>(::fcntl(pipe.write.get(), F_SETPIPE_SZ, pipe_bytes));
    return pipe;
}

// The agent learns of it as it would have without us; a terminal that is gone has signals for that.
bool Pump::lose_reader() {
    refusal_ = is_terminal_ || errno == EPIPE ? 0 : errno;
    target_ = -1;
    if (!is_terminal_) {
        source_.close();
    }
    return is_terminal_;
}

bool Pump::pass_on(std::string_view bytes) {
    const bool goes_on = target_ < 0 || write_all(target_, bytes) || lose_reader();
    if (listener_) {
        listener_(bytes);
    }
    return goes_on;
}

Pump::Progress Pump::copy() {
    const ssize_t got = ::read(source_.get(), buffer_.data(), buffer_.size());
    if (got > 0) {
        const std::string_view bytes(buffer_.data(), static_cast<std::size_t>(got));
        return pass_on(bytes) ? Progress::more : Progress::end;
    }
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return errno == EAGAIN ? Progress::none : Progress::more;
    }
    return Progress::end;  // 0, or EIO when nobody has the terminal open any more
}

bool Pump::move_on(std::size_t bytes) {
    while (bytes > 0) {
        const ssize_t moved =
            ::splice(source_.get(), nullptr, target_, nullptr, bytes, SPLICE_F_MOVE);
        if (moved > 0) {
            bytes -= static_cast<std::size_t>(moved);
        } else if (moved < 0 && errno == EAGAIN) {
            wait_for(target_, POLLOUT);
        } else if (!(moved < 0 && errno == EINTR)) {
            return false;
        }
    }
    return true;
}

Pump::Progress Pump::move() {
    const ssize_t seen = ::tee(source_.get(), look_->write.get(), pipe_bytes, SPLICE_F_NONBLOCK);
    if (seen < 0 && errno == EINVAL) {
        look_.reset();  // a kernel or a pipe that cannot
        return Progress::more;
    }
    if (seen < 0 && (errno == EAGAIN || errno == EINTR)) {
        return errno == EAGAIN ? Progress::none : Progress::more;
    }
    if (seen <= 0 || !move_on(static_cast<std::size_t>(seen))) {
        return seen > 0 && lose_reader() ? Progress::more : Progress::end;
    }
    auto left = static_cast<std::size_t>(seen);
    while (left > 0) {
        const ssize_t got =
            ::read(look_->read.get(), buffer_.data(), std::min(left, buffer_.size()));
        if (got <= 0 && !(got < 0 && errno == EINTR)) {
            return Progress::end;
        }
        const auto bytes = static_cast<std::size_t>(std::max<ssize_t>(got, 0));
        listener_(std::string_view(buffer_.data(), bytes));
        left -= bytes;
    }
    return Progress::more;
}

// Nobody listens: the bytes need not be seen at all.
Pump::Progress Pump::move_unseen() {
    const ssize_t moved =
        ::splice(source_.get(), nullptr, target_, nullptr, pipe_bytes, SPLICE_F_MOVE);
    if (moved > 0 || (moved < 0 && errno == EINTR)) {
        return Progress::more;
    }
    if (moved < 0 && errno == EINVAL) {
        look_.reset();  // a kernel or a pipe that cannot
        return Progress::more;
    }
    if (moved < 0 && errno == EAGAIN) {
        pollfd source{source_.get(), POLLIN, 0};
        if (::poll(&source, 1, 0) != 1 || (source.revents & POLLIN) == 0) {
            return Progress::none;
        }
        wait_for(target_, POLLOUT);  // there is something, so it is the other side that is full
        return Progress::more;
    }
    return moved < 0 && lose_reader() ? Progress::more : Progress::end;
}

Pump::Progress Pump::step() {
    if (!look_ || target_ < 0) {
        return copy();
    }
    return listener_ ? move() : move_unseen();
}

void Pump::run() {
    buffer_.resize(chunk_bytes);
    struct stat reader {};
    if (!is_terminal_ && ::fstat(target_, &reader) == 0 && S_ISFIFO(reader.st_mode)) {
        // Fewer wake-ups on that side, too. A pipe that stays as it is works as well.
        static_cast<void>(::fcntl(target_, F_SETPIPE_SZ, pipe_bytes));
        Result<Pipe> look = make_pipe();
        if (look.ok()) {
            look_.emplace(std::move(look.value()));
        }
    }
    bool gone = false;
    Progress progress = Progress::more;
    while (source_.valid() && progress != Progress::end) {
        progress = step();
        if (progress == Progress::none) {
            if (gone) {
                return;  // somebody else still has it open
            }
            std::array<pollfd, 2> wait{
                pollfd{source_.get(), POLLIN, 0}, pollfd{agent_gone_, POLLIN, 0}};
            ::poll(wait.data(), wait.size(), -1);
            gone = wait[1].revents != 0;
        }
    }
    at_end_ = true;
    if (closes_target_ && target_ >= 0) {
        close_for_the_reader(target_);
    }
}

void Pump::leave_forwarder(const sigset_t& mask) const {
    if (at_end_ || is_terminal_ || target_ < 0) {
        return;
    }
    if (::fork() == 0) {
        // Nothing else of ours may stay open behind our back: not the daemon's socket, not a spool's lock.
        ::dup2(source_.get(), 3);
        for (int number = 0; number < 3; ++number) {
            if (number != target_) {
                ::close(number);
            }
        }
        ::close_range(4, ~0U, 0);
        forward_for_ever(3, target_, mask);
    }
}

}  // namespace relay::cli
