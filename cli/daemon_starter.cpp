// SPDX-License-Identifier: Apache-2.0
#include "cli/daemon_starter.hpp"

#include "cli/daemon_process.hpp"
#include "cli/descriptor.hpp"
#include "cli/durable_change.hpp"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>

#include <optional>
#include <system_error>
#include <utility>

namespace relay::cli {

namespace {

using layout::Errc;
using layout::Error;
using layout::Result;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds connect_timeout{2'000};

void pause_briefly() {
    const timespec pause{0, 5'000'000};
    ::nanosleep(&pause, nullptr);
}

bool nobody_listens(const Result<Client>& client) {
    return !client.ok() && client.error().code == Errc::not_found;
}

// The state directory may not exist yet; StartedDaemon makes it for its log, we for the lock.
Descriptor open_lock(const std::string& state_directory) {
    // What cannot be made is told by the open below.
    static_cast<void>(make_directories(state_directory));
    const std::string path = state_directory + "/start.lock";
    return Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
}

Error dead_start(const StartedDaemon& daemon, int wait_status) {
    const std::string how = WIFSIGNALED(wait_status)
                                ? "was killed by signal " + std::to_string(WTERMSIG(wait_status))
                                : "exited with status " + std::to_string(WEXITSTATUS(wait_status));
    const auto words = daemon.last_words();
    return Error{
        Errc::closed,
        0,
        "agent-relayd " + how + (words.empty() ? " and said nothing" : ": " + words.back())};
}

// With the lock held: nobody else starts one meanwhile, except people and service managers, to whom ours
// gives way by itself.
Result<Client> start_and_connect(
    const DaemonPlace& place,
    steady_clock::time_point deadline,
    const std::function<bool()>& cancelled) {
    const Result<std::string> program = find_daemon(place.environment);
    if (!program.ok()) {
        return program.error();
    }
    Result<StartedDaemon> daemon = StartedDaemon::start(
        program.value(), place.arguments, place.state_directory + "/daemon.log");
    if (!daemon.ok()) {
        return daemon.error();
    }
    while (true) {
        const std::optional<int> ended = daemon.value().exit_status();
        Result<Client> client = Client::connect(place.socket, connect_timeout);
        if (!nobody_listens(client)) {
            return client;
        }
        if (ended.has_value()) {
            return dead_start(daemon.value(), *ended);
        }
        if (steady_clock::now() >= deadline || cancelled()) {
            return client;
        }
        pause_briefly();
    }
}

}  // namespace

Result<DaemonPlace> find_place(const CommandLine& line, const Surroundings& surroundings) {
    const Result<std::string> socket = find_socket(line, surroundings);
    if (!socket.ok()) {
        return socket.error();
    }
    const Result<layout::UserDirectories> user = layout::user_directories(surroundings.environment);
    if (!user.ok()) {
        return user.error();
    }
    DaemonPlace place{socket.value(), {}, user.value().state, surroundings.environment};
    if (!line.socket.empty()) {
        place.arguments = {"--socket", socket.value()};
    }
    return place;
}

Result<Client> reach_daemon(
    const DaemonPlace& place, milliseconds timeout, const std::function<bool()>& cancelled) {
    const steady_clock::time_point deadline = steady_clock::now() + timeout;
    Descriptor lock;
    while (true) {
        Result<Client> client = Client::connect(place.socket, connect_timeout);
        if (!nobody_listens(client) || steady_clock::now() >= deadline || cancelled()) {
            return client;
        }
        if (!lock.valid()) {
            lock = open_lock(place.state_directory);
        }
        if (!lock.valid()) {
            return Error{
                Errc::io,
                errno,
                "open " + place.state_directory
                    + "/start.lock: " + std::system_category().message(errno)};
        }
        if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
            pause_briefly();
            continue;
        }
        // Whoever held it before us may have started one since we looked.
        Result<Client> started = Client::connect(place.socket, connect_timeout);
        return nobody_listens(started) ? start_and_connect(place, deadline, cancelled)
                                       : std::move(started);
    }
}

}  // namespace relay::cli
