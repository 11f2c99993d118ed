// SPDX-License-Identifier: Apache-2.0
#include "cli/daemon_process.hpp"

#include "cli/durable_change.hpp"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <system_error>
#include <utility>

namespace relay::cli {

namespace {

using layout::Errc;
using layout::Error;
using layout::Result;
using layout::Status;

constexpr off_t log_bytes_max = 8 << 20;  // beyond it the log starts anew at the next start
constexpr std::size_t last_words_bytes_max = 16 << 10;
constexpr std::size_t last_words_lines_max = 10;

Error failure(int number, const std::string& what) {
    return Error{Errc::io, number, what + ": " + std::system_category().message(number)};
}

// glibc 2.36 declares the two without extern "C", so that C++ cannot link them.
int open_pidfd(pid_t pid) {
    return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
}

long send_to_pidfd(int fd, int signal_number) {
    return ::syscall(SYS_pidfd_send_signal, fd, signal_number, nullptr, 0);
}

bool is_program(const std::string& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode)
           && ::access(path.c_str(), X_OK) == 0;
}

// The size of the log before the new daemon writes to it.
Result<off_t> prepare_log(const std::string& log_file) {
    const Status made = make_directories(log_file.substr(0, log_file.rfind('/')));
    if (!made.ok()) {
        return made.error();
    }
    struct stat status {};
    if (::stat(log_file.c_str(), &status) == 0 && status.st_size > log_bytes_max) {
        // When this fails the log just goes on growing.
        static_cast<void>(::rename(log_file.c_str(), (log_file + ".1").c_str()));
    }
    const int fd = ::open(log_file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ::fstat(fd, &status) != 0) {
        return failure(errno, "open " + log_file);
    }
    ::close(fd);
    return status.st_size;
}

// The environment without what a service manager or a recorded session meant for this process alone.
std::vector<char*> environment_for_daemon() {
    constexpr std::array<std::string_view, 8> left_out{
        "NOTIFY_SOCKET=",
        "WATCHDOG_USEC=",
        "WATCHDOG_PID=",
        "LISTEN_PID=",
        "LISTEN_FDS=",
        "LISTEN_FDNAMES=",
        "JOURNAL_STREAM=",
        "AGENT_RELAY_SESSION=",
    };
    std::vector<char*> kept;
    for (char** variable = ::environ; variable != nullptr && *variable != nullptr; ++variable) {
        const std::string_view text = *variable;
        const bool drop = std::any_of(
            left_out.begin(), left_out.end(), [text](auto name) { return text.starts_with(name); });
        if (!drop) {
            kept.push_back(*variable);
        }
    }
    kept.push_back(nullptr);
    return kept;
}

// What posix_spawn() needs besides the program; frees itself.
class SpawnPlan {
public:
    explicit SpawnPlan(const std::string& log_file) {
        ::posix_spawn_file_actions_init(&actions_);
        ::posix_spawnattr_init(&attributes_);
        failed_ =
            ::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0)
            | ::posix_spawn_file_actions_addopen(
                &actions_, STDERR_FILENO, log_file.c_str(), O_WRONLY | O_APPEND, 0600)
            | ::posix_spawn_file_actions_adddup2(&actions_, STDERR_FILENO, STDOUT_FILENO)
            | ::posix_spawn_file_actions_addchdir_np(&actions_, "/");
        sigset_t every{};
        sigset_t none{};
        ::sigfillset(&every);
        ::sigemptyset(&none);
        failed_ |=
            ::posix_spawnattr_setsigdefault(&attributes_, &every)
            | ::posix_spawnattr_setsigmask(&attributes_, &none)
            | ::posix_spawnattr_setflags(
                &attributes_, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    }
    SpawnPlan(const SpawnPlan&) = delete;
    SpawnPlan& operator=(const SpawnPlan&) = delete;
    ~SpawnPlan() {
        ::posix_spawn_file_actions_destroy(&actions_);
        ::posix_spawnattr_destroy(&attributes_);
    }

    // The child's pid, or an errno in `number`.
    pid_t spawn(const std::string& program, std::vector<char*>& arguments, int& number) const {
        std::vector<char*> environment = environment_for_daemon();
        pid_t pid = -1;
        number = failed_ != 0 ? ENOMEM
                              : ::posix_spawn(
                                  &pid,
                                  program.c_str(),
                                  &actions_,
                                  &attributes_,
                                  arguments.data(),
                                  environment.data());
        return pid;
    }

private:
    posix_spawn_file_actions_t actions_{};
    posix_spawnattr_t attributes_{};
    int failed_ = 0;
};

}  // namespace

