// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "recorder/work.hpp"

#include <vector>

namespace relay::recorder {

// Of all that these changes, in order, do to one document (replace it, remove it) or to a store's `latest`,
// leaves the last alone: nobody has to see the others again, and after a crash they would be most of the work.
// For replay, where no one waits for a single change.
void drop_superseded(std::vector<WorkItem>& items);

}  // namespace relay::recorder
