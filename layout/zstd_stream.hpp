// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/result.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

// The bytes of a file that was compressed with zstd, in both directions. Pure: no file, no clock.

namespace relay::layout {

// Gives back what was compressed, piece by piece. Move-only; one thread at a time.
class ZstdReader {
public:
    // Up to `size` compressed bytes; 0 only at their end.
    using Source = std::function<Result<std::size_t>(char* into, std::size_t size)>;

    explicit ZstdReader(Source source);
    ZstdReader(ZstdReader&&) noexcept;
    ZstdReader(const ZstdReader&) = delete;
    ZstdReader& operator=(const ZstdReader&) = delete;
    ZstdReader& operator=(ZstdReader&&) = delete;
    ~ZstdReader();

    // All of `size` bytes, or fewer at the end. Errc::corrupt when they are no zstd, damaged or cut off.
    [[nodiscard]] Result<std::size_t> read(char* into, std::size_t size);

private:
    struct State;
    std::unique_ptr<State> state_;
};

// Compresses piece by piece into one frame that carries a checksum. Move-only; one thread at a time.
class ZstdWriter {
public:
    ZstdWriter();
    ZstdWriter(ZstdWriter&&) noexcept;
    ZstdWriter(const ZstdWriter&) = delete;
    ZstdWriter& operator=(const ZstdWriter&) = delete;
    ZstdWriter& operator=(ZstdWriter&&) = delete;
    ~ZstdWriter();

    // Appends to `out` what `piece` became so far.
    void add(std::string_view piece, std::string& out);
    // Appends the rest. Called once, last.
    void finish(std::string& out);

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace relay::layout
