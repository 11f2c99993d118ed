// SPDX-License-Identifier: Apache-2.0
#include "recorder/instance_lock.hpp"

#include <array>
#include <string>

namespace relay::recorder {

namespace {

constexpr std::string_view pid_file = "pid";

std::string read_pid(Directory& directory) {
    auto file = directory.open_file(pid_file, OpenMode::existing);
    if (!file.ok()) {
        return "unknown";
    }
    std::array<char, 32> digits{};
    auto count = file.value()->read(0, digits.data(), digits.size());
    if (!count.ok()) {
        return "unknown";
    }
    const std::string_view text(digits.data(), count.value());
    return std::string(text.substr(0, text.find('\n')));
}

}  // namespace

Status take_instance_lock(Directory& directory, std::int64_t own_pid) {
    if (Status locked = directory.lock(); !locked.ok()) {
        if (locked.error().code != Errc::busy) {
            return locked;
        }
        return Error{
            Errc::busy, 0, "another agent-relayd is running with pid " + read_pid(directory)};
    }
    // Only for the sentence above: nothing depends on it, so it is not synced, and a full disk is no
    // reason not to start.
    if (auto file = directory.open_file(pid_file, OpenMode::create); file.ok()) {
        static_cast<void>(file.value()->truncate(0));
        static_cast<void>(file.value()->write(0, std::to_string(own_pid) + "\n"));
    }
    return layout::Done{};
}

}  // namespace relay::recorder
