// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// The work that everybody is measured by: turns of a prompt of 1 KiB, 20 chunks of output of 200 bytes, one
// of stderr of 100 bytes, and an end with 600 bytes of state.

namespace relay::tests {

enum class Step { prompt, chunk, standard_error, end };

inline constexpr int chunks_a_turn = 20;
inline constexpr int events_a_turn = chunks_a_turn + 3;
inline constexpr std::size_t prompt_bytes = 1024;
inline constexpr std::size_t chunk_bytes = 200;
inline constexpr std::size_t stderr_bytes = 100;
inline constexpr std::size_t state_bytes = 600;
inline constexpr std::size_t turn_bytes =
    prompt_bytes + chunks_a_turn * chunk_bytes + stderr_bytes + state_bytes;

[[nodiscard]] std::string filler(std::size_t bytes);

// What an event is called on the wire, and its members after `"session":"…",`, with the closing brace.
[[nodiscard]] std::string_view type_of(Step step);
[[nodiscard]] std::string members_of(Step step);

// One client's way through its turns.
class TurnCursor {
public:
    // Shortens the first turn, so that not all clients end theirs together.
    explicit TurnCursor(int skipped_chunks = 0) : chunks_(skipped_chunks % chunks_a_turn) {}
    [[nodiscard]] Step next();

private:
    Step step_ = Step::end;
    int chunks_;  // of the running turn
};

}  // namespace relay::tests
