// SPDX-License-Identifier: Apache-2.0
#include "tests/support/loop_file_system.hpp"

#include "tests/support/daemon_process.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <utility>

namespace relay::tests {

namespace {

// Of ext4 and XFS alike; in no header of the C library.
constexpr unsigned long shutdown_request = _IOR('X', 125, std::uint32_t);
constexpr std::uint32_t shutdown_without_log_flush = 2;

std::string quoted(const std::string& word) {
    return "'" + word + "'";
}

bool shell(const std::string& line) {
    return run_shell(line).status == 0;
}

std::string make_command(const std::string& kind) {
    if (kind == "ext4") {
        return "mkfs.ext4 -q -F -m 0";  // nothing kept back for root: the daemon under test may be root
    }
    return kind == "xfs" ? "mkfs.xfs -q -f" : "mkfs.btrfs -q -f";
}

bool kernel_knows(const std::string& kind) {
    std::ifstream known("/proc/filesystems");
    for (std::string word; known >> word;) {
        if (word == kind) {
            return true;
        }
    }
    return shell("modprobe " + kind);
}

}  // namespace

std::string LoopFileSystem::hindrance(const std::string& kind) {
    if (::geteuid() != 0) {
        return "mounting " + kind + " needs root";
    }
    if (!shell("command -v mkfs." + kind)) {
        return "mkfs." + kind + " is not installed";
    }
    if (::access("/dev/loop-control", F_OK) != 0) {
        return "there are no loop devices";
    }
    return kernel_knows(kind) ? "" : "the kernel has no " + kind;
}

int LoopFileSystem::mebibytes_min(const std::string& kind) {
    if (kind == "ext4") {
        return 256;
    }
    return kind == "xfs" ? 320 : 256;
}

LoopFileSystem::LoopFileSystem(
    std::string kind, std::string image, std::string mount_point, int mebibytes)
    : kind_(std::move(kind)), image_(std::move(image)), mount_point_(std::move(mount_point)) {
    const bool made = shell(
        "truncate -s " + std::to_string(mebibytes) + "M " + quoted(image_) + " && "
        + make_command(kind_) + " " + quoted(image_) + " && mkdir -p " + quoted(mount_point_));
    mounted_ = made && mount() && shell("chmod 700 " + quoted(mount_point_));
}

LoopFileSystem::~LoopFileSystem() {
    if (mounted_) {
        static_cast<void>(unmount_lazily());
    }
}

bool LoopFileSystem::mount(const std::string& image) {
    // Two images of one file system are never mounted at a time, but the kernel remembers.
    const std::string forget = kind_ == "btrfs" ? "btrfs device scan --forget; " : "";
    const std::string options = kind_ == "xfs" ? "loop,nouuid" : "loop";
    mounted_ =
        shell(forget + "mount -o " + options + " " + quoted(image) + " " + quoted(mount_point_));
    return mounted_;
}

bool LoopFileSystem::unmount() {
    mounted_ = !shell("umount " + quoted(mount_point_));
    return !mounted_;
}

bool LoopFileSystem::unmount_lazily() {
    mounted_ = !shell("umount -l " + quoted(mount_point_));
    return !mounted_;
}

bool LoopFileSystem::remount(const std::string& mode) const {
    return shell("mount -o remount," + mode + " " + quoted(mount_point_));
}

void LoopFileSystem::fill() const {
    const std::string place = quoted(mount_point_ + "/filler");
    static_cast<void>(shell(
        "mkdir -p " + place + "; for bytes in 1M 64k 4k 1k; do dd if=/dev/zero of=" + place
        + "/$bytes bs=$bytes; done; sync -f " + place + "; dd if=/dev/zero of=" + place
        + "/last bs=1k; true"));
}

void LoopFileSystem::free() const {
    // btrfs gives the space back with its next commit only.
    static_cast<void>(
        shell("rm -rf " + quoted(mount_point_ + "/filler") + "; sync -f " + quoted(mount_point_)));
}

bool LoopFileSystem::freeze() const {
    return request(FIFREEZE);
}

bool LoopFileSystem::thaw() const {
    return request(FITHAW);
}

bool LoopFileSystem::request(unsigned long what) const {
    const int fd = ::open(mount_point_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool done = fd >= 0 && ::ioctl(fd, what, 0) == 0;
    ::close(fd);
    return done;
}

bool LoopFileSystem::cut_power() const {
    const int fd = ::open(mount_point_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    std::uint32_t flags = shutdown_without_log_flush;
    const bool done = fd >= 0 && ::ioctl(fd, shutdown_request, &flags) == 0;
    ::close(fd);
    return done;
}

bool LoopFileSystem::copy_image_to(const std::string& path) const {
    const int from = ::open(image_.c_str(), O_RDONLY | O_CLOEXEC);
    const int to = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const bool done = from >= 0 && to >= 0 && ::ioctl(to, FICLONE, from) == 0;
    ::close(from);
    ::close(to);
    return done;
}

}  // namespace relay::tests
