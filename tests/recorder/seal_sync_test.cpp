// SPDX-License-Identifier: Apache-2.0
#include "recorder/seal_sync.hpp"
#include "tests/recorder/recorder_world.hpp"
#include "tests/support/model_disk.hpp"
#include "tests/support/random.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace relay::tests {
namespace {

using recorder::Directory;
using recorder::File;
using recorder::OpenMode;
using recorder::SealSync;
using Op = ModelDisk::Op;

// Some files with something unsynced in each, and how they were made durable.
struct Sealing {
    Sealing() : disk({"/one"}) {
        place = std::move(disk.open_directory("/one").value());
        disk.set_observer([this](Op op, const std::string& /*mount*/) {
            if (op == Op::sync_file_system) {
                ++together;
                clock.steady += slow_ms;
            }
            apart += op == Op::sync ? 1 : 0;
        });
    }

    recorder::Status seal(std::size_t count) {
        std::vector<File*> wanted;
        for (std::size_t index = 0; index < count; ++index) {
            files.push_back(std::move(
                place->open_file("f" + std::to_string(files.size()), OpenMode::create).value()));
            REQUIRE(files.back()->write(0, "kept").ok());
            wanted.push_back(files.back().get());
        }
        return sealing.sync(*place, wanted, clock);
    }

    ModelDisk disk;
    FakeClock clock;
    std::unique_ptr<Directory> place;
    std::vector<std::unique_ptr<File>> files;
    SealSync sealing;
    int together = 0;
    int apart = 0;
    std::int64_t slow_ms = 0;
};

}  // namespace

TEST_CASE("a few files of a turn are synced each for itself and many with their file system") {
    Sealing world;
    REQUIRE(world.seal(5).ok());
    CHECK(world.apart == 5);
    CHECK(world.together == 0);
    REQUIRE(world.seal(20).ok());
    CHECK(world.apart == 5);
    CHECK(world.together == 1);
}

TEST_CASE(
    "after a sync that waited for what others wrote turns are synced without them for a while") {
    Sealing world;
    world.slow_ms = 50;
    REQUIRE(world.seal(10).ok());
    CHECK(world.together == 1);
    for (int round = 0; round < 16; ++round) {
        REQUIRE(world.seal(10).ok());
    }
    CHECK(world.together == 1);
    CHECK(world.apart == 160);
    REQUIRE(world.seal(10).ok());  // looks again, and for longer not after that
    CHECK(world.together == 2);
    for (int round = 0; round < 32; ++round) {
        REQUIRE(world.seal(10).ok());
    }
    CHECK(world.together == 2);
    world.slow_ms = 0;
    REQUIRE(world.seal(10).ok());
    REQUIRE(world.seal(10).ok());
    CHECK(world.together == 4);
}

TEST_CASE("what was sealed either way survives a power loss") {
    for (const std::int64_t slow_ms : {0, 50}) {
        Sealing world;
        world.slow_ms = slow_ms;
        REQUIRE(world.seal(10).ok());
        REQUIRE(world.seal(10).ok());
        REQUIRE(world.place->sync().ok());
        world.files.clear();
        world.place.reset();
        world.disk.set_observer(nullptr);
        Random random(7);
        world.disk.lose_power(random);
        world.disk.power_on();
        const auto place = std::move(world.disk.open_directory("/one").value());
        for (int index = 0; index < 20; ++index) {
            const std::string name = "f" + std::to_string(index);
            REQUIRE(place->stat(name).ok());
            CHECK(place->stat(name).value().size == 4);
        }
    }
}

TEST_CASE("one file that cannot be synced refuses the whole sealing") {
    Sealing world;
    world.disk.set_faults(
        {{.at_operation = world.disk.operations() + 8, .os_errno = EIO, .only = Op::sync}});
    CHECK_FALSE(world.seal(5).ok());
}

}  // namespace relay::tests
