// SPDX-License-Identifier: Apache-2.0
#include "cli/daemon_process.hpp"
#include "tests/support/temporary_directory.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <optional>
#include <string>

using relay::cli::find_daemon;
using relay::cli::PinnedProcess;
using relay::cli::StartedDaemon;
using relay::layout::Errc;
using relay::tests::TemporaryDirectory;
using std::chrono::milliseconds;

namespace {

// Waits for the process to exit without taking its status, which exit_status() is to find.
void await_exit(const StartedDaemon& daemon) {
    siginfo_t unused{};
    REQUIRE(::waitid(P_PID, static_cast<id_t>(daemon.pid()), &unused, WEXITED | WNOWAIT) == 0);
}

}  // namespace

TEST_CASE("a daemon starts in a session of its own with only its log open") {
    const TemporaryDirectory directory;
    const std::string log = directory.path() + "/a/b/daemon.log";
    std::array<int, 2> pipe{};
    REQUIRE(::pipe2(pipe.data(), 0) == 0);  // not close-on-exec, as a careless shell leaves it
    auto daemon = StartedDaemon::start(
        "/bin/sh",
        {"-c",
         "cat; pwd; set -- $(cat /proc/$$/stat); echo session $6 $$; exec 2>&1; ls /proc/$$/fd"},
        log);
    REQUIRE(daemon.ok());
    await_exit(daemon.value());
    const auto words = daemon.value().last_words();
    REQUIRE(words.size() >= 5);
    CHECK(words[0] == "/");
    const std::string pid = std::to_string(daemon.value().pid());
    CHECK(words[1] == "session " + pid + " " + pid);
    for (const std::string& word : words) {
        CHECK(word != std::to_string(pipe[0]));
        CHECK(word != std::to_string(pipe[1]));
    }
    CHECK(daemon.value().exit_status() == 0);
    struct stat status {};
    REQUIRE(::stat(log.c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
    REQUIRE(::stat((directory.path() + "/a").c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0700);
    ::close(pipe[0]);
    ::close(pipe[1]);
}

TEST_CASE("the last words of a daemon are its own and the last ten") {
    const TemporaryDirectory directory;
    const std::string log = directory.path() + "/daemon.log";
    std::ofstream(log) << "of another daemon\n";
    auto quiet = StartedDaemon::start("/bin/sh", {"-c", "exit 78"}, log);
    REQUIRE(quiet.ok());
    await_exit(quiet.value());
    CHECK(quiet.value().last_words().empty());
    const std::optional<int> status = quiet.value().exit_status();
    REQUIRE(status.has_value());
    CHECK(WEXITSTATUS(*status) == 78);
    CHECK(quiet.value().exit_status() == status);
    auto loud = StartedDaemon::start(
        "/bin/sh", {"-c", "for n in 1 2 3 4 5 6 7 8 9 10 11 12; do echo $n >&2; done"}, log);
    REQUIRE(loud.ok());
    await_exit(loud.value());
    const auto words = loud.value().last_words();
    REQUIRE(words.size() == 10);
    CHECK(words.front() == "3");
    CHECK(words.back() == "12");
    static_cast<void>(loud.value().exit_status());  // takes the child's status
}

TEST_CASE("a daemon that cannot be started is an error") {
    const TemporaryDirectory directory;
    CHECK_FALSE(
        StartedDaemon::start(directory.path() + "/none", {}, directory.path() + "/log").ok());
    std::ofstream(directory.path() + "/file") << "x";
    CHECK_FALSE(StartedDaemon::start("/bin/true", {}, directory.path() + "/file/x/log").ok());
}

TEST_CASE("terminating a process waits until it is gone or the time is up") {
    const TemporaryDirectory directory;
    const std::string log = directory.path() + "/log";
    auto daemon = StartedDaemon::start("/bin/sleep", {"1000"}, log);
    REQUIRE(daemon.ok());
    CHECK_FALSE(daemon.value().exit_status().has_value());
    const auto process = PinnedProcess::pin(daemon.value().pid());
    REQUIRE(process.ok());
    CHECK(process.value().terminate(milliseconds(10'000)).value());
    const std::optional<int> status = daemon.value().exit_status();
    REQUIRE(status.has_value());
    CHECK(WIFSIGNALED(*status));
    CHECK(process.value().terminate(milliseconds(10'000)).value());
    const auto gone = PinnedProcess::pin(daemon.value().pid());
    REQUIRE_FALSE(gone.ok());
    CHECK(gone.error().code == Errc::gone);
}

TEST_CASE("a process that ignores the request is reported as still running") {
    const TemporaryDirectory directory;
    const std::string ready = directory.path() + "/ready";
    REQUIRE(::mkfifo(ready.c_str(), 0600) == 0);
    auto daemon = StartedDaemon::start(
        "/bin/sh",
        {"-c", "trap '' TERM; echo > " + ready + "; read line < " + ready},
        directory.path() + "/log");
    REQUIRE(daemon.ok());
    std::string line;
    std::ifstream(ready) >> line;  // until the trap is set
    const auto process = PinnedProcess::pin(daemon.value().pid());
    REQUIRE(process.ok());
    CHECK_FALSE(process.value().terminate(milliseconds(1)).value());
    std::ofstream(ready) << "go\n";
    await_exit(daemon.value());
    CHECK(daemon.value().exit_status() == 0);
}

TEST_CASE("the daemon's program is looked for in absolute directories of the path only") {
    const TemporaryDirectory directory;
    const std::string program = directory.path() + "/agent-relayd";
    const auto search = [](const std::string& path) {
        return find_daemon([&path](const char* name) {
            return std::string_view(name) == "PATH" ? std::optional<std::string>(path)
                                                    : std::nullopt;
        });
    };
    const std::string none = "/nonexistent::relative:" + directory.path();
    if (search("/nonexistent").ok()) {
        return;  // one is built beside the tests and rightly wins
    }
    CHECK(search(none).error().code == Errc::not_found);
    std::ofstream(program) << "#!/bin/sh\n";
    CHECK_FALSE(search(none).ok());  // not executable
    REQUIRE(::chmod(program.c_str(), 0700) == 0);
    CHECK(search(none).value() == program);
}
