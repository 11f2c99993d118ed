// SPDX-License-Identifier: Apache-2.0
#include "cli/index_rebuild.hpp"

#include "cli/index_notes.hpp"
#include "cli/known_names.hpp"
#include "cli/side_by_side.hpp"
#include "layout/meta_skim.hpp"
#include "layout/session_paths.hpp"

#include <fcntl.h>

#include <algorithm>
#include <future>
#include <optional>
#include <span>
#include <utility>

namespace relay::cli {

namespace {

using layout::Result;
using layout::Status;
using layout::Ulid;

constexpr std::size_t sessions_a_batch = 512;
// FTS5 sorts so much in memory before it writes a segment; fewer segments are searched faster.
constexpr std::size_t hash_bytes = std::size_t{256} << 20;

struct Reader {
    layout::MetaSkimmer skimmer;
    GramCollector collector;
};

struct Batch {
    const std::string* sessions_directory = nullptr;
    std::span<const Ulid> ids;
};

std::optional<NotedMeta>
read_meta(const std::string& directory, const Ulid& id, Reader& reader, std::int64_t now_ns) {
    const std::optional<FileStamp> stamp =
        FileStamp::of(AT_FDCWD, directory + "/" + std::string(layout::meta_file));
    std::string text;
    const Result<layout::Meta> meta = reader.skimmer.skim_session(directory, text);
    if (!stamp || !meta.ok() || meta.value().id != id) {
        return std::nullopt;
    }
    return note_meta(meta.value(), *stamp, text, now_ns);
}

IndexNotes read_batch(const Batch& batch, std::vector<Reader>& readers) {
    const std::int64_t now_ns = file_clock_ns();
    std::vector<std::optional<NotedMeta>> metas(batch.ids.size());
    std::vector<std::optional<NotedText>> texts(batch.ids.size());
    side_by_side(batch.ids.size(), readers.size(), [&](std::size_t worker, std::size_t item) {
        const Ulid& id = batch.ids[item];
        metas[item] =
            read_meta(*batch.sessions_directory + "/" + id.text(), id, readers[worker], now_ns);
        texts[item] = note_text(*batch.sessions_directory, id, readers[worker].collector, now_ns);
    });
    IndexNotes notes;
    for (std::size_t item = 0; item < batch.ids.size(); ++item) {
        if (metas[item]) {
            notes.metas[*batch.sessions_directory].push_back(std::move(*metas[item]));
        }
        if (texts[item]) {
            notes.texts[*batch.sessions_directory].push_back(std::move(*texts[item]));
        }
    }
    return notes;
}

std::vector<Batch> batches_of(const std::vector<IndexedStore>& stores) {
    std::vector<Batch> batches;
    for (const IndexedStore& store : stores) {
        for (std::size_t at = 0; at < store.ids.size(); at += sessions_a_batch) {
            batches.push_back(
                {&store.sessions_directory,
                 std::span(store.ids).subspan(
                     at, std::min(sessions_a_batch, store.ids.size() - at))});
        }
    }
    return batches;
}

void count(const IndexNotes& notes, RebuildCount& into) {
    for (const auto& [directory, metas] : notes.metas) {
        into.metas += metas.size();
    }
    for (const auto& [directory, texts] : notes.texts) {
        into.texts += texts.size();
    }
}

}  // namespace

Result<RebuildCount> fill_index(
    Database& database,
    const std::vector<IndexedStore>& stores,
    const std::function<void(std::size_t done)>& reach) {
    Status filled = database.run(
        "INSERT INTO grams(grams, rank) VALUES('hashsize', " + std::to_string(hash_bytes)
        + "); BEGIN");
    for (const IndexedStore& store : stores) {
        if (filled.ok() && store.stamp) {
            filled = note_names(database, store.sessions_directory, *store.stamp, store.ids);
        }
    }
    const std::vector<Batch> batches = batches_of(stores);
    std::vector<Reader> readers(worker_count(sessions_a_batch, 4));
    RebuildCount counted;
    std::size_t done = 0;
    // The next batch is read while one is written.
    std::future<IndexNotes> next;
    for (std::size_t at = 0; at < batches.size() && filled.ok(); ++at) {
        const IndexNotes notes = at == 0 ? read_batch(batches[0], readers) : next.get();
        if (at + 1 < batches.size()) {
            next = std::async(std::launch::async, [&readers, &batch = batches[at + 1]] {
                return read_batch(batch, readers);
            });
        }
        filled = write_rows(database, notes);
        count(notes, counted);
        done += batches[at].ids.size();
        reach(done);
    }
    if (next.valid()) {
        next.wait();
    }
    if (filled.ok()) {
        filled = database.run(
            "COMMIT; INSERT INTO grams(grams, rank) VALUES('hashsize', 1048576); ANALYZE");
    }
    return filled.ok() ? Result<RebuildCount>(counted) : filled.error();
}

}  // namespace relay::cli
