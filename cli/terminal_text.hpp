// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

// Recorded text comes from agents, tools and files: on a terminal it must not move the cursor, change
// the title or answer questions.

namespace relay::cli {

// One line of valid UTF-8 without control characters: they become visible, "\x1b", "\n", and so do the
// characters that turn the direction of writing.
[[nodiscard]] std::string harmless(std::string_view text);

// The same for text of many lines, whose ends and tabs stay as they are.
[[nodiscard]] std::string harmless_lines(std::string_view text);

// The same for a line of JSON, which still says the same afterwards: "\u001b".
[[nodiscard]] std::string harmless_json(std::string_view json);

}  // namespace relay::cli
