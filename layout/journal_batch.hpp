// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/result.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

// The bytes of the journal: a segment is a header block and then batches, each beginning on a block
// boundary. Pure: no file, no clock, no thread.
//
//     segment header (one block)
//     offset  size  field
//          0     4  "ARJS"
//          4     4  crc32c of bytes 8 … 4095
//          8     4  journal version
//         12     4  zero
//         16    16  journal id
//         32     8  generation
//         40     8  salt
//         48     8  lsn of the first batch in this segment
//         56     8  generation of the segment before, 0 for the first
//         64     4  crc of the last batch before this segment, 0 for the first
//         68        zeroes
//
//     batch
//          0     4  "ARJB"
//          4     4  crc32c of everything after this field: header, payload
//          8     8  generation, as in the segment's header
//         16     8  salt, as in the segment's header
//         24     8  lsn: the batch's number, one more than the batch before
//         32     8  synced_lsn: every batch up to this one was synced before this one was written
//         40     4  length of the payload
//         44     4  crc of the batch before; for the first of a segment: of the segment's header
//         48    16  zeroes
//         64        payload (changes, see journal_change.hpp), then zeroes up to the next block
//
// A batch is the unit of durability, therefore it is the unit of counting too: lsn counts batches.
// Segments are recycled. Generation and a fresh salt a use keep the batches of an earlier use from being
// taken for this one's; the chained crc keeps a batch from following anything but its predecessor; and
// synced_lsn tells a torn tail from damage (recorder/tail_verdict.hpp).

namespace relay::layout {

inline constexpr std::uint32_t journal_version = 1;

// Batches are padded to this, so that no sector that holds an acknowledged batch is ever rewritten.
inline constexpr std::size_t journal_block_bytes = 4096;
inline constexpr std::size_t batch_header_bytes = 64;

using JournalId = std::array<std::uint8_t, 16>;

struct SegmentHeader {
    JournalId journal{};
    std::uint64_t generation = 0;
    std::uint64_t salt = 0;
    std::uint64_t first_lsn = 0;
    std::uint64_t previous_generation = 0;
    std::uint32_t previous_crc = 0;
    std::uint32_t crc = 0;  // set by decode and by encode

    bool operator==(const SegmentHeader&) const = default;
};

// Exactly one block; fills in `header.crc`.
[[nodiscard]] std::string encode_segment_header(SegmentHeader& header);

// Errc::corrupt when it is none; Errc::invalid when its version is newer than this program's.
[[nodiscard]] Result<SegmentHeader> decode_segment_header(std::string_view block);

struct BatchHeader {
    std::uint64_t generation = 0;
    std::uint64_t salt = 0;
    std::uint64_t lsn = 0;
    std::uint64_t synced_lsn = 0;
    std::uint32_t payload_bytes = 0;
    std::uint32_t previous_crc = 0;
    std::uint32_t crc = 0;
};

// The bytes a batch with this payload takes in a segment.
[[nodiscard]] std::size_t batch_bytes(std::size_t payload_bytes);

// Makes a batch out of `buffer`, which holds batch_header_bytes of room and then the payload: writes the
// header into the room, pads to the block, and fills in payload_bytes and crc of `header`.
void seal_batch(std::string& buffer, BatchHeader& header);

// How many bytes decode_batch() needs of the batch that begins with `bytes`, by that batch's own word, which nothing
// proves yet; 0 when none begins there. `bytes` may be the batch's first batch_header_bytes alone.
[[nodiscard]] std::size_t claimed_batch_bytes(std::string_view bytes);

// Reads the batch at the beginning of `bytes`. Errc::corrupt when there is none that is whole.
[[nodiscard]] Result<BatchHeader> decode_batch(std::string_view bytes);
[[nodiscard]] std::string_view batch_payload(std::string_view bytes, const BatchHeader& header);

}  // namespace relay::layout
