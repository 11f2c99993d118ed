// SPDX-License-Identifier: Apache-2.0
#include "cli/durable_change.hpp"

#include "layout/session_paths.hpp"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

namespace relay::cli {

namespace {

using layout::Done;
using layout::Errc;
using layout::Error;
using layout::Result;
using layout::Status;

Error failure(const std::string& attempt, int os_errno) {
    Errc code = Errc::io;
    if (os_errno == ENOENT) {
        code = Errc::not_found;
    } else if (os_errno == EEXIST || os_errno == ENOTEMPTY) {
        code = Errc::exists;
    } else if (os_errno == ENOSPC || os_errno == EDQUOT) {
        code = Errc::no_space;
    }
    return {code, os_errno, attempt + ": " + std::generic_category().message(os_errno)};
}

std::string parent_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == 0 ? "/" : path.substr(0, slash);
}

// So that a name that was made, moved or removed in it stays so.
Status sync_directory(const std::string& path) {
    const Descriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory.valid() || ::fsync(directory.get()) != 0) {
        return failure("sync the directory " + path, errno);
    }
    return Done{};
}

// Two of us at once must not meet there, and neither must the daemon, which has names of its own for these.
std::string hidden_name(const std::string& path) {
    return layout::temporary_file(path + "." + std::to_string(::getpid()));
}

Status write_all(int descriptor, std::string_view bytes, const std::string& path) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
        if (written < 0 && errno != EINTR) {
            return failure("write " + path, errno);
        }
        bytes.remove_prefix(static_cast<std::size_t>(written < 0 ? 0 : written));
    }
    return Done{};
}

}  // namespace

Status make_directories(const std::string& directory) {
    for (std::size_t slash = 1; slash != std::string::npos;) {
        slash = directory.find('/', slash + 1);
        const std::string part = directory.substr(0, slash);
        if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
            struct stat status {};
            const int number = errno;
            // Some file systems refuse a name that is there already with another error than EEXIST.
            if (::stat(part.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
                return failure("make the directory " + part, number);
            }
        }
    }
    return Done{};
}

Status make_private_directory(const std::string& path) {
    if (::mkdir(path.c_str(), 0700) != 0) {
        const int why = errno;
        struct stat found {};
        const bool there = why == EEXIST && ::lstat(path.c_str(), &found) == 0;
        if (!there) {
            return failure("make the directory " + path, why);
        }
        if (!S_ISDIR(found.st_mode)) {
            return Error{Errc::unsafe, 0, path + " is in the way: it is no directory"};
        }
    }
    // Also of one that is there: whoever made it may have died before this.
    return sync_directory(parent_of(path));
}

Status move_directory(const std::string& from, const std::string& to) {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) != 0) {
        return failure("move " + from + " to " + to, errno);
    }
    // First where it is now: should the other one fail, it is in both places rather than in none.
    if (Status synced = sync_directory(parent_of(to)); !synced.ok()) {
        return synced;
    }
    return sync_directory(parent_of(from));
}

Status replace_file(const std::string& from, const std::string& to) {
    if (::rename(from.c_str(), to.c_str()) != 0 && errno != ENOENT) {
        return failure("move " + from + " to " + to, errno);
    }
    return sync_directory(parent_of(to));
}

Status remove_tree(const std::string& path) {
    std::error_code why;
    std::filesystem::remove_all(path, why);
    if (why) {
        return failure("remove " + path, why.value());
    }
    return sync_directory(parent_of(path));
}

Status remove_file(const std::string& path) {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
        return failure("remove " + path, errno);
    }
    return sync_directory(parent_of(path));
}

Status point_link(const std::string& path, const std::string& target) {
    const std::string hidden = hidden_name(path);
    if (::unlink(hidden.c_str()) != 0 && errno != ENOENT) {
        return failure("remove " + hidden, errno);
    }
    if (::symlink(target.c_str(), hidden.c_str()) != 0) {
        return failure("make the link " + hidden, errno);
    }
    if (::rename(hidden.c_str(), path.c_str()) != 0) {
        const int why = errno;
        static_cast<void>(::unlink(hidden.c_str()));  // the first failure is the one to tell
        return failure("point " + path + " to " + target, why);
    }
    return sync_directory(parent_of(path));
}

Status append_line(const std::string& path, std::string_view line) {
    const Descriptor file(::open(
        path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
    if (!file.valid()) {
        return failure("open " + path, errno);
    }
    // In one write, so that lines of two of us do not mix.
    if (Status written = write_all(file.get(), std::string(line) + "\n", path); !written.ok()) {
        return written;
    }
    if (::fsync(file.get()) != 0) {
        return failure("sync " + path, errno);
    }
    return sync_directory(parent_of(path));
}

StagedFile::StagedFile(Descriptor file, std::string path)
    : file_(std::move(file)), path_(std::move(path)) {
}

StagedFile::StagedFile(StagedFile&& other) noexcept
    : file_(std::move(other.file_)), path_(std::exchange(other.path_, {})) {
}

StagedFile::~StagedFile() {
    if (!path_.empty()) {
        // Nobody saw it, so nobody misses it.
        static_cast<void>(::unlink(hidden_name(path_).c_str()));
    }
}

Result<StagedFile> StagedFile::create(const std::string& path) {
    const std::string hidden = hidden_name(path);
    // A leftover of a process that had our number: it was never anything but ours.
    static_cast<void>(::unlink(hidden.c_str()));
    Descriptor file(
        ::open(hidden.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file.valid()) {
        return failure("make " + hidden, errno);
    }
    return StagedFile(std::move(file), path);
}

Status StagedFile::append(std::string_view bytes) {
    return write_all(file_.get(), bytes, hidden_name(path_));
}

Status StagedFile::publish() {
    const std::string hidden = hidden_name(path_);
    if (::fsync(file_.get()) != 0 || ::close(file_.release()) != 0) {
        return failure("sync " + hidden, errno);
    }
    if (::rename(hidden.c_str(), path_.c_str()) != 0) {
        return failure("rename " + hidden + " to " + path_, errno);
    }
    const std::string path = std::exchange(path_, {});
    return sync_directory(parent_of(path));
}

Status write_atomically(const std::string& path, std::string_view text) {
    Result<StagedFile> file = StagedFile::create(path);
    if (!file.ok()) {
        return file.error();
    }
    if (Status written = file.value().append(text); !written.ok()) {
        return written;
    }
    return file.value().publish();
}

}  // namespace relay::cli
