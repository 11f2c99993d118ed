// SPDX-License-Identifier: Apache-2.0
#include "layout/timestamp.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace relay::layout {

namespace {

using std::chrono::milliseconds;

// Four digits of year are all the text has room for.
constexpr std::int64_t ms_min = -62'167'219'200'000;  // 0000-01-01T00:00:00.000Z
constexpr std::int64_t ms_max = 253'402'300'799'999;  // 9999-12-31T23:59:59.999Z

struct Civil {
    std::chrono::year_month_day date{};
    std::int64_t ms_of_day = 0;
};

Civil civil_of(Timestamp at) {
    const milliseconds since_epoch{std::clamp(at.ms, ms_min, ms_max)};
    const auto day = std::chrono::floor<std::chrono::days>(since_epoch);
    return {std::chrono::sys_days{day}, (since_epoch - day).count()};
}

void put_digits(char* into, std::size_t count, std::int64_t value) {
    for (std::size_t i = count; i > 0; --i) {
        into[i - 1] = static_cast<char>('0' + value % 10);
        value /= 10;
    }
}

// Reads the fields of a text whose shape has been checked already.
std::int64_t digits_at(std::string_view text, std::size_t begin, std::size_t count) {
    std::int64_t value = 0;
    for (const char digit : text.substr(begin, count)) {
        value = value * 10 + (digit - '0');
    }
    return value;
}

constexpr std::string_view shape = "0000-00-00T00:00:00.000Z";

bool has_shape(std::string_view text) {
    if (text.size() != shape.size()) {
        return false;
    }
    for (std::size_t i = 0; i < shape.size(); ++i) {
        const bool digit = text[i] >= '0' && text[i] <= '9';
        if (shape[i] == '0' ? !digit : text[i] != shape[i]) {
            return false;
        }
    }
    return true;
}

}  // namespace

std::string format_timestamp(Timestamp at) {
    const Civil civil = civil_of(at);
    std::string text{shape};
    put_digits(&text[0], 4, static_cast<int>(civil.date.year()));
    put_digits(&text[5], 2, static_cast<unsigned>(civil.date.month()));
    put_digits(&text[8], 2, static_cast<unsigned>(civil.date.day()));
    put_digits(&text[11], 2, civil.ms_of_day / 3'600'000);
    put_digits(&text[14], 2, civil.ms_of_day / 60'000 % 60);
    put_digits(&text[17], 2, civil.ms_of_day / 1'000 % 60);
    put_digits(&text[20], 3, civil.ms_of_day % 1'000);
    return text;
}

std::optional<Timestamp> parse_timestamp(std::string_view text) {
    if (!has_shape(text)) {
        return std::nullopt;
    }
    const std::chrono::year_month_day date{
        std::chrono::year{static_cast<int>(digits_at(text, 0, 4))},
        std::chrono::month{static_cast<unsigned>(digits_at(text, 5, 2))},
        std::chrono::day{static_cast<unsigned>(digits_at(text, 8, 2))}};
    const std::int64_t hour = digits_at(text, 11, 2);
    const std::int64_t minute = digits_at(text, 14, 2);
    const std::int64_t second = digits_at(text, 17, 2);
    if (!date.ok() || hour > 23 || minute > 59 || second > 59) {
        return std::nullopt;
    }
    const milliseconds days = std::chrono::sys_days{date}.time_since_epoch();
    const std::int64_t seconds = (hour * 60 + minute) * 60 + second;
    return Timestamp{days.count() + seconds * 1'000 + digits_at(text, 20, 3)};
}

std::string format_slug_date(Timestamp at) {
    const Civil civil = civil_of(at);
    std::string text(6, '0');
    put_digits(&text[0], 2, static_cast<int>(civil.date.year()) % 100);
    put_digits(&text[2], 2, static_cast<unsigned>(civil.date.month()));
    put_digits(&text[4], 2, static_cast<unsigned>(civil.date.day()));
    return text;
}

}  // namespace relay::layout
