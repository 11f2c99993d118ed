// SPDX-License-Identifier: Apache-2.0
#include "recorder/journal.hpp"

#include "recorder/segment_window.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <map>
#include <utility>

namespace relay::recorder {

using layout::batch_header_bytes;
using layout::BatchHeader;
using layout::Done;
using layout::journal_block_bytes;
using layout::SegmentHeader;

namespace {

constexpr std::string_view segment_prefix = "segment-";
constexpr auto block = static_cast<std::int64_t>(journal_block_bytes);

// Zeroes are written in pieces of this size: large enough to be quick, small enough to cost no memory.
constexpr std::size_t zero_piece_bytes = std::size_t{256} * 1024;

std::string segment_name(std::size_t number) {
    std::string digits = std::to_string(number);
    digits.insert(0, digits.size() < 4 ? 4 - digits.size() : 0, '0');
    return std::string(segment_prefix) + digits;
}

bool is_segment_name(std::string_view name) {
    if (!name.starts_with(segment_prefix) || name.size() < segment_prefix.size() + 4) {
        return false;
    }
    name.remove_prefix(segment_prefix.size());
    return std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

Status write_zeroes(File& file, std::int64_t size) {
    // Never written to, so all of it is the kernel's one page of zeroes.
    static std::array<char, zero_piece_bytes> zeroes{};
    for (std::int64_t offset = 0; offset < size;) {
        const std::size_t piece = std::min(zeroes.size(), static_cast<std::size_t>(size - offset));
        if (Status written = file.write(offset, std::string_view(zeroes.data(), piece));
            !written.ok()) {
            return written;
        }
        offset += static_cast<std::int64_t>(piece);
    }
    return file.sync();
}

// Why the chain ends before the batch `missing`, given every whole batch after the checkpoint.
void judge_end(JournalScan& scan, std::vector<BatchPlace> later, std::uint64_t missing) {
    TailEvidence evidence;
    std::sort(later.begin(), later.end(), [](const BatchPlace& left, const BatchPlace& right) {
        return left.lsn < right.lsn;
    });
    for (const BatchPlace& batch : later) {
        if (batch.lsn >= missing) {
            evidence.later_batch_seen = true;
            evidence.missing_batch_was_synced =
                evidence.missing_batch_was_synced || batch.synced_lsn >= missing;
            scan.severed.push_back(batch);
        }
    }
    const TailRule& rule = judge_tail(evidence);
    scan.verdict = rule.verdict;
    scan.rule = rule.name;
    if (scan.verdict != TailVerdict::damaged) {
        scan.severed.clear();
    }
}

}  // namespace

Journal::Journal(Directory& directory, JournalLimits limits, Random random)
    : directory_(directory), limits_(limits), random_(std::move(random)) {
}

Result<std::unique_ptr<Journal>>
Journal::open(Directory& directory, JournalLimits limits, Random random) {
    assert(limits.segment_bytes % block == 0 && limits.segment_bytes >= 4 * block);
    auto names = directory.list();
    if (!names.ok()) {
        return names.error();
    }
    std::unique_ptr<Journal> journal(new Journal(directory, limits, std::move(random)));
    std::sort(names.value().begin(), names.value().end());
    for (const std::string& name : names.value()) {
        if (!is_segment_name(name)) {
            continue;
        }
        auto file = directory.open_file(name, OpenMode::existing);
        if (!file.ok()) {
            return file.error();
        }
        auto stat = file.value()->stat();
        if (!stat.ok()) {
            return stat.error();
        }
        auto segment = std::make_unique<Segment>();
        segment->name = name;
        segment->file = std::move(file.value());
        segment->size = stat.value().size;
        journal->segments_.push_back(std::move(segment));
    }
    return journal;
}

// A piece of a segment. A string would be filled with zeroes before it is read into.
struct Journal::Bytes {
    std::unique_ptr<char[]> data;
    std::size_t size = 0;

    [[nodiscard]] std::string_view view() const { return {data.get(), size}; }
};

Result<Journal::Bytes> Journal::read_bytes(File& file, std::int64_t offset, std::int64_t size) {
    const auto wanted = static_cast<std::size_t>(size);
    Bytes bytes{std::make_unique_for_overwrite<char[]>(wanted)};
    auto count = file.read(offset, bytes.data.get(), wanted);
    if (!count.ok()) {
        return count.error();
    }
    bytes.size = count.value();
    return bytes;
}

// The unbroken chain of batches behind a segment's header, one at a time.
class Journal::Follow {
public:
    struct Batch {
        BatchHeader header;
        std::string_view payload;  // until the next call
    };

