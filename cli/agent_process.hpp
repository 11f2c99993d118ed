// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/descriptor.hpp"
#include "cli/signal_mail.hpp"
#include "layout/result.hpp"

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace relay::cli {

enum class AgentInput {
    inherited,  // the user's own standard input, terminal or not
    nothing,    // /dev/null
    text,       // AgentLaunch::input_text, then the end
};

struct AgentLaunch {
    std::string program;                   // a path
    std::vector<std::string> words;        // the program's name first
    std::vector<std::string> environment;  // "NAME=value"
    AgentInput input = AgentInput::inherited;
    std::string input_text;
};

// What the agent writes, after the user has seen it. Each is called by a thread of its own; `error` only for
// what can be told apart. Empty ones are not called, and cost the agent less.
struct AgentListener {
    std::function<void(std::string_view bytes)> output;
    std::function<void(std::string_view bytes)> error;
};

struct AgentEnd {
    int wait_status = 0;
    // The user wanted it to end: a signal was handed on, or Ctrl-C typed, and the agent ended by it.
    bool interrupted = false;
    // A signal came while the agent's last bytes waited for a reader: a thread of ours may wait for it for
    // ever, so leave by _exit().
    bool output_is_stuck = false;
    // The errno of the user's standard output or error, when a disk or device took not all of what the agent wrote.
    int output_refusal = 0;

    // As a shell would say it: the exit status, or 128 + n after signal n.
    [[nodiscard]] int exit_status() const;
    // By itself, not by a signal.
    [[nodiscard]] bool exited() const;
};

// A program that runs in our place. It reads and writes what we would, through pipes or a terminal of its own:
//
//   standard output is a terminal    a new terminal, with the window's size and the settings of the user's;
//                                    what of input and errors is a terminal, too, is the same one. Keys
//                                    are handed on as they are typed, and signals come from the new terminal.
//   otherwise                        pipes; one for both when output and errors go to the same place, so that
//                                    their order stays. Errors to a terminal get a terminal.
//
// Bytes are handed on before they are listened to. A reader of the user's that goes away is a closed pipe for the
// agent, too.
class AgentProcess {
public:
    // Errc::not_found when there is no such program, Errc::io with the reason when it cannot be run.
    [[nodiscard]] static layout::Result<AgentProcess>
    start(const AgentLaunch& launch, const SignalMail& mail);

    AgentProcess(AgentProcess&&) = default;
    AgentProcess& operator=(AgentProcess&&) = delete;
    AgentProcess(const AgentProcess&) = delete;
    AgentProcess& operator=(const AgentProcess&) = delete;
    ~AgentProcess() = default;

    [[nodiscard]] pid_t pid() const { return pid_; }
    [[nodiscard]] bool has_terminal() const { return terminal_; }

    // What this program writes to its standard output when the agent has ended. If nothing, a reader behind it
    // sees the end when the agent's output is at its end.
    enum class OutputAfter { none, some };

    // Until it has ended and everything it wrote was handed on. Once. A grandchild that still holds the pipes
    // keeps them: a small process of ours goes on handing its bytes to the user, unlistened.
    [[nodiscard]] AgentEnd
    attend(const SignalMail& mail, const AgentListener& listener, OutputAfter output_after);

private:
    struct Attendance;

    AgentProcess() = default;

    pid_t pid_ = -1;
    Descriptor pidfd_;
    Descriptor output_;       // a pipe's end, or the master of a terminal
    Descriptor error_;        // likewise; invalid when errors go with the output
    Descriptor error_slave_;  // keeps a terminal for errors alive until the agent has opened it
    bool terminal_ = false;   // output_ is the master of the agent's own terminal
    bool hands_keys_on_ = false;
};

// The file that `name` means: itself when it has a slash, else the first in `path` (as $PATH). Errc::not_found when
// there is none.
[[nodiscard]] layout::Result<std::string>
find_program(const std::string& name, const std::string& path);

}  // namespace relay::cli
