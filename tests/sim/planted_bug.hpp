// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "recorder/disk.hpp"

#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace relay::tests {

// What the recorder does to a disk, by the file it does it to.
enum class Part {
    segment,    // of the journal
    slot,       // of its checkpoint
    spill,      // of a session whose disk is ill
    temporary,  // a document before its name
    growing,    // output, stderr, timeline
    other,
    any_session  // temporary, growing or other
};

enum class Deed { write, sync, open, rename, remove, sync_directory, sync_disk };

enum class Wrong {
    left_out,     // not done, and called done
    unheeded,     // done; its failure is called success
    tried_again,  // done; after a failure once more, and that answer counts
    at_the_end,   // a write goes to the end of the file, wherever it was meant to go
    in_place,     // a rename copies into the old file
    late          // every other time
};

// A rule of the recorder, broken: as if the line that keeps it were deleted.
struct PlantedBug {
    std::string_view name;
    Deed deed;
    Part part;
    Wrong wrong;
    bool only_in_recovery = false;
    bool one_slot = false;  // both checkpoint slots are one file
};

[[nodiscard]] std::span<const PlantedBug> planted_bugs();

// The model's disks as a recorder with that bug would use them. `in_recovery` is looked at with each
// call; both outlive the disk.
class BuggyDisk final : public recorder::Disk {
public:
    BuggyDisk(recorder::Disk& sound, const PlantedBug& bug, const bool& in_recovery);

    recorder::Result<std::unique_ptr<recorder::Directory>>
    open_directory(const std::string& path) override;

private:
    friend class BuggyDirectory;
    friend class BuggyFile;
    [[nodiscard]] bool strikes(Deed deed, std::string_view path) const;

    recorder::Disk& sound_;
    const PlantedBug& bug_;
    const bool& in_recovery_;
};

}  // namespace relay::tests
