// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace relay::layout {

// What a key or token looks like: a head that is no secret and tells whose it is, and after it a body of one alphabet. The body is
// the secret, as far as the alphabet goes.
struct SecretShape {
    std::string_view name;   // as in [REDACTED:name]
    std::string_view heads;  // separated by |
    // Ranges as in a bracket expression ("A-Za-z0-9_"), or `pem_alphabet`.
    std::string_view alphabet;
    std::size_t body_bytes_min = 0;
    bool is_assigned = false;  // between head and body: quotes, blanks and at least one of : and =
};

// Base64 in lines that may stand in a string literal or a patch; ends before two dashes.
inline constexpr std::string_view pem_alphabet = "pem";

// On for everybody. Heads that are words are told from keys by the length of the body; a head inside a word counts for
// nothing.
[[nodiscard]] std::span<const SecretShape> secret_shapes();

}  // namespace relay::layout
