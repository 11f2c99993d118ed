// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/durability.hpp"
#include "layout/result.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// The only door to the file system. PosixDisk is the real one; the simulation has a model behind the
// same door that loses power and refuses calls. Names are relative to a Directory, may have several
// components ("turns/001-output.md"), never lead upwards, and no symbolic link is ever followed.
//
// One word a guarantee: a *write* is in the page cache and visible to readers; a *sync* makes what was
// written survive power loss; a *rename* is atomic for readers and survives once its directory or file
// system was synced.

namespace relay::recorder {

using layout::Errc;
using layout::Error;
using layout::Result;
using layout::Status;

enum class FileKind { regular, directory, symbolic_link, other };

struct FileStat {
    FileKind kind = FileKind::regular;
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::uint64_t links = 0;
    std::uint32_t owner = 0;
    std::int64_t size = 0;
    std::int64_t modified_ns = 0;
    bool read_only =
        false;  // of an open directory: so it is mounted here, whatever its disk takes elsewhere

    [[nodiscard]] bool same_file(const FileStat& other) const {
        return device == other.device && inode == other.inode;
    }
};

// Whether the disk refuses, and not one directory to this user alone.
[[nodiscard]] inline bool is_disk_fault(const Error& error) {
    const bool forbidden = error.os_errno == EACCES || error.os_errno == EPERM;
    return error.code == Errc::no_space || (error.code == Errc::io && !forbidden);
}

// An open regular file. One thread at a time. Destroying it closes it without looking at the answer,
// so whoever wrote through it must have synced it first or still hold the bytes in the journal.
class File {
public:
    File() = default;
    virtual ~File() = default;
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    // Up to `size` bytes from `offset`; fewer only at the end of the file.
    virtual Result<std::size_t> read(std::int64_t offset, char* into, std::size_t size) = 0;

    // All of `bytes` at `offset`, or an error; after an error any part may have been written.
    virtual Status write(std::int64_t offset, std::string_view bytes) = 0;

    // After success everything written so far survives power loss. After failure it may not, and a
    // second call proves nothing: the kernel has dropped the dirty pages. Write again, then sync.
    virtual Status sync() = 0;

    // Starts write-back and does not wait: a hint that makes the sync of several files cheaper.
    virtual void start_writeback() = 0;

    virtual Status truncate(std::int64_t size) = 0;
    virtual Result<FileStat> stat() = 0;
};

enum class OpenMode {
    existing,          // must be a regular file of ours with one link; otherwise Errc::unsafe
    create_exclusive,  // Errc::exists when the name is taken; mode 0600
    create,            // either of the two
};

using layout::Durability;

// An open directory. It follows when the directory is moved. Threads may share it.
class Directory {
public:
    Directory() = default;
    virtual ~Directory() = default;
    Directory(const Directory&) = delete;
    Directory& operator=(const Directory&) = delete;

    virtual Result<std::unique_ptr<File>> open_file(std::string_view name, OpenMode mode) = 0;
    virtual Result<std::unique_ptr<Directory>> open_directory(std::string_view name) = 0;

    // Mode 0700. Errc::exists when the name is taken.
    virtual Status make_directory(std::string_view name) = 0;

    // Replaces `to` atomically if it exists.
    virtual Status rename(std::string_view from, std::string_view to) = 0;
    // Errc::exists when `to` is taken, by whatever it is.
    virtual Status rename_new(std::string_view from, std::string_view to) = 0;
    virtual Status remove(std::string_view name) = 0;  // a file or a symbolic link
    virtual Status make_symbolic_link(std::string_view target, std::string_view name) = 0;

    virtual Result<FileStat> stat(std::string_view name) = 0;  // of a link: the link itself
    virtual Result<FileStat> stat() = 0;
    virtual Result<bool> deleted() = 0;
    virtual Result<std::vector<std::string>> list() = 0;  // names in no order, without "." and ".."

    // Makes names created, renamed or removed directly in this directory survive power loss.
    virtual Status sync() = 0;

    // Makes everything written to this file system so far survive power loss, names and contents. The
    // first call after a failed write-back of any file reports it, if this directory was open by then.
    virtual Status sync_file_system() = 0;

    // What File::sync() says of each of these files, which lie on this file system and which nobody uses
    // meanwhile; the first refusal, if there is any. Side by side where that is quicker. One thread at a time.
    virtual Status sync_files(std::span<File* const> files) {
        for (File* const file : files) {
            if (Status synced = file->sync(); !synced.ok()) {
                return synced;
            }
        }
        return layout::Done{};
    }

    // Where the directory is now. Errc::gone when it was deleted.
    virtual Result<std::string> path() = 0;
    virtual Result<Durability> durability() = 0;

    // Takes the advisory lock of this directory for as long as it is open; Errc::busy when another
    // process has it.
    virtual Status lock() = 0;

    // Asks btrfs to overwrite files made here from now on in place, so that a full disk cannot refuse
    // the rewrite of a journal segment. Harmless and silent elsewhere.
    virtual void prefer_in_place_writes() = 0;
};

class Disk {
public:
    Disk() = default;
    virtual ~Disk() = default;
    Disk(const Disk&) = delete;
    Disk& operator=(const Disk&) = delete;

    // An absolute path that exists. Links in it are followed: it comes from our own configuration or
    // was made canonical before.
    virtual Result<std::unique_ptr<Directory>> open_directory(const std::string& path) = 0;
};

}  // namespace relay::recorder
