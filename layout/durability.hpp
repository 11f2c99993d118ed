// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>

// What a file system makes of a sync.

namespace relay::layout {

enum class Durability {
    synced,   // a sync reaches stable storage
    memory,   // tmpfs, ramfs, a volatile overlay: nothing survives
    network,  // NFS, CIFS, 9p, FUSE: a sync may mean less than it says
};

// Of the file system that an open file or directory lies on; `name` is for messages.
[[nodiscard]] Result<Durability> durability_of(int descriptor, std::string_view name);

// The kernel's number for it: EXT4_SUPER_MAGIC, …
[[nodiscard]] Result<std::uint32_t> file_system_magic(int descriptor, std::string_view name);

// "ext4", "tmpfs", …; "file system 0x…" for one without a name here.
[[nodiscard]] std::string file_system_name(std::uint32_t magic);

}  // namespace relay::layout
