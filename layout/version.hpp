// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace relay::layout {

// "0.1.0"; of both programs.
[[nodiscard]] std::string_view program_version();

// The commit that this was built from, shortened; empty when it was not built from a repository.
[[nodiscard]] std::string_view program_commit();

// "agent-relay 0.1.0 (commit 1a2b3c4d5e6f, format 1, protocol 1, g++ 12.2.0)" and a newline.
[[nodiscard]] std::string version_text(std::string_view program);

}  // namespace relay::layout
