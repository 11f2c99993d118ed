// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/result.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace simdjson::dom {
class element;
class object;
}  // namespace simdjson::dom

namespace relay::layout {

// For sources that include simdjson.h themselves.

// Reads a text that holds one JSON object, or says what is wrong with it, with Errc::corrupt.
//
// Each thread has one parser: what it returned is gone with its next call.
[[nodiscard]] Result<simdjson::dom::object>
parse_json_object(std::string_view text, std::size_t depth_max);

// The member's value, also when it is null. Of several with one name the last counts.
[[nodiscard]] std::optional<simdjson::dom::element>
find_member(simdjson::dom::object object, std::string_view key);

// The value without any white space.
[[nodiscard]] std::string compact_json(simdjson::dom::element value);

}  // namespace relay::layout
