// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "recorder/disk.hpp"

#include <memory>
#include <string>

namespace relay::recorder {

// The real file system, by system calls.
//
// Below an open Directory no symbolic link is followed and no name leads out of it: a name that is
// absolute, empty, or has an empty, "." or ".." component is Errc::unsafe before the kernel is
// asked, and a link in any component is Errc::unsafe. Kernels and sandboxes without openat2 get the
// same answers by walking component by component.
//
// Every descriptor is close-on-exec and above 2, so that a stray line to stderr never lands in a
// file of ours. Files are born 0600 and directories 0700 whatever the umask says. EINTR is never
// reported.
//
// ENOSPC and EDQUOT are Errc::no_space, ENOENT and ENOTDIR not_found, EEXIST exists, everything
// else io with the errno kept. The context reads "write turns/001-output.md: No space left on
// device".
//
// Stateless: any thread may use it, and it need not outlive what it opened.
class PosixDisk final : public Disk {
public:
    Result<std::unique_ptr<Directory>> open_directory(const std::string& path) override;
};

}  // namespace relay::recorder
