// SPDX-License-Identifier: Apache-2.0
#include "daemon/config.hpp"
#include "daemon/daemon.hpp"
#include "daemon/log.hpp"
#include "daemon/options.hpp"
#include "daemon/service_notifier.hpp"
#include "layout/store.hpp"

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <utility>

namespace {

namespace daemon = relay::daemon;
namespace layout = relay::layout;
using daemon::DaemonExit;

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds retry_delay_first{1'000};
constexpr milliseconds retry_delay_max{30'000};
constexpr milliseconds patience_beyond_rest{30'000};
// Under a service manager that holds the socket an exit costs nothing: the next client starts us.
constexpr milliseconds activated_idle_exit{600'000};

// Descriptors 0 to 2 must be something harmless, or a session file could become one of them.
void open_standard_descriptors() {
    for (int fd = ::open("/dev/null", O_RDWR); fd >= 0; fd = ::open("/dev/null", O_RDWR)) {
        if (fd > STDERR_FILENO) {
            ::close(fd);
            break;
        }
    }
}

// What is freed goes back to the kernel soon. Left to itself, the C library learns from the first large buffer that it frees
// to keep up to twice as much for good; a refused setting leaves it to that.
void bound_kept_memory() {
    constexpr int large_bytes = 256 * 1024;
    // Few threads allocate much: one arena each would only spread memory thin.
    static_cast<void>(::mallopt(M_ARENA_MAX, 2));
    static_cast<void>(::mallopt(M_MMAP_THRESHOLD, large_bytes));
    static_cast<void>(::mallopt(M_TRIM_THRESHOLD, 2 * large_bytes));
}

int say(DaemonExit exit, const std::string& sentence) {
    // Nobody is left to be told that telling failed.
    static_cast<void>(std::fprintf(stderr, "agent-relayd: %s\n", sentence.c_str()));
    return static_cast<int>(exit);
}

// Waits, or until somebody asks us to end. False then; SIGHUP ends the wait and no more. The service manager is told
// that we are alive, before our first start as well as after it.
bool rest(milliseconds span, const std::string& why, const daemon::ServiceNotifier& notifier) {
    sigset_t ends;
    sigemptyset(&ends);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
        sigaddset(&ends, signal);
    }
    sigprocmask(SIG_BLOCK, &ends, nullptr);
    notifier.status(why);
    const steady_clock::time_point until = steady_clock::now() + span;
    int received = -1;
    while (received < 0 && steady_clock::now() < until) {
        notifier.extend_timeout(span + patience_beyond_rest);
        notifier.watchdog();
        const auto beat = notifier.watchdog_interval().value_or(span);
        const auto left = std::min<std::chrono::nanoseconds>(until - steady_clock::now(), beat);
        const auto whole = std::chrono::duration_cast<std::chrono::seconds>(left);
        const timespec piece{whole.count(), (left - whole).count()};
        received = sigtimedwait(&ends, nullptr, &piece);
    }
    sigprocmask(SIG_UNBLOCK, &ends, nullptr);
    return received < 0 || received == SIGHUP;
}

// The configuration as the files, the environment and the flags have it now.
layout::Result<daemon::Config>
load(const daemon::Options& options, const layout::Environment& environment, bool is_activated) {
    layout::ConfigSources sources = layout::usual_sources(environment);
    sources.explicit_file = options.config_file;
    sources.flags = options.settings;
    auto config = daemon::load_config(sources);
    if (!config.ok()) {
        return config;
    }
    if (config.value().socket.empty()) {
        auto socket = layout::socket_path(environment);
        if (!socket.ok()) {
            return socket.error();
        }
        config.value().socket = socket.value();
    }
    const auto& origins = config.value().origins;
    const bool is_chosen = std::any_of(origins.begin(), origins.end(), [](const auto& origin) {
        return origin.first == "daemon.idle_exit";
    });
    if (is_activated && !is_chosen) {
        config.value().idle_exit = activated_idle_exit;
    }
    return config;
}

// What may be better after a while, because somebody else is to act: a disk that refuses, and under a service manager, which
// would only start us again and again, a daemon that somebody started by hand.
bool may_pass(DaemonExit exit, bool is_activated) {
    return exit == DaemonExit::storage_failed
           || (exit == DaemonExit::already_running && is_activated);
}

int run(const daemon::Options& options) {
    const layout::Environment environment = layout::process_environment();
    const daemon::Log::Style style = daemon::Log::style_of(STDERR_FILENO, environment);
    // Open until the process ends.
    const int journal = style == daemon::Log::Style::journal ? daemon::Log::open_journal() : -1;
    const daemon::Log log(STDERR_FILENO, style, journal);
    auto user = layout::user_directories(environment);
    if (!user.ok()) {
        return say(DaemonExit::bad_configuration, user.error().context);
    }
    auto listen_fds = daemon::take_listen_fds();
    if (!listen_fds.ok()) {
        return say(DaemonExit::bad_configuration, listen_fds.error().context);
    }
    if (listen_fds.value().size() > 1) {
        return say(
            DaemonExit::bad_configuration,
            "the service manager hands over " + std::to_string(listen_fds.value().size())
                + " sockets and there is one to listen at; leave one ListenStream= in the unit");
    }
    const bool is_activated = !listen_fds.value().empty();
    const auto reload = [&options, &environment, is_activated] {
        return load(options, environment, is_activated);
    };
    const daemon::ServiceNotifier notifier(environment);
    for (milliseconds delay = retry_delay_first;; delay = std::min(2 * delay, retry_delay_max)) {
        auto config = reload();
        if (!config.ok()) {
            return say(DaemonExit::bad_configuration, config.error().context);
        }
        daemon::DaemonSetup setup;
        setup.config = config.value();
        setup.user = user.value();
        setup.unsafe_journal = options.unsafe_journal;
        setup.reload = reload;
        if (is_activated) {
            setup.listen_fd = listen_fds.value().front().fd;
        }
        daemon::Daemon service(std::move(setup), log, notifier);
        const DaemonExit exit = service.run();
        if (!may_pass(exit, is_activated) || service.was_told_to_stop()) {
            return static_cast<int>(exit);
        }
        // A journal that failed is judged by recovery, and that is a start from the beginning.
        const std::string reason =
            exit == DaemonExit::storage_failed ? "storage failed" : "another daemon is running";
        log.warn(reason, {{"retry_in_ms", std::to_string(delay.count())}});
        if (!rest(delay, "Waiting to try again: " + reason + "; see the log", notifier)) {
            return static_cast<int>(exit);
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    open_standard_descriptors();
    ::umask(0077);
    static_cast<void>(std::signal(SIGPIPE, SIG_IGN));
    bound_kept_memory();
    try {
        const std::span<const char* const> arguments(argv + 1, static_cast<std::size_t>(argc - 1));
        auto options = relay::daemon::parse_options(arguments);
        if (!options.ok()) {
            static_cast<void>(
                std::fprintf(stderr, "agent-relayd: %s\n", options.error().context.c_str()));
            return 2;
        }
        switch (options.value().mode) {
        case relay::daemon::Options::Mode::help:
            return std::fputs(relay::daemon::help_text().c_str(), stdout) >= 0 ? 0 : 1;
        case relay::daemon::Options::Mode::version:
            return std::fputs(relay::daemon::version_text().c_str(), stdout) >= 0 ? 0 : 1;
        case relay::daemon::Options::Mode::run:
            return run(options.value());
        }
    } catch (const std::exception& unexpected) {
        static_cast<void>(std::fprintf(stderr, "agent-relayd: stopped: %s\n", unexpected.what()));
    } catch (...) {
        static_cast<void>(std::fputs("agent-relayd: stopped by an unknown exception\n", stderr));
    }
    return 1;
}
