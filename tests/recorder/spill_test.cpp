// SPDX-License-Identifier: Apache-2.0
#include "recorder/spill.hpp"
#include "tests/support/model_disk.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <string>

namespace relay::recorder {
namespace {

using layout::Ulid;
using tests::ModelDisk;
using tests::Random;
using Op = ModelDisk::Op;

const Ulid session = Ulid::parse("01J9X3M7K5VBHQEN6T2F4D8RPZ").value();
const Ulid other = Ulid::parse("01J9X3M7K5VBHQEN6T2F4D8RPY").value();

std::string read_all(Spill& spill, const Ulid& whose) {
    std::string all;
    const Status read = spill.read(whose, [&all](std::uint64_t lsn, std::string_view changes) {
        all += std::to_string(lsn) + "=" + std::string(changes) + ";";
        return Status(layout::Done{});
    });
    REQUIRE(read.ok());
    return all;
}

struct SpillWorld {
    explicit SpillWorld(std::uint64_t seed = 1) : disk({"/spill"}, seed) {}
    ModelDisk disk;
    std::unique_ptr<Directory> directory = std::move(disk.open_directory("/spill").value());

    void reopen() {
        directory.reset();
        disk.power_on();
        disk.set_faults({});
        directory = std::move(disk.open_directory("/spill").value());
    }
};

}  // namespace

TEST_CASE("spilled changes come back a session at a time and in order") {
    SpillWorld world;
    Spill spill(*world.directory, 0);
    REQUIRE(spill.add(session, 3, "three").ok());
    REQUIRE(spill.add(other, 3, "other").ok());
    REQUIRE(spill.add(session, 5, "five").ok());
    REQUIRE(spill.sync().ok());
    REQUIRE(spill.add(session, 6, "").ok());
    REQUIRE(spill.sync().ok());
    CHECK(read_all(spill, session) == "3=three;5=five;6=;");
    CHECK(read_all(spill, other) == "3=other;");
    CHECK(spill.sessions().value().size() == 2);
}

TEST_CASE("a batch that is spilled already is passed over") {
    SpillWorld world;
    Spill spill(*world.directory, 0);
    REQUIRE(spill.add(session, 3, "three").ok());
    REQUIRE(spill.add(session, 3, "three").ok());
    REQUIRE(spill.sync().ok());
    REQUIRE(spill.add(session, 2, "two").ok());
    REQUIRE(spill.add(session, 4, "four").ok());
    REQUIRE(spill.sync().ok());
    CHECK(read_all(spill, session) == "3=three;4=four;");
}

TEST_CASE("what was spilled and synced survives every power loss") {
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        SpillWorld world(seed);
        {
            Spill spill(*world.directory, 0);
            REQUIRE(spill.add(session, 3, std::string(900, 'a')).ok());
            REQUIRE(spill.sync().ok());
            REQUIRE(spill.add(session, 4, std::string(900, 'b')).ok());
        }
        Random random(seed);
        world.disk.lose_power(random);
        world.reopen();
        Spill spill(*world.directory, 3);
        REQUIRE(read_all(spill, session).starts_with("3=" + std::string(900, 'a') + ";"));
        // The unsynced remains are cut off before anything is added behind them.
        REQUIRE(spill.add(session, 4, "new").ok());
        REQUIRE(spill.sync().ok());
        REQUIRE(read_all(spill, session) == "3=" + std::string(900, 'a') + ";4=new;");
    }
}

TEST_CASE("frames that no checkpoint vouches for are written anew") {
    SpillWorld world;
    {
        Spill spill(*world.directory, 0);
        REQUIRE(spill.add(session, 3, "three").ok());
        REQUIRE(spill.sync().ok());
        REQUIRE(spill.add(session, 9, "perhaps only in the page cache").ok());
    }
    world.reopen();
    Spill spill(*world.directory, 5);
    REQUIRE(spill.add(session, 9, "nine").ok());
    REQUIRE(spill.sync().ok());
    CHECK(read_all(spill, session) == "3=three;9=nine;");
}

TEST_CASE("after a failed sync everything since the last good one is added again") {
    SpillWorld world;
    {
        Spill spill(*world.directory, 0);
        REQUIRE(spill.add(session, 3, "three").ok());
        REQUIRE(spill.sync().ok());
        REQUIRE(spill.add(session, 4, "four").ok());
        world.disk.set_faults({{.at_operation = 0, .os_errno = EIO, .only = Op::sync}});
        REQUIRE_FALSE(spill.sync().ok());
        REQUIRE(spill.add(session, 4, "four").ok());
        REQUIRE(spill.sync().ok());
    }
    Random random(3);
    world.disk.lose_power(random);
    world.reopen();
    Spill spill(*world.directory, 4);
    CHECK(read_all(spill, session) == "3=three;4=four;");
}

TEST_CASE("a full disk half way through a frame costs only that frame") {
    SpillWorld world;
    Spill spill(*world.directory, 0);
    REQUIRE(spill.add(session, 3, "three").ok());
    world.disk.set_capacity("/spill", world.disk.used("/spill") + 20);
    REQUIRE_FALSE(spill.add(session, 4, std::string(100, 'x')).ok());
    world.disk.set_capacity("/spill", ModelDisk::unlimited);
    // The file was let go, so what was not synced is added again, as the caller does.
    REQUIRE(spill.add(session, 3, "three").ok());
    REQUIRE(spill.add(session, 4, "four").ok());
    REQUIRE(spill.sync().ok());
    CHECK(read_all(spill, session) == "3=three;4=four;");
}

TEST_CASE("a removed spill stays removed after power loss once that was synced") {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        SpillWorld world(seed);
        {
            Spill spill(*world.directory, 0);
            REQUIRE(spill.add(session, 3, "three").ok());
            REQUIRE(spill.sync().ok());
            REQUIRE(spill.remove(session).ok());
            REQUIRE(spill.remove(other).ok());
            REQUIRE(spill.sync_removals().ok());
            REQUIRE(read_all(spill, session).empty());
        }
        Random random(seed);
        world.disk.lose_power(random);
        world.reopen();
        Spill spill(*world.directory, 3);
        REQUIRE(spill.sessions().value().empty());
    }
}

}  // namespace relay::recorder
