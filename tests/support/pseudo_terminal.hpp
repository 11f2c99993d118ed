// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace relay::tests {

// A program with a terminal of its own for all three standard descriptors, which is also its controlling
// one, so that "\x03" typed at it is Ctrl-C. Ends with this object. One thread at a time.
class PseudoTerminal {
public:
    static constexpr std::chrono::milliseconds patience = std::chrono::seconds(20);

    // With this environment alone, PATH and TERM.
    PseudoTerminal(
        std::vector<std::string> arguments,
        const std::map<std::string, std::string>& environment,
        unsigned short columns = 80,
        unsigned short rows = 24);
    PseudoTerminal(const PseudoTerminal&) = delete;
    PseudoTerminal& operator=(const PseudoTerminal&) = delete;
    ~PseudoTerminal();

    // Reads on until `text` has been shown since the last call of await(); false when it is not in time.
    [[nodiscard]] bool await(std::string_view text, std::chrono::milliseconds limit = patience);
    // Everything that was shown so far; lines end in "\r\n".
    [[nodiscard]] const std::string& shown() const { return shown_; }

    void type(std::string_view keys) const;
    void resize(unsigned short columns, unsigned short rows) const;

    // Reads on to the program's end. Exit status; 128 + n when signal n ended it; -1 when it had to be killed.
    [[nodiscard]] int wait(std::chrono::milliseconds limit = patience);

private:
    // False at the end or when nothing came in time.
    bool read_some(std::chrono::milliseconds limit);

    int terminal_ = -1;
    pid_t child_ = -1;
    std::string shown_;
    std::size_t awaited_ = 0;
};

}  // namespace relay::tests
