// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "recorder/work.hpp"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <vector>

namespace relay::recorder {

// Changes that wait for the journal, and whose turn it is to take them: the io thread's, which commits
// what waits when that is quick, or the commit thread's, to which it hands over when it may not be.
// Bounded by its user: the daemon counts unanswered bytes and stops reading its sockets.
class CommitQueue {
public:
    // True when it was empty: somebody has to be told.
    [[nodiscard]] bool push(WorkItem item);

    // Puts back what could not be committed now, in front of everything newer.
    void put_back(std::vector<WorkItem> items);

    // Everything that waits, in order, as far as it fits into `payload_bytes_max` (at least one item).
    [[nodiscard]] std::vector<WorkItem> take(std::size_t payload_bytes_max);

    // The turns. wait() is the commit thread's: until it is handed over to and there is something to
    // take, or stop(). It keeps its turn as long as there is more.
    void hand_over();
    [[nodiscard]] bool is_handed_over() const;
    void give_back();
    void wait();

    // A little longer, until there are `count` items: clients that were answered together come back
    // together, and one sync can serve them all.
    void gather(std::size_t count, std::chrono::microseconds limit);
    void stop();
    [[nodiscard]] std::size_t size() const;

private:
    mutable std::mutex mutex_;
    std::condition_variable wakeup_;
    std::vector<WorkItem> items_;
    std::size_t gather_count_ = 0;  // whoever reaches it wakes the gathering thread
    bool handed_over_ = false;
    bool stopping_ = false;
};

}  // namespace relay::recorder
