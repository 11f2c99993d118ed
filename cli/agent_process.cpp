// SPDX-License-Identifier: Apache-2.0
#include "cli/agent_process.hpp"

#include "cli/pump.hpp"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <system_error>
#include <utility>

namespace relay::cli {

namespace {

using layout::Done;
using layout::Errc;
using layout::Error;
using layout::Result;
using layout::Status;

Error failure(int number, const std::string& what) {
    return Error{Errc::io, number, what + ": " + std::system_category().message(number)};
}

Error cannot_run(const std::string& program, int number) {
    Error reason = failure(number, "run \"" + program + "\"");
    reason.code = number == ENOENT ? Errc::not_found : Errc::io;
    return reason;
}

// A terminal of our own: whoever holds `master` sees what is written to the one at `path`.
struct Terminal {
    Descriptor master;
    std::string path;
};

Result<Terminal> make_terminal(int like, bool processes_output) {
    Terminal terminal{Descriptor(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)), ""};
    std::array<char, 128> path{};
    if (!terminal.master.valid() || ::grantpt(terminal.master.get()) != 0
        || ::unlockpt(terminal.master.get()) != 0
        || ::ptsname_r(terminal.master.get(), path.data(), path.size()) != 0) {
        return failure(errno, "open a terminal");
    }
    terminal.path = path.data();
    termios settings{};
    winsize window{};
    // The settings of the master are those of the terminal. One that has none is left as it is made.
    if (::tcgetattr(like, &settings) == 0) {
        if (!processes_output) {
            settings.c_oflag &= ~static_cast<tcflag_t>(OPOST);
        }
        static_cast<void>(::tcsetattr(terminal.master.get(), TCSANOW, &settings));
    }
    if (::ioctl(like, TIOCGWINSZ, &window) == 0) {
        static_cast<void>(::ioctl(terminal.master.get(), TIOCSWINSZ, &window));
    }
    return terminal;
}

// One that the caller has closed is ours alone since main() began.
bool is_open(int number) {
    const int flags = ::fcntl(number, F_GETFD);
    return flags >= 0 && (flags & FD_CLOEXEC) == 0;
}

bool lead_to_the_same_place(int one, int other) {
    struct stat first {};
    struct stat second {};
    return is_open(one) && is_open(other) && ::fstat(one, &first) == 0
           && ::fstat(other, &second) == 0 && first.st_dev == second.st_dev
           && first.st_ino == second.st_ino;
}

Result<Descriptor> text_file(const std::string& text) {
    Descriptor file(static_cast<int>(::syscall(SYS_memfd_create, "agent-input", MFD_CLOEXEC)));
    std::string_view rest = text;
    while (file.valid() && !rest.empty()) {
        const ssize_t written = ::write(file.get(), rest.data(), rest.size());
        if (written < 0 && errno != EINTR) {
            return failure(errno, "hand the prompt to the agent");
        }
        rest.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
    }
    if (!file.valid() || ::lseek(file.get(), 0, SEEK_SET) != 0) {
        return failure(errno, "hand the prompt to the agent");
    }
    return file;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
    std::vector<char*> pointers;
    pointers.reserve(words.size() + 1);
    for (std::string& word : words) {
        pointers.push_back(word.data());
    }
    pointers.push_back(nullptr);
    return pointers;
}

// What posix_spawn() is to do besides starting the program; frees itself.
class SpawnPlan {
public:
    SpawnPlan() {
        ::posix_spawn_file_actions_init(&actions_);
        ::posix_spawnattr_init(&attributes_);
    }
    SpawnPlan(const SpawnPlan&) = delete;
    SpawnPlan& operator=(const SpawnPlan&) = delete;
    ~SpawnPlan() {
        ::posix_spawn_file_actions_destroy(&actions_);
        ::posix_spawnattr_destroy(&attributes_);
    }

    void give(int number, int from) {
        failed_ |= ::posix_spawn_file_actions_adddup2(&actions_, from, number);
    }
    void open(int number, const std::string& path, int flags) {
        failed_ |= ::posix_spawn_file_actions_addopen(&actions_, number, path.c_str(), flags, 0);
    }

    int spawn(const AgentLaunch& launch, const sigset_t& mask, bool new_session, pid_t& pid) {
        const short session = new_session ? POSIX_SPAWN_SETSID : 0;
        failed_ |= ::posix_spawnattr_setsigmask(&attributes_, &mask);
        failed_ |= ::posix_spawnattr_setflags(
            &attributes_, static_cast<short>(POSIX_SPAWN_SETSIGMASK | session));
        if (failed_ != 0) {
            return ENOMEM;
        }
        std::vector<std::string> words = launch.words;
        const int number = try_to(launch.program, words, launch.environment, pid);
        if (number != ENOEXEC) {
            return number;
        }
        // A script without its first line: a shell runs it, as every shell does.
        words.front() = launch.program;
        words.insert(words.begin(), "sh");
        return try_to("/bin/sh", words, launch.environment, pid);
    }

private:
    int try_to(
        const std::string& program,
        std::vector<std::string>& words,
        std::vector<std::string> environment,
        pid_t& pid) {
        return ::posix_spawn(
            &pid,
            program.c_str(),
            &actions_,
            &attributes_,
            pointers_to(words).data(),
            pointers_to(environment).data());
    }

