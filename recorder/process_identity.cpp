// SPDX-License-Identifier: Apache-2.0
#include "recorder/process_identity.hpp"

#include "layout/session_reader.hpp"

#include <charconv>

namespace relay::recorder {

namespace {

constexpr std::int64_t proc_file_bytes_max = 4096;

std::string boot_id() {
    auto text = layout::read_file("/proc/sys/kernel/random/boot_id", proc_file_bytes_max);
    return text.ok() ? text.value().substr(0, text.value().find('\n')) : std::string();
}

// Field 22 of /proc/<pid>/stat. The command in field 2 may hold anything, also ") ", so counting begins
// behind its last parenthesis. A zombie is dead: its fields before are ") Z".
std::string start_time(std::int64_t pid) {
    auto text = layout::read_file("/proc/" + std::to_string(pid) + "/stat", proc_file_bytes_max);
    if (!text.ok()) {
        return {};
    }
    std::string_view rest = text.value();
    const std::size_t command_end = rest.rfind(')');
    if (command_end == std::string_view::npos || command_end + 2 >= rest.size()) {
        return {};
    }
    rest.remove_prefix(command_end + 2);
    if (rest.front() == 'Z' || rest.front() == 'X') {
        return {};
    }
    for (int field = 3; field < 22; ++field) {
        const std::size_t space = rest.find(' ');
        if (space == std::string_view::npos) {
            return {};
        }
        rest.remove_prefix(space + 1);
    }
    return std::string(rest.substr(0, rest.find(' ')));
}

}  // namespace

std::string process_identity(std::int64_t pid) {
    const std::string started = start_time(pid);
    const std::string boot = boot_id();
    if (started.empty() || boot.empty()) {
        return {};
    }
    return std::to_string(pid) + " " + started + " " + boot;
}

std::int64_t pid_of(std::string_view identity) {
    std::int64_t pid = 0;
    const auto parsed = std::from_chars(identity.data(), identity.data() + identity.size(), pid);
    return parsed.ec == std::errc() ? pid : 0;
}

OwnerFate fate_of(std::string_view identity) {
    const std::size_t boot_at = identity.rfind(' ');
    if (boot_at == std::string_view::npos) {
        return OwnerFate::unknown;
    }
    if (identity.substr(boot_at + 1) != boot_id()) {
        return OwnerFate::rebooted;
    }
    const std::int64_t pid = pid_of(identity);
    if (pid <= 0) {
        return OwnerFate::unknown;
    }
    return process_identity(pid) == identity ? OwnerFate::alive : OwnerFate::dead;
}

}  // namespace relay::recorder
