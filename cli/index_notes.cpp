// SPDX-License-Identifier: Apache-2.0
#include "cli/index_notes.hpp"

#include "cli/session_card.hpp"
#include "layout/meta_skim.hpp"
#include "layout/session_paths.hpp"

#include <fcntl.h>

#include <utility>

namespace relay::cli {

namespace {

using layout::Result;
using layout::Status;

}  // namespace

std::optional<NotedMeta> note_meta(
    const layout::Meta& meta, const FileStamp& stamp, std::string_view text, std::int64_t now_ns) {
    if (!stamp.settled(now_ns)) {
        return std::nullopt;
    }
    return NotedMeta{meta.id, stamp, encode_card(meta), layout::minified_json(text)};
}

std::optional<NotedText> note_text(
    const std::string& sessions_directory,
    const layout::Ulid& id,
    GramCollector& collector,
    std::int64_t now_ns) {
    const std::string directory = sessions_directory + "/" + id.text();
    const std::optional<FileStamp> stamp =
        FileStamp::of(AT_FDCWD, directory + "/" + std::string(layout::turns_directory));
    if (!stamp || !stamp->settled(now_ns)) {
        return std::nullopt;
    }
    Result<std::vector<TurnGrams>> turns = read_grams(directory, collector);
    if (!turns.ok() || (!turns.value().empty() && turns.value().back().turn > indexed_turn_max)) {
        return std::nullopt;
    }
    return NotedText{id, *stamp, std::move(turns.value())};
}

Status write_rows(Database& database, const IndexNotes& notes) {
    SessionIndex index(database);
    for (const auto& [directory, metas] : notes.metas) {
        if (Status noted = index.note(directory, metas); !noted.ok()) {
            return noted;
        }
    }
    for (const auto& [directory, texts] : notes.texts) {
        if (Status noted = index.note(directory, texts); !noted.ok()) {
            return noted;
        }
    }
    return layout::Done{};
}

Status write_notes(Database& database, const IndexNotes& notes) {
    if (Status begun = database.run("BEGIN IMMEDIATE"); !begun.ok()) {
        return begun;
    }
    Status written = write_rows(database, notes);
    if (written.ok()) {
        written = database.run("COMMIT");
    }
    if (!written.ok()) {
        // What failed says more; closing the database would do the same.
        static_cast<void>(database.run("ROLLBACK"));
    }
    return written;
}

void leave_notes(
    const std::string& cache_directory, const IndexNotes& notes, IfMissing if_missing) {
    if (cache_directory.empty() || notes.empty()) {
        return;
    }
    Result<IndexFile> file = if_missing == IfMissing::make
                                 ? IndexFile::open_or_make(cache_directory)
                                 : IndexFile::open(cache_directory, Database::Access::write);
    if (file.ok()) {
        // Nobody is told: whoever reads next finds the files as before and tries again.
        static_cast<void>(write_notes(file.value().database(), notes));
    }
}

void discard_index(const std::string& cache_directory) {
    // Whoever has it open, or may not remove it, goes on without it; so does everybody else.
    static_cast<void>(remove_index(cache_directory, IfOpen::leave));
}

std::string index_directory(const layout::Environment& environment) {
    const Result<layout::UserDirectories> user = layout::user_directories(environment);
    return user.ok() ? user.value().cache : "";
}

}  // namespace relay::cli
