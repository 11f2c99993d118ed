// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <termios.h>

namespace relay::cli {

// The terminal in front of the user, lent to an agent that has one of its own: every key goes to the agent as
// it is, and the agent's terminal does the rest. Gives it back as it was. One thread at a time.
class UserTerminal {
public:
    // `descriptor` is the user's and outlives this object.
    explicit UserTerminal(int descriptor) : descriptor_(descriptor) {}
    UserTerminal(const UserTerminal&) = delete;
    UserTerminal& operator=(const UserTerminal&) = delete;
    ~UserTerminal() { give_back(); }

    // Does nothing while we are in the background: a terminal belongs to whoever is in front.
    void lend();
    void give_back();
    [[nodiscard]] bool is_lent() const { return lent_; }

private:
    int descriptor_;
    termios former_{};
    bool lent_ = false;
};

}  // namespace relay::cli
