// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/result.hpp"

#include <errno.h>
#include <unistd.h>

#include <array>
#include <string>
#include <system_error>

namespace relay::cli {

// Absolute. It fails when somebody has removed it meanwhile.
[[nodiscard]] inline layout::Result<std::string> current_directory() {
    std::array<char, 4096> here{};
    if (::getcwd(here.data(), here.size()) == nullptr) {
        return layout::Error{
            layout::Errc::io,
            errno,
            "find the current directory: " + std::system_category().message(errno)};
    }
    return std::string(here.data());
}

}  // namespace relay::cli
