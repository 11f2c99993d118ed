// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/end_to_end/recording.hpp"
#include "tests/support/daemon_process.hpp"
#include "tests/support/temporary_directory.hpp"

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace relay::tests {

// A user's place in which nothing runs yet: the program under test beside a daemon that it can start by itself.
// The daemons that were started are counted, and die with this object.
class RelayHome {
public:
    RelayHome();
    RelayHome(const RelayHome&) = delete;
    RelayHome& operator=(const RelayHome&) = delete;
    ~RelayHome();

    [[nodiscard]] const std::string& root() const { return root_.path(); }
    [[nodiscard]] std::string work() const { return root() + "/work"; }
    [[nodiscard]] std::string program() const { return root() + "/bin/agent-relay"; }
    [[nodiscard]] std::string spool() const { return root() + "/relay/state/spool"; }
    [[nodiscard]] std::map<std::string, std::string> environment() const;

    // Runs a line of shell in work(), in which `agent-relay` is the program under test.
    [[nodiscard]] ProgramEnd shell(
        const std::string& line, std::chrono::milliseconds limit = std::chrono::seconds(60)) const;

    // Every start of a daemon, by whomever.
    [[nodiscard]] std::vector<pid_t> daemons() const;
    // The one that answers; 0 when none does.
    [[nodiscard]] pid_t daemon() const;
    void kill_daemon() const;
    // From now on no daemon can be started, or again.
    void forbid_daemon(bool forbidden) const;

    // The sessions of the store, oldest first.
    [[nodiscard]] std::vector<Recording> sessions() const;
    // The only one.
    [[nodiscard]] Recording session() const;

private:
    TemporaryDirectory root_;
};

}  // namespace relay::tests
