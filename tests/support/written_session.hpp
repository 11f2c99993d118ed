// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/documents.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// Sessions as the recorder would leave them, without a recorder: for tests and measurements of readers.

namespace relay::tests {

// A completed session that began `number` minutes after 2026-11-01T00:00:00Z, with an id, a slug, a preview
// and tokens of its own. The same number gives the same session.
[[nodiscard]] layout::Meta example_meta(std::int64_t number);

// What a turn left behind. Without an end it is running.
struct WrittenTurn {
    std::string prompt;
    std::string output;
    std::optional<std::string> stderr_log{};
    bool sealed = true;
};

// Makes <sessions_directory>/<id> with its meta.json, its turns and a timeline that agrees with them, and
// returns its path. turn_count and chain of `meta` are set to fit.
std::string write_session(
    const std::string& sessions_directory,
    layout::Meta meta,
    const std::vector<WrittenTurn>& turns = {});

// Replaces a file by what compression makes of it, `path` and ".zst".
void compress_file(const std::string& path);

// `count` sessions, example_meta(1) and on, each with turns whose outputs have about `output_bytes`.
void write_many_sessions(
    const std::string& sessions_directory,
    std::int64_t count,
    std::size_t output_bytes,
    std::size_t turns = 1);

}  // namespace relay::tests
