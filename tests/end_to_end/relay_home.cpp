// SPDX-License-Identifier: Apache-2.0
#include "tests/end_to_end/relay_home.hpp"

#include "layout/session_reader.hpp"

#include <boost/filesystem.hpp>
#include <doctest/doctest.h>
#include <relay_built_here.hpp>

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

namespace relay::tests {

RelayHome::RelayHome() {
    namespace fs = boost::filesystem;
    fs::create_directory(root() + "/bin");
    fs::create_directory(work());
    // A copy, because the daemon is looked for beside the program that runs.
    fs::copy_file(RELAY_CLI_BINARY, program());
    write_text(
        root() + "/bin/agent-relayd",
        "#!/bin/sh\n[ -e '" + root() + "/forbidden' ] && exit 9\necho $$ >> '" + root()
            + "/daemons'\nexec '" + daemon_binary()
            + "' --unsafe-journal --set journal.segment_bytes=4MiB --set "
              "daemon.max_event_bytes=2MiB "
              "\"$@\"\n");
    ::chmod((root() + "/bin/agent-relayd").c_str(), 0700);
}

RelayHome::~RelayHome() {
    forbid_daemon(true);
    for (const pid_t pid : daemons()) {
        // The number may have passed to somebody else.
        const std::string command = read_text("/proc/" + std::to_string(pid) + "/cmdline");
        if (command.find(daemon_binary()) == 0) {
            ::kill(pid, SIGKILL);
        }
    }
}

std::map<std::string, std::string> RelayHome::environment() const {
    return {
        {"HOME", root()},
        {"AGENT_RELAY_HOME", root() + "/relay"},
        {"PATH", root() + "/bin:/usr/local/bin:/usr/bin:/bin"},
        {"ASAN_OPTIONS", "detect_leaks=0"},
        {"TERM", "xterm"},
    };
}

ProgramEnd RelayHome::shell(const std::string& line, std::chrono::milliseconds limit) const {
    return run_program(
        {"/bin/bash", "-c", "cd '" + work() + "' || exit 99; " + line}, environment(), limit);
}

std::vector<pid_t> RelayHome::daemons() const {
    std::istringstream lines(read_text(root() + "/daemons"));
    std::vector<pid_t> pids;
    for (pid_t pid = 0; lines >> pid;) {
        pids.push_back(pid);
    }
    return pids;
}

pid_t RelayHome::daemon() const {
    const ProgramEnd end = run_program({program(), "daemon", "status", "--json"}, environment());
    const Json status = Json::parse(end.out, nullptr, false);
    return status.is_object() ? status.value("pid", pid_t{0}) : 0;
}

// Until it is gone its socket takes connections that nobody will answer.
void RelayHome::kill_daemon() const {
    const pid_t pid = daemon();
    if (pid <= 0) {
        return;
    }
    pollfd process{static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)), POLLIN, 0};
    ::kill(pid, SIGKILL);
    if (process.fd >= 0) {
        constexpr int patience_ms = 30'000;
        static_cast<void>(::poll(&process, 1, patience_ms));
        ::close(process.fd);
    }
}

void RelayHome::forbid_daemon(bool forbidden) const {
    boost::system::error_code ignored;
    if (forbidden) {
        write_text(root() + "/forbidden", "");
    } else {
        boost::filesystem::remove(root() + "/forbidden", ignored);
    }
}

std::vector<Recording> RelayHome::sessions() const {
    const std::string directory = root() + "/relay/state/sessions";
    std::vector<Recording> found;
    const auto ids = layout::list_sessions(directory);
    for (const layout::Ulid& id : ids.ok() ? ids.value() : std::vector<layout::Ulid>()) {
        Recording recording;
        recording.id = id.text();
        recording.path = directory + "/" + recording.id;
        found.push_back(recording);
    }
    std::reverse(found.begin(), found.end());
    return found;
}

Recording RelayHome::session() const {
    const std::vector<Recording> all = sessions();
    REQUIRE(all.size() == 1);
    return all.front();
}

}  // namespace relay::tests
