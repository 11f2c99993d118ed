// SPDX-License-Identifier: Apache-2.0

// The rest of AgentProcess: what is done around an agent from its start to its end.

#include "cli/agent_process.hpp"
#include "cli/pump.hpp"
#include "cli/user_terminal.hpp"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

namespace relay::cli {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A Ctrl-C that was typed longer ago was meant for something else.
constexpr milliseconds interrupt_memory{3'000};
constexpr int background_pause_ms = 100;
constexpr int stop_time_ms = 100;
// For what an agent that was told to end has left, when its reader does not read.
constexpr milliseconds last_bytes_time{1'000};

void raise(const Descriptor& event) {
    const std::uint64_t one = 1;
    // A counter that is full is raised already.
    static_cast<void>(::write(event.get(), &one, sizeof one) == sizeof one);
}

}  // namespace

// What the threads around one agent share.
struct AgentProcess::Attendance {
    Attendance(AgentProcess& attended, const SignalMail& letters)
        : agent(attended), mail(letters) {}

    AgentProcess& agent;
    const SignalMail& mail;
    std::deque<Pump> pumps;
    Descriptor gone{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    Descriptor pump_ended{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    std::mutex terminal_mutex;
    UserTerminal user_terminal{STDIN_FILENO};  // under terminal_mutex
    bool stopped = false;                      // likewise
    std::atomic<bool> told_to_end{false};
    std::atomic<std::int64_t> interrupted_at_ms{0};

    void note_interrupt();
    [[nodiscard]] bool was_interrupted(int wait_status) const;
    void hand_on(const SignalMail::Letter& letter);
    void adopt_window() const;
    void hand_keys_on();
    void watch_keys(std::string_view keys);
    [[nodiscard]] bool agent_has_stopped() const;
    void stop_too();
    void go_on();
    [[nodiscard]] bool is_in_front();
    [[nodiscard]] int await_end();
    [[nodiscard]] bool await_pumps(std::size_t count, bool was_told) const;
};

void AgentProcess::Attendance::note_interrupt() {
    interrupted_at_ms =
        std::chrono::duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
}

bool AgentProcess::Attendance::was_interrupted(int wait_status) const {
    const bool by_signal = WIFSIGNALED(wait_status)
                           && (WTERMSIG(wait_status) == SIGINT || WTERMSIG(wait_status) == SIGTERM
                               || WTERMSIG(wait_status) == SIGHUP);
    const std::int64_t now =
        std::chrono::duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
    const std::int64_t at = interrupted_at_ms;
    return told_to_end || (at != 0 && (by_signal || now - at < interrupt_memory.count()));
}

void AgentProcess::Attendance::adopt_window() const {
    winsize window{};
    const int user = ::isatty(STDOUT_FILENO) == 1 ? STDOUT_FILENO : STDERR_FILENO;
    const int master = agent.terminal_ ? agent.output_.get() : agent.error_.get();
    if (::ioctl(user, TIOCGWINSZ, &window) == 0) {
        // The agent hears of it through its own terminal. Without one it heard of it when we did.
        static_cast<void>(::ioctl(master, TIOCSWINSZ, &window));
    }
}

void AgentProcess::Attendance::hand_on(const SignalMail::Letter& letter) {
    switch (letter.number) {
    case SIGWINCH:
        adopt_window();
        return;
    case SIGCONT:
        go_on();
        return;
    case SIGCHLD:
        if (agent_has_stopped()) {
            stop_too();
        }
        return;
    case SIGPIPE:
        return;
    case SIGINT:
        note_interrupt();
        break;
    case SIGTERM:
    case SIGHUP:
        told_to_end = true;
        break;
    default:
        break;
    }
    if (!letter.from_terminal) {
        ::kill(agent.pid_, letter.number);
    } else if (agent.terminal_) {
        // It was meant for everybody in front of the user's terminal, and the agent sits at another one.
        const pid_t front = ::tcgetpgrp(agent.output_.get());
        ::kill(front > 0 ? -front : agent.pid_, letter.number);
    }
}

bool AgentProcess::Attendance::agent_has_stopped() const {
    siginfo_t child{};
    return ::waitid(P_PID, static_cast<id_t>(agent.pid_), &child, WSTOPPED | WNOHANG) == 0
           && child.si_pid == agent.pid_;
}

// Whoever waits for us should see what the agent's own parent would: a shell takes its terminal back. What follows
// happens when a SIGCONT comes.
void AgentProcess::Attendance::stop_too() {
    if (!agent.terminal_) {
        ::kill(::getpid(), SIGSTOP);
        return;
    }
    {
        const std::scoped_lock lock(terminal_mutex);
        stopped = true;
        user_terminal.give_back();
    }
    ::kill(0, SIGTSTP);
    // The kernel stops nobody whom no shell could continue. Then there is no letter either, and the agent goes on.
    pollfd letter{mail.descriptor(), POLLIN, 0};
    if (::poll(&letter, 1, stop_time_ms) == 0) {
        go_on();
    }
}

void AgentProcess::Attendance::go_on() {
    {
        const std::scoped_lock lock(terminal_mutex);
        stopped = false;
    }
    if (agent.hands_keys_on_) {
        static_cast<void>(is_in_front());
        adopt_window();
    }
    ::kill(agent.terminal_ ? -agent.pid_ : agent.pid_, SIGCONT);
}

void AgentProcess::Attendance::watch_keys(std::string_view keys) {
    termios settings{};
    if (::tcgetattr(agent.output_.get(), &settings) != 0 || (settings.c_lflag & ISIG) == 0) {
        return;  // to this program they are keys like any other
    }
    if (::tcgetpgrp(agent.output_.get()) != agent.pid_) {
        return;  // they are for a job of the agent's own
    }
    if (keys.find(static_cast<char>(settings.c_cc[VINTR])) != std::string_view::npos) {
        note_interrupt();
    }
    if (keys.find(static_cast<char>(settings.c_cc[VSUSP])) != std::string_view::npos) {
        // The kernel would do it, if the agent were not alone in its session.
        ::kill(-agent.pid_, SIGSTOP);
    }
}

// True when the keys that are typed are for us; then the terminal is lent.
bool AgentProcess::Attendance::is_in_front() {
    if (::tcgetpgrp(STDIN_FILENO) != ::getpgrp()) {
        return false;
    }
    const std::scoped_lock lock(terminal_mutex);
    if (!stopped) {
        user_terminal.lend();
    }
    return !stopped;
}

void AgentProcess::Attendance::hand_keys_on() {
    std::array<char, 4096> keys{};
    const int master = agent.output_.get();
    while (true) {
        // Nothing tells a program in the background that it was brought to the front.
        const bool in_front = is_in_front();
        std::array<pollfd, 2> wait{
            pollfd{in_front ? STDIN_FILENO : -1, POLLIN, 0}, pollfd{gone.get(), POLLIN, 0}};
        ::poll(wait.data(), wait.size(), in_front ? -1 : background_pause_ms);
        if (wait[1].revents != 0) {
            return;
        }
        if (wait[0].revents == 0 || !is_in_front()) {
            continue;
        }
        const ssize_t got = ::read(STDIN_FILENO, keys.data(), keys.size());
        if (got <= 0 && !(got < 0 && (errno == EINTR || errno == EAGAIN))) {
            return;  // the terminal is gone, and a SIGHUP tells the rest
        }
        std::string_view rest(keys.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
        watch_keys(rest);
        while (!rest.empty()) {
            const ssize_t written = ::write(master, rest.data(), rest.size());
            if (written >= 0) {
                rest.remove_prefix(static_cast<std::size_t>(written));
                continue;
            }
            if (errno != EAGAIN && errno != EINTR) {
                return;
            }
            std::array<pollfd, 2> room{pollfd{master, POLLOUT, 0}, pollfd{gone.get(), POLLIN, 0}};
            ::poll(room.data(), room.size(), -1);
            if (room[1].revents != 0) {
                return;
            }
        }
    }
}

int AgentProcess::Attendance::await_end() {
    int status = 0;
    while (true) {
        std::array<pollfd, 2> wait{
            pollfd{mail.descriptor(), POLLIN, 0}, pollfd{agent.pidfd_.get(), POLLIN, 0}};
        ::poll(wait.data(), wait.size(), -1);
        while (const std::optional<SignalMail::Letter> letter = mail.read()) {
            hand_on(*letter);
        }
        if (wait[1].revents != 0 && ::waitpid(agent.pid_, &status, 0) == agent.pid_) {
            return status;
        }
    }
}

// The agent is gone, and what it wrote is still on its way to the user: to a pager, perhaps, that is not being
// read. False when a signal says that nobody wants to wait for that, or said so before and some time has passed.
bool AgentProcess::Attendance::await_pumps(std::size_t count, bool was_told) const {
    std::uint64_t ended = 0;
    const steady_clock::time_point deadline = steady_clock::now() + last_bytes_time;
    while (true) {
        std::array<pollfd, 2> wait{
            pollfd{mail.descriptor(), POLLIN, 0}, pollfd{pump_ended.get(), POLLIN, 0}};
        const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now()).count();
        const int limit = was_told ? static_cast<int>(std::max<std::int64_t>(left, 0)) : -1;
        if (::poll(wait.data(), wait.size(), limit) == 0) {
            return false;
        }
        std::uint64_t more = 0;
        if (::read(pump_ended.get(), &more, sizeof more) == sizeof more) {
            ended += more;
        }
        if (ended >= count) {
            return true;
        }
        while (const std::optional<SignalMail::Letter> letter = mail.read()) {
            if (letter->number == SIGINT || letter->number == SIGTERM || letter->number == SIGHUP) {
                return false;
            }
        }
    }
}
AgentEnd AgentProcess::attend(
    const SignalMail& mail, const AgentListener& listener, OutputAfter output_after) {
    // On the heap, because threads that are stuck in a write of theirs outlive this call.
    auto shared = std::make_unique<Attendance>(*this, mail);
    Attendance& attendance = *shared;
    const bool error_is_terminal = error_.valid() && ::isatty(error_.get()) == 1;
    const int gone = attendance.gone.get();
    const bool is_last = !terminal_ && output_after == OutputAfter::none;
    Pump& output = attendance.pumps.emplace_back(output_, STDOUT_FILENO, gone, listener.output);
    output.set_terminal(terminal_);
    output.set_closing(is_last);
    // Errors stay open: we may have something to say ourselves.
    Pump& error = attendance.pumps.emplace_back(error_, STDERR_FILENO, gone, listener.error);
    error.set_terminal(error_is_terminal);
    if (hands_keys_on_) {
        static_cast<void>(attendance.is_in_front());
    }
    std::vector<std::thread> threads;
    for (Pump& pump : attendance.pumps) {
        threads.emplace_back([&attendance, &pump] {
            pump.run();
            raise(attendance.pump_ended);
        });
    }
    std::optional<std::thread> keys_thread;
    if (hands_keys_on_) {
        keys_thread.emplace([&attendance] { attendance.hand_keys_on(); });
    }
    AgentEnd end;
    end.wait_status = attendance.await_end();
    end.interrupted = attendance.was_interrupted(end.wait_status);
    raise(attendance.gone);
    if (keys_thread) {
        keys_thread->join();
    }
    end.output_is_stuck = !attendance.await_pumps(threads.size(), end.interrupted);
    for (std::thread& thread : threads) {
        end.output_is_stuck ? thread.detach() : thread.join();
    }
    attendance.user_terminal.give_back();
    if (end.output_is_stuck) {
        static_cast<void>(shared.release());  // theirs until the process ends
        return end;
    }
    for (const Pump& pump : attendance.pumps) {
        end.output_refusal = pump.refusal() != 0 ? pump.refusal() : end.output_refusal;
        pump.leave_forwarder(mail.former_mask());
    }
    return end;
}
}  // namespace relay::cli
