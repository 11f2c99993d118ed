// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/database.hpp"
#include "cli/file_stamp.hpp"
#include "layout/result.hpp"
#include "layout/ulid.hpp"

#include <optional>
#include <span>
#include <string>
#include <vector>

// The ids of the sessions of a store without reading its directory, which takes longest of all when few of very many
// sessions are wanted.

namespace relay::cli {

// Newest first, as they were listed when sessions/ had the stamp that it has now; nothing else in it can have come or gone
// since. Errc::not_found when the index does not know them.
[[nodiscard]] layout::Result<std::vector<layout::Ulid>>
known_names(Database& database, const std::string& sessions_directory);

// Of a sessions/ directory, to be taken before it is listed. None when it changed too recently to be sure.
[[nodiscard]] std::optional<FileStamp> names_stamp(const std::string& sessions_directory);

[[nodiscard]] layout::Status note_names(
    Database& database,
    const std::string& sessions_directory,
    const FileStamp& stamp,
    std::span<const layout::Ulid> ids);

// From the index when that knows them, else from the directory; then they are noted for the next one, if there are many
// and there is an index.
[[nodiscard]] layout::Result<std::vector<layout::Ulid>>
list_with_index(const std::string& index_directory, const std::string& sessions_directory);

}  // namespace relay::cli
