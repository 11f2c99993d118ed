// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/result.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace relay::cli {

// Tells what happens in directories, and that the user pressed Ctrl-C: inotify(7) and signalfd(2) behind
// one wait. From its making to its end SIGINT does not end the process. One at a time in a process.
class FileEvents {
public:
    [[nodiscard]] static layout::Result<FileEvents> open();
    FileEvents(const FileEvents&) = delete;
    FileEvents& operator=(const FileEvents&) = delete;
    FileEvents(FileEvents&& other) noexcept;
    FileEvents& operator=(FileEvents&&) = delete;
    ~FileEvents();

    // From now on tells what is written, made, renamed or removed in this directory, and its own end. The
    // number names it in wait(). Errc::not_found when it is not there, Errc::busy when the kernel watches
    // as many directories as it may. The same directory twice gets the same number.
    [[nodiscard]] layout::Result<int> watch(const std::string& directory);
    void forget(int number);

    struct Event {
        int number = -1;
        std::string name;   // of the file in the directory; empty: the directory itself
        bool made = false;  // the name is new in the directory
        bool gone = false;  // the directory itself was removed or renamed
        bool lost = false;  // too many at once: look at everything
    };
    // Waits until there is something; nothing when that is Ctrl-C, or the limit, if there is one, has passed.
    [[nodiscard]] layout::Result<std::vector<Event>>
    wait(const std::optional<std::chrono::milliseconds>& limit = std::nullopt);

    // Ctrl-C was pressed since this object was made.
    [[nodiscard]] bool interrupted();

private:
    FileEvents(int inotify, int signals) : inotify_(inotify), signals_(signals) {}
    [[nodiscard]] std::vector<Event> take_events() const;

    int inotify_ = -1;
    int signals_ = -1;
    bool interrupted_ = false;
};

}  // namespace relay::cli
