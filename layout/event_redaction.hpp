// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/event.hpp"
#include "layout/redactor.hpp"

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

namespace relay::layout {

// An event without its secrets. Its views point into `texts` and into what the original's point into.
struct RedactedEvent {
    Event event;
    std::deque<std::string> texts;
    std::int64_t count = 0;
};

// Every text of the event that would be recorded, but for the bytes of a stream, which Redactor::judge() takes piece by piece.
// None when there is nothing to hide. An attachment that is no text is left alone.
[[nodiscard]] std::optional<RedactedEvent>
redact_event(const Redactor& redactor, const Event& event);

}  // namespace relay::layout
