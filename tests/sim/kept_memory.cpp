// SPDX-License-Identifier: Apache-2.0
// new and delete for whole simulations: blocks are kept by size for the next one that asks. A seed asks some
// thousand times and gives all of it back, and the C library spent a sixth of the time merging and splitting.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include <malloc.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

struct Block {
    Block* next;
};

// Classes of size: steps of 16 bytes up to a kibibyte, then powers of two.
constexpr std::size_t step_bytes = 16;
constexpr std::size_t stepped_bytes_max = 1024;
constexpr std::size_t kept_bytes_max = std::size_t{256} * 1024;
constexpr std::size_t stepped_classes = stepped_bytes_max / step_bytes;
constexpr std::size_t class_count = stepped_classes + 1 + std::bit_width(kept_bytes_max);

constexpr std::size_t class_of(std::size_t bytes) {
    return bytes <= stepped_bytes_max ? (bytes + step_bytes - 1) / step_bytes
                                      : stepped_classes + std::bit_width(bytes - 1)
                                            - std::bit_width(stepped_bytes_max - 1);
}

thread_local constinit std::array<Block*, class_count> kept{};

void* take(std::size_t bytes) {
    if (bytes == 0 || bytes > kept_bytes_max) {
        return std::malloc(bytes == 0 ? 1 : bytes);
    }
    Block*& first = kept[class_of(bytes)];
    if (first != nullptr) {
        Block* const block = first;
        first = block->next;
        return block;
    }
    return std::malloc(
        bytes <= stepped_bytes_max ? (bytes + step_bytes - 1) / step_bytes * step_bytes
                                   : std::bit_ceil(bytes));
}

void keep(void* memory, std::size_t bytes) {
    if (bytes == 0 || bytes > kept_bytes_max) {
        std::free(memory);
        return;
    }
    Block*& first = kept[class_of(bytes)];
    first = new (memory) Block{first};
}

// How many of a block's bytes count, as the C library may have given a little more than it was asked for.
std::size_t whole_bytes(void* memory) {
    const std::size_t bytes = memory == nullptr ? 0 : ::malloc_usable_size(memory);
    return bytes < 2 * stepped_bytes_max
               ? std::min(bytes / step_bytes * step_bytes, stepped_bytes_max)
               : std::bit_floor(bytes);
}

}  // namespace

void* operator new(std::size_t bytes) {
    if (void* const memory = take(bytes)) {
        return memory;
    }
    throw std::bad_alloc();
}

void operator delete(void* memory) noexcept {
    keep(memory, whole_bytes(memory));
}

void operator delete(void* memory, std::size_t bytes) noexcept {
    keep(memory, memory == nullptr ? 0 : bytes);
}

#endif
