// SPDX-License-Identifier: Apache-2.0
#include "recorder/checkpoint_slots.hpp"
#include "tests/support/model_disk.hpp"

#include <doctest/doctest.h>

#include <cerrno>

namespace relay::recorder {
namespace {

using tests::ModelDisk;
using tests::Random;
using Op = ModelDisk::Op;

layout::CheckpointRecord record_at(std::uint64_t lsn) {
    layout::CheckpointRecord record;
    record.lsn = lsn;
    return record;
}

// The lsn of the checkpoint that a new process finds; 0 for none.
std::uint64_t found_by_new_process(ModelDisk& disk) {
    disk.power_on();
    disk.set_faults({});
    const auto directory = std::move(disk.open_directory("/journal").value());
    auto loaded = CheckpointSlots(*directory).load();
    REQUIRE_MESSAGE(loaded.ok(), (loaded.ok() ? "" : loaded.error().context));
    return loaded.value() ? loaded.value()->lsn : 0;
}

void cut_power(ModelDisk& disk, std::uint64_t seed) {
    Random random(seed);
    disk.lose_power(random);
    disk.power_on();
}

}  // namespace

TEST_CASE("a new journal has no checkpoint") {
    ModelDisk disk({"/journal"});
    CHECK(found_by_new_process(disk) == 0);
}

TEST_CASE("the newest checkpoint is the one that counts") {
    ModelDisk disk({"/journal"});
    const auto directory = std::move(disk.open_directory("/journal").value());
    CheckpointSlots slots(*directory);
    for (std::uint64_t lsn = 1; lsn <= 5; ++lsn) {
        REQUIRE(slots.write(record_at(lsn)).ok());
        CHECK(found_by_new_process(disk) == lsn);
    }
}

TEST_CASE("power loss before any step of a checkpoint leaves the one before or the new one") {
    for (std::uint64_t before = 0; before < 4; ++before) {
        for (std::int64_t step = 0;; ++step) {
            bool whole = false;
            for (std::uint64_t seed = 0; seed < 20; ++seed) {
                ModelDisk disk({"/journal"}, seed);
                {
                    const auto directory = std::move(disk.open_directory("/journal").value());
                    CheckpointSlots slots(*directory);
                    for (std::uint64_t lsn = 1; lsn <= before; ++lsn) {
                        REQUIRE(slots.write(record_at(lsn)).ok());
                    }
                    disk.set_faults(
                        {{.at_operation = disk.operations() + step, .lose_power_instead = true}});
                    whole = slots.write(record_at(before + 1)).ok();
                }
                const std::uint64_t found = found_by_new_process(disk);
                REQUIRE((found == before || found == before + 1));
                if (whole) {
                    REQUIRE(found == before + 1);
                }
            }
            if (whole) {
                break;
            }
        }
    }
}

TEST_CASE("a checkpoint that only the page cache held is durable once it was believed") {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        ModelDisk disk({"/journal"}, seed);
        {
            const auto directory = std::move(disk.open_directory("/journal").value());
            CheckpointSlots slots(*directory);
            REQUIRE(slots.write(record_at(1)).ok());
            REQUIRE(slots.write(record_at(2)).ok());
            // The process ends after the write of the third and before its sync.
            disk.set_faults({{.at_operation = 0, .end_process_instead = true, .only = Op::sync}});
            REQUIRE_FALSE(slots.write(record_at(3)).ok());
        }
        disk.power_on();
        {
            const auto directory = std::move(disk.open_directory("/journal").value());
            CheckpointSlots slots(*directory);
            REQUIRE(slots.load().value()->lsn == 3);
            // The next one goes where the second was, and is torn.
            disk.set_faults({{.at_operation = 0, .lose_power_instead = true, .only = Op::sync}});
            REQUIRE_FALSE(slots.write(record_at(4)).ok());
        }
        const std::uint64_t found = found_by_new_process(disk);
        REQUIRE((found == 3 || found == 4));
    }
}

TEST_CASE("the name of a slot is durable also when the first attempt at it failed") {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        ModelDisk disk({"/journal"}, seed);
        {
            const auto directory = std::move(disk.open_directory("/journal").value());
            CheckpointSlots slots(*directory);
            disk.set_faults({{.at_operation = 0, .os_errno = EIO, .only = Op::sync}});
            REQUIRE_FALSE(slots.write(record_at(1)).ok());
            REQUIRE(slots.write(record_at(1)).ok());
        }
        cut_power(disk, seed);
        REQUIRE(found_by_new_process(disk) == 1);
    }
}

TEST_CASE("two checkpoints that cannot be read are damage and not a new journal") {
    ModelDisk disk({"/journal"});
    disk.user_write("/journal/checkpoint.0", "nonsense");
    disk.user_write("/journal/checkpoint.1", "nonsense");
    const auto directory = std::move(disk.open_directory("/journal").value());
    auto loaded = CheckpointSlots(*directory).load();
    REQUIRE_FALSE(loaded.ok());
    CHECK(loaded.error().code == Errc::corrupt);
}

TEST_CASE("a torn first checkpoint is a new journal") {
    ModelDisk disk({"/journal"});
    disk.user_write("/journal/checkpoint.1", "ARJCnonsense");
    CHECK(found_by_new_process(disk) == 0);
}

}  // namespace relay::recorder
