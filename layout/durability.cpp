// SPDX-License-Identifier: Apache-2.0
#include "layout/durability.hpp"

#include "layout/input_file.hpp"

#include <linux/magic.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>

namespace relay::layout {

namespace {

// Not in every linux/magic.h.
constexpr std::uint32_t cifs_magic = 0xFF534D42;
constexpr std::uint32_t smb2_magic = 0xFE534D42;
constexpr std::uint32_t ceph_magic = 0x00C36400;
constexpr std::uint32_t zfs_magic = 0x2FC12FC1;

struct FileSystem {
    std::uint32_t magic = 0;
    std::string_view name;
    Durability durability = Durability::synced;
};

constexpr std::array file_systems{
    FileSystem{EXT4_SUPER_MAGIC, "ext4"},
    FileSystem{XFS_SUPER_MAGIC, "xfs"},
    FileSystem{BTRFS_SUPER_MAGIC, "btrfs"},
    FileSystem{zfs_magic, "zfs"},
    FileSystem{F2FS_SUPER_MAGIC, "f2fs"},
    FileSystem{OVERLAYFS_SUPER_MAGIC, "overlay"},
    FileSystem{TMPFS_MAGIC, "tmpfs", Durability::memory},
    FileSystem{RAMFS_MAGIC, "ramfs", Durability::memory},
    FileSystem{NFS_SUPER_MAGIC, "nfs", Durability::network},
    FileSystem{SMB_SUPER_MAGIC, "smb", Durability::network},
    FileSystem{smb2_magic, "smb", Durability::network},
    FileSystem{cifs_magic, "cifs", Durability::network},
    FileSystem{V9FS_MAGIC, "9p", Durability::network},
    FileSystem{FUSE_SUPER_MAGIC, "fuse", Durability::network},
    FileSystem{ceph_magic, "ceph", Durability::network},
};

const FileSystem* find_file_system(std::uint32_t magic) {
    const auto* const found =
        std::find_if(file_systems.begin(), file_systems.end(), [magic](const FileSystem& each) {
            return each.magic == magic;
        });
    return found == file_systems.end() ? nullptr : found;
}

Error refused(std::string_view verb, std::string_view name, int number) {
    return Error{
        Errc::io,
        number,
        std::string(verb) + " " + std::string(name) + ": "
            + std::generic_category().message(number)};
}

bool has_option(std::string_view options, std::string_view wanted) {
    while (!options.empty()) {
        const std::size_t comma = options.find(',');
        if (options.substr(0, comma) == wanted) {
            return true;
        }
        options.remove_prefix(comma == std::string_view::npos ? options.size() : comma + 1);
    }
    return false;
}

// `line` is one of /proc/self/mountinfo: "36 35 0:30 / /mnt rw shared:1 - overlay none
// rw,volatile". The kernel escapes blanks inside fields, so the last field is everything after the
// last blank.
bool is_volatile_mount(std::string_view line, std::uint64_t mount_id) {
    if (!line.starts_with(std::to_string(mount_id) + " ")) {
        return false;
    }
    const std::string_view options = line.substr(line.rfind(' ') + 1);
    return has_option(options, "volatile") || has_option(options, "fsync=volatile");
}

Result<std::string> read_mounts() {
    const std::string path = "/proc/self/mountinfo";
    Result<InputFile> file = InputFile::open(AT_FDCWD, path);
    if (!file.ok()) {
        return file.error();
    }
    std::string text;
    std::array<char, 4096> buffer{};
    for (;;) {
        // In pieces: it says nothing of its size.
        const ssize_t got = file.value().read(buffer.data(), buffer.size());
        if (got < 0) {
            return input_error(path, errno);
        }
        if (got == 0) {
            return text;
        }
        text.append(buffer.data(), static_cast<std::size_t>(got));
    }
}

// An overlay mounted volatile answers every sync with success and does nothing.
Result<Durability> overlay_durability(int descriptor, std::string_view name) {
    struct statx found {};
    if (::statx(descriptor, "", AT_EMPTY_PATH, STATX_MNT_ID, &found) != 0) {
        return refused("stat", name, errno);
    }
    const Result<std::string> mounts = read_mounts();
    if (!mounts.ok()) {
        return mounts.error();
    }
    std::string_view rest = mounts.value();
    while (!rest.empty()) {
        const std::size_t end = rest.find('\n');
        if (is_volatile_mount(rest.substr(0, end), found.stx_mnt_id)) {
            return Durability::memory;
        }
        rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    }
    return Durability::synced;
}

}  // namespace

// The kernel's magic numbers have 32 bits; f_type is wider and may be sign-extended.
Result<std::uint32_t> file_system_magic(int descriptor, std::string_view name) {
    struct statfs found {};
    int status = -1;
    do {
        status = ::fstatfs(descriptor, &found);
    } while (status != 0 && errno == EINTR);
    if (status != 0) {
        return refused("statfs", name, errno);
    }
    return static_cast<std::uint32_t>(found.f_type);
}

std::string file_system_name(std::uint32_t magic) {
    if (const FileSystem* const known = find_file_system(magic)) {
        return std::string(known->name);
    }
    constexpr std::string_view digits = "0123456789abcdef";
    std::string name = "file system 0x";
    for (int shift = 28; shift >= 0; shift -= 4) {
        name += digits[(magic >> static_cast<unsigned>(shift)) & 15U];
    }
    return name;
}

Result<Durability> durability_of(int descriptor, std::string_view name) {
    const Result<std::uint32_t> magic = file_system_magic(descriptor, name);
    if (!magic.ok()) {
        return magic.error();
    }
    if (magic.value() == OVERLAYFS_SUPER_MAGIC) {
        return overlay_durability(descriptor, name);
    }
    const FileSystem* const known = find_file_system(magic.value());
    return known == nullptr ? Durability::synced : known->durability;
}

}  // namespace relay::layout
