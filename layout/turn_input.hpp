// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/input_file.hpp"
#include "layout/result.hpp"
#include "layout/zstd_stream.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace relay::layout {

// A turn's prompt, output, stderr or diff, open for reading: as it was recorded, or as compression left it
// (docs/format.md), which reads the same. Move-only; one thread at a time.
class TurnInput {
public:
    // `name` as of InputFile::open(); when there is no such file, `name` with ".zst" behind it. Compression
    // makes the second before it removes the first, so one of them is always there.
    [[nodiscard]] static Result<TurnInput> open(int directory, const std::string& name);

    // Up to `size` bytes as they were recorded; 0 only at the end. Errc::corrupt when they cannot be
    // decompressed.
    [[nodiscard]] Result<std::size_t> read(char* into, std::size_t size);

    // Likewise from `offset`. Going back in a compressed file begins again at its beginning.
    [[nodiscard]] Result<std::size_t> read_at(std::int64_t offset, char* into, std::size_t size);

    [[nodiscard]] bool compressed() const { return compressed_; }
    // On disk, at the time of open().
    [[nodiscard]] std::int64_t bytes_on_disk() const { return file_->bytes(); }

private:
    TurnInput(InputFile file, std::string name, bool compressed);
    void rewind();

    std::shared_ptr<InputFile> file_;
    std::string name_;
    bool compressed_ = false;
    std::int64_t position_ = 0;           // of the next read(), in recorded bytes
    std::unique_ptr<ZstdReader> reader_;  // of a compressed one
};

// All of it. `path` and `bytes_max` as of read_file().
[[nodiscard]] Result<std::string> read_turn_file(const std::string& path, std::int64_t bytes_max);

}  // namespace relay::layout
