// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace relay::layout {

[[nodiscard]] std::string encode_base64(std::string_view bytes);

// Standard alphabet; padding required in full or absent in full; no white space; the bits that no byte
// needs are zero. Replaces `into`.
// False when `text` is no base64, and then `into` is unspecified.
[[nodiscard]] bool decode_base64(std::string_view text, std::string& into);

}  // namespace relay::layout
