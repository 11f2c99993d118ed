// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/ulid.hpp"
#include "recorder/disk.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

namespace relay::recorder {

// Changes that a sick file system has not taken yet, on the journal's own disk, one file a session: so
// that the journal can be recycled although they are not in their final place.
//
//     frame   offset  size  field
//                  0     4  crc32c of everything after this field
//                  4     4  length of the changes
//                  8     8  lsn of the batch they come from
//                 16        the session's changes of that batch
//
// One thread at a time for add() and sync(); read() may run beside them and sees what was added before
// it began.
class Spill {
public:
    // `directory` outlives the spill. Frames of an earlier process count only up to `trusted_lsn`, the
    // checkpoint's: later ones may be in the page cache alone, and are in the journal still.
    Spill(Directory& directory, std::uint64_t trusted_lsn)
        : directory_(directory), trusted_lsn_(trusted_lsn) {}

    // Adds after everything older. A batch that the file already holds is passed over, so a spill that
    // a crash interrupted may simply be done again.
    [[nodiscard]] Status
    add(const layout::Ulid& session, std::uint64_t lsn, std::string_view changes);

    // After success everything added survives power loss. After failure nothing added since the last
    // success counts: it must be added again.
    [[nodiscard]] Status sync();

    using Visitor = std::function<Status(std::uint64_t lsn, std::string_view changes)>;
    [[nodiscard]] Status read(const layout::Ulid& session, const Visitor& visitor);

    // The session's changes have reached its own files and are synced there.
    [[nodiscard]] Status remove(const layout::Ulid& session);
    // Makes removals survive power loss; before it, no checkpoint may rely on them.
    [[nodiscard]] Status sync_removals();

    [[nodiscard]] Result<std::vector<layout::Ulid>> sessions();

private:
    struct Open {
        std::unique_ptr<File> file;  // null between two rounds of adding
        std::int64_t end = 0;
        std::uint64_t last_lsn = 0;
        std::int64_t synced_end = 0;
        std::uint64_t synced_lsn = 0;
    };
    [[nodiscard]] Result<Open*> open(const layout::Ulid& session);

    Directory& directory_;
    std::uint64_t trusted_lsn_;
    std::map<layout::Ulid, Open> open_;
    bool names_changed_ = false;
};

}  // namespace relay::recorder
