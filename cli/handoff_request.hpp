// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/result.hpp"

#include <optional>
#include <string>

// A word from `agent-relay handoff`, in any shell, to the `agent-relay run` that drives a session: stop at the end of
// this turn. It is a small file, <state>/handoff/<session>, that holds the reason; whoever acts on it removes it.

namespace relay::cli {

[[nodiscard]] layout::Status request_handoff(
    const std::string& state_directory, const std::string& session, const std::string& reason);

// The reason, when somebody asked. The request is gone afterwards.
[[nodiscard]] std::optional<std::string>
take_handoff_request(const std::string& state_directory, const std::string& session);

}  // namespace relay::cli
