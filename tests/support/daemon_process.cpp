// SPDX-License-Identifier: Apache-2.0
#include "tests/support/daemon_process.hpp"

#include "tests/support/eventually.hpp"
#include "tests/support/wire_client.hpp"

#include <relay_built_here.hpp>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>

namespace relay::tests {

namespace {

constexpr std::chrono::milliseconds start_limit = std::chrono::seconds(30);
constexpr std::chrono::milliseconds end_limit = std::chrono::seconds(30);

std::string text_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

std::vector<char*> pointers(std::vector<std::string>& words) {
    std::vector<char*> result;
    for (std::string& word : words) {
        result.push_back(word.data());
    }
    result.push_back(nullptr);
    return result;
}

std::vector<std::string> assignments(const std::map<std::string, std::string>& environment) {
    std::vector<std::string> result;
    for (const auto& [name, value] : environment) {
        result.push_back(name + "=" + value);
    }
    if (!environment.contains("PATH")) {
        const char* const path = ::getenv("PATH");
        result.push_back("PATH=" + std::string(path != nullptr ? path : "/usr/bin:/bin"));
    }
    return result;
}

// Everything is ready before the fork: other threads may hold locks that the child would wait for.
pid_t spawn_program(
    std::vector<std::string> arguments,
    const std::map<std::string, std::string>& environment,
    const std::string& out_file,
    const std::string& err_file) {
    std::vector<std::string> assigned = assignments(environment);
    const std::vector<char*> argument_pointers = pointers(arguments);
    const std::vector<char*> environment_pointers = pointers(assigned);
    constexpr int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
    const int in = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    const int out = ::open(out_file.c_str(), flags, 0600);
    const int err = ::open(err_file.c_str(), flags, 0600);
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    if (child == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != parent) {
            ::_exit(126);
        }
        ::dup2(in, STDIN_FILENO);
        ::dup2(out, STDOUT_FILENO);
        ::dup2(err, STDERR_FILENO);
        ::execve(argument_pointers[0], argument_pointers.data(), environment_pointers.data());
        ::_exit(127);
    }
    ::close(in);
    ::close(out);
    ::close(err);
    return child;
}

int status_of(int wait_status) {
    return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

}  // namespace

std::string daemon_binary() {
    const char* const other = ::getenv("AGENT_RELAYD");
    return other != nullptr ? other : RELAY_DAEMON_BINARY;
}

ProgramEnd run_program(
    const std::vector<std::string>& arguments,
    const std::map<std::string, std::string>& environment,
    std::chrono::milliseconds limit) {
    const TemporaryDirectory directory;
    const std::string out = directory.path() + "/out";
    const std::string err = directory.path() + "/err";
    const pid_t child = spawn_program(arguments, environment, out, err);
    ProgramEnd end;
    int status = 0;
    if (child > 0
        && eventually([&] { return ::waitpid(child, &status, WNOHANG) == child; }, limit)) {
        end.status = status_of(status);
    } else if (child > 0) {
        ::kill(child, SIGKILL);
        ::waitpid(child, &status, 0);
    }
    end.out = text_of(out);
    end.err = text_of(err);
    return end;
}

ProgramEnd run_shell(const std::string& line) {
    return run_program({"/bin/sh", "-c", line}, {}, std::chrono::seconds(60));
}

DaemonProcess::DaemonProcess(DaemonSetup setup) : setup_(std::move(setup)) {
    ::mkdir(work().c_str(), 0700);
    ::mkdir((root() + "/run").c_str(), 0700);
}

DaemonProcess::~DaemonProcess() {
    kill();
}

std::string DaemonProcess::state() const {
    return root() + (setup_.relocated ? "/relay/state" : "/state/agent-relay");
}

std::string DaemonProcess::config_file() const {
    return root() + (setup_.relocated ? "/relay/config" : "/config/agent-relay") + "/config.toml";
}

std::map<std::string, std::string> DaemonProcess::environment() const {
    std::map<std::string, std::string> environment = setup_.environment;
    environment.emplace("HOME", root());
    // A leak at exit would hide behind the signal that ends the daemon.
    environment.emplace("ASAN_OPTIONS", "detect_leaks=0");
    if (setup_.relocated) {
        environment.emplace("AGENT_RELAY_HOME", root() + "/relay");
    } else {
        environment.emplace("XDG_STATE_HOME", root() + "/state");
        environment.emplace("XDG_CONFIG_HOME", root() + "/config");
        environment.emplace("XDG_CACHE_HOME", root() + "/cache");
        environment.emplace("XDG_RUNTIME_DIR", root() + "/run");
    }
    return environment;
}

std::vector<std::string> DaemonProcess::arguments() const {
    std::vector<std::string> arguments = setup_.launcher;
    arguments.insert(arguments.end(), {daemon_binary(), "--socket", socket(), "--unsafe-journal"});
    arguments.insert(arguments.end(), setup_.flags.begin(), setup_.flags.end());
    return arguments;
}

void DaemonProcess::spawn() {
    exit_status_ = -1;
    pid_ =
        spawn_program(arguments(), environment(), root() + "/daemon.out", root() + "/daemon.err");
}

bool DaemonProcess::answers() const {
    WireClient client(socket());
    return client.connected()
           && client.request({{"type", "status"}}, std::chrono::seconds(5)).value("type", "")
                  == "ack";
}

bool DaemonProcess::start() {
    spawn();
    return eventually([this] { return !running() || answers(); }, start_limit) && running();
}

bool DaemonProcess::reap(bool patiently) {
    int status = 0;
    if (pid_ > 0 && ::waitpid(pid_, &status, patiently ? 0 : WNOHANG) == pid_) {
        exit_status_ = status_of(status);
        pid_ = 0;
    }
    return pid_ <= 0;
}

bool DaemonProcess::running() {
    return !reap(/*patiently=*/false);
}

void DaemonProcess::signal(int number) const {
    if (pid_ > 0) {
        ::kill(pid_, number);
    }
}

void DaemonProcess::kill() {
    signal(SIGKILL);
    static_cast<void>(reap(/*patiently=*/true));
}

int DaemonProcess::wait() {
    if (!eventually([this] { return !running(); }, end_limit)) {
        kill();
        return -1;
    }
    return exit_status_;
}

int DaemonProcess::terminate() {
    signal(SIGTERM);
    return wait();
}

bool DaemonProcess::restart() {
    kill();
    return start();
}

std::string DaemonProcess::log() const {
    return text_of(root() + "/daemon.err");
}

long DaemonProcess::memory_kib(std::string_view of) const {
    std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
    std::string word;
    while (status >> word) {
        if (word == of) {
            long kib = 0;
            status >> kib;
            return kib;
        }
    }
    return -1;
}

}  // namespace relay::tests
