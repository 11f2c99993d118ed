// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/ulid.hpp"

#include <span>
#include <string>
#include <string_view>

namespace relay::layout {

// "261116-quiet-harbor": the date of the ULID and two words drawn from its random bits, so that the
// same id always proposes the same slug. `attempt` 2, 3 … adds "-2", "-3" when the plain one is taken
// in its store; 1 adds nothing.
[[nodiscard]] std::string slug_for(const Ulid& ulid, int attempt);

// The words it draws from: 256 of each, lower-case a-z, no word twice.
[[nodiscard]] std::span<const std::string_view> slug_adjectives();
[[nodiscard]] std::span<const std::string_view> slug_nouns();

}  // namespace relay::layout
