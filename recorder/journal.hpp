// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/checkpoint_record.hpp"
#include "layout/journal_batch.hpp"
#include "layout/result.hpp"
#include "recorder/disk.hpp"
#include "recorder/tail_verdict.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace relay::recorder {

struct JournalLimits {
    std::int64_t segment_bytes = 32 << 20;
    std::int64_t segments_max = 8;
};

// Where a whole batch lies.
struct BatchPlace {
    std::uint64_t lsn = 0;
    std::uint64_t synced_lsn = 0;
    std::uint32_t crc = 0;
    std::size_t segment = 0;  // index of the segment file
    std::int64_t offset = 0;
    std::int64_t bytes = 0;  // with padding
    std::size_t payload_bytes = 0;
};

// What the journal holds after a stop of whatever kind.
struct JournalScan {
    std::vector<BatchPlace> chain;    // unbroken, from just after the checkpoint
    std::vector<BatchPlace> severed;  // whole batches after a break in the chain, in order of lsn
    std::uint64_t highest_lsn = 0;    // of any whole batch, and of the checkpoint
    std::uint64_t highest_generation = 0;
    TailVerdict verdict = TailVerdict::clean;
    std::string_view rule;  // name of the rule that gave the verdict
};

// The log in front of everything: segments of fixed size, written with zeroes once and then used over
// and over, so that a commit is one overwrite and one sync and changes no metadata.
//
// Threads: write() from the commit thread; release(), prepare_spare() from the checkpoint thread;
// read() and the counters from any. open() to start() come before all of these.
class Journal {
public:
    // Fills with unpredictable bytes; the salt of each use of a segment comes from here.
    using Random = std::function<std::uint64_t()>;

    // Finds the segments; reads no batch yet. `directory` outlives the journal.
    static Result<std::unique_ptr<Journal>>
    open(Directory& directory, JournalLimits limits, Random random);

    // Reads everything after the checkpoint and says where it ends and why. read() serves the unbroken
    // part from then on. After an orderly stop it looks at the segment headers alone, and believes the
    // checkpoint only when none of them is younger.
    [[nodiscard]] Result<JournalScan> scan(const layout::CheckpointRecord& checkpoint);

    // Writes again, with the same bytes, every batch found that no later batch proves to have been
    // synced, and syncs it. What a process crash or a failed sync left in the page cache alone is on
    // disk after this; before it, nothing of it may be applied.
    [[nodiscard]] Status rewrite_tail(const JournalScan& scan);

    // The payload of a batch found by scan().
    [[nodiscard]] Result<std::string> read_payload(const BatchPlace& place);

    // A batch from behind a break, which rewrite_tail() made durable, is about to be applied.
    void trust(const BatchPlace& place) { durable_lsn_ = place.lsn; }

    // Begins writing after `lsn` with a fresh generation. Every segment counts as free: the checkpoint
    // that says so must be durable. Segments of another size or in greater number than configured are
    // removed.
    [[nodiscard]] Status
    start(const layout::JournalId& id, std::uint64_t generation, std::uint64_t lsn);

    // Seals `buffer` (batch_header_bytes of room, then the payload) into a batch, writes and syncs it,
    // and returns its number. Errc::busy when every segment is in use, Errc::no_space when the disk is
    // full: try again after release(), with the same items or more. Any other failure latches: this and
    // every later call gets Errc::closed with the first reason, and nothing is ever written again,
    // because a failed sync leaves the disk in a state that only recovery can judge.
    [[nodiscard]] Result<std::uint64_t> write(std::string& buffer);

    // Batches up to `lsn` are safe elsewhere, and the checkpoint that says so is durable.
    void release(std::uint64_t lsn);

    // Makes a further segment when none is free, so that write() need not.
    [[nodiscard]] Status prepare_spare();

    // Visits the payloads of the batches from `from_lsn` to `to_lsn`, both included, all of them durable.
    // Errc::not_found when one of them has been released and overwritten meanwhile.
    using Visitor = std::function<Status(std::uint64_t lsn, std::string_view payload)>;
    [[nodiscard]] Status read(std::uint64_t from_lsn, std::uint64_t to_lsn, const Visitor& visitor);

    [[nodiscard]] std::uint64_t durable_lsn() const { return durable_lsn_.load(); }
    [[nodiscard]] bool has_segments() const;
    [[nodiscard]] std::uint64_t next_generation() const;
    [[nodiscard]] std::int64_t payload_bytes_max() const;  // of one batch
    [[nodiscard]] std::int64_t live_bytes() const;         // not yet released
    [[nodiscard]] std::int64_t segment_bytes() const { return limits_.segment_bytes; }

private:
    struct Segment {
        std::string name;
        std::unique_ptr<File> file;
        std::uint64_t generation = 0;  // 0: free
        std::uint64_t first_lsn = 0;
        std::uint64_t last_lsn = 0;  // of the last batch written in this use
        std::int64_t size = 0;
        std::int64_t end = 0;  // of the last batch
    };
    struct Bytes;
    class Follow;
    struct Walk;
    struct Remains;

    Journal(Directory& directory, JournalLimits limits, Random random);
    [[nodiscard]] Status make_segment();
    [[nodiscard]] Status begin_segment();
    [[nodiscard]] static Result<Bytes>
    read_bytes(File& file, std::int64_t offset, std::int64_t size);
    [[nodiscard]] Result<bool> written_since(std::uint64_t generation);
    [[nodiscard]] Result<Remains> walk_segments(const layout::CheckpointRecord& checkpoint);
    [[nodiscard]] std::vector<BatchPlace>
    join_segments(const Remains& remains, std::uint64_t expected);
    [[nodiscard]] Error latch(const Error& error);
    [[nodiscard]] std::optional<std::size_t> free_segment() const;

    Directory& directory_;
    JournalLimits limits_;
    Random random_;

    std::mutex making_mutex_;   // one new segment at a time; taken before mutex_
    mutable std::mutex mutex_;  // the segment list and the fields below; never held across a sync
    std::vector<std::unique_ptr<Segment>> segments_;
    std::uint64_t next_generation_ = 1;
    std::uint64_t released_lsn_ = 0;
    layout::JournalId id_{};

    // Commit thread only.
    Segment* current_ = nullptr;
    std::int64_t write_offset_ = 0;
    std::string header_block_;  // of a segment whose first batch is not written yet
    std::uint64_t salt_ = 0;
    std::uint32_t previous_crc_ = 0;
    std::uint64_t last_generation_ = 0;
    std::uint64_t last_lsn_ = 0;
    std::optional<Error> failure_;

    std::atomic<std::uint64_t> durable_lsn_ = 0;
};

}  // namespace relay::recorder