    Follow(SegmentWindow& window, const SegmentHeader& header)
        : window_(window),
          header_(header),
          previous_crc_(header.crc),
          expected_lsn_(header.first_lsn) {}

    // Nothing where the chain ends.
    Result<std::optional<Batch>> next() {
        if (offset_ + block > window_.size()) {
            return std::optional<Batch>();
        }
        auto bytes = window_.batch(offset_);
        if (!bytes.ok()) {
            return bytes.error();
        }
        const auto batch = layout::decode_batch(bytes.value());
        if (!batch.ok() || batch.value().generation != header_.generation
            || batch.value().salt != header_.salt || batch.value().lsn != expected_lsn_
            || batch.value().previous_crc != previous_crc_) {
            return std::optional<Batch>();
        }
        offset_ += static_cast<std::int64_t>(layout::batch_bytes(batch.value().payload_bytes));
        previous_crc_ = batch.value().crc;
        ++expected_lsn_;
        return std::optional(
            Batch{batch.value(), layout::batch_payload(bytes.value(), batch.value())});
    }

    // Of the batch after the last one found.
    [[nodiscard]] std::int64_t offset() const { return offset_; }

private:
    SegmentWindow& window_;
    const SegmentHeader header_;
    std::int64_t offset_ = block;
    std::uint32_t previous_crc_ = 0;
    std::uint64_t expected_lsn_ = 0;
};

// What one segment's bytes hold: the chain from its header on, and whatever else reads as a batch.
struct Journal::Walk {
    std::optional<SegmentHeader> header;
    std::vector<BatchPlace> chain;
    std::vector<BatchPlace> loose;
    std::uint64_t highest_generation = 0;

    static Result<Walk>
    of(SegmentWindow& window, const Result<SegmentHeader>& header, std::size_t segment) {
        Walk walk;
        std::int64_t offset = block;
        if (header.ok()) {
            walk.header = header.value();
            walk.highest_generation = header.value().generation;
            Follow follow(window, header.value());
            for (;;) {
                auto batch = follow.next();
                if (!batch.ok()) {
                    return batch.error();
                }
                if (!batch.value()) {
                    break;
                }
                walk.chain.push_back(place(batch.value()->header, segment, offset));
                offset = follow.offset();
            }
        }
        // A batch begins on a block boundary and nowhere else, so looking there is enough.
        for (; offset + block <= window.size(); offset += block) {
            auto bytes = window.batch(offset);
            if (!bytes.ok()) {
                return bytes.error();
            }
            auto batch = layout::decode_batch(bytes.value());
            if (batch.ok()) {
                walk.loose.push_back(place(batch.value(), segment, offset));
                walk.highest_generation =
                    std::max(walk.highest_generation, batch.value().generation);
            }
        }
        return walk;
    }

private:
    static BatchPlace place(const BatchHeader& batch, std::size_t segment, std::int64_t offset) {
        return {
            .lsn = batch.lsn,
            .synced_lsn = batch.synced_lsn,
            .crc = batch.crc,
            .segment = segment,
            .offset = offset,
            .bytes = static_cast<std::int64_t>(layout::batch_bytes(batch.payload_bytes)),
            .payload_bytes = batch.payload_bytes};
    }
};

bool Journal::has_segments() const {
    const std::lock_guard guard(mutex_);
    return !segments_.empty();
}

Result<bool> Journal::written_since(std::uint64_t generation) {
    for (const auto& segment : segments_) {
        const auto bytes = read_bytes(*segment->file, 0, block);
        if (!bytes.ok()) {
            return bytes.error();
        }
        auto header = layout::decode_segment_header(bytes.value().view());
        if (header.ok() && header.value().generation >= generation) {
            return true;
        }
    }
    return false;
}

// What all segments together hold after the checkpoint.
struct Journal::Remains {
    std::map<std::uint64_t, Walk> live;  // by first lsn: segments of this journal, in use
    std::vector<BatchPlace> later;       // whole batches, wherever they lie
    std::uint64_t highest_lsn = 0;
    std::uint64_t highest_generation = 0;

