// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace relay::layout {

[[nodiscard]] bool is_utf8(std::string_view bytes);

// The longest prefix of at most `bytes_max` bytes that does not cut a character in two.
[[nodiscard]] std::string_view utf8_prefix(std::string_view text, std::size_t bytes_max);

// The longest suffix of at most `bytes_max` bytes that does not begin inside a character.
[[nodiscard]] std::string_view utf8_suffix(std::string_view text, std::size_t bytes_max);

// The first `characters_max` characters as one line: runs of white space and control characters
// become one space, ends trimmed. Invalid bytes become U+FFFD.
[[nodiscard]] std::string one_line(std::string_view text, std::size_t characters_max);

// `bytes` with every invalid sequence replaced by U+FFFD: what may stand in a JSON document.
[[nodiscard]] std::string to_utf8(std::string_view bytes);

}  // namespace relay::layout
