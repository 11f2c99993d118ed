// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace relay::tests {

// Ends the program with status 1: a benchmark that goes on after a wrong answer measures nothing.
[[noreturn]] void fail(const std::string& sentence);

// A connected stream socket, or -1.
[[nodiscard]] int connect_to(const std::string& socket_path);

// A directory below `parent` that goes with everything in it, unless it is kept: ext4 without a journal looks
// for free inodes among those of the last minutes for so long that what comes next would be measured with it.
class BenchDirectory {
public:
    explicit BenchDirectory(const std::string& parent, bool keep = false);
    ~BenchDirectory();
    BenchDirectory(const BenchDirectory&) = delete;
    BenchDirectory& operator=(const BenchDirectory&) = delete;

    [[nodiscard]] const std::string& path() const { return path_; }

private:
    std::string path_;
    bool keep_;
};

struct ServerStart {
    std::vector<std::string> command;
    std::vector<std::pair<std::string, std::string>> environment;
    std::string log;          // where its words go
    std::string socket = {};  // it is there once this takes connections
    std::string user = {};    // run as this one, if we are root
    int end_signal = 15;      // SIGTERM
    int orphaned_signal = 9;  // SIGKILL, when we die
};

// A server that is measured. It ends with this object, at the latest.
class ServerProcess {
public:
    explicit ServerProcess(const ServerStart& start);
    ~ServerProcess();
    ServerProcess(const ServerProcess&) = delete;
    ServerProcess& operator=(const ServerProcess&) = delete;

    // Tells it to end; one that does not end well is a wrong answer.
    void stop();
    // Waits for one that ends by itself; whether it ended well.
    [[nodiscard]] bool ends_well();

    // Of the process and its children.
    struct Usage {
        double user_us = 0;
        double system_us = 0;
        double resident_mib = 0;
    };
    [[nodiscard]] Usage usage() const;

    struct Switches {
        std::int64_t voluntary = 0;
        std::int64_t involuntary = 0;
    };
    [[nodiscard]] Switches context_switches() const;  // of all threads of the process

    [[nodiscard]] pid_t pid() const { return pid_; }

private:
    std::string log_;
    int end_signal_;
    pid_t pid_ = 0;
};

}  // namespace relay::tests
