// SPDX-License-Identifier: Apache-2.0
#include "cli/human_text.hpp"

#include <time.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <system_error>

namespace relay::cli {

namespace {

using layout::Timestamp;

constexpr std::int64_t second_ms = 1000;
constexpr std::int64_t minute_ms = 60 * second_ms;
constexpr std::int64_t hour_ms = 60 * minute_ms;
constexpr std::int64_t day_ms = 24 * hour_ms;
constexpr std::int64_t week_ms = 7 * day_ms;
constexpr std::int64_t year_ms = 365 * day_ms;

// "2026-11-16 11:38:00"
std::string local_text(Timestamp at) {
    const time_t seconds = at.ms / second_ms;
    tm local{};
    if (::localtime_r(&seconds, &local) == nullptr) {
        return "?";
    }
    std::array<char, 64> text{};
    const std::size_t size = ::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &local);
    return {text.data(), size};
}

std::string two_digits(std::int64_t number) {
    return (number < 10 ? "0" : "") + std::to_string(number);
}

std::optional<Timestamp> local_time(const tm& wanted) {
    tm copy = wanted;
    copy.tm_isdst = -1;
    const time_t seconds = ::mktime(&copy);
    // What does not exist, such as February 30, comes back as another day.
    if (seconds == -1 || copy.tm_mday != wanted.tm_mday || copy.tm_mon != wanted.tm_mon) {
        return std::nullopt;
    }
    return Timestamp{std::int64_t{seconds} * second_ms};
}

std::optional<Timestamp> start_of_day(Timestamp at, int days_before) {
    const time_t seconds = at.ms / second_ms;
    tm local{};
    if (::localtime_r(&seconds, &local) == nullptr) {
        return std::nullopt;
    }
    local.tm_hour = local.tm_min = local.tm_sec = 0;
    local.tm_mday -= days_before;
    local.tm_isdst = -1;
    const time_t start = ::mktime(&local);
    return start == -1 ? std::nullopt : std::optional(Timestamp{std::int64_t{start} * second_ms});
}

std::optional<Timestamp> parse_date(const std::string& text) {
    for (const char* const form : {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d"}) {
        tm wanted{};
        const char* const end = ::strptime(text.c_str(), form, &wanted);
        if (end != nullptr && *end == '\0') {
            return local_time(wanted);
        }
    }
    return std::nullopt;
}

std::optional<std::int64_t> parse_span(std::string_view text) {
    std::int64_t number = 0;
    const auto [rest, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
    const std::string_view unit = text.substr(static_cast<std::size_t>(rest - text.data()));
    constexpr std::int64_t number_max = 1'000'000'000;  // beyond any clock, far from an overflow
    if (failure != std::errc{} || number < 0 || number > number_max || unit.size() != 1) {
        return std::nullopt;
    }
    switch (unit.front()) {
    case 's':
        return number * second_ms;
    case 'm':
        return number * minute_ms;
    case 'h':
        return number * hour_ms;
    case 'd':
        return number * day_ms;
    case 'w':
        return number * week_ms;
    default:
        return std::nullopt;
    }
}

struct Range {
    char32_t first;
    char32_t last;
};

// Of the East Asian Width of Unicode: W and F, in ranges as wide as they may be joined.
constexpr std::array wide{
    Range{0x1100, 0x115f},
    Range{0x231a, 0x231b},
    Range{0x2e80, 0x303e},
    Range{0x3041, 0x4dbf},
    Range{0x4e00, 0xa4cf},
    Range{0xa960, 0xa97f},
    Range{0xac00, 0xd7a3},
    Range{0xf900, 0xfaff},
    Range{0xfe30, 0xfe6f},
    Range{0xff00, 0xff60},
    Range{0xffe0, 0xffe6},
    Range{0x1f300, 0x1f64f},
    Range{0x1f680, 0x1f6ff},
    Range{0x1f900, 0x1faff},
    Range{0x20000, 0x3fffd},
};

// Marks that combine, and formats that show nothing.
constexpr std::array without_width{
    Range{0x0300, 0x036f},
    Range{0x0483, 0x0489},
    Range{0x0591, 0x05bd},
    Range{0x0610, 0x061a},
    Range{0x064b, 0x065f},
    Range{0x1ab0, 0x1aff},
    Range{0x1dc0, 0x1dff},
    Range{0x200b, 0x200f},
    Range{0x2060, 0x2064},
    Range{0x20d0, 0x20ff},
    Range{0xfe00, 0xfe0f},
    Range{0xfe20, 0xfe2f},
    Range{0xfeff, 0xfeff},
};

template<std::size_t Count>
bool is_in(char32_t character, const std::array<Range, Count>& ranges) {
    return std::any_of(ranges.begin(), ranges.end(), [character](const Range& range) {
        return character >= range.first && character <= range.last;
    });
}

std::size_t width_of(char32_t character) {
    if (character < 0x300) {
        return 1;
    }
    if (is_in(character, without_width)) {
        return 0;
    }
    return is_in(character, wide) ? 2 : 1;
}

// The character at `at`, which is moved behind it. The text is valid UTF-8.
char32_t take_character(std::string_view text, std::size_t& at) {
    const auto byte = [text](std::size_t index) {
        return index < text.size() ? static_cast<unsigned char>(text[index]) : 0U;
    };
    const unsigned lead = byte(at);
    const std::size_t size = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    char32_t character = size == 1 ? lead : lead & (0x7fU >> size);
    for (std::size_t more = 1; more < size; ++more) {
        character = (character << 6) | (byte(at + more) & 0x3fU);
    }
    at += size;
    return character;
}

}  // namespace

std::string age_text(Timestamp then, Timestamp now) {
    const std::int64_t age = now.ms - then.ms;
    if (age < second_ms) {
        return "now";
    }
    if (age < minute_ms) {
        return std::to_string(age / second_ms) + "s";
    }
    if (age < hour_ms) {
        return std::to_string(age / minute_ms) + "m";
    }
    if (age < day_ms) {
        return std::to_string(age / hour_ms) + "h";
    }
    if (age < 2 * week_ms) {
        return std::to_string(age / day_ms) + "d";
    }
    if (age < 52 * week_ms) {
        return std::to_string(age / week_ms) + "w";
    }
    return std::to_string(std::max<std::int64_t>(1, age / year_ms)) + "y";
}

std::string duration_text(std::int64_t milliseconds) {
    const std::int64_t ms = std::max<std::int64_t>(milliseconds, 0);
    if (ms < second_ms) {
        return std::to_string(ms) + "ms";
    }
    if (ms < minute_ms) {
        return std::to_string(ms / second_ms) + "s";
    }
    if (ms < hour_ms) {
        return std::to_string(ms / minute_ms) + "m" + two_digits(ms % minute_ms / second_ms) + "s";
    }
    if (ms < day_ms) {
        return std::to_string(ms / hour_ms) + "h" + two_digits(ms % hour_ms / minute_ms) + "m";
    }
    return std::to_string(ms / day_ms) + "d" + two_digits(ms % day_ms / hour_ms) + "h";
}

std::string count_text(std::int64_t count) {
    constexpr std::array units{'k', 'M', 'G', 'T'};
    if (count < 1000) {
        return std::to_string(count);
    }
    double scaled = static_cast<double>(count) / 1000;
    std::size_t unit = 0;
    while (scaled >= 999.5 && unit + 1 < units.size()) {
        scaled /= 1000;
        ++unit;
    }
    std::array<char, 32> text{};
    const std::to_chars_result end = std::to_chars(
        text.data(),
        text.data() + text.size(),
        scaled,
        std::chars_format::fixed,
        scaled < 9.95 ? 1 : 0);
    return std::string(text.data(), end.ptr) + units[unit];
}

std::string cost_text(double usd) {
    std::array<char, 64> text{};
    const bool small = usd != 0 && std::abs(usd) < 0.1;
    const int size = std::snprintf(text.data(), text.size(), small ? "$%.4f" : "$%.2f", usd);
    return {text.data(), std::min(static_cast<std::size_t>(size), text.size() - 1)};
}

std::string counted(std::int64_t count, std::string_view noun) {
    return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

std::string exit_text(std::int64_t status, std::string_view error) {
    const std::string number = std::to_string(status);
    return error.ends_with("exit status " + number) ? "" : "exit " + number;
}

std::string clock_text(Timestamp at) {
    return local_text(at);
}

std::string day_text(Timestamp at) {
    const std::string text = local_text(at);
    return text.substr(0, text.find(' '));
}

std::optional<Timestamp> parse_moment(std::string_view text, Timestamp now) {
    if (text == "now") {
        return now;
    }
    if (text == "today") {
        return start_of_day(now, 0);
    }
    if (text == "yesterday") {
        return start_of_day(now, 1);
    }
    if (const std::optional<std::int64_t> span = parse_span(text)) {
        return Timestamp{now.ms - *span};
    }
    if (const std::optional<Timestamp> exact = layout::parse_timestamp(text)) {
        return exact;
    }
    return parse_date(std::string(text));
}

Timestamp now() {
    const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
    return {std::chrono::duration_cast<std::chrono::milliseconds>(since_epoch).count()};
}

std::size_t columns_of(std::string_view text) {
    if (std::all_of(text.begin(), text.end(), [](char byte) { return byte >= 0; })) {
        return text.size();
    }
    std::size_t columns = 0;
    std::size_t at = 0;
    while (at < text.size()) {
        columns += width_of(take_character(text, at));
    }
    return columns;
}

std::string cut_to_columns(std::string_view text, std::size_t columns) {
    if (columns == 0) {
        return {};
    }
    std::size_t used = 0;
    std::size_t at = 0;
    std::size_t kept = 0;  // bytes that leave a column for the mark
    while (at < text.size()) {
        used += width_of(take_character(text, at));
        if (used > columns) {
            return std::string(text.substr(0, kept)) + "…";
        }
        if (used < columns) {
            kept = at;
        }
    }
    return std::string(text);
}

}  // namespace relay::cli
