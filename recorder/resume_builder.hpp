// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/documents.hpp"
#include "recorder/session.hpp"

#include <string>
#include <vector>

namespace relay::recorder {

// The handoff packet of a session whose meta already says why it stopped. Says only what was declared or
// observed: no next_task unless somebody named one. `lineage` holds the ids before this session's. Pure.
[[nodiscard]] layout::ResumePacket build_resume(
    const layout::Meta& meta,
    const Knowledge& knowledge,
    const std::vector<std::string>& lineage,
    layout::Timestamp now);

}  // namespace relay::recorder
