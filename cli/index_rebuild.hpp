// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/database.hpp"
#include "cli/file_stamp.hpp"
#include "layout/result.hpp"
#include "layout/ulid.hpp"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace relay::cli {

// The sessions of one store.
struct IndexedStore {
    std::string sessions_directory;
    std::optional<FileStamp> stamp;  // as names_stamp() gave it before they were listed
    std::vector<layout::Ulid> ids;
};

struct RebuildCount {
    std::size_t metas = 0;
    std::size_t texts = 0;  // sessions all of whose turns are sealed and at rest
};

// Notes every session of the stores in an empty index that nobody else sees. What cannot be noted now is left out: readers look
// at the files of those. Calls `reach` with the number of sessions so far.
[[nodiscard]] layout::Result<RebuildCount> fill_index(
    Database& database,
    const std::vector<IndexedStore>& stores,
    const std::function<void(std::size_t done)>& reach);

}  // namespace relay::cli
