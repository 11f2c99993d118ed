// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace relay::tests {

// A copy of this process that does one thing, for tests of death: a client must really die. It ends when
// `body` returns, with its result, or with this object at the latest. Fork only while no other thread
// runs.
class ForkedChild {
public:
    explicit ForkedChild(const std::function<int()>& body) {
        pid_ = ::fork();
        if (pid_ == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            ::_exit(body());
        }
    }
    ForkedChild(const ForkedChild&) = delete;
    ForkedChild& operator=(const ForkedChild&) = delete;
    ~ForkedChild() { kill(); }

    [[nodiscard]] pid_t pid() const { return pid_; }

    void kill() {
        if (pid_ > 0) {
            ::kill(pid_, SIGKILL);
            static_cast<void>(wait());
        }
    }

    // What `body` returned; -1 when a signal ended it.
    [[nodiscard]] int wait() {
        int status = 0;
        const bool ended = pid_ > 0 && ::waitpid(pid_, &status, 0) == pid_;
        pid_ = 0;
        return ended && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }

private:
    pid_t pid_ = 0;
};

// One word from one process to another: "I am there". Both ends close with the object.
class Signpost {
public:
    Signpost() { static_cast<void>(::pipe(ends_) == 0); }
    Signpost(const Signpost&) = delete;
    Signpost& operator=(const Signpost&) = delete;
    ~Signpost() {
        ::close(ends_[0]);
        close_sender();
    }

    void raise() const { static_cast<void>(::write(ends_[1], "!", 1) == 1); }
    // True when it was raised; false when every sender is gone.
    [[nodiscard]] bool await() const {
        char word = 0;
        return ::read(ends_[0], &word, 1) == 1;
    }
    // So that await() in this process ends when the others are gone.
    void close_sender() {
        if (ends_[1] >= 0) {
            ::close(ends_[1]);
            ends_[1] = -1;
        }
    }

private:
    int ends_[2] = {-1, -1};
};

}  // namespace relay::tests
