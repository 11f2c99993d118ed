// SPDX-License-Identifier: Apache-2.0
#include "layout/version.hpp"

#include <relay_commit.hpp>  // made by cmake/Commit.cmake at every build

#ifndef RELAY_VERSION
#define RELAY_VERSION "0.1.0"
#endif

namespace relay::layout {

std::string_view program_version() {
    return RELAY_VERSION;
}

std::string_view program_commit() {
    return RELAY_COMMIT;
}

std::string version_text(std::string_view program) {
#if defined(__clang__)
    constexpr std::string_view compiler = "clang++ " __clang_version__;
#else
    constexpr std::string_view compiler = "g++ " __VERSION__;
#endif
    const std::string commit(program_commit());
    return std::string(program) + " " + std::string(program_version()) + " ("
           + (commit.empty() ? "" : "commit " + commit + ", ") + "format 1, protocol 1, "
           + std::string(compiler) + ")\n";
}

}  // namespace relay::layout
