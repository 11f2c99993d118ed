// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "recorder/pipeline.hpp"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace relay::daemon {

// The threads that drive a pipeline: commit, checkpoint, and three for each volume. A disk that hangs
// holds its own three and no other.
class PipelineThreads {
public:
    // `failed` is called once, from the commit thread, when the journal has failed for good.
    PipelineThreads(recorder::Pipeline& pipeline, std::function<void()> failed);
    ~PipelineThreads();
    PipelineThreads(const PipelineThreads&) = delete;
    PipelineThreads& operator=(const PipelineThreads&) = delete;

    void start();
    // Gives every volume that has none yet its threads. Cheap when there is nothing new.
    void cover_volumes();

    // Stops and joins. False when a thread hangs in the kernel beyond `patience`: then it is left behind,
    // and nothing it uses may be destroyed any more.
    [[nodiscard]] bool stop(std::chrono::milliseconds patience);

private:
    void run(std::function<void()> loop);
    void cover(
        const std::shared_ptr<recorder::Volume>& volume,
        bool (recorder::Volume::*step)(),
        void (recorder::Volume::*wait)());
    void commit_loop();
    void checkpoint_loop();

    recorder::Pipeline& pipeline_;
    std::function<void()> failed_;
    std::set<const recorder::Volume*> covered_;
    std::vector<std::thread> threads_;
    std::mutex mutex_;
    std::condition_variable ended_;
    std::size_t running_ = 0;
    bool stopped_ = false;
};

}  // namespace relay::daemon
