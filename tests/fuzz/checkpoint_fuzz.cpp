// SPDX-License-Identifier: Apache-2.0

// Two checkpoint slots with any content: one is chosen or the journal is called corrupt, and what was
// decoded is encoded and decoded to the same.

#include "layout/checkpoint_record.hpp"
#include "recorder/checkpoint_slots.hpp"
#include "tests/fuzz/fuzz_input.hpp"
#include "tests/support/model_disk.hpp"

#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace relay;
    using namespace relay::tests;
    FuzzInput input(data, size);
    const std::uint8_t mode = input.byte();
    const std::size_t first_bytes = input.number() % (size + 1);
    std::string slots[2] = {std::string(input.bytes(first_bytes)), std::string(input.rest())};
    ModelDisk disk({"/journal"});
    for (std::size_t number = 0; number < 2; ++number) {
        if ((mode & 1) == 0) {
            mend_checkpoint_checksum(slots[number]);
        }
        if ((mode & 2 << number) == 0) {
            disk.user_write("/journal/checkpoint." + std::to_string(number), slots[number]);
        }
        const auto decoded = layout::decode_checkpoint(slots[number]);
        if (decoded.ok()) {
            const auto again =
                layout::decode_checkpoint(layout::encode_checkpoint(decoded.value()));
            HOLDS(again.ok() && again.value() == decoded.value());
        }
    }
    {
        const auto directory = disk.open_directory("/journal");
        HOLDS(directory.ok());
        recorder::CheckpointSlots loaded(*directory.value());
        const auto record = loaded.load();
        if (!record.ok()) {
            HOLDS(!record.error().context.empty());
        } else if (record.value()) {
            // The next one is the one that counts from then on.
            HOLDS(loaded.write(*record.value()).ok());
            recorder::CheckpointSlots reloaded(*directory.value());
            const auto next = reloaded.load();
            HOLDS(next.ok() && next.value());
            HOLDS(next.value()->sequence == record.value()->sequence + 1);
        }
    }
    HOLDS(disk.open_handles() == 0);
    return 0;
}
