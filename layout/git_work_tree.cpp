// SPDX-License-Identifier: Apache-2.0
#include "layout/git_work_tree.hpp"

#include <boost/filesystem/path.hpp>

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace relay::layout {

namespace {

using boost::filesystem::path;

constexpr std::size_t small_bytes_max = 4096;
constexpr std::size_t packed_refs_bytes_max = std::size_t{16} * 1024 * 1024;
constexpr int symbolic_depth_max = 5;  // as deep as git itself follows

std::optional<std::string> read_all(int descriptor, std::size_t bytes_max) {
    struct stat status {};
    if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)
        || status.st_size > static_cast<off_t>(bytes_max)) {
        return std::nullopt;
    }
    std::string content(static_cast<std::size_t>(status.st_size), '\0');
    std::size_t filled = 0;
    while (filled < content.size()) {
        const ssize_t got = ::read(descriptor, &content[filled], content.size() - filled);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return std::nullopt;
        }
        if (got == 0) {
            break;
        }
        filled += static_cast<std::size_t>(got);
    }
    content.resize(filled);
    return content;
}

std::optional<std::string> read_regular_file(const path& file, std::size_t bytes_max) {
    // O_NONBLOCK: a FIFO under this name must not hold us up.
    const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) {
        return std::nullopt;
    }
    std::optional<std::string> content = read_all(descriptor, bytes_max);
    // Nothing was written through it, so there is nothing a failed close could lose.
    static_cast<void>(::close(descriptor));
    return content;
}

// The content of a one-line file without its line end.
std::optional<std::string> read_line(const path& file) {
    std::optional<std::string> line = read_regular_file(file, small_bytes_max);
    while (line && !line->empty() && (line->back() == '\n' || line->back() == '\r')) {
        line->pop_back();
    }
    if (line && line->find('\0') != std::string::npos) {
        return std::nullopt;
    }
    return line;
}

bool is_commit_id(std::string_view text) {
    const bool sized = text.size() == 40 || text.size() == 64;
    return sized && std::all_of(text.begin(), text.end(), [](char digit) {
               return (digit >= '0' && digit <= '9') || (digit >= 'a' && digit <= 'f');
           });
}

// Whether a name may be looked up as a file below the git directory. A component that begins with a
// dot is no ref, and ".." would lead elsewhere. (HEAD of a reftable repository says ".invalid".)
bool is_ref_name(std::string_view name) {
    const bool printable = std::all_of(name.begin(), name.end(), [](char character) {
        return static_cast<unsigned char>(character) > 0x20 && character != 0x7f;
    });
    return printable && name.starts_with("refs/") && !name.ends_with('/')
           && name.find("/.") == std::string_view::npos
           && name.find("//") == std::string_view::npos;
}

// "ref: refs/heads/main" -> "refs/heads/main".
std::optional<std::string> symbolic_target(std::string_view content) {
    constexpr std::string_view prefix = "ref:";
    if (!content.starts_with(prefix)) {
        return std::nullopt;
    }
    content.remove_prefix(prefix.size());
    content.remove_prefix(std::min(content.find_first_not_of(" \t"), content.size()));
    if (!is_ref_name(content)) {
        return std::nullopt;
    }
    return std::string{content};
}

// Lines "<commit id> <ref>"; others are comments and peeled tags.
std::optional<std::string> find_packed(const path& common, std::string_view ref) {
    const auto packed = read_regular_file(common / "packed-refs", packed_refs_bytes_max);
    if (!packed) {
        return std::nullopt;
    }
    std::string_view rest = *packed;
    while (!rest.empty()) {
        const std::size_t end = std::min(rest.find('\n'), rest.size());
        const std::string_view line = rest.substr(0, end);
        rest.remove_prefix(std::min(end + 1, rest.size()));
        const std::size_t space = line.find(' ');
        if (space != std::string_view::npos && line.substr(space + 1) == ref
            && is_commit_id(line.substr(0, space))) {
            return std::string{line.substr(0, space)};
        }
    }
    return std::nullopt;
}

std::optional<std::string> resolve_ref(const path& common, std::string ref) {
    for (int depth = 0; depth < symbolic_depth_max; ++depth) {
        std::optional<std::string> loose = read_line(common / ref);
        if (!loose) {
            return find_packed(common, ref);
        }
        if (is_commit_id(*loose)) {
            return loose;
        }
        std::optional<std::string> target = symbolic_target(*loose);
        if (!target) {
            return std::nullopt;
        }
        ref = std::move(*target);
    }
    return std::nullopt;
}

void read_head(const path& git_directory, const path& common, GitWorkTree& into) {
    const std::optional<std::string> head = read_line(git_directory / "HEAD");
    if (!head) {
        return;
    }
    if (is_commit_id(*head)) {
        into.head = head;
        return;
    }
    const std::optional<std::string> ref = symbolic_target(*head);
    if (!ref) {
        return;
    }
    constexpr std::string_view heads = "refs/heads/";
    into.branch = ref->starts_with(heads) ? ref->substr(heads.size()) : *ref;
    into.head = resolve_ref(common, *ref);
}

// The directory that `.git` is or, as a file, names.
std::optional<path> git_directory_of(const std::string& root) {
    const path dot_git = path{root} / ".git";
    struct stat status {};
    if (::stat(dot_git.c_str(), &status) != 0) {
        return std::nullopt;
    }
    if (S_ISDIR(status.st_mode)) {
        return dot_git;
    }
    constexpr std::string_view prefix = "gitdir: ";
    const std::optional<std::string> line = read_line(dot_git);
    if (!line || !line->starts_with(prefix) || line->size() == prefix.size()) {
        return std::nullopt;
    }
    const path named{line->substr(prefix.size())};
    return (named.is_absolute() ? named : path{root} / named).lexically_normal();
}

// The directory that holds the refs; a linked worktree's git directory names it in `commondir`.
path common_directory_of(const path& git_directory) {
    const std::optional<std::string> line = read_line(git_directory / "commondir");
    if (!line || line->empty()) {
        return git_directory;
    }
    const path named{*line};
    return (named.is_absolute() ? named : git_directory / named).lexically_normal();
}

std::optional<std::string> canonical_directory(const path& directory) {
    struct Release {
        void operator()(char* text) const { std::free(text); }
    };
    const std::unique_ptr<char, Release> real{::realpath(directory.c_str(), nullptr)};
    if (!real) {
        return std::nullopt;
    }
    return std::string{real.get()};
}

// None where the repository is bare, or its git directory stands away from its work tree: then nothing
// says where the main worktree is.
std::optional<std::string> main_root_of(path common) {
    if (common.filename() == ".") {
        common = common.parent_path();  // what lexically_normal makes of a slash at the end
    }
    struct stat status {};
    if (common.filename() != ".git" || ::stat(common.c_str(), &status) != 0
        || !S_ISDIR(status.st_mode)) {
        return std::nullopt;
    }
    return canonical_directory(common.parent_path());
}

}  // namespace

std::optional<GitWorkTree> read_git_work_tree(const std::string& root) {
    const std::optional<path> git_directory = git_directory_of(root);
    if (!git_directory) {
        return std::nullopt;
    }
    const path common = common_directory_of(*git_directory);
    GitWorkTree tree{.root = root, .main_root = root, .branch = {}, .head = {}};
    if (common != *git_directory) {
        tree.main_root = main_root_of(common).value_or(root);
    }
    read_head(*git_directory, common, tree);
    return tree;
}

}  // namespace relay::layout
