// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace relay::daemon {

// What all clients together take of our memory: events on their way to their ack, and bytes that
// connections hold before and after that. Both count against one bound; belongs to the io thread.
//
// Whoever has to wait waits for unanswered events alone: they are answered in time whatever clients do,
// while what is held may stay for as long as a client likes.
class MemoryBudget {
public:
    void set_bound(std::int64_t bytes) { bound_ = bytes; }
    [[nodiscard]] std::int64_t bound() const { return bound_; }

    // What an event with a line of this length counts as.
    [[nodiscard]] static std::int64_t cost_of_event(std::size_t line_bytes);
    void taken_in(std::int64_t cost) { unanswered_ += cost; }
    void answered(std::int64_t cost) { unanswered_ -= cost; }
    [[nodiscard]] std::int64_t unanswered() const { return unanswered_; }

    void held(std::int64_t more) { held_ += more; }

    // Whoever sends now has to wait until relieved().
    [[nodiscard]] bool exceeded() const { return unanswered_ + held_ > bound_; }
    [[nodiscard]] bool relieved() const { return unanswered_ <= bound_ / 2; }

    // How much to read at once: less when room gets scarce, never so little that nothing moves.
    [[nodiscard]] std::size_t read_bytes(std::size_t most) const;

private:
    std::int64_t bound_ = 0;
    std::int64_t unanswered_ = 0;
    std::int64_t held_ = 0;
};

}  // namespace relay::daemon
