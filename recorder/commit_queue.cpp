// SPDX-License-Identifier: Apache-2.0
#include "recorder/commit_queue.hpp"

#include <iterator>
#include <utility>

namespace relay::recorder {

bool CommitQueue::push(WorkItem item) {
    bool first = false;
    bool awaited = false;
    {
        const std::lock_guard guard(mutex_);
        items_.push_back(std::move(item));
        first = items_.size() == 1;
        awaited = handed_over_ && (first || items_.size() == gather_count_);
    }
    if (awaited) {
        wakeup_.notify_one();
    }
    return first;
}

void CommitQueue::put_back(std::vector<WorkItem> items) {
    const std::lock_guard guard(mutex_);
    items_.insert(
        items_.begin(),
        std::make_move_iterator(items.begin()),
        std::make_move_iterator(items.end()));
}

std::vector<WorkItem> CommitQueue::take(std::size_t payload_bytes_max) {
    const std::lock_guard guard(mutex_);
    std::size_t bytes = 0;
    std::size_t count = 0;
    while (count < items_.size()
           && (count == 0 || bytes + items_[count].change.size() <= payload_bytes_max)) {
        bytes += items_[count].change.size();
        ++count;
    }
    if (count == items_.size()) {
        return std::exchange(items_, {});
    }
    const auto end = items_.begin() + static_cast<std::ptrdiff_t>(count);
    std::vector<WorkItem> taken(
        std::make_move_iterator(items_.begin()), std::make_move_iterator(end));
    items_.erase(items_.begin(), end);
    return taken;
}

void CommitQueue::wait() {
    std::unique_lock lock(mutex_);
    wakeup_.wait(lock, [this] { return stopping_ || (handed_over_ && !items_.empty()); });
}

void CommitQueue::hand_over() {
    {
        const std::lock_guard guard(mutex_);
        handed_over_ = true;
    }
    wakeup_.notify_one();
}

bool CommitQueue::is_handed_over() const {
    const std::lock_guard guard(mutex_);
    return handed_over_;
}

void CommitQueue::give_back() {
    const std::lock_guard guard(mutex_);
    handed_over_ = false;
}

void CommitQueue::gather(std::size_t count, std::chrono::microseconds limit) {
    std::unique_lock lock(mutex_);
    gather_count_ = count;
    wakeup_.wait_for(lock, limit, [this] { return stopping_ || items_.size() >= gather_count_; });
    gather_count_ = 0;
}

void CommitQueue::stop() {
    const std::lock_guard guard(mutex_);
    stopping_ = true;
    wakeup_.notify_all();
}

std::size_t CommitQueue::size() const {
    const std::lock_guard guard(mutex_);
    return items_.size();
}

}  // namespace relay::recorder
