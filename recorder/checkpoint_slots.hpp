// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/checkpoint_record.hpp"
#include "recorder/disk.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace relay::recorder {

// The two files that hold checkpoints in turn. A checkpoint that fails to be written leaves the one
// before it untouched. One thread at a time.
class CheckpointSlots {
public:
    // `directory` outlives the slots.
    explicit CheckpointSlots(Directory& directory) : directory_(directory) {}

    // The newest whole one, made durable: the process that wrote it may have ended before it was, and
    // the next one overwrites the other slot. None when the journal is new. Errc::corrupt when slots
    // exist and neither is whole: nobody knows then where replay has to begin.
    [[nodiscard]] Result<std::optional<layout::CheckpointRecord>> load();

    // Gives `record` the next sequence number; after success it survives power loss.
    [[nodiscard]] Status write(layout::CheckpointRecord record);

private:
    static constexpr std::uint64_t slot_count = 2;

    [[nodiscard]] Result<std::string> read(std::uint64_t slot);
    [[nodiscard]] Status put(std::uint64_t slot, std::string_view bytes);

    Directory& directory_;
    std::uint64_t sequence_ = 0;
    std::array<bool, slot_count> name_is_durable_{};  // by a sync of this process
};

}  // namespace relay::recorder
