// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/session_index.hpp"
#include "layout/documents.hpp"
#include "layout/result.hpp"
#include "layout/store.hpp"
#include "layout/ulid.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// What readers leave in the index for the next one.

namespace relay::cli {

// By sessions/ directory.
struct IndexNotes {
    std::map<std::string, std::vector<NotedMeta>> metas;
    std::map<std::string, std::vector<NotedText>> texts;

    [[nodiscard]] bool empty() const { return metas.empty() && texts.empty(); }
};

// More than a reader notes of what it read: a filling of the whole index is worth a command of its own.
inline constexpr std::size_t noted_metas_max = 1024;  // some 20 ms
inline constexpr std::size_t noted_texts_max = 64;    // sessions, some 50 ms

// From this many sessions on, list makes an index by itself; fewer are read as fast without.
inline constexpr std::size_t index_worthwhile = 1000;

// A meta.json that is `text` and was read as `meta`. None when it changed too recently for its stamp to be sure; `stamp` is from before it
// was read, and `now_ns` from before that.
[[nodiscard]] std::optional<NotedMeta> note_meta(
    const layout::Meta& meta, const FileStamp& stamp, std::string_view text, std::int64_t now_ns);

// The turns of a session, as they are now. None when they may still change or cannot be read.
[[nodiscard]] std::optional<NotedText> note_text(
    const std::string& sessions_directory,
    const layout::Ulid& id,
    GramCollector& collector,
    std::int64_t now_ns);

// In the transaction of the caller.
[[nodiscard]] layout::Status write_rows(Database& database, const IndexNotes& notes);
// All of them in one transaction of their own, or none.
[[nodiscard]] layout::Status write_notes(Database& database, const IndexNotes& notes);

enum class IfMissing { leave, make };
// Does what it can within a moment and says nothing: the next reader tries again.
void leave_notes(const std::string& cache_directory, const IndexNotes& notes, IfMissing if_missing);

// Removes an index that turned out to be damaged or of another version, unless somebody has it open.
void discard_index(const std::string& cache_directory);

// The user's; empty when the environment names none.
[[nodiscard]] std::string index_directory(const layout::Environment& environment);

}  // namespace relay::cli
