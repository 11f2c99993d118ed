// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/server_process.hpp"

#include "tests/bench/sample.hpp"

#include <boost/filesystem.hpp>

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>
#include <thread>

namespace relay::tests {

namespace fs = boost::filesystem;

namespace {

constexpr std::chrono::seconds patience{60};

struct Ids {
    uid_t user = 0;
    gid_t group = 0;
};

std::optional<Ids> ids_of(const std::string& user) {
    if (user.empty() || ::geteuid() != 0) {
        return std::nullopt;
    }
    const passwd* const found = ::getpwnam(user.c_str());  // NOLINT(concurrency-mt-unsafe)
    if (found == nullptr) {
        fail("there is no user " + user);
    }
    return Ids{found->pw_uid, found->pw_gid};
}

[[noreturn]] void become(const ServerStart& start, const std::optional<Ids>& ids, pid_t parent) {
    if (ids
        && (::setgroups(0, nullptr) != 0 || ::setgid(ids->group) != 0
            || ::setuid(ids->user) != 0)) {
        ::_exit(126);
    }
    ::prctl(PR_SET_PDEATHSIG, start.orphaned_signal);
    if (::getppid() != parent) {
        ::_exit(126);
    }
    for (const auto& [name, value] : start.environment) {
        ::setenv(name.c_str(), value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
    }
    const int log = ::open(start.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    ::dup2(log, STDOUT_FILENO);
    ::dup2(log, STDERR_FILENO);
    std::vector<char*> words;
    for (const std::string& word : start.command) {
        words.push_back(const_cast<char*>(word.c_str()));
    }
    words.push_back(nullptr);
    ::execv(words.front(), words.data());
    ::_exit(127);
}

std::int64_t status_value(const std::string& file, std::string_view key) {
    std::ifstream status(file);
    std::string word;
    std::int64_t value = 0;
    while (status >> word) {
        if (word == key && status >> value) {
            break;
        }
    }
    return value;
}

struct ProcessTimes {
    pid_t parent = 0;
    double user_us = 0;
    double system_us = 0;
};

std::optional<ProcessTimes> times_of(const std::string& proc) {
    std::ifstream stat(proc + "/stat");
    std::string text;
    std::getline(stat, text, '\0');
    // The name in brackets may hold spaces; utime and stime are fields 14 and 15 of proc(5).
    const std::size_t bracket = text.rfind(')');
    if (bracket == std::string::npos) {
        return std::nullopt;  // ended
    }
    std::istringstream fields(text.substr(bracket + 1));
    std::string skipped;
    ProcessTimes times;
    fields >> skipped >> times.parent;
    for (int field = 5; field < 14; ++field) {
        fields >> skipped;
    }
    fields >> times.user_us >> times.system_us;
    const double tick_us = 1e6 / static_cast<double>(::sysconf(_SC_CLK_TCK));
    times.user_us *= tick_us;
    times.system_us *= tick_us;
    return times;
}

// Processes of one server share much, so of several each counts its part alone.
double resident_mib(const std::string& proc, bool one_of_several) {
    const std::int64_t kib = one_of_several ? status_value(proc + "/smaps_rollup", "Pss:")
                                            : status_value(proc + "/status", "VmRSS:");
    return static_cast<double>(kib) / 1024;
}

}  // namespace

void fail(const std::string& sentence) {
    static_cast<void>(std::fprintf(stderr, "bench: %s\n", sentence.c_str()));
    ::exit(1);
}

int connect_to(const std::string& socket_path) {
    sockaddr_un address{};
    if (socket_path.size() >= sizeof(address.sun_path)) {
        fail("the socket's path " + socket_path + " is too long; choose a shorter --directory");
    }
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, socket_path.data(), socket_path.size());
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const auto* const generic = reinterpret_cast<const sockaddr*>(&address);
    if (::connect(fd, generic, sizeof(address)) != 0) {
        ::close(fd);
        return -1;
    }
    return fd;
}

BenchDirectory::BenchDirectory(const std::string& parent, bool keep) : keep_(keep) {
    std::string pattern = parent + "/relay-bench-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) {
        fail("cannot make a directory in " + parent);
    }
    path_ = fs::canonical(pattern).string();
}

BenchDirectory::~BenchDirectory() {
    if (!keep_) {
        boost::system::error_code ignored;  // what stays behind is only in the way
        fs::remove_all(path_, ignored);
    }
}

ServerProcess::ServerProcess(const ServerStart& start)
    : log_(start.log), end_signal_(start.end_signal) {
    const pid_t parent = ::getpid();
    const std::optional<Ids> ids = ids_of(start.user);
    pid_ = ::fork();
    if (pid_ == 0) {
        become(start, ids, parent);
    }
    if (start.socket.empty()) {
        return;
    }
    const auto limit = Clock::now() + patience;
    int fd = -1;
    while ((fd = connect_to(start.socket)) < 0) {
        if (Clock::now() > limit || ::waitpid(pid_, nullptr, WNOHANG) == pid_) {
            fail(start.command.front() + " does not start; see " + log_);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    ::close(fd);
}

bool ServerProcess::ends_well() {
    int status = 0;
    return ::waitpid(std::exchange(pid_, 0), &status, 0) > 0 && WIFEXITED(status)
           && WEXITSTATUS(status) == 0;
}

void ServerProcess::stop() {
    ::kill(pid_, end_signal_);
    if (!ends_well()) {
        fail("a server did not end well; see " + log_);
    }
}

ServerProcess::~ServerProcess() {
    if (pid_ > 0) {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
}

ServerProcess::Usage ServerProcess::usage() const {
    std::map<pid_t, ProcessTimes> all;
    for (const auto& entry : fs::directory_iterator("/proc")) {
        const std::string name = entry.path().filename().string();
        pid_t pid = 0;
        const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
        if (error != std::errc() || end != name.data() + name.size()) {
            continue;
        }
        if (const auto times = times_of(entry.path().string());
            times && (pid == pid_ || times->parent == pid_)) {
            all.emplace(pid, *times);
        }
    }
    Usage usage;
    for (const auto& [pid, times] : all) {
        usage.user_us += times.user_us;
        usage.system_us += times.system_us;
        usage.resident_mib += resident_mib("/proc/" + std::to_string(pid), all.size() > 1);
    }
    return usage;
}

ServerProcess::Switches ServerProcess::context_switches() const {
    Switches sum;
    for (const auto& task : fs::directory_iterator("/proc/" + std::to_string(pid_) + "/task")) {
        const std::string status = task.path().string() + "/status";
        sum.voluntary += status_value(status, "voluntary_ctxt_switches:");
        sum.involuntary += status_value(status, "nonvoluntary_ctxt_switches:");
    }
    return sum;
}

}  // namespace relay::tests
