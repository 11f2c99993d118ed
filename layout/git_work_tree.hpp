// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/documents.hpp"

#include <optional>
#include <string>

namespace relay::layout {

// What the plain files of a git work tree tell; no git process is run, nothing is written.
struct GitWorkTree {
    std::string root;       // the directory that holds .git
    std::string main_root;  // of the main worktree; equals root unless this one is linked
    std::optional<std::string> branch;  // none when HEAD is detached
    std::optional<std::string> head;    // commit id; none before the first commit
};

// Reads <root>/.git, a directory or a "gitdir:" file (linked worktree, submodule). None when it is
// neither. Files larger than 16 MiB (packed-refs) are not read: then `head` is none.
[[nodiscard]] std::optional<GitWorkTree> read_git_work_tree(const std::string& root);

}  // namespace relay::layout
