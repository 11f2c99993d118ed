// SPDX-License-Identifier: Apache-2.0
#include "cli/captured_program.hpp"

#include "cli/descriptor.hpp"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <system_error>

namespace relay::cli {

namespace {

using layout::Errc;
using layout::Error;
using layout::Result;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

Error failure(int number, const std::string& what) {
    return Error{Errc::io, number, what + ": " + std::system_category().message(number)};
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

// Both ways through one socket: its input has an end of its own, and writing to one that is gone is an error
// and no signal.
struct Channel {
    Descriptor ours;
    Descriptor theirs;
};

Result<pid_t> spawn(const Question& question, Descriptor theirs) {
    posix_spawn_file_actions_t actions{};
    posix_spawnattr_t attributes{};
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
    sigset_t every{};
    sigset_t none{};
    ::sigfillset(&every);
    ::sigemptyset(&none);
    int number =
        ::posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDIN_FILENO)
        | ::posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDOUT_FILENO)
        | ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0)
        | ::posix_spawnattr_setsigdefault(&attributes, &every)
        | ::posix_spawnattr_setsigmask(&attributes, &none)
        // A group of its own: Ctrl-C is meant for the agent.
        | ::posix_spawnattr_setflags(
            &attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    pid_t pid = -1;
    if (number == 0) {
        std::vector<std::string> words = question.words;
        std::vector<std::string> environment = question.environment;
        number = ::posix_spawn(
            &pid,
            question.program.c_str(),
            &actions,
            &attributes,
            pointers_to(words).data(),
            pointers_to(environment).data());
    }
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
    return number == 0 ? Result<pid_t>(pid) : failure(number, "run " + question.program);
}

// False when it takes too long or says too much.
bool converse(const Question& question, int channel, std::string& output) {
    std::string_view input = question.input;
    std::array<char, 65536> buffer{};
    if (input.empty()) {
        ::shutdown(channel, SHUT_WR);
    }
    while (output.size() <= question.output_bytes_max) {
        const auto left =
            std::chrono::ceil<milliseconds>(question.deadline - steady_clock::now()).count();
        const short wish = input.empty() ? POLLIN : POLLIN | POLLOUT;
        pollfd wait{channel, wish, 0};
        if (left <= 0
            || ::poll(&wait, 1, static_cast<int>(std::min<std::int64_t>(left, 60'000))) == 0) {
            return false;
        }
        if ((wait.revents & POLLOUT) != 0 && !input.empty()) {
            const ssize_t sent = ::send(channel, input.data(), input.size(), MSG_NOSIGNAL);
            if (sent < 0 && errno != EAGAIN && errno != EINTR) {
                input = {};
            }
            input.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(sent, 0)));
            if (input.empty()) {
                ::shutdown(channel, SHUT_WR);
            }
        }
        if ((wait.revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
            const ssize_t got = ::recv(channel, buffer.data(), buffer.size(), 0);
            if (got == 0 || (got < 0 && errno == ECONNRESET)) {
                return true;
            }
            output.append(buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
        }
    }
    return false;
}

}  // namespace

Result<std::string> ask_program(const Question& question) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
        return failure(errno, "make a channel");
    }
    Channel channel{Descriptor(ends[0]), Descriptor(ends[1])};
    const int flags = ::fcntl(channel.ours.get(), F_GETFL);
    ::fcntl(channel.ours.get(), F_SETFL, flags | O_NONBLOCK);
    const Result<pid_t> child = spawn(question, std::move(channel.theirs));
    if (!child.ok()) {
        return child.error();
    }
    std::string output;
    const bool in_time = converse(question, channel.ours.get(), output);
    if (!in_time) {
        ::kill(child.value(), SIGKILL);
    }
    int status = 0;
    while (::waitpid(child.value(), &status, 0) < 0 && errno == EINTR) {
    }
    if (!in_time) {
        return Error{Errc::busy, 0, question.words.front() + " took too long or wrote too much"};
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        return Error{Errc::io, 0, question.words.front() + " failed"};
    }
    return output;
}

}  // namespace relay::cli