Result<std::string> find_daemon(const layout::Environment& environment) {
    constexpr std::string_view name = "/agent-relayd";
    std::array<char, 4096> self{};
    const ssize_t size = ::readlink("/proc/self/exe", self.data(), self.size());
    if (size > 0) {
        std::string beside(self.data(), static_cast<std::size_t>(size));
        beside.resize(beside.rfind('/'));
        beside += name;
        if (is_program(beside)) {
            return beside;
        }
    }
    const std::string path = environment("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
    std::size_t begin = 0;
    while (begin <= path.size()) {
        const std::size_t end = std::min(path.find(':', begin), path.size());
        const std::string candidate = path.substr(begin, end - begin) + std::string(name);
        // A relative entry would start whatever a repository brings along.
        if (candidate.size() > name.size() && candidate.front() == '/' && is_program(candidate)) {
            return candidate;
        }
        begin = end + 1;
    }
    return Error{
        Errc::not_found, 0, "agent-relayd is neither beside agent-relay nor in PATH; install it"};
}

Result<StartedDaemon> StartedDaemon::start(
    const std::string& program,
    const std::vector<std::string>& arguments,
    const std::string& log_file) {
    const Result<off_t> log_begin = prepare_log(log_file);
    if (!log_begin.ok()) {
        return log_begin.error();
    }
    std::vector<std::string> words{program};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> pointers;
    pointers.reserve(words.size() + 1);
    for (std::string& word : words) {
        pointers.push_back(word.data());
    }
    pointers.push_back(nullptr);
    // A daemon that kept a pipe of our caller open would make that pipe's reader wait for ever. Where
    // the kernel does not know the call, it does.
    static_cast<void>(::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC));
    int number = 0;
    const pid_t pid = SpawnPlan(log_file).spawn(program, pointers, number);
    if (number != 0) {
        return failure(number, "start " + program);
    }
    return StartedDaemon(pid, log_file, log_begin.value());
}

std::optional<int> StartedDaemon::exit_status() {
    int status = 0;
    if (!exit_status_.has_value() && ::waitpid(pid_, &status, WNOHANG) == pid_) {
        exit_status_ = status;
    }
    return exit_status_;
}

std::vector<std::string> StartedDaemon::last_words() const {
    std::vector<std::string> lines;
    const int fd = ::open(log_file_.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status {};
    if (fd < 0 || ::fstat(fd, &status) != 0) {
        return lines;
    }
    const off_t begin = std::max<off_t>(log_begin_, status.st_size - off_t{last_words_bytes_max});
    std::string text(last_words_bytes_max, '\0');
    const ssize_t got = ::pread(fd, text.data(), text.size(), begin);
    ::close(fd);
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    std::size_t at = 0;
    while (at < text.size()) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        lines.push_back(text.substr(at, end - at));
        at = end + 1;
    }
    if (lines.size() > last_words_lines_max) {
        lines.erase(lines.begin(), lines.end() - std::ptrdiff_t{last_words_lines_max});
    }
    return lines;
}

Result<PinnedProcess> PinnedProcess::pin(pid_t pid) {
    const int fd = open_pidfd(pid);
    if (fd < 0) {
        Error error = failure(errno, "open process " + std::to_string(pid));
        error.code = error.os_errno == ESRCH ? Errc::gone : Errc::io;
        return error;
    }
    return PinnedProcess(fd);
}

PinnedProcess::PinnedProcess(PinnedProcess&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {
}

PinnedProcess::~PinnedProcess() {
    if (fd_ >= 0) {
        ::close(fd_);
    }
}

Result<bool> PinnedProcess::terminate(std::chrono::milliseconds timeout) const {
    if (send_to_pidfd(fd_, SIGTERM) != 0) {
        return errno == ESRCH ? Result<bool>(true) : failure(errno, "send SIGTERM");
    }
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    while (true) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(
            deadline - std::chrono::steady_clock::now());
        pollfd poll{fd_, POLLIN, 0};
        const int ready =
            ::poll(&poll, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
        if (ready >= 0) {
            return ready > 0;
        }
        if (errno != EINTR) {
            return failure(errno, "wait for the process");
        }
    }
}

}  // namespace relay::cli
