// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace relay::recorder {

// A few threads that wait for a disk side by side: syncs that are under way together share the file system's
// commit and the device's flush. The threads begin with the first work and sleep without it.
class SyncCrew {
public:
    explicit SyncCrew(std::size_t helpers);
    // Waits for nobody: a helper whose disk hangs ends when the kernel lets it.
    ~SyncCrew();
    SyncCrew(const SyncCrew&) = delete;
    SyncCrew& operator=(const SyncCrew&) = delete;

    // Calls work(0) … work(count - 1), each once, on the helpers and the calling thread, and returns when all
    // of them have returned. One caller at a time.
    void run(std::size_t count, const std::function<void(std::size_t)>& work);

private:
    struct State;
    void start();
    static void help(const std::shared_ptr<State>& state);

    const std::size_t helpers_;
    std::shared_ptr<State> state_;
};

}  // namespace relay::recorder
