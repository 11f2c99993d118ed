// SPDX-License-Identifier: Apache-2.0
#include "layout/crc32c.hpp"

#include <array>
#include <cstddef>
#include <cstring>

#ifdef __x86_64__
#include <nmmintrin.h>
#endif

namespace relay::layout {

namespace {

constexpr std::uint32_t polynomial = 0x82f63b78;  // bit-reversed 0x1edc6f41

using Table = std::array<std::uint32_t, 256>;

// Table n takes a byte that n more bytes follow within a step of eight.
constexpr std::array<Table, 8> make_tables() {
    std::array<Table, 8> tables{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
        std::uint32_t crc = byte;
        for (int bit = 0; bit < 8; ++bit) {
            crc = crc >> 1 ^ ((crc & 1) != 0 ? polynomial : 0);
        }
        tables[0][byte] = crc;
    }
    for (std::size_t n = 1; n < tables.size(); ++n) {
        for (std::size_t byte = 0; byte < 256; ++byte) {
            const std::uint32_t crc = tables[n - 1][byte];
            tables[n][byte] = crc >> 8 ^ tables[0][crc & 0xff];
        }
    }
    return tables;
}
constexpr std::array<Table, 8> tables = make_tables();

std::uint32_t byte_at(std::string_view bytes, std::size_t at) {
    return static_cast<std::uint8_t>(bytes[at]);
}

std::uint32_t step_of_eight(std::uint32_t crc, std::string_view bytes) {
    crc ^= byte_at(bytes, 0) | byte_at(bytes, 1) << 8 | byte_at(bytes, 2) << 16
           | byte_at(bytes, 3) << 24;
    return tables[7][crc & 0xff] ^ tables[6][crc >> 8 & 0xff] ^ tables[5][crc >> 16 & 0xff]
           ^ tables[4][crc >> 24] ^ tables[3][byte_at(bytes, 4)] ^ tables[2][byte_at(bytes, 5)]
           ^ tables[1][byte_at(bytes, 6)] ^ tables[0][byte_at(bytes, 7)];
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) std::uint32_t
crc32c_by_instruction(std::string_view bytes, std::uint32_t crc) {
    std::uint64_t state = ~crc;
    while (bytes.size() >= sizeof(std::uint64_t)) {
        std::uint64_t word = 0;
        std::memcpy(&word, bytes.data(), sizeof word);
        state = _mm_crc32_u64(state, word);
        bytes.remove_prefix(sizeof word);
    }
    auto narrow = static_cast<std::uint32_t>(state);
    for (const char byte : bytes) {
        narrow = _mm_crc32_u8(narrow, static_cast<std::uint8_t>(byte));
    }
    return ~narrow;
}
#endif

}  // namespace

std::uint32_t crc32c_portable(std::string_view bytes, std::uint32_t crc) {
    crc = ~crc;
    for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
        crc = step_of_eight(crc, bytes);
    }
    for (const char byte : bytes) {
        crc = crc >> 8 ^ tables[0][(crc ^ static_cast<std::uint8_t>(byte)) & 0xff];
    }
    return ~crc;
}

std::uint32_t crc32c(std::string_view bytes, std::uint32_t crc) {
#ifdef __x86_64__
    if (__builtin_cpu_supports("sse4.2") != 0) {
        return crc32c_by_instruction(bytes, crc);
    }
#endif
    return crc32c_portable(bytes, crc);
}

}  // namespace relay::layout
