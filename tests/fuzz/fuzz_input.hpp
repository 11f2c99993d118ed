// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/crc32c.hpp"
#include "layout/journal_batch.hpp"
#include "layout/little_endian.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

// What every fuzzer is. NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's word
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

// A property that must hold for every input.
#define HOLDS(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            ::abort();                                                                             \
        }                                                                                          \
    } while (false)

namespace relay::tests {

// The fuzzer's bytes, taken off the front as decisions and, in the end, as content.
class FuzzInput {
public:
    FuzzInput(const std::uint8_t* data, std::size_t size)
        : rest_(reinterpret_cast<const char*>(data), size) {}

    [[nodiscard]] bool empty() const { return rest_.empty(); }

    std::uint8_t byte() {
        const std::uint8_t value = rest_.empty() ? 0 : static_cast<std::uint8_t>(rest_.front());
        rest_.remove_prefix(std::min<std::size_t>(1, rest_.size()));
        return value;
    }
    std::uint32_t number() {
        std::uint32_t value = 0;
        for (int index = 0; index < 3; ++index) {
            value = value << 8 | byte();
        }
        return value;
    }
    std::string_view bytes(std::size_t count) {
        const std::string_view taken = rest_.substr(0, count);
        rest_.remove_prefix(taken.size());
        return taken;
    }
    [[nodiscard]] std::string_view rest() const { return rest_; }

private:
    std::string_view rest_;
};

// Gives every block that looks like a segment's header or a batch the checksum it needs, so that what the
// fuzzer wrote gets past it.
inline void mend_journal_checksums(std::string& segment) {
    constexpr std::size_t block = layout::journal_block_bytes;
    for (std::size_t at = 0; at + block <= segment.size(); at += block) {
        const std::string_view here = std::string_view(segment).substr(at);
        if (here.starts_with("ARJS")) {
            layout::put_le(segment.data() + at + 4, layout::crc32c(here.substr(8, block - 8)));
        } else if (here.starts_with("ARJB")) {
            const auto payload = layout::get_le<std::uint32_t>(here, 40);
            const std::size_t whole = layout::batch_header_bytes + std::size_t{payload};
            if (whole <= here.size()) {
                layout::put_le(segment.data() + at + 4, layout::crc32c(here.substr(8, whole - 8)));
            }
        }
    }
}

inline void mend_checkpoint_checksum(std::string& slot) {
    constexpr std::size_t header = 24;
    if (slot.size() < header) {
        return;
    }
    const auto length = layout::get_le<std::uint32_t>(slot, 16);
    const std::size_t whole = std::min(slot.size(), header + std::size_t{length});
    layout::put_le(slot.data() + 4, layout::crc32c(std::string_view(slot).substr(8, whole - 8)));
}

}  // namespace relay::tests
