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
#include <csignal>
#include <cstdio>
#include <exception>
#include <span>

namespace {

namespace daemon = relay::daemon;
namespace layout = relay::layout;
using daemon::DaemonExit;

constexpr int retry_delay_first_ms = 1'000;
constexpr int retry_delay_max_ms = 30'000;

// Descriptors 0 to 2 must be something harmless, or a session file could become one of them.
void open_standard_descriptors() {
    for (int fd = ::open("/dev/null", O_RDWR); fd >= 0; fd = ::open("/dev/null", O_RDWR)) {
        if (fd > STDERR_FILENO) {
            ::close(fd);
            break;
        }
    }
}

int say(DaemonExit exit, const std::string& sentence) {
    // Nobody is left to be told that telling failed.
    static_cast<void>(std::fprintf(stderr, "agent-relayd: %s\n", sentence.c_str()));
    return static_cast<int>(exit);
}

// Waits, or until somebody asks us to end. True when it was time alone that passed.
bool rest(int milliseconds) {
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigprocmask(SIG_BLOCK, &ends, nullptr);
    const timespec span{milliseconds / 1000, (milliseconds % 1000) * 1'000'000L};
    const bool passed = sigtimedwait(&ends, nullptr, &span) < 0;
    sigprocmask(SIG_UNBLOCK, &ends, nullptr);
    return passed;
}

int run(const daemon::Options& options) {
    const layout::Environment environment = layout::process_environment();
    const daemon::Log log(STDERR_FILENO, daemon::Log::style_of(STDERR_FILENO, environment));
    auto user = layout::user_directories(environment);
    if (!user.ok()) {
        return say(DaemonExit::bad_configuration, user.error().context);
    }
    const auto load = [&options, &environment, &user]() -> layout::Result<daemon::Config> {
        daemon::ConfigSources sources;
        sources.user_file = user.value().config + "/config.toml";
        sources.explicit_file = options.config_file;
        sources.environment = environment;
        sources.flags = options.settings;
        auto config = daemon::load_config(sources);
        if (config.ok() && config.value().socket.empty()) {
            auto socket = layout::socket_path(environment);
            if (!socket.ok()) {
                return socket.error();
            }
            config.value().socket = socket.value();
        }
        return config;
    };
    auto listen_fds = daemon::take_listen_fds();
    if (!listen_fds.ok()) {
        return say(DaemonExit::failed, listen_fds.error().context);
    }
    const daemon::ServiceNotifier notifier(environment);
    for (int delay_ms = retry_delay_first_ms;;
         delay_ms = std::min(delay_ms * 2, retry_delay_max_ms)) {
        auto config = load();
        if (!config.ok()) {
            return say(DaemonExit::bad_configuration, config.error().context);
        }
        daemon::DaemonSetup setup;
        setup.config = config.value();
        setup.user = user.value();
        setup.unsafe_journal = options.unsafe_journal;
        setup.listen_fds = listen_fds.value();
        setup.reload = load;
        daemon::Daemon service(std::move(setup), log, notifier);
        const DaemonExit exit = service.run();
        // A journal that failed is judged by recovery, and that is a start from the beginning. A socket
        // of the service manager's is used up by now: then the manager starts us again.
        if (exit != DaemonExit::storage_failed || !listen_fds.value().empty()) {
            return static_cast<int>(exit);
        }
        log.warn("storage failed", {{"retry_in_ms", std::to_string(delay_ms)}});
        if (!rest(delay_ms)) {
            return static_cast<int>(exit);
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    open_standard_descriptors();
    ::umask(0077);
    static_cast<void>(std::signal(SIGPIPE, SIG_IGN));
    // Few threads allocate much: one arena each would only spread memory thin.
    static_cast<void>(::mallopt(M_ARENA_MAX, 2));
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
