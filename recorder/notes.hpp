// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/documents.hpp"
#include "layout/event.hpp"
#include "layout/result.hpp"
#include "recorder/session.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// What agents say about their work (decisions, blockers, validation, files, the next task), on its way
// from the wire to the turn's seal and to the handoff packet. Pure. The session that runs and the loader
// that reads one back go through the same functions, so both know the same afterwards.

namespace relay::recorder {

// A decision, blocker, file or limit larger than this is refused; a longer text belongs in an attachment.
inline constexpr std::size_t item_bytes_max = 65536;

using NamedValues = std::vector<std::pair<std::string, layout::RawJson>>;

// A note, checked and in the form that the files keep.
struct Note {
    enum class Kind { decision, blocker, validation, file, next, other };
    Kind kind = Kind::other;
    // As the timeline shows it: as sent, but decisions and blockers are objects with id, source and turn.
    layout::RawJson payload;
    std::string id;      // decision, blocker
    std::string text;    // file: its path; next: the task
    NamedValues values;  // validation
};

// Errc::invalid, with a sentence for the client, when a known kind has a payload it cannot have.
[[nodiscard]] layout::Result<Note>
read_note(const layout::TurnNote& note, std::int64_t turn, const Knowledge& knowledge);

// Into the open turn, which hands it on when it is sealed; between turns (`open` is null) into the
// knowledge at once.
void keep_note(const Note& note, std::int64_t turn, Knowledge& knowledge, OpenTurn* open);

// What session.checkpoint declares.
struct Declared {
    std::vector<KnownItem> decisions;
    std::vector<KnownItem> blockers;
    NamedValues validation;
    std::optional<std::string> next_task;
    layout::RawJson limit;
};
[[nodiscard]] layout::Result<Declared> read_declared(
    const layout::SessionCheckpoint& checkpoint, std::int64_t turn, const Knowledge& knowledge);
void keep_declared(const Declared& declared, std::int64_t turn, Knowledge& knowledge);

// The blocker that an exit code other than 0 or an error is; none otherwise.
[[nodiscard]] std::optional<KnownItem> observed_blocker(
    const std::optional<std::int64_t>& exit_code,
    const std::optional<std::string>& error,
    std::int64_t turn,
    const Knowledge& knowledge);
void keep_blocker(KnownItem blocker, Knowledge& knowledge);

// Adds or completes a tool call of the turn.
void keep_tool(const layout::TurnTool& tool, layout::Timestamp at, OpenTurn& turn);

// The status that the end of a turn states or implies.
[[nodiscard]] std::string turn_status(const layout::TurnEnd& end);

// The seal of a turn without its file hashes: what the turn gathered and what its end adds.
[[nodiscard]] layout::TurnState
describe_turn(OpenTurn& turn, const layout::TurnEnd& end, layout::Timestamp now);

// What a sealed turn leaves for the handoff packet; last_turn is left to the caller.
void absorb(const layout::TurnState& state, Knowledge& knowledge);

// The end of a turn's output as the packet quotes it.
[[nodiscard]] std::string quote_tail(std::string_view tail);

// "[a,b,c]" and {"name":value,…}; the latter empty when there is no value.
[[nodiscard]] std::string join_items(const std::vector<KnownItem>& items);
[[nodiscard]] layout::RawJson join_values(const NamedValues& values);

}  // namespace relay::recorder
