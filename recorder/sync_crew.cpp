// SPDX-License-Identifier: Apache-2.0
#include "recorder/sync_crew.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

namespace relay::recorder {

// All under the mutex, but for the work itself.
struct SyncCrew::State {
    std::mutex mutex;
    std::condition_variable wakeup;
    std::condition_variable finished;
    const std::function<void(std::size_t)>* work = nullptr;
    std::size_t next = 0;
    std::size_t count = 0;
    std::size_t returned = 0;
    std::size_t threads = 0;
    bool stopping = false;

    // Takes and does what is left of the work under way.
    void take_part(std::unique_lock<std::mutex>& lock) {
        while (next < count) {
            const std::size_t mine = next++;
            const auto& piece = *work;
            lock.unlock();
            piece(mine);
            lock.lock();
            if (++returned == count) {
                finished.notify_one();
            }
        }
    }
};

SyncCrew::SyncCrew(std::size_t helpers) : helpers_(helpers), state_(std::make_shared<State>()) {
}

SyncCrew::~SyncCrew() {
    const std::lock_guard guard(state_->mutex);
    state_->stopping = true;
    state_->wakeup.notify_all();
}

void SyncCrew::help(const std::shared_ptr<State>& state) {
    std::unique_lock lock(state->mutex);
    while (!state->stopping) {
        state->take_part(lock);
        state->wakeup.wait(
            lock, [&state] { return state->stopping || state->next < state->count; });
    }
}

void SyncCrew::start() {
    while (state_->threads < helpers_) {
        try {
            std::thread([state = state_] { help(state); }).detach();
        } catch (const std::system_error&) {
            return;  // no more threads: the others and the caller do it all, only later
        }
        ++state_->threads;
    }
}

void SyncCrew::run(std::size_t count, const std::function<void(std::size_t)>& work) {
    std::unique_lock lock(state_->mutex);
    if (count > 1) {
        start();
    }
    state_->work = &work;
    state_->next = 0;
    state_->returned = 0;
    state_->count = count;
    // The caller takes the first one.
    for (std::size_t helper = 1; helper < std::min(count, state_->threads + 1); ++helper) {
        state_->wakeup.notify_one();
    }
    state_->take_part(lock);
    state_->finished.wait(lock, [this] { return state_->returned == state_->count; });
    state_->count = 0;
    state_->next = 0;
    state_->work = nullptr;
}

}  // namespace relay::recorder
