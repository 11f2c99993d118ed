// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/timestamp.hpp"

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace relay::layout {

// A session's name: 48 bits of milliseconds and 80 random bits, big-endian, so that byte order, text
// order and time order agree. Written as 26 characters of Crockford's base 32.
struct Ulid {
    std::array<std::uint8_t, 16> bytes{};

    auto operator<=>(const Ulid&) const = default;
    [[nodiscard]] bool is_zero() const { return *this == Ulid{}; }
    [[nodiscard]] Timestamp time() const;
    [[nodiscard]] std::string text() const;  // upper case

    // Strict length and range (first character at most '7'). Accepts lower case and the aliases
    // O, I, L of Crockford; never U.
    [[nodiscard]] static std::optional<Ulid> parse(std::string_view text);
};

// Issues ULIDs that grow strictly, also within a millisecond and when the clock steps back: then it
// is the previous one plus one. One thread at a time.
class UlidSource {
public:
    // Fills the buffer with unpredictable bytes; injected so that tests repeat.
    using Random = std::function<void(std::uint8_t* into, std::size_t size)>;

    UlidSource();  // getrandom(2)
    explicit UlidSource(Random random);

    // No ULID issued from now on is at or below `last`. For the value kept in the checkpoint.
    void resume_after(const Ulid& last);
    [[nodiscard]] Ulid next(Timestamp now);
    [[nodiscard]] const Ulid& last() const { return last_; }

private:
    Random random_;
    Ulid last_{};
};

}  // namespace relay::layout

template<>
struct std::hash<relay::layout::Ulid> {
    std::size_t operator()(const relay::layout::Ulid& ulid) const noexcept;
};
