// SPDX-License-Identifier: Apache-2.0
#include "daemon/pipeline_threads.hpp"

#include <utility>

namespace relay::daemon {

using recorder::Pipeline;

PipelineThreads::PipelineThreads(Pipeline& pipeline, std::function<void()> failed)
    : pipeline_(pipeline), failed_(std::move(failed)) {
}

PipelineThreads::~PipelineThreads() {
    if (!stopped_) {
        static_cast<void>(stop(std::chrono::seconds(5)));
    }
}

void PipelineThreads::run(std::function<void()> loop) {
    {
        const std::lock_guard guard(mutex_);
        ++running_;
    }
    threads_.emplace_back([this, loop = std::move(loop)] {
        loop();
        const std::lock_guard guard(mutex_);
        --running_;
        ended_.notify_all();
    });
}

void PipelineThreads::start() {
    run([this] { commit_loop(); });
    run([this] { checkpoint_loop(); });
    cover_volumes();
}

void PipelineThreads::cover_volumes() {
    for (const auto& volume : pipeline_.volumes()) {
        if (!covered_.insert(volume.get()).second) {
            continue;
        }
        using recorder::Volume;
        cover(volume, &Volume::apply_step, &Volume::wait_apply);
        cover(volume, &Volume::seal_step, &Volume::wait_seal);
        cover(volume, &Volume::sync_step, &Volume::wait_sync);
    }
}

void PipelineThreads::cover(
    const std::shared_ptr<recorder::Volume>& volume,
    bool (recorder::Volume::*step)(),
    void (recorder::Volume::*wait)()) {
    run([volume, step, wait] {
        while (!volume->stopping()) {
            if (!(volume.get()->*step)()) {
                (volume.get()->*wait)();
            }
        }
    });
}

void PipelineThreads::commit_loop() {
    bool reported = false;
    // Waits first: unless it is handed over, the work is the io thread's, and a journal has one writer.
    pipeline_.wait_commit();
    for (;;) {
        switch (pipeline_.commit_step()) {
        case Pipeline::Commit::idle:
            if (pipeline_.stopping()) {
                return;
            }
            [[fallthrough]];
        case Pipeline::Commit::done:
            pipeline_.wait_commit();
            break;
        case Pipeline::Commit::blocked:
            if (pipeline_.stopping()) {
                return;
            }
            pipeline_.wait_for_room();
            break;
        case Pipeline::Commit::failed:
            if (!std::exchange(reported, true)) {
                failed_();
            }
            break;
        }
    }
}

void PipelineThreads::checkpoint_loop() {
    while (!pipeline_.stopping()) {
        if (!pipeline_.checkpoint_step()) {
            pipeline_.wait_checkpoint();
        }
    }
}

bool PipelineThreads::stop(std::chrono::milliseconds patience) {
    stopped_ = true;
    pipeline_.stop();
    {
        std::unique_lock lock(mutex_);
        if (!ended_.wait_for(lock, patience, [this] { return running_ == 0; })) {
            for (std::thread& thread : threads_) {
                thread.detach();
            }
            return false;
        }
    }
    for (std::thread& thread : threads_) {
        thread.join();
    }
    return true;
}

}  // namespace relay::daemon
