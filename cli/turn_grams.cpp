// SPDX-License-Identifier: Apache-2.0
#include "cli/turn_grams.hpp"

#include "layout/documents.hpp"
#include "layout/session_paths.hpp"
#include "layout/session_reader.hpp"
#include "layout/turn_input.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace relay::cli {

namespace {

using layout::Done;
using layout::Errc;
using layout::Error;
using layout::Result;
using layout::Status;

constexpr std::size_t gram_count = std::size_t{1} << 24;
constexpr std::uint32_t gram_mask = gram_count - 1;
constexpr int gram_bytes = 3;
constexpr std::size_t block_bytes = 1 << 16;
constexpr std::int64_t state_bytes_max = std::int64_t{16} << 20;

std::uint32_t small(char byte) {
    const auto value = static_cast<unsigned char>(byte);
    return value >= 'A' && value <= 'Z' ? value | 0x20U : value;
}

// No word that is searched for goes across the end of a line, or has a zero in it.
bool separates(std::uint32_t byte) {
    return byte == '\n' || byte == 0;
}

void append_hex(std::string& out, std::uint32_t gram) {
    constexpr std::string_view digits = "0123456789abcdef";
    for (int shift = 20; shift >= 0; shift -= 4) {
        out += digits[(gram >> static_cast<unsigned>(shift)) & 0xfU];
    }
}

// Bytes of the file as it was recorded.
Result<std::int64_t>
collect_file(const std::string& path, GramCollector& collector, std::string& block) {
    Result<layout::TurnInput> file = layout::TurnInput::open(AT_FDCWD, path);
    if (!file.ok()) {
        return file.error();
    }
    std::int64_t bytes = 0;
    collector.part();
    for (;;) {
        const Result<std::size_t> got = file.value().read(block.data(), block.size());
        if (!got.ok()) {
            return got.error();
        }
        if (got.value() == 0) {
            return bytes;
        }
        bytes += static_cast<std::int64_t>(got.value());
        collector.add(std::string_view(block).substr(0, got.value()));
    }
}

Status collect_turn(
    const std::string& directory, std::int64_t turn, GramCollector& collector, std::string& block) {
    const Result<std::string> text =
        layout::read_file(directory + "/" + layout::state_file(turn), state_bytes_max);
    if (!text.ok()) {
        return Error{Errc::busy, 0, "a turn is open"};
    }
    const Result<layout::TurnState> state = layout::decode_turn_state(text.value());
    if (!state.ok()) {
        return state.error();
    }
    const std::array<std::pair<std::string, std::int64_t>, 3> files{{
        {layout::prompt_file(turn), state.value().prompt.bytes},
        {layout::output_file(turn), state.value().output.bytes},
        {layout::stderr_file(turn), state.value().stderr_log ? state.value().stderr_log->bytes : 0},
    }};
    for (const auto& [file, sealed_bytes] : files) {
        const Result<std::int64_t> bytes = collect_file(directory + "/" + file, collector, block);
        if (!bytes.ok() && bytes.error().code != Errc::not_found) {
            return bytes.error();
        }
        if ((bytes.ok() ? bytes.value() : 0) != sealed_bytes) {
            return Error{Errc::busy, 0, "a turn is not as it was sealed"};
        }
    }
    return Done{};
}

}  // namespace

GramCollector::GramCollector() : seen_(gram_count / 64) {
}

void GramCollector::add(std::string_view piece) {
    for (const char each : piece) {
        const std::uint32_t byte = small(each);
        if (separates(byte)) {
            filled_ = 0;
            continue;
        }
        last_ = ((last_ << 8U) | byte) & gram_mask;
        if (++filled_ < gram_bytes) {
            continue;
        }
        filled_ = gram_bytes;
        std::uint64_t& word = seen_[last_ / 64];
        const std::uint64_t bit = std::uint64_t{1} << (last_ % 64);
        if ((word & bit) == 0) {
            word |= bit;
            grams_.push_back(last_);
        }
    }
}

void GramCollector::part() {
    filled_ = 0;
}

std::string GramCollector::take() {
    std::string text;
    text.reserve(grams_.size() * 7);
    for (const std::uint32_t gram : grams_) {
        append_hex(text, gram);
        text += ' ';
        seen_[gram / 64] = 0;
    }
    grams_.clear();
    filled_ = 0;
    return text;
}

std::optional<std::string> gram_query(const std::vector<std::string>& words) {
    GramCollector collector;
    for (const std::string& word : words) {
        // A line never has it, and a text that is kept without ends of lines cannot say so.
        if (std::any_of(
                word.begin(), word.end(), [](char byte) { return separates(small(byte)); })) {
            return std::nullopt;
        }
        collector.part();
        collector.add(word);
    }
    std::string query = collector.take();
    return query.empty() ? std::nullopt : std::optional<std::string>(std::move(query));
}

Result<std::vector<TurnGrams>>
read_grams(const std::string& session_directory, GramCollector& collector) {
    const Result<std::vector<std::int64_t>> turns = layout::list_turns(session_directory);
    if (!turns.ok()) {
        return turns.error();
    }
    std::vector<TurnGrams> all;
    std::string block(block_bytes, '\0');
    for (const std::int64_t turn : turns.value()) {
        const Status collected = collect_turn(session_directory, turn, collector, block);
        std::string grams = collector.take();
        if (!collected.ok()) {
            return collected.error();
        }
        all.push_back({turn, std::move(grams)});
    }
    return all;
}

}  // namespace relay::cli
