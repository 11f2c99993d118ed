// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/result.hpp"

#include <string>
#include <string_view>
#include <vector>

// Which configuration files of repositories the user trusts. A file that came with somebody's repository could name
// any program as an agent; it counts only after the user has looked at it, and only as it was then.

namespace relay::cli {

// In the user's state directory.
inline constexpr std::string_view trust_file = "trust.json";

struct TrustedFile {
    std::string file;    // absolute, without links
    std::string sha256;  // of its content, in hex
    std::string at;      // when it was trusted
};

class TrustList {
public:
    // Empty when nothing was ever trusted. Errc::corrupt when the list cannot be understood: then nothing is
    // trusted.
    [[nodiscard]] static layout::Result<TrustList> read(const std::string& state_directory);

    [[nodiscard]] const std::vector<TrustedFile>& files() const { return files_; }
    [[nodiscard]] bool trusts(std::string_view file, std::string_view content) const;

private:
    std::vector<TrustedFile> files_;
};

// Trusts `file` as long as it has this content. Survives a loss of power; two calls at once lose nothing.
[[nodiscard]] layout::Status
trust(const std::string& state_directory, const std::string& file, std::string_view content);

// False when it was not trusted.
[[nodiscard]] layout::Result<bool>
revoke_trust(const std::string& state_directory, const std::string& file);

}  // namespace relay::cli
