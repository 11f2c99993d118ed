// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/journal_batch.hpp"
#include "layout/journal_change.hpp"
#include "layout/result.hpp"
#include "layout/ulid.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// What a checkpoint remembers: how far the journal's changes are safe in their own files, and what
// proves it. Two slots (checkpoint.0, checkpoint.1) are written in turn, so one is always whole.
//
//     offset  size  field
//          0     4  "ARJC"
//          4     4  crc32c of everything after this field
//          8     8  sequence: the greater one of two whole slots counts
//         16     4  length of the document
//         20     4  zero
//         24        the document: JSON

namespace relay::layout {

// A growing file as the checkpoint left it: nothing below `length` may change any more.
struct FileMark {
    std::string name;
    std::int64_t length = 0;
    std::uint64_t inode = 0;
    std::uint32_t tail_crc = 0;  // crc32c of its last bytes, up to tail_bytes of them
    bool operator==(const FileMark&) const = default;
};
inline constexpr std::int64_t file_mark_tail_bytes = 4096;

// A session that was not finished at the checkpoint.
struct SessionMark {
    Ulid session;
    Claim claim;
    std::uint64_t synced_lsn = 0;  // its changes up to here are synced in its own files
    std::int64_t client_seq = 0;   // as of synced_lsn
    std::int64_t event_seq = 0;
    std::uint64_t device = 0;  // that it lies on; 0: not known
    std::vector<FileMark> files;
    bool operator==(const SessionMark&) const = default;
};

struct CheckpointRecord {
    std::uint64_t sequence = 0;
    JournalId journal{};
    std::uint64_t lsn = 0;  // replay begins after this batch
    std::uint64_t next_generation = 1;
    Ulid last_ulid{};
    bool clean = false;  // written by an orderly stop: nothing follows in the journal
    std::vector<SessionMark> sessions;
    bool operator==(const CheckpointRecord&) const = default;
};

[[nodiscard]] std::string encode_checkpoint(const CheckpointRecord& record);
[[nodiscard]] Result<CheckpointRecord> decode_checkpoint(std::string_view bytes);

}  // namespace relay::layout
