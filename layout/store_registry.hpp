// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/store.hpp"

#include <string_view>
#include <vector>

namespace relay::layout {

// In the user's state directory; see "Beside the sessions" in docs/format.md.
inline constexpr std::string_view registry_file = "stores.json";

// Every store in which sessions were ever recorded: the user store first, then the repositories that
// stores.json names. A missing or damaged registry names none: it is made anew as stores are used.
[[nodiscard]] std::vector<Store> known_stores(const UserDirectories& user);

}  // namespace relay::layout