    void add(Walk walk, const layout::CheckpointRecord& checkpoint) {
        highest_generation = std::max(highest_generation, walk.highest_generation);
        for (const auto* batches : {&walk.chain, &walk.loose}) {
            for (const BatchPlace& batch : *batches) {
                highest_lsn = std::max(highest_lsn, batch.lsn);
                if (batch.lsn > checkpoint.lsn) {
                    later.push_back(batch);
                }
            }
        }
        const bool ours = walk.header && walk.header->journal == checkpoint.journal;
        if (ours && !walk.chain.empty() && walk.chain.back().lsn > checkpoint.lsn) {
            const std::uint64_t first_lsn = walk.header->first_lsn;
            live.emplace(first_lsn, std::move(walk));
        }
    }
};

Result<Journal::Remains> Journal::walk_segments(const layout::CheckpointRecord& checkpoint) {
    Remains remains;
    remains.highest_lsn = checkpoint.lsn;
    remains.highest_generation = checkpoint.next_generation - 1;
    for (std::size_t index = 0; index < segments_.size(); ++index) {
        SegmentWindow window(*segments_[index]->file, segments_[index]->size);
        auto first = window.bytes(0, block);
        if (!first.ok()) {
            return first.error();
        }
        const auto header = layout::decode_segment_header(first.value());
        if (!header.ok() && header.error().code == Errc::invalid) {
            return header.error();
        }
        auto walk = Walk::of(window, header, index);
        if (!walk.ok()) {
            return walk.error();
        }
        remains.add(std::move(walk.value()), checkpoint);
    }
    return remains;
}

// The batches from `expected` on, as far as each segment continues the one before it.
std::vector<BatchPlace> Journal::join_segments(const Remains& remains, std::uint64_t expected) {
    std::vector<BatchPlace> chain;
    std::optional<std::pair<std::uint64_t, std::uint32_t>> predecessor;  // generation, crc
    for (const auto& [first_lsn, walk] : remains.live) {
        const bool follows =
            !predecessor
            || (first_lsn == expected && walk.header->previous_generation == predecessor->first
                && walk.header->previous_crc == predecessor->second);
        if (first_lsn > expected || !follows) {
            break;
        }
        for (const BatchPlace& batch : walk.chain) {
            if (batch.lsn == expected) {
                chain.push_back(batch);
                ++expected;
            }
        }
        // read() finds them from now on, as if this process had written them.
        Segment& segment = *segments_[walk.chain.front().segment];
        segment.generation = walk.header->generation;
        segment.first_lsn = first_lsn;
        segment.last_lsn = walk.chain.back().lsn;
        segment.end = walk.chain.back().offset + walk.chain.back().bytes;
        predecessor = {walk.header->generation, walk.chain.back().crc};
    }
    return chain;
}

Result<JournalScan> Journal::scan(const layout::CheckpointRecord& checkpoint) {
    JournalScan scan;
    scan.highest_lsn = checkpoint.lsn;
    scan.highest_generation = checkpoint.next_generation - 1;
    durable_lsn_ = checkpoint.lsn;
    if (checkpoint.clean) {
        auto written = written_since(checkpoint.next_generation);
        if (!written.ok()) {
            return written.error();
        }
        if (!written.value()) {
            scan.rule = "orderly stop";
            return scan;
        }
    }
    auto walked = walk_segments(checkpoint);
    if (!walked.ok()) {
        return walked.error();
    }
    Remains& remains = walked.value();
    scan.highest_lsn = remains.highest_lsn;
    scan.highest_generation = remains.highest_generation;
    scan.chain = join_segments(remains, checkpoint.lsn + 1);
    durable_lsn_ = checkpoint.lsn + scan.chain.size();
    judge_end(scan, std::move(remains.later), durable_lsn_ + 1);
    return scan;
}

Status Journal::rewrite_tail(const JournalScan& scan) {
    std::uint64_t proven = 0;
    std::vector<BatchPlace> batches = scan.chain;
    batches.insert(batches.end(), scan.severed.begin(), scan.severed.end());
    for (const BatchPlace& batch : batches) {
        proven = std::max(proven, batch.synced_lsn);
    }
    std::vector<bool> dirty(segments_.size(), false);
    for (const BatchPlace& batch : batches) {
        if (batch.lsn <= proven) {
            continue;
        }
        Segment& segment = *segments_[batch.segment];
        // The first batch of a segment was written together with the header in front of it.
        const std::int64_t begin = batch.offset == block ? 0 : batch.offset;
        const auto bytes = read_bytes(*segment.file, begin, batch.offset + batch.bytes - begin);
        if (!bytes.ok()) {
            return bytes.error();
        }
        if (Status written = segment.file->write(begin, bytes.value().view()); !written.ok()) {
            return written;
        }
        dirty[batch.segment] = true;
    }
    for (std::size_t index = 0; index < segments_.size(); ++index) {
        if (dirty[index]) {
            if (Status synced = segments_[index]->file->sync(); !synced.ok()) {
                return synced;
            }
        }
    }
    return Done{};
}

Result<std::string> Journal::read_payload(const BatchPlace& place) {
    const auto bytes = read_bytes(*segments_[place.segment]->file, place.offset, place.bytes);
    if (!bytes.ok()) {
        return bytes.error();
    }
    const auto batch = layout::decode_batch(bytes.value().view());
    if (!batch.ok()) {
        return batch.error();
    }
    return std::string(layout::batch_payload(bytes.value().view(), batch.value()));
}

Status Journal::start(const layout::JournalId& id, std::uint64_t generation, std::uint64_t lsn) {
    id_ = id;
    next_generation_ = generation;
    last_lsn_ = lsn;
    durable_lsn_ = lsn;
    std::vector<std::unique_ptr<Segment>> fitting;
    for (auto& segment : segments_) {
        if (segment->size == limits_.segment_bytes
            && static_cast<std::int64_t>(fitting.size()) < limits_.segments_max) {
            segment->generation = 0;
            fitting.push_back(std::move(segment));
        } else if (Status removed = directory_.remove(segment->name); !removed.ok()) {
            return removed;
        }
    }
    segments_ = std::move(fitting);
    // The process that made them may have ended before it made their names durable.
    if (Status synced = directory_.sync(); !synced.ok()) {
        return synced;
    }
    return prepare_spare();
}

// Called with making_mutex_ held, so that the name stays free until it is taken.
Status Journal::make_segment() {
    std::string name;
    {
        const std::lock_guard guard(mutex_);
        const auto taken = [this](const std::string& wanted) {
            return std::any_of(segments_.begin(), segments_.end(), [&wanted](const auto& segment) {
                return segment->name == wanted;
            });
        };
        std::size_t number = 1;
        do {
            name = segment_name(number++);
        } while (taken(name));
    }
    auto file = directory_.open_file(name, OpenMode::create);
    if (!file.ok()) {
        return file.error();
    }
    if (Status zeroed = write_zeroes(*file.value(), limits_.segment_bytes); !zeroed.ok()) {
        // Half a segment helps nobody and may be what fills the disk.
        static_cast<void>(directory_.remove(name));
        return zeroed;
    }
    if (Status synced = directory_.sync(); !synced.ok()) {
        return synced;
    }
    auto segment = std::make_unique<Segment>();
    segment->name = name;
    segment->file = std::move(file.value());
    segment->size = limits_.segment_bytes;
    const std::lock_guard guard(mutex_);
    segments_.push_back(std::move(segment));
    return Done{};
}

std::optional<std::size_t> Journal::free_segment() const {
    for (std::size_t index = 0; index < segments_.size(); ++index) {
        if (segments_[index]->generation == 0) {
            return index;
        }
    }
    return std::nullopt;
}

Status Journal::prepare_spare() {
    const std::lock_guard making(making_mutex_);
    {
        const std::lock_guard guard(mutex_);
        if (free_segment() || static_cast<std::int64_t>(segments_.size()) >= limits_.segments_max) {
            return Done{};
        }
    }
    return make_segment();
}

// Takes a free segment into use. Its header goes out in front of the first batch, in the same write.
Status Journal::begin_segment() {
    Status prepared = prepare_spare();
    const std::lock_guard guard(mutex_);
    const std::optional<std::size_t> index = free_segment();
    // On a full disk there may be no other segment than the current one. It begins anew once everything
    // in it has been released.
    const bool again = !index && current_ != nullptr && current_->last_lsn <= released_lsn_;
    if (!index && !again) {
        return prepared.ok() ? Error{Errc::busy, 0, "every journal segment waits for a checkpoint"}
                             : prepared.error();
    }
    Segment& segment = again ? *current_ : *segments_[*index];
    SegmentHeader header;
    header.journal = id_;
    header.generation = next_generation_++;
    header.salt = random_();
    header.first_lsn = last_lsn_ + 1;
    header.previous_generation = last_generation_;
    header.previous_crc = last_generation_ == 0 ? 0 : previous_crc_;
    header_block_ = layout::encode_segment_header(header);
    segment.generation = header.generation;
    segment.first_lsn = header.first_lsn;
    segment.last_lsn = last_lsn_;
    segment.end = 0;
    current_ = &segment;
    write_offset_ = 0;
    salt_ = header.salt;
    previous_crc_ = header.crc;
    last_generation_ = header.generation;
    return Done{};
}

Error Journal::latch(const Error& error) {
    failure_ = Error{Errc::closed, error.os_errno, "the journal failed: " + error.context};
    return *failure_;
}

Result<std::uint64_t> Journal::write(std::string& buffer) {
    if (failure_) {
        return *failure_;
    }
    const auto size =
        static_cast<std::int64_t>(layout::batch_bytes(buffer.size() - batch_header_bytes));
    assert(size + block <= limits_.segment_bytes);
    const auto may_come_again = [](const Error& error) {
        return error.code == Errc::busy || error.code == Errc::no_space;
    };
    if (current_ == nullptr || write_offset_ + size > limits_.segment_bytes) {
        if (Status begun = begin_segment(); !begun.ok()) {
            return may_come_again(begun.error()) ? begun.error() : latch(begun.error());
        }
    }
    BatchHeader batch;
    batch.generation = current_->generation;
    batch.salt = salt_;
    batch.lsn = last_lsn_ + 1;
    batch.synced_lsn = last_lsn_;
    batch.previous_crc = previous_crc_;
    layout::seal_batch(buffer, batch);
    const std::string whole = header_block_.empty() ? std::string() : header_block_ + buffer;
    const std::string_view bytes = whole.empty() ? std::string_view(buffer) : whole;
    if (Status written = current_->file->write(write_offset_, bytes); !written.ok()) {
        // Nothing was synced: the next attempt overwrites whatever part of this one was put down.
        return may_come_again(written.error()) ? written.error() : latch(written.error());
    }
    if (Status synced = current_->file->sync(); !synced.ok()) {
        return latch(synced.error());
    }
    header_block_.clear();
    write_offset_ += static_cast<std::int64_t>(bytes.size());
    previous_crc_ = batch.crc;
    last_lsn_ = batch.lsn;
    {
        const std::lock_guard guard(mutex_);
        current_->last_lsn = batch.lsn;
        current_->end = write_offset_;
    }
    durable_lsn_ = batch.lsn;
    return batch.lsn;
}

void Journal::release(std::uint64_t lsn) {
    const std::lock_guard guard(mutex_);
    released_lsn_ = lsn;
    for (auto& segment : segments_) {
        if (segment.get() != current_ && segment->generation != 0 && segment->last_lsn <= lsn) {
            segment->generation = 0;
        }
    }
}

Status Journal::read(std::uint64_t from_lsn, std::uint64_t to_lsn, const Visitor& visitor) {
    struct Part {
        std::uint64_t first_lsn = 0;
        std::string name;
        std::int64_t end = 0;
    };
    std::vector<Part> parts;
    {
        const std::lock_guard guard(mutex_);
        for (const auto& segment : segments_) {
            if (segment->generation != 0 && segment->first_lsn <= to_lsn
                && segment->last_lsn >= from_lsn) {
                parts.push_back({segment->first_lsn, segment->name, segment->end});
            }
        }
    }
    std::sort(parts.begin(), parts.end(), [](const Part& left, const Part& right) {
        return left.first_lsn < right.first_lsn;
    });
    std::uint64_t expected = from_lsn;
    for (const Part& part : parts) {
        // A handle of its own: the commit thread goes on writing through the other one.
        auto file = directory_.open_file(part.name, OpenMode::existing);
        if (!file.ok()) {
            return file.error();
        }
        auto stat = file.value()->stat();
        if (!stat.ok()) {
            return stat.error();
        }
        SegmentWindow window(*file.value(), std::min(part.end, stat.value().size));
        auto first = window.bytes(0, block);
        if (!first.ok()) {
            return first.error();
        }
        // Overwritten meanwhile, it is no segment that anybody waits for.
        const auto header = layout::decode_segment_header(first.value());
        if (!header.ok()) {
            continue;
        }
        for (Follow follow(window, header.value()); expected <= to_lsn;) {
            auto batch = follow.next();
            if (!batch.ok()) {
                return batch.error();
            }
            if (!batch.value()) {
                break;
            }
            if (batch.value()->header.lsn != expected) {
                continue;
            }
            if (Status visited = visitor(expected, batch.value()->payload); !visited.ok()) {
                return visited;
            }
            ++expected;
        }
    }
    if (expected <= to_lsn) {
        return Error{
            Errc::not_found,
            0,
            "batch " + std::to_string(expected) + " is no longer in the journal"};
    }
    return Done{};
}

std::uint64_t Journal::next_generation() const {
    const std::lock_guard guard(mutex_);
    return next_generation_;
}

std::int64_t Journal::payload_bytes_max() const {
    return limits_.segment_bytes - 2 * block;
}

std::int64_t Journal::live_bytes() const {
    const std::lock_guard guard(mutex_);
    std::int64_t total = 0;
    for (const auto& segment : segments_) {
        total += segment->generation != 0 ? segment->size : 0;
    }
    return total;
}

}  // namespace relay::recorder
