// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/result.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace relay::cli {

// What was known of a session when one of its turns ended, put together from the seals up to there: the
// members of resume.json that a prompt is made of, without a checkpoint_reason. What was said between turns
// stands in no seal and is not in it.
//
// Without a turn it is the last sealed one. A fork or clone that has no turn of its own yet is as its parent
// was, as far as that lies in the same store. `record` is the directory that holds the turns.
//
// Errc::not_found when there is no such turn, Errc::invalid when it still runs or is of a newer format.
[[nodiscard]] layout::Result<nlohmann::json>
packet_as_of(const std::string& session_directory, const std::optional<std::int64_t>& turn);

}  // namespace relay::cli
