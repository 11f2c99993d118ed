// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace relay::cli {

// What a turn changes in a git work tree: the tree before it against the tree after it, untracked files
// included, ignored ones not. Everything happens on an index and in an object directory of our own, in a
// temporary directory that goes with this object: the user's index, objects, stash and hooks are not touched.
//
// The first picture is taken while the agent already runs, because it never waits for us. A file that was
// changed since begin() was called counts as the user's index has it.
class GitChanges {
public:
    // Larger files are named and not shown.
    static constexpr std::int64_t file_bytes_max = 1 << 20;
    static constexpr std::size_t patch_bytes_max = 4 << 20;
    static constexpr std::size_t files_max = 1000;

    // None when `directory` is in no git work tree, or there is no git in `path` (as $PATH).
    [[nodiscard]] static std::optional<GitChanges>
    watch(const std::string& directory, const std::string& path);

    GitChanges(GitChanges&& other) noexcept;
    GitChanges& operator=(GitChanges&&) = delete;
    GitChanges(const GitChanges&) = delete;
    GitChanges& operator=(const GitChanges&) = delete;
    ~GitChanges();

    // A turn begins now.
    void begin();

    // The turn that was begun has ended. Members for turn.end: "files":[{"path":…,"status":…,"added":…,"removed":…}],"diff":"…"
    // when something changed, and "dirty":…; those that git does not answer are left out. Waits for git, but not longer
    // than some seconds.
    [[nodiscard]] std::string end();

private:
    struct Pictures;
    explicit GitChanges(std::unique_ptr<Pictures> pictures);

    std::unique_ptr<Pictures> pictures_;
};

}  // namespace relay::cli
