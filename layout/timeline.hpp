// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/event.hpp"
#include "layout/timestamp.hpp"

#include <cstdint>
#include <string>
#include <string_view>

// Lines of events.jsonl. Every line begins {"seq":n,"at":"…","type":"…" and ends with a newline.

namespace relay::layout {

// Payloads larger than this are not repeated in the timeline; the line says their size instead.
inline constexpr std::size_t timeline_payload_bytes_max = 65536;

// Begins a line: the caller adds members and calls finish_line.
class TimelineLine {
public:
    // `client_seq` stands on the line only where it differs from `seq` and is not 0.
    TimelineLine(
        std::string& out,
        std::int64_t seq,
        Timestamp at,
        std::string_view type,
        std::int64_t client_seq = 0);
    [[nodiscard]] JsonObject& object() { return object_; }
    void finish();

private:
    std::string& out_;
    JsonObject object_;
};

// A run of bytes of one stream, possibly of several events; `seq` is the last one's.
void append_stream_line(
    std::string& out,
    std::int64_t seq,
    Timestamp at,
    std::int64_t turn,
    Stream stream,
    Channel channel,
    std::int64_t offset,
    std::int64_t bytes);

}  // namespace relay::layout
