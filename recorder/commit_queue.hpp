// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "recorder/work.hpp"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <vector>

namespace relay::recorder {

// Changes that wait for the journal. Bounded by its user: the daemon counts unanswered bytes and stops
// reading its sockets. push() from one thread, take() from another.
class CommitQueue {
public:
    void push(WorkItem item);

    // Puts back what could not be committed now, in front of everything newer.
    void put_back(std::vector<WorkItem> items);

    // Everything that waits, in order, as far as it fits into `payload_bytes_max` (at least one item).
    [[nodiscard]] std::vector<WorkItem> take(std::size_t payload_bytes_max);

    void wait();  // until there is something to take, or stop()

    // A little longer, until there are `count` items: clients that were answered together come back
    // together, and one sync can serve them all.
    void gather(std::size_t count, std::chrono::microseconds limit);
    void stop();
    [[nodiscard]] bool stopping() const;
    [[nodiscard]] std::size_t size() const;

private:
    mutable std::mutex mutex_;
    std::condition_variable wakeup_;
    std::vector<WorkItem> items_;
    std::size_t gather_count_ = 0;  // whoever reaches it wakes the gathering thread
    bool stopping_ = false;
};

}  // namespace relay::recorder
