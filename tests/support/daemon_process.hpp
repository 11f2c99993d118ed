// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/temporary_directory.hpp"

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace relay::tests {

// The daemon under test: $AGENT_RELAYD, else the one that was built beside the tests.
[[nodiscard]] std::string daemon_binary();

// What a program that ran to its end left behind.
struct ProgramEnd {
    int status = -1;  // exit status; 128 + n when signal n ended it; -1 when it had to be killed
    std::string out;
    std::string err;
};

// Runs a program with this environment alone (and PATH) and waits for its end.
[[nodiscard]] ProgramEnd run_program(
    const std::vector<std::string>& arguments,
    const std::map<std::string, std::string>& environment = {},
    std::chrono::milliseconds limit = std::chrono::seconds(20));

// Runs one line of shell.
[[nodiscard]] ProgramEnd run_shell(const std::string& line);

struct DaemonSetup {
    std::vector<std::string> launcher;               // runs it: words before the daemon's own
    std::vector<std::string> flags;                  // after --socket and --unsafe-journal
    std::map<std::string, std::string> environment;  // beside what the home needs
    // AGENT_RELAY_HOME is set: every session goes to one store. Otherwise HOME and the XDG variables
    // point into the daemon's own directory and repositories have stores of their own.
    bool relocated = true;
};

// A real agent-relayd in a directory of its own, which outlives every restart and goes with this object;
// so does the process, and it dies with the test program too. Start it from a thread that lives on: the
// kernel ends it with that thread. One thread at a time.
class DaemonProcess {
public:
    explicit DaemonProcess(DaemonSetup setup = {});
    DaemonProcess(const DaemonProcess&) = delete;
    DaemonProcess& operator=(const DaemonProcess&) = delete;
    ~DaemonProcess();

    // Starts it and waits until it answers `status`. False when it ends or stays silent instead;
    // log() has its words then.
    [[nodiscard]] bool start();
    // Starts it and returns at once.
    void spawn();
    [[nodiscard]] bool answers() const;

    void signal(int number) const;
    void kill();                    // SIGKILL, and waits
    [[nodiscard]] int terminate();  // SIGTERM; exit status as in ProgramEnd
    [[nodiscard]] int wait();       // for its end; exit status as in ProgramEnd
    [[nodiscard]] bool restart();   // SIGKILL and start()
    [[nodiscard]] bool running();

    [[nodiscard]] pid_t pid() const { return pid_; }
    [[nodiscard]] const std::string& root() const { return root_.path(); }
    [[nodiscard]] std::string socket() const { return root() + "/relay.sock"; }
    [[nodiscard]] std::string work() const { return root() + "/work"; }  // an empty directory
    [[nodiscard]] std::string state() const;        // holds journal and sessions
    [[nodiscard]] std::string config_file() const;  // of the user; not made
    [[nodiscard]] std::map<std::string, std::string> environment() const;
    [[nodiscard]] std::vector<std::string> arguments() const;  // the program first
    [[nodiscard]] std::string log() const;                     // its stderr, over all restarts
    // From /proc: now, and the most there ever was.
    [[nodiscard]] long resident_kib() const { return memory_kib("VmRSS:"); }
    [[nodiscard]] long most_resident_kib() const { return memory_kib("VmHWM:"); }

    // For the next start.
    std::vector<std::string>& flags() { return setup_.flags; }
    std::vector<std::string>& launcher() { return setup_.launcher; }

private:
    [[nodiscard]] bool reap(bool patiently);
    [[nodiscard]] long memory_kib(std::string_view of) const;

    TemporaryDirectory root_;
    DaemonSetup setup_;
    pid_t pid_ = 0;  // 0: none
    int exit_status_ = -1;
};

}  // namespace relay::tests
