// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/result.hpp"
#include "recorder/disk.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace relay::recorder {

// A segment of the journal, read from front to back with a piece of it in memory: whole segments would be as large as all
// that the daemon takes otherwise. A batch that is larger than a piece is in memory as a whole. Used by one thread.
class SegmentWindow {
public:
    // `file` outlives the window, of whose bytes the first `size` are looked at.
    SegmentWindow(File& file, std::int64_t size) : file_(file), size_(size) {}

    // The bytes from `offset` on: `wanted` of them, or fewer where the segment ends. Good until the next call.
    [[nodiscard]] Result<std::string_view> bytes(std::int64_t offset, std::int64_t wanted);

    // What may be a batch, as long as its own header says; decode_batch() is the judge. Empty when none that ends within
    // the segment begins at `offset`. Good until the next call.
    [[nodiscard]] Result<std::string_view> batch(std::int64_t offset);

    [[nodiscard]] std::int64_t size() const { return size_; }

private:
    [[nodiscard]] Status fill(std::int64_t offset, std::int64_t wanted);

    File& file_;
    std::int64_t size_;
    std::unique_ptr<char[]> piece_;
    std::int64_t capacity_ = 0;
    std::int64_t begin_ = 0;  // of the piece in the segment
    std::int64_t end_ = 0;
};

}  // namespace relay::recorder
