// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace relay::tests {

// A small file system of its own in an image file, mounted through a loop device for as long as this
// object lives. Needs root. One thread at a time.
class LoopFileSystem {
public:
    // Why there can be none of this kind ("ext4", "xfs" or "btrfs") here: a sentence; "" when there can.
    [[nodiscard]] static std::string hindrance(const std::string& kind);

    // Makes the image and, where it is missing, the mount point. mounted() says whether all went well.
    LoopFileSystem(std::string kind, std::string image, std::string mount_point, int mebibytes);
    LoopFileSystem(const LoopFileSystem&) = delete;
    LoopFileSystem& operator=(const LoopFileSystem&) = delete;
    ~LoopFileSystem();  // forgets it at once, whoever still uses it

    [[nodiscard]] bool mounted() const { return mounted_; }
    [[nodiscard]] const std::string& image() const { return image_; }
    [[nodiscard]] const std::string& path() const { return mount_point_; }

    [[nodiscard]] bool mount() { return mount(image_); }
    [[nodiscard]] bool mount(const std::string& image);  // another one, at the same place
    [[nodiscard]] bool unmount();
    [[nodiscard]] bool unmount_lazily();  // gone from its path; who has files open keeps them
    [[nodiscard]] bool remount(const std::string& mode) const;  // "ro", "rw"

    // Until not a byte more is taken, and back.
    void fill() const;
    void free() const;

    // Whoever writes waits, in the kernel, until it thaws. False when it cannot be done. Thaw before anybody is to be ended.
    [[nodiscard]] bool freeze() const;
    [[nodiscard]] bool thaw() const;

    // What a loss of power does: nothing that is not on the disk yet will get there, and every call fails
    // until it is mounted anew. False when the file system cannot do that (btrfs).
    [[nodiscard]] bool cut_power() const;

    // An atomic copy of the image, which must lie on a file system that shares blocks.
    [[nodiscard]] bool copy_image_to(const std::string& path) const;

    // Smallest sizes that hold a journal beside the file system's own needs.
    [[nodiscard]] static int mebibytes_min(const std::string& kind);

private:
    [[nodiscard]] bool request(unsigned long what) const;

    std::string kind_;
    std::string image_;
    std::string mount_point_;
    bool mounted_ = false;
};

}  // namespace relay::tests
