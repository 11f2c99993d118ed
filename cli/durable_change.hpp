// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/descriptor.hpp"
#include "layout/result.hpp"

#include <string>
#include <string_view>

// The door through which this program changes a store or its own small files, because a person asked for it. Each call has its effect
// whole or not at all, whenever the power goes, and the effect is durable when it returns success. No symbolic link in a
// last component is followed. Errors say what was attempted on what: Errc::not_found, exists, no_space, io.

namespace relay::cli {

// The directory and those above it, 0700 where they are made.
[[nodiscard]] layout::Status make_directories(const std::string& directory);

// Mode 0700. One that is there already will do.
[[nodiscard]] layout::Status make_private_directory(const std::string& path);

// Never over something that is there (Errc::exists), and only within one file system.
[[nodiscard]] layout::Status move_directory(const std::string& from, const std::string& to);

// A file takes the name and place of another one, which need not be there. One that is not there has been moved already. Within one file
// system.
[[nodiscard]] layout::Status replace_file(const std::string& from, const std::string& to);

// With all that is in it; what is not there is removed already. Not atomic: move it out of sight first.
[[nodiscard]] layout::Status remove_tree(const std::string& path);

// What is not there is removed already.
[[nodiscard]] layout::Status remove_file(const std::string& path);

// Makes or replaces a symbolic link.
[[nodiscard]] layout::Status point_link(const std::string& path, const std::string& target);

// A line, without its newline, at the end of a file, which is made with mode 0600.
[[nodiscard]] layout::Status append_line(const std::string& path, std::string_view line);

// A file on its way to its name, mode 0600: hidden beside it until publish(), and gone if that never comes.
class StagedFile {
public:
    [[nodiscard]] static layout::Result<StagedFile> create(const std::string& path);

    StagedFile(StagedFile&& other) noexcept;
    StagedFile(const StagedFile&) = delete;
    StagedFile& operator=(const StagedFile&) = delete;
    StagedFile& operator=(StagedFile&&) = delete;
    ~StagedFile();

    [[nodiscard]] layout::Status append(std::string_view bytes);
    // Replaces what has the name.
    [[nodiscard]] layout::Status publish();

private:
    StagedFile(Descriptor file, std::string path);

    Descriptor file_;
    std::string path_;  // empty once it is published or moved from
};

// The whole of a small file, made or replaced.
[[nodiscard]] layout::Status write_atomically(const std::string& path, std::string_view text);

}  // namespace relay::cli
