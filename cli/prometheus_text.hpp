// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace relay::cli {

// The daemon's answer to `status` in the text format of Prometheus, version 0.0.4. What the answer lacks is left out.
[[nodiscard]] std::string prometheus_text(const nlohmann::ordered_json& status);

}  // namespace relay::cli
