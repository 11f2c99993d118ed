// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/event.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace relay::layout {

// What an ack says. Zero or empty fields are left out.
struct Ack {
    std::string_view id;  // JSON text
    Ulid session;
    std::int64_t turn = 0;
    std::optional<std::int64_t> seq;
    bool duplicate = false;
    bool deferred = false;
    // Further members of this answer as compact JSON without the braces: `"slug":"…","path":"…"`.
    std::string_view fields;
};

// Appends the answer and its newline.
void append_ack(std::string& out, const Ack& ack);
void append_error(std::string& out, const Refusal& refusal);

}  // namespace relay::layout
