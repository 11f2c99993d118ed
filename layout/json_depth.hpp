// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace relay::layout {

// How deep the arrays and objects of a JSON text nest; 0 for a scalar. Meant to be asked before a
// parser or printer that recurses sees the text. For text that is no JSON the number is at least as
// deep as any parser gets before it notices.
[[nodiscard]] inline std::size_t json_depth(std::string_view text) {
    std::size_t depth = 0;
    std::size_t deepest = 0;
    bool in_string = false;
    for (std::size_t at = 0; at < text.size(); ++at) {
        const char character = text[at];
        if (in_string) {
            if (character == '\\') {
                ++at;
            } else if (character == '"') {
                in_string = false;
            }
        } else if (character == '"') {
            in_string = true;
        } else if (character == '[' || character == '{') {
            deepest = std::max(deepest, ++depth);
        } else if ((character == ']' || character == '}') && depth > 0) {
            --depth;
        }
    }
    return deepest;
}

}  // namespace relay::layout
