// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace relay::recorder {

// The one owner of a file descriptor. Move-only; moving into itself changes nothing.
//
// The destructor closes and tells nobody. Whoever wrote through the descriptor without a sync must
// call close() and look at the answer, because a failed close after a write is lost data.
class UniqueFd {
public:
    UniqueFd() = default;
    explicit UniqueFd(int fd) : fd_(fd) {}
    UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
    UniqueFd& operator=(UniqueFd&& other) noexcept {
        // release() comes first, so that moving into itself finds nothing to close.
        const int fd = other.release();
        static_cast<void>(close());
        fd_ = fd;
        return *this;
    }
    UniqueFd(const UniqueFd&) = delete;
    UniqueFd& operator=(const UniqueFd&) = delete;
    ~UniqueFd() { static_cast<void>(close()); }

    [[nodiscard]] int get() const { return fd_; }
    [[nodiscard]] bool valid() const { return fd_ >= 0; }
    [[nodiscard]] int release() { return std::exchange(fd_, -1); }

    // 0 or the errno; 0 when nothing was open. Never retried: after EINTR Linux has freed the
    // number already, and a second close could hit a descriptor that another thread has just
    // opened.
    [[nodiscard]] int close() {
        if (fd_ < 0) {
            return 0;
        }
        return ::close(std::exchange(fd_, -1)) == 0 ? 0 : errno;
    }

private:
    int fd_ = -1;
};

}  // namespace relay::recorder
