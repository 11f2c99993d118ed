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

// A run of one stream's bytes, possibly of several events.
struct StreamRun {
    Stream stream = Stream::output;
    Channel channel = Channel::text;
    std::int64_t turn = 0;
    std::int64_t offset = 0;
    std::int64_t bytes = 0;
    std::int64_t seq = 0;  // of its last event
    Timestamp at;          // of its last event
};

// The line that points at the run.
void append_stream_line(std::string& out, const StreamRun& run);

}  // namespace relay::layout