    posix_spawn_file_actions_t actions_{};
    posix_spawnattr_t attributes_{};
    int failed_ = 0;
};

// What the agent reads, unless that is what we would. `held` keeps it open until the agent is started.
Status give_input(const AgentLaunch& launch, SpawnPlan& plan, Descriptor& held) {
    if (launch.input == AgentInput::nothing) {
        plan.open(STDIN_FILENO, "/dev/null", O_RDONLY);
    } else if (launch.input == AgentInput::text) {
        Result<Descriptor> text = text_file(launch.input_text);
        if (!text.ok()) {
            return text.error();
        }
        held = std::move(text.value());
        plan.give(STDIN_FILENO, held.get());
    }
    return Done{};
}

bool make_nonblocking(const Descriptor& end) {
    const int flags = end.valid() ? ::fcntl(end.get(), F_GETFL) : 0;
    return !end.valid() || (flags >= 0 && ::fcntl(end.get(), F_SETFL, flags | O_NONBLOCK) == 0);
}

}  // namespace

int AgentEnd::exit_status() const {
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

bool AgentEnd::exited() const {
    return WIFEXITED(wait_status);
}

Result<AgentProcess> AgentProcess::start(const AgentLaunch& launch, const SignalMail& mail) {
    AgentProcess agent;
    SpawnPlan plan;
    Descriptor given_input;
    Pipe output;
    Pipe error;
    const bool output_is_terminal = ::isatty(STDOUT_FILENO) == 1;
    const bool error_is_terminal = ::isatty(STDERR_FILENO) == 1;
    const bool input_is_terminal =
        launch.input == AgentInput::inherited && ::isatty(STDIN_FILENO) == 1;
    if (const Status given = give_input(launch, plan, given_input); !given.ok()) {
        return given.error();
    }
    if (output_is_terminal) {
        Result<Terminal> terminal = make_terminal(STDOUT_FILENO, input_is_terminal);
        if (!terminal.ok()) {
            return terminal.error();
        }
        agent.terminal_ = true;
        agent.hands_keys_on_ = input_is_terminal;
        agent.output_ = std::move(terminal.value().master);
        // The first terminal that a new session opens is the one its signals come from.
        plan.open(STDOUT_FILENO, terminal.value().path, O_RDWR);
        if (input_is_terminal) {
            plan.open(STDIN_FILENO, terminal.value().path, O_RDWR);
        }
        if (error_is_terminal) {
            plan.give(STDERR_FILENO, STDOUT_FILENO);
        }
    } else if (is_open(STDOUT_FILENO)) {
        Result<Pipe> pipe = make_pipe();
        if (!pipe.ok()) {
            return pipe.error();
        }
        output = std::move(pipe.value());
        plan.give(STDOUT_FILENO, output.write.get());
        agent.output_ = std::move(output.read);
    }
    const bool same = !output_is_terminal && lead_to_the_same_place(STDOUT_FILENO, STDERR_FILENO);
    if (same) {
        plan.give(STDERR_FILENO, output.write.get());
    } else if (error_is_terminal && !output_is_terminal) {
        Result<Terminal> terminal = make_terminal(STDERR_FILENO, /*processes_output=*/false);
        if (!terminal.ok()) {
            return terminal.error();
        }
        plan.open(STDERR_FILENO, terminal.value().path, O_RDWR | O_NOCTTY);
        agent.error_ = std::move(terminal.value().master);
        agent.error_slave_ =
            Descriptor(::open(terminal.value().path.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC));
    } else if (!error_is_terminal && is_open(STDERR_FILENO)) {
        Result<Pipe> pipe = make_pipe();
        if (!pipe.ok()) {
            return pipe.error();
        }
        error = std::move(pipe.value());
        plan.give(STDERR_FILENO, error.write.get());
        agent.error_ = std::move(error.read);
    }
    const int number = plan.spawn(launch, mail.former_mask(), output_is_terminal, agent.pid_);
    if (number != 0) {
        return cannot_run(launch.program, number);
    }
    agent.error_slave_.close();
    agent.pidfd_ = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, agent.pid_, 0)));
    if (!make_nonblocking(agent.output_) || !make_nonblocking(agent.error_)) {
        return failure(errno, "set up the agent's output");
    }
    return agent;
}

Result<std::string> find_program(const std::string& name, const std::string& path) {
    const auto is_program = [](const std::string& candidate) {
        struct stat status {};
        return ::stat(candidate.c_str(), &status) == 0 && S_ISREG(status.st_mode)
               && ::access(candidate.c_str(), X_OK) == 0;
    };
    const Error none{Errc::not_found, 0, "no program \"" + name + "\" in PATH"};
    if (name.find('/') != std::string::npos) {
        return name;
    }
    for (std::size_t begin = 0; begin <= path.size() && !name.empty();) {
        const std::size_t end = std::min(path.find(':', begin), path.size());
        const std::string directory = path.substr(begin, end - begin);
        const std::string candidate = (directory.empty() ? "." : directory) + "/" + name;
        if (is_program(candidate)) {
            return candidate;
        }
        begin = end + 1;
    }
    return none;
}

}  // namespace relay::cli
