// SPDX-License-Identifier: Apache-2.0
#include "tests/support/pseudo_terminal.hpp"

#include "tests/support/eventually.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace relay::tests {

namespace {

std::vector<char*> pointers(std::vector<std::string>& words) {
    std::vector<char*> result;
    for (std::string& word : words) {
        result.push_back(word.data());
    }
    result.push_back(nullptr);
    return result;
}

int status_of(int wait_status) {
    return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

}  // namespace

PseudoTerminal::PseudoTerminal(
    std::vector<std::string> arguments,
    const std::map<std::string, std::string>& environment,
    unsigned short columns,
    unsigned short rows) {
    std::vector<std::string> assigned{"TERM=xterm"};
    for (const auto& [name, value] : environment) {
        assigned.push_back(name + "=" + value);
    }
    const char* const path = ::getenv("PATH");
    assigned.push_back("PATH=" + std::string(path != nullptr ? path : "/usr/bin:/bin"));
    const std::vector<char*> argument_pointers = pointers(arguments);
    const std::vector<char*> environment_pointers = pointers(assigned);

    terminal_ = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    std::array<char, 128> name{};
    if (terminal_ < 0 || ::grantpt(terminal_) != 0 || ::unlockpt(terminal_) != 0
        || ::ptsname_r(terminal_, name.data(), name.size()) != 0) {
        return;
    }
    resize(columns, rows);
    const int user_side = ::open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC);
    child_ = ::fork();
    if (child_ == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::setsid();
        ::ioctl(user_side, TIOCSCTTY, 0);
        for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
            ::dup2(user_side, standard);
        }
        ::execve(argument_pointers[0], argument_pointers.data(), environment_pointers.data());
        ::_exit(127);
    }
    ::close(user_side);
}

PseudoTerminal::~PseudoTerminal() {
    if (child_ > 0) {
        ::kill(child_, SIGKILL);
        ::waitpid(child_, nullptr, 0);
    }
    if (terminal_ >= 0) {
        ::close(terminal_);
    }
}

bool PseudoTerminal::read_some(std::chrono::milliseconds limit) {
    pollfd source{terminal_, POLLIN, 0};
    if (::poll(&source, 1, static_cast<int>(limit.count())) <= 0) {
        return false;
    }
    std::array<char, 65536> buffer{};
    const ssize_t got = ::read(terminal_, buffer.data(), buffer.size());
    if (got <= 0) {
        return got < 0 && errno == EINTR;  // EIO: the last program has closed it
    }
    shown_.append(buffer.data(), static_cast<std::size_t>(got));
    return true;
}

bool PseudoTerminal::await(std::string_view text, std::chrono::milliseconds limit) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    std::size_t found = shown_.find(text, awaited_);
    while (found == std::string::npos) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
            deadline - std::chrono::steady_clock::now());
        if (left.count() <= 0 || !read_some(left)) {
            return false;
        }
        found = shown_.find(text, awaited_);
    }
    awaited_ = found + text.size();
    return true;
}

void PseudoTerminal::type(std::string_view keys) const {
    // The terminal's buffer takes more than any test types.
    if (::write(terminal_, keys.data(), keys.size()) != static_cast<ssize_t>(keys.size())) {
        ::abort();
    }
}

void PseudoTerminal::resize(unsigned short columns, unsigned short rows) const {
    const winsize size{rows, columns, 0, 0};
    ::ioctl(terminal_, TIOCSWINSZ, &size);
}

int PseudoTerminal::wait(std::chrono::milliseconds limit) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (std::chrono::steady_clock::now() < deadline && read_some(limit)) {
    }
    int status = 0;
    if (child_ <= 0
        || !eventually([&] { return ::waitpid(child_, &status, WNOHANG) == child_; }, limit)) {
        return -1;
    }
    child_ = -1;
    return status_of(status);
}

}  // namespace relay::tests
