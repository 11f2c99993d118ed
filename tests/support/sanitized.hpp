// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace relay::tests {

// Whether everything takes many times as long and as much as usual.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

}  // namespace relay::tests
