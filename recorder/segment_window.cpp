// SPDX-License-Identifier: Apache-2.0
#include "recorder/segment_window.hpp"

#include "layout/journal_batch.hpp"

#include <algorithm>

namespace relay::recorder {

using layout::Done;

namespace {

// Small enough to stay in the processor's cache between its reading and its checksum.
constexpr std::int64_t piece_bytes = std::int64_t{256} * 1024;

}  // namespace

Result<std::string_view> SegmentWindow::bytes(std::int64_t offset, std::int64_t wanted) {
    if (offset >= size_) {
        return std::string_view();
    }
    if (offset < begin_ || std::min(offset + wanted, size_) > end_) {
        if (Status filled = fill(offset, wanted); !filled.ok()) {
            return filled.error();
        }
    }
    const std::int64_t count = std::clamp<std::int64_t>(end_ - offset, 0, wanted);
    return std::string_view(piece_.get() + (offset - begin_), static_cast<std::size_t>(count));
}

Result<std::string_view> SegmentWindow::batch(std::int64_t offset) {
    auto head = bytes(offset, static_cast<std::int64_t>(layout::batch_header_bytes));
    if (!head.ok()) {
        return head;
    }
    const auto claimed = static_cast<std::int64_t>(layout::claimed_batch_bytes(head.value()));
    return claimed == 0 || claimed > size_ - offset ? std::string_view() : bytes(offset, claimed);
}

Status SegmentWindow::fill(std::int64_t offset, std::int64_t wanted) {
    const std::int64_t count =
        std::clamp<std::int64_t>(size_ - offset, 0, std::max(wanted, piece_bytes));
    if (count > capacity_) {
        // A string would be filled with zeroes before it is read into.
        piece_ = std::make_unique_for_overwrite<char[]>(static_cast<std::size_t>(count));
        capacity_ = count;
    }
    begin_ = offset;
    end_ = offset;
    auto read = file_.read(offset, piece_.get(), static_cast<std::size_t>(count));
    if (!read.ok()) {
        return read.error();
    }
    end_ += static_cast<std::int64_t>(read.value());
    if (end_ < offset + count) {
        size_ = end_;  // the file ends earlier than it was said to
    }
    return Done{};
}

}  // namespace relay::recorder
