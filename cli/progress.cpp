// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.hpp"

#include <ostream>
#include <utility>

namespace relay::cli {

namespace {

constexpr std::chrono::milliseconds first_after{1000};
constexpr std::chrono::milliseconds again_after{200};

}  // namespace

Progress::Progress(const Surroundings& surroundings, std::string doing, std::size_t total)
    : surroundings_(surroundings),
      doing_(std::move(doing)),
      total_(total),
      next_(Clock::now() + first_after),
      active_(surroundings.err_is_terminal) {
}

Progress::~Progress() {
    stop();
}

void Progress::reach(std::size_t done) {
    if (!active_ || Clock::now() < next_) {
        return;
    }
    next_ = Clock::now() + again_after;
    surroundings_.err << "\r" << doing_ << " " << done << " of " << total_ << " sessions"
                      << std::flush;
    shown_ = true;
}

void Progress::stop() {
    active_ = false;
    if (std::exchange(shown_, false)) {
        surroundings_.err << "\r\x1b[K" << std::flush;
    }
}

}  // namespace relay::cli
