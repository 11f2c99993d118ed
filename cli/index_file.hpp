// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/database.hpp"
#include "cli/descriptor.hpp"
#include "layout/result.hpp"

#include <cstdint>
#include <string>

// The file of the index in the user's cache directory: index.sqlite, mode 0600. It holds nothing that the files of
// sessions do not hold, so whatever is wrong with it, readers do without it.
//
// It is a database in WAL mode, so that nobody who reads waits for somebody who writes: a search must not fall back to
// reading a gigabyte because a list notes ten sessions. A rebuild makes a new file beside it and swaps the two; index.lock
// is held shared by all who have the index open and alone by the swap, because SQLite would take the log of one file for
// that of the other.

namespace relay::cli {

[[nodiscard]] std::string index_path(const std::string& cache_directory);

// Open, and not swapped while it is. One thread at a time; several may each have one.
class IndexFile {
public:
    // Errc::not_found when there is none, Errc::corrupt when it is none of ours, is damaged or of another version,
    // Errc::unsafe when somebody else may write it, Errc::busy while it is swapped.
    [[nodiscard]] static layout::Result<IndexFile>
    open(const std::string& cache_directory, Database::Access access);
    // Makes an empty one when there is none.
    [[nodiscard]] static layout::Result<IndexFile> open_or_make(const std::string& cache_directory);

    [[nodiscard]] Database& database() { return database_; }

private:
    IndexFile(Descriptor lock, Database database)
        : lock_(std::move(lock)), database_(std::move(database)) {}

    Descriptor lock_;  // released after the database is closed
    Database database_;
};

// A new index that nobody sees until it is published, and that is gone if that never comes.
class StagedIndex {
public:
    // Errc::busy while somebody else makes one.
    [[nodiscard]] static layout::Result<StagedIndex> create(const std::string& cache_directory);

    [[nodiscard]] Database& database() { return database_; }
    // Takes the place of the one that is there; waits until nobody has that open.
    [[nodiscard]] static layout::Status publish(StagedIndex staged);

private:
    StagedIndex(std::string cache_directory, Descriptor lock, Database database)
        : cache_directory_(std::move(cache_directory)),
          lock_(std::move(lock)),
          database_(std::move(database)) {}

    std::string cache_directory_;
    Descriptor lock_;
    Database database_;
};

enum class IfOpen { wait, leave };
// What is not there is removed already. Errc::busy when somebody has it open and it is to be left then.
[[nodiscard]] layout::Status remove_index(const std::string& cache_directory, IfOpen if_open);

// On disk, with its log; 0 when there is none.
[[nodiscard]] std::int64_t index_bytes(const std::string& cache_directory);

}  // namespace relay::cli
