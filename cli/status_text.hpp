// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace relay::cli {

// What a daemon's answer to `status` says, a line a subject, indented by two; harmless on a terminal. A member that is
// missing or of another type than docs/protocol.md has counts as 0 or empty: an older daemon says less.
[[nodiscard]] std::string status_text(const nlohmann::ordered_json& status);

}  // namespace relay::cli
