// SPDX-License-Identifier: Apache-2.0
#include "recorder/checkpoint_slots.hpp"

#include <string>
#include <utility>

namespace relay::recorder {

using layout::CheckpointRecord;
using layout::Done;

namespace {

constexpr std::size_t block_bytes = 4096;

std::string slot_name(std::uint64_t slot) {
    return "checkpoint." + std::to_string(slot);
}

}  // namespace

// Empty when there is none.
Result<std::string> CheckpointSlots::read(std::uint64_t slot) {
    auto file = directory_.open_file(slot_name(slot), OpenMode::existing);
    if (!file.ok()) {
        if (file.error().code == Errc::not_found) {
            return std::string();
        }
        return file.error();
    }
    auto stat = file.value()->stat();
    if (!stat.ok()) {
        return stat.error();
    }
    std::string bytes(static_cast<std::size_t>(stat.value().size), '\0');
    auto count = file.value()->read(0, bytes.data(), bytes.size());
    if (!count.ok()) {
        return count.error();
    }
    bytes.resize(count.value());
    return bytes;
}

Status CheckpointSlots::put(std::uint64_t slot, std::string_view bytes) {
    auto file = directory_.open_file(slot_name(slot), OpenMode::create);
    if (!file.ok()) {
        return file.error();
    }
    if (Status written = file.value()->write(0, bytes); !written.ok()) {
        return written;
    }
    if (Status synced = file.value()->sync(); !synced.ok()) {
        return synced;
    }
    if (!name_is_durable_[slot]) {
        if (Status synced = directory_.sync(); !synced.ok()) {
            return synced;
        }
        name_is_durable_[slot] = true;
    }
    return Done{};
}

Result<std::optional<CheckpointRecord>> CheckpointSlots::load() {
    std::optional<CheckpointRecord> newest;
    std::array<std::string, slot_count> slots;
    for (std::uint64_t slot = 0; slot < slot_count; ++slot) {
        auto bytes = read(slot);
        if (!bytes.ok()) {
            return bytes.error();
        }
        slots[slot] = std::move(bytes.value());
        auto record = layout::decode_checkpoint(slots[slot]);
        if (record.ok() && (!newest || record.value().sequence > newest->sequence)) {
            newest = std::move(record.value());
        }
    }
    if (newest) {
        sequence_ = newest->sequence;
        const std::uint64_t slot = sequence_ % slot_count;
        if (Status kept = put(slot, slots[slot]); !kept.ok()) {
            return kept.error();
        }
        return newest;
    }
    // The very first checkpoint of a journal goes to slot 1. It may be torn, and then there is nothing to
    // lose yet; slot 0 is only ever written after it.
    if (!slots[0].empty()) {
        return Error{Errc::corrupt, 0, "neither checkpoint of the journal can be read"};
    }
    return std::optional<CheckpointRecord>();
}

Status CheckpointSlots::write(CheckpointRecord record) {
    record.sequence = sequence_ + 1;
    std::string bytes = layout::encode_checkpoint(record);
    // Whole blocks, so that a record a few bytes longer needs no space on a full disk.
    bytes.resize((bytes.size() + block_bytes - 1) / block_bytes * block_bytes, '\0');
    if (Status written = put(record.sequence % slot_count, bytes); !written.ok()) {
        return written;
    }
    sequence_ = record.sequence;
    return Done{};
}

}  // namespace relay::recorder
