// SPDX-License-Identifier: Apache-2.0

// Segments with any content, their checksums mended or not: a scan ends, what it calls the chain is one,
// and every payload of it can be read and taken apart.

#include "layout/journal_change.hpp"
#include "recorder/journal.hpp"
#include "tests/fuzz/fuzz_input.hpp"
#include "tests/support/model_disk.hpp"
#include "tests/support/random.hpp"

#include <memory>
#include <string>

namespace relay::tests {
namespace {

constexpr std::int64_t segment_bytes = 16 * 1024;

void take_apart(std::string_view payload) {
    layout::ChangeReader changes(payload);
    while (const auto change = changes.next()) {
        layout::EffectReader effects(*change);
        while (const auto effect = effects.next()) {
            if (effect->kind == layout::EffectKind::claim) {
                static_cast<void>(layout::decode_claim(*effect));
            }
        }
    }
}

void scan(ModelDisk& disk, const layout::CheckpointRecord& checkpoint) {
    Random random(1);
    auto directory = disk.open_directory("/journal");
    HOLDS(directory.ok());
    auto opened = recorder::Journal::open(
        *directory.value(), {.segment_bytes = segment_bytes, .segments_max = 3}, [&random] {
            return random.next();
        });
    if (!opened.ok()) {
        return;
    }
    recorder::Journal& journal = *opened.value();
    const auto scanned = journal.scan(checkpoint);
    if (!scanned.ok()) {
        HOLDS(!scanned.error().context.empty());
        return;
    }
    std::uint64_t expected = checkpoint.lsn + 1;
    for (const recorder::BatchPlace& place : scanned.value().chain) {
        HOLDS(place.lsn == expected++);
        HOLDS(place.synced_lsn < place.lsn);
    }
    HOLDS(journal.rewrite_tail(scanned.value()).ok());
    for (const recorder::BatchPlace& place : scanned.value().chain) {
        const auto payload = journal.read_payload(place);
        HOLDS(payload.ok());
        take_apart(payload.value());
    }
    for (const recorder::BatchPlace& place : scanned.value().severed) {
        const auto payload = journal.read_payload(place);
        HOLDS(payload.ok());
        take_apart(payload.value());
    }
}

}  // namespace
}  // namespace relay::tests

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace relay::tests;
    FuzzInput input(data, size);
    const std::uint8_t mode = input.byte();
    relay::layout::CheckpointRecord checkpoint;
    checkpoint.lsn = input.byte();
    checkpoint.clean = (mode & 2) != 0;
    ModelDisk disk({"/journal"});
    for (int number = 1; number <= 3 && !input.empty(); ++number) {
        std::string segment(input.bytes(segment_bytes));
        // A file of another size is another case; most should have the right one.
        if ((mode & 4) == 0) {
            segment.resize(segment_bytes);
        }
        if ((mode & 1) == 0) {
            mend_journal_checksums(segment);
        }
        disk.user_write("/journal/segment-000" + std::to_string(number), segment);
    }
    scan(disk, checkpoint);
    HOLDS(disk.open_handles() == 0);
    return 0;
}
