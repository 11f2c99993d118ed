// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/file_stamp.hpp"
#include "cli/index_file.hpp"
#include "cli/turn_grams.hpp"
#include "layout/result.hpp"
#include "layout/ulid.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

// What readers noted of sessions, so that they need not read them again. Never authoritative: a row counts only while the
// file or directory has the stamp that it was made from, and every error means "do without it".

namespace relay::cli {

struct NotedMeta {
    layout::Ulid id;
    FileStamp stamp;       // of meta.json, before it was read
    std::string card;      // as encode_card() makes it
    std::string document;  // meta.json as one line
};

struct MetaRow {
    layout::Ulid id;
    FileStamp stamp;
    std::string_view card;
    std::string_view document;  // empty when it was not asked for
};

// The turns of a session, all of them sealed.
struct NotedText {
    layout::Ulid id;
    FileStamp stamp;  // of turns/, before they were read
    std::vector<TurnGrams> turns;
};

struct TextRow {
    layout::Ulid id;
    FileStamp stamp;
    std::int64_t number = 0;
};

// Which turns may have what was asked for, by TextRow::number; ascending.
using TurnsByNumber = std::unordered_map<std::int64_t, std::vector<std::int64_t>>;

// Reads and writes the rows of an open index. The database must outlive it. One thread at a time.
class SessionIndex {
public:
    explicit SessionIndex(Database& database) : database_(database) {}

    // Calls see() for the rows of a store's sessions/ with ids from `oldest` to `newest`, newest first. What it is
    // given is good until it returns.
    using SeeMeta = std::function<void(const MetaRow& row)>;
    [[nodiscard]] layout::Status metas(
        const std::string& sessions_directory,
        const layout::Ulid& newest,
        const layout::Ulid& oldest,
        bool with_documents,
        const SeeMeta& see);

    // Newest first.
    [[nodiscard]] layout::Result<std::vector<TextRow>> texts(const std::string& sessions_directory);

    // `query` as gram_query() makes it. Errc::busy when there are more than `turns_max`: then the query is no help.
    [[nodiscard]] layout::Status
    turns_with(const std::string& query, std::size_t turns_max, TurnsByNumber& turns);

    // In the transaction of the caller.
    [[nodiscard]] layout::Status
    note(const std::string& sessions_directory, std::span<const NotedMeta> metas);
    [[nodiscard]] layout::Status
    note(const std::string& sessions_directory, std::span<const NotedText> texts);

private:
    // 0: none.
    [[nodiscard]] layout::Result<std::int64_t> find_store(const std::string& sessions_directory);
    [[nodiscard]] layout::Result<std::int64_t> make_store(const std::string& sessions_directory);

    Database& database_;
};

// Turns are numbered within this.
inline constexpr std::int64_t indexed_turn_max = (std::int64_t{1} << 20) - 1;

}  // namespace relay::cli
