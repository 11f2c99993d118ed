// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/documents.hpp"
#include "layout/timestamp.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// What lists show of a session and filters ask about it, in few bytes that are read without taking them apart: a meta.json is
// six times as large and takes twenty times as long.

namespace relay::cli {

// Texts lie in the bytes that it was made of.
struct SessionCard {
    layout::SessionStatus status = layout::SessionStatus::active;
    bool flagged = false;
    bool archived = false;
    bool unread = false;
    bool failed = false;                 // ended with an error or another exit status than 0
    std::int64_t turns = 0;              // with the one that runs
    std::optional<std::int64_t> tokens;  // in total; none when unknown
    layout::Timestamp updated_at;
    std::string_view name;  // the slug when it was given none
    std::string_view agent;
    std::string_view root;  // of the repository; else the working directory
    std::string_view preview;
    std::optional<std::string_view> stage;
    std::string_view labels;  // as has_label() reads them

    [[nodiscard]] bool has_label(std::string_view label) const;
};

// The total, or else the sum of what went in and out.
[[nodiscard]] std::optional<std::int64_t> tokens_in_all(const layout::Tokens& tokens);

// As an index keeps it: only good on the machine that wrote it.
[[nodiscard]] std::string encode_card(const layout::Meta& meta);
// None when the bytes are no card.
[[nodiscard]] std::optional<SessionCard> decode_card(std::string_view bytes);

}  // namespace relay::cli
