// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/result.hpp"

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace relay::cli {

// One flag of a command: "--name value" and "--name=value", or "--name" alone.
struct Flag {
    std::string_view name;  // with its dashes
    std::string_view
        needs;  // what its value is, as in "--since needs a time"; empty: it takes none
    // Errc::invalid with the sentence when the value is none.
    std::function<layout::Status(const std::string& value)> take;
};

// Flags that only set a place. The place must outlive the flag.
[[nodiscard]] Flag switch_flag(std::string_view name, bool& on);
[[nodiscard]] Flag text_flag(std::string_view name, std::string_view needs, std::string& into);
[[nodiscard]] Flag
text_flag(std::string_view name, std::string_view needs, std::optional<std::string>& into);
// At least `least`.
[[nodiscard]] Flag number_flag(
    std::string_view name,
    std::string_view needs,
    std::int64_t least,
    std::optional<std::int64_t>& into);

// Gives every flag to its entry and returns the other words in order. Flags may stand anywhere before "--".
// Errc::invalid for an unknown flag, with the nearest known one, and for a missing or wrong value.
[[nodiscard]] layout::Result<std::vector<std::string>>
take_flags(const std::vector<std::string>& arguments, std::span<const Flag> flags);

}  // namespace relay::cli
