// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace relay::cli {

struct Surroundings;

// After something recorded was removed for good: the index holds some of it, too, and goes. Readers make it anew. Says
// so when it cannot be removed.
void forget_in_index(const Surroundings& surroundings);

}  // namespace relay::cli
