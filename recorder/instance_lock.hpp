// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "recorder/disk.hpp"

namespace relay::recorder {

// Makes this process the only one that writes below `directory`, for as long as that is open. Errc::busy
// when another one is, with a sentence that names its pid. Must be held before the socket is touched.
[[nodiscard]] Status take_instance_lock(Directory& directory, std::int64_t own_pid);

}  // namespace relay::recorder
