// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace relay::layout {

// CRC-32C (Castagnoli), continued from `crc`, the value of the bytes before (0 at the start).
// crc32c("123456789") == 0xe3069283. Uses the CPU's instruction where there is one.
[[nodiscard]] std::uint32_t crc32c(std::string_view bytes, std::uint32_t crc = 0);

// The same by tables, for CPUs without the instruction.
[[nodiscard]] std::uint32_t crc32c_portable(std::string_view bytes, std::uint32_t crc = 0);

}  // namespace relay::layout
