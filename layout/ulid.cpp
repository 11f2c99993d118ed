// SPDX-License-Identifier: Apache-2.0
#include "layout/ulid.hpp"

#include <errno.h>
#include <sys/random.h>
#include <sys/types.h>

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace relay::layout {

namespace {

constexpr std::size_t time_bytes = 6;
constexpr std::size_t text_size = 26;
constexpr std::int64_t time_max = (std::int64_t{1} << 48) - 1;
constexpr std::string_view alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
constexpr std::uint8_t no_value = 0xff;

constexpr std::array<std::uint8_t, 256> make_values() {
    std::array<std::uint8_t, 256> values{};
    values.fill(no_value);
    for (std::size_t i = 0; i < alphabet.size(); ++i) {
        const auto upper = static_cast<std::uint8_t>(alphabet[i]);
        values[upper] = static_cast<std::uint8_t>(i);
        if (alphabet[i] >= 'A') {
            values[upper + std::size_t{'a' - 'A'}] = static_cast<std::uint8_t>(i);
        }
    }
    for (const char zero : {'O', 'o'}) {
        values[static_cast<std::uint8_t>(zero)] = 0;
    }
    for (const char one : {'I', 'i', 'L', 'l'}) {
        values[static_cast<std::uint8_t>(one)] = 1;
    }
    return values;
}
constexpr std::array<std::uint8_t, 256> values = make_values();

struct Halves {
    std::uint64_t high = 0;
    std::uint64_t low = 0;
};

Halves halves_of(const Ulid& ulid) {
    Halves halves;
    for (std::size_t i = 0; i < 8; ++i) {
        halves.high = halves.high << 8 | ulid.bytes[i];
        halves.low = halves.low << 8 | ulid.bytes[i + 8];
    }
    return halves;
}

Ulid ulid_of(Halves halves) {
    Ulid ulid;
    for (std::size_t i = 8; i > 0; --i) {
        ulid.bytes[i - 1] = static_cast<std::uint8_t>(halves.high);
        ulid.bytes[i + 7] = static_cast<std::uint8_t>(halves.low);
        halves.high >>= 8;
        halves.low >>= 8;
    }
    return ulid;
}

// A full random part carries into the time: the order is worth more than the millisecond.
Ulid plus_one(const Ulid& ulid) {
    Halves halves = halves_of(ulid);
    ++halves.low;
    if (halves.low == 0) {
        ++halves.high;
        assert(halves.high != 0);
    }
    return ulid_of(halves);
}

void fill_from_kernel(std::uint8_t* into, std::size_t size) {
    while (size > 0) {
        const ssize_t got = ::getrandom(into, size, 0);
        if (got < 0) {
            if (errno == EINTR) {
                continue;
            }
            // Only a kernel without the call refuses; guessable ids are no way to go on.
            std::abort();
        }
        into += got;
        size -= static_cast<std::size_t>(got);
    }
}

}  // namespace

Timestamp Ulid::time() const {
    return {static_cast<std::int64_t>(halves_of(*this).high >> 16)};
}

std::string Ulid::text() const {
    Halves halves = halves_of(*this);
    std::string text(text_size, '0');
    for (std::size_t i = text_size; i > 0; --i) {
        text[i - 1] = alphabet[halves.low & 31];
        halves.low = halves.low >> 5 | halves.high << 59;
        halves.high >>= 5;
    }
    return text;
}

std::optional<Ulid> Ulid::parse(std::string_view text) {
    // 26 characters hold 130 bits: the first one has only three of them to give.
    if (text.size() != text_size || values[static_cast<std::uint8_t>(text[0])] > 7) {
        return std::nullopt;
    }
    Halves halves;
    for (const char character : text) {
        const std::uint8_t value = values[static_cast<std::uint8_t>(character)];
        if (value == no_value) {
            return std::nullopt;
        }
        halves.high = halves.high << 5 | halves.low >> 59;
        halves.low = halves.low << 5 | value;
    }
    return ulid_of(halves);
}

UlidSource::UlidSource() : UlidSource(fill_from_kernel) {
}

UlidSource::UlidSource(Random random) : random_(std::move(random)) {
}

void UlidSource::resume_after(const Ulid& last) {
    last_ = std::max(last_, last);
}

Ulid UlidSource::next(Timestamp now) {
    const std::int64_t ms = std::clamp(now.ms, std::int64_t{0}, time_max);
    if (!last_.is_zero() && ms <= last_.time().ms) {
        last_ = plus_one(last_);
        return last_;
    }
    Ulid fresh = ulid_of({static_cast<std::uint64_t>(ms) << 16, 0});
    random_(fresh.bytes.data() + time_bytes, fresh.bytes.size() - time_bytes);
    last_ = fresh;
    return last_;
}

}  // namespace relay::layout

std::size_t
std::hash<relay::layout::Ulid>::operator()(const relay::layout::Ulid& ulid) const noexcept {
    std::array<std::uint64_t, 2> words{};
    static_assert(sizeof words == sizeof ulid.bytes);
    std::memcpy(words.data(), ulid.bytes.data(), sizeof words);
    return static_cast<std::size_t>(words[0] * 0x9e3779b97f4a7c15U ^ words[1]);
}
