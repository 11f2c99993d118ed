// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace relay::cli {

// What tells one state of a file or directory from every other: device, inode, size, and the times of the
// last change to content and to inode in nanoseconds. A directory's changes when a name in it comes, goes or is replaced.
struct FileStamp {
    std::array<std::int64_t, 5> fields{};

    bool operator==(const FileStamp&) const = default;

    // Of `name` in the open directory `directory`, or of a path when that is AT_FDCWD; none when there is nothing.
    // Does not follow a link in its last component.
    [[nodiscard]] static std::optional<FileStamp> of(int directory, const std::string& name);

    // Whether a later change is sure to make a different stamp, when `now` was before the content was read.
    // The kernel's clock for files ticks every few milliseconds and some file systems keep seconds, so two
    // changes soon after each other may look the same.
    [[nodiscard]] bool settled(std::int64_t now_ns) const;

    // As an index keeps it: only good on the machine that wrote it.
    [[nodiscard]] std::string_view bytes() const;
};

[[nodiscard]] std::int64_t file_clock_ns();

}  // namespace relay::cli
