// SPDX-License-Identifier: Apache-2.0
#include "cli/user_terminal.hpp"

#include <unistd.h>

namespace relay::cli {

void UserTerminal::lend() {
    if (lent_ || ::tcgetpgrp(descriptor_) != ::getpgrp()
        || ::tcgetattr(descriptor_, &former_) != 0) {
        return;
    }
    termios raw = former_;
    ::cfmakeraw(&raw);
    // Keys typed ahead are kept.
    lent_ = ::tcsetattr(descriptor_, TCSADRAIN, &raw) == 0;
}

void UserTerminal::give_back() {
    if (lent_) {
        // A terminal that is gone needs nothing back.
        static_cast<void>(::tcsetattr(descriptor_, TCSADRAIN, &former_));
        lent_ = false;
    }
}

}  // namespace relay::cli
