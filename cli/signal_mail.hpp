// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/descriptor.hpp"

#include <signal.h>

#include <optional>

namespace relay::cli {

// The signals that a wrapper hands on, as messages instead of interruptions. From its making to its end they
// are blocked in this thread and in those it starts; what the user has set to be ignored stays so. Signals
// that nobody read are dropped at its end.
class SignalMail {
public:
    SignalMail();
    SignalMail(const SignalMail&) = delete;
    SignalMail& operator=(const SignalMail&) = delete;
    ~SignalMail();

    struct Letter {
        int number = 0;
        bool from_terminal = false;  // the kernel sent it to the whole foreground group
    };
    // Readable when there is a letter.
    [[nodiscard]] int descriptor() const { return descriptor_.get(); }
    [[nodiscard]] std::optional<Letter> read() const;

    // What programs that we start should have blocked: what we had.
    [[nodiscard]] const sigset_t& former_mask() const { return former_mask_; }

private:
    sigset_t mail_{};
    sigset_t former_mask_{};
    Descriptor descriptor_;
};

}  // namespace relay::cli
