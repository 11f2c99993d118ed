// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "recorder/disk.hpp"
#include "tests/support/random.hpp"

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace relay::tests {

// Disks in memory that lose power, fill up, refuse calls and are meddled with by a user.
// Deterministic: the same calls and the same seeds give the same answers. One thread at a time;
// handles must be destroyed before the disk.
//
// There are two truths. What is *seen* is the page cache: every write and rename at once. What is
// *durable* is what power loss leaves:
//
//     File::sync                  content and size of that file; not its name
//     Directory::sync             the names of its file system, in the order in which they were
//                                 made, up to the last one that touches this directory
//     Directory::sync_file_system everything on that file system
//
// What is not durable at power loss is drawn: of the names of each file system a prefix survives;
// of a file each 512-byte sector survives as it was after its latest write, after an earlier one,
// or not at all; its size is the durable one or one that was seen since. So a file that was renamed
// without a sync may be found empty, full of zeros, or mixed.
//
// The end of a process needs no function: destroy the handles; what is seen stays.
//
// Answers are those of PosixDisk, including Errc::unsafe for links and for names that lead
// elsewhere. Not modelled: permissions, hard links, links in the path of Disk::open_directory
// (Errc::not_found).
class ModelDisk final : public recorder::Disk {
public:
    // path(), durability() and lock() count as `stat`.
    enum class Op {
        open,
        read,
        write,
        sync,
        truncate,
        stat,
        make_directory,
        rename,
        remove,
        symbolic_link,
        list,
        sync_directory,
        sync_file_system,
    };

    // Strikes the first operation that has this number or a later one and passes the filters, and
    // with `for_ever` every such operation. Several may be set; the first that matches strikes.
    //
    // A refused sync loses its dirty pages, as on Linux: what was written stays visible, the disk
    // keeps the old bytes, and the next sync of that handle answers success. Writing again and
    // syncing heals it. Other handles hear of it as of a failed write-back.
    struct Fault {
        std::int64_t at_operation = 0;
        int os_errno = 0;
        bool for_ever = false;
        std::int64_t short_write_bytes = -1;  // a write puts down so many before it is refused
        bool lose_power_instead = false;      // just before it, drawn from the disk's seed
        // Just before it every handle dies and nothing more is done until power_on(), as when the
        // process is killed; what is seen stays.
        bool end_process_instead = false;
        std::optional<Op> only = std::nullopt;
        std::string mount_point = {};  // empty: on any of them
    };

    static constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();
    static constexpr std::size_t sector_bytes = 512;

    // Each mount point is an absolute path, none below another; each is a file system of its own
    // with an empty root directory.
    explicit ModelDisk(const std::vector<std::string>& mount_points, std::uint64_t seed = 0);
    ~ModelDisk() override;
    ModelDisk(const ModelDisk&) = delete;
    ModelDisk& operator=(const ModelDisk&) = delete;

    recorder::Result<std::unique_ptr<recorder::Directory>>
    open_directory(const std::string& path) override;

    // Decides what survives, and makes it what is seen. Every handle is dead from here on and every
    // operation answers Errc::io; after power_on() new handles work. No-op when the power is off.
    void lose_power(Random& random);
    void power_on();
    [[nodiscard]] bool has_power() const { return powered_; }

    // Called before every operation that no fault strikes, with the mount point it goes to. It may call
    // operations itself, as another thread would.
    using Observer = std::function<void(Op op, const std::string& mount_point)>;
    void set_observer(Observer observer);

    void set_faults(std::vector<Fault> faults);
    [[nodiscard]] bool faults_left() const { return !faults_.empty(); }

    // The number that the next operation will have: calls of the door so far, refused ones
    // included; start_writeback, prefer_in_place_writes and destructors do not count.
    [[nodiscard]] std::int64_t operations() const { return operations_; }
    [[nodiscard]] std::int64_t open_handles() const { return open_handles_; }

    // A lazy unmount: what is open goes on, but until user_mount() the way from the root leads to another
    // disk, on which there are these directories at first. Everything else here goes on speaking of the
    // one that was unmounted.
    void
    user_unmount(const std::string& mount_point, const std::vector<std::string>& directories = {});
    // Under the number it had, or under a new one like a disk that was plugged in again.
    void user_mount(const std::string& mount_point, bool renumbered = false);
    // What was written on the other disk.
    [[nodiscard]] std::map<std::string, std::string>
    seen_beneath(const std::string& mount_point) const;

    // Two mounts of what calls itself one disk. Everything else about them stays apart.
    void share_device(const std::string& mount_point, const std::string& with);

    // Bytes of all files seen there, deleted but open ones included. A write that would exceed them
    // puts down what fits and answers ENOSPC.
    void set_capacity(const std::string& mount_point, std::int64_t bytes);
    [[nodiscard]] std::int64_t used(const std::string& mount_point) const;

    // EROFS for every change, and for every open_file, because files are opened for writing. What
    // was written before can still be synced.
    void set_read_only(const std::string& mount_point, bool read_only);

    // The kernel tries to write back this file's dirty pages and fails: they are dropped as by a
    // refused sync. The next sync of each handle that has the file open now answers EIO, and so
    // does the next sync_file_system of each directory open now; whoever opens later never hears of
    // it.
    void fail_writeback(const std::string& path);

    // Acts of a user, seen and durable at once. Names that were made before become durable with
    // them, since a file system commits names in order. Never refused, not counted.
    void user_remove_tree(const std::string& path);
    // A new file under the name, as editors save. Makes missing directories.
    void user_write(const std::string& path, std::string_view bytes);

    void user_edit_in_place(const std::string& path, std::string_view bytes);
    void user_rename(const std::string& from, const std::string& to);

    // The content of a file, or "-> target" of a link. Nothing when the path is absent or a
    // directory.
    [[nodiscard]] std::optional<std::string> seen(const std::string& path) const;
    [[nodiscard]] std::optional<std::string> durable(const std::string& path) const;

    // The same without a copy, until the next change: of a regular file, and of all below a directory by
    // their path from there, a link with its bare target.
    [[nodiscard]] std::optional<std::string_view> peek(const std::string& path) const;
    [[nodiscard]] std::map<std::string, std::string_view, std::less<>>
    peek_files(const std::string& path) const;

    // Everything below a directory by absolute path; a directory is "" under a name that ends in '/'.
    [[nodiscard]] std::map<std::string, std::string> seen_tree(const std::string& path) const;
    // The names in a directory.
    [[nodiscard]] std::vector<std::string> seen_names(const std::string& path) const;

    // Whether the file now seen at `path` has these bytes at this offset in its durable content,
    // whatever became of its name.
    [[nodiscard]] bool
    is_durable(const std::string& path, std::int64_t offset, std::string_view bytes) const;

    // Whether power loss would leave the file now seen at `path` exactly as it is.
    [[nodiscard]] bool is_settled(const std::string& path) const;

private:
    struct Inode;
    struct FileSystem;
    struct Verdict;
    class Handle;
    class OpenFile;
    class OpenDirectory;

    [[nodiscard]] FileSystem* file_system_of(std::string_view path) const;
    [[nodiscard]] FileSystem* reached_by(std::string_view path) const;
    [[nodiscard]] FileSystem& mounted_at(const std::string& mount_point) const;
    [[nodiscard]] static std::map<std::string, std::string>
    tree_of(const Inode* directory, const std::string& path);
    FileSystem& add_file_system(const std::string& mount_point);
    Verdict admit(Op op, const FileSystem& file_system, std::uint64_t epoch);

    std::vector<std::unique_ptr<FileSystem>> file_systems_;
    std::vector<Fault> faults_;
    Observer observer_;
    Random random_;
    bool powered_ = true;
    std::uint64_t epoch_ = 0;  // one more with each power loss; a handle of an older one is dead
    std::int64_t operations_ = 0;
    std::int64_t open_handles_ = 0;
    std::int64_t clock_ns_ = 0;
    std::uint64_t next_inode_ = 1;
    std::uint32_t owner_;
};

}  // namespace relay::tests
