// SPDX-License-Identifier: Apache-2.0
#include "cli/signal_mail.hpp"

#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <initializer_list>

namespace relay::cli {

SignalMail::SignalMail() {
    ::sigemptyset(&mail_);
    // SIGPIPE is blocked only: a write that fails says so itself.
    for (const int number :
         {SIGINT,
          SIGTERM,
          SIGHUP,
          SIGQUIT,
          SIGUSR1,
          SIGUSR2,
          SIGWINCH,
          SIGCONT,
          SIGCHLD,
          SIGPIPE}) {
        ::sigaddset(&mail_, number);
    }
    ::pthread_sigmask(SIG_BLOCK, &mail_, &former_mask_);
    descriptor_ = Descriptor(::signalfd(-1, &mail_, SFD_CLOEXEC | SFD_NONBLOCK));
}

SignalMail::~SignalMail() {
    const timespec at_once{0, 0};
    while (::sigtimedwait(&mail_, nullptr, &at_once) > 0) {
    }
    ::pthread_sigmask(SIG_SETMASK, &former_mask_, nullptr);
}

std::optional<SignalMail::Letter> SignalMail::read() const {
    signalfd_siginfo info{};
    if (::read(descriptor_.get(), &info, sizeof info) != sizeof info) {
        return std::nullopt;
    }
    return Letter{static_cast<int>(info.ssi_signo), info.ssi_code == SI_KERNEL};
}

}  // namespace relay::cli
