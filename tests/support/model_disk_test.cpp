// SPDX-License-Identifier: Apache-2.0
#include "recorder/posix_disk.hpp"
#include "tests/support/model_disk.hpp"
#include "tests/support/random.hpp"
#include "tests/support/temporary_directory.hpp"

#include <doctest/doctest.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>

namespace relay::tests {
namespace {

using layout::Done;
using recorder::Directory;
using recorder::Errc;
using recorder::File;
using recorder::FileKind;
using recorder::FileStat;
using recorder::OpenMode;
using recorder::Result;
using recorder::Status;
using Op = ModelDisk::Op;

constexpr std::size_t sector = ModelDisk::sector_bytes;

// Enough draws that each of a handful of outcomes turns up; the draws are the same in every run.
constexpr std::uint64_t seeds = 300;

std::unique_ptr<Directory> open_at(recorder::Disk& disk, const std::string& path) {
    Result<std::unique_ptr<Directory>> opened = disk.open_directory(path);
    REQUIRE(opened.ok());
    return std::move(opened.value());
}

std::unique_ptr<File>
must_open(Directory& directory, std::string_view name, OpenMode mode = OpenMode::create) {
    Result<std::unique_ptr<File>> opened = directory.open_file(name, mode);
    REQUIRE(opened.ok());
    return std::move(opened.value());
}

template<typename Value>
Errc code_of(const Result<Value>& result) {
    REQUIRE_FALSE(result.ok());
    return result.error().code;
}

void cut_power(ModelDisk& disk, std::uint64_t seed) {
    Random random(seed);
    disk.lose_power(random);
    disk.power_on();
}

using Contents = std::set<std::optional<std::string>>;

// Every content of `path` that power loss after `prepare` leaves in some draw.
template<typename Prepare>
Contents outcomes(Prepare prepare, const std::string& path) {
    Contents found;
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
        ModelDisk disk({"/one"});
        {
            const std::unique_ptr<Directory> root = open_at(disk, "/one");
            prepare(*root);
        }
        cut_power(disk, seed);
        CHECK(disk.seen(path) == disk.durable(path));
        found.insert(disk.seen(path));
    }
    return found;
}

TEST_CASE("the model keeps synced bytes under a synced name through every power loss") {
    const auto prepare = [](Directory& root) {
        const std::unique_ptr<File> file = must_open(root, "f");
        REQUIRE(file->write(0, "kept").ok());
        REQUIRE(file->sync().ok());
        REQUIRE(root.sync().ok());
    };
    CHECK(outcomes(prepare, "/one/f") == Contents{"kept"});
}

TEST_CASE("the model loses a name that was not synced even when its file was") {
    const auto prepare = [](Directory& root) {
        const std::unique_ptr<File> file = must_open(root, "f");
        REQUIRE(file->write(0, "kept").ok());
        REQUIRE(file->sync().ok());
    };
    CHECK(outcomes(prepare, "/one/f") == Contents{std::nullopt, "kept"});
}

TEST_CASE("the model leaves a file that was not synced empty or zeroed or whole") {
    const auto prepare = [](Directory& root) {
        REQUIRE(must_open(root, ".tmp")->write(0, "new").ok());
        REQUIRE(root.rename(".tmp", "f").ok());
        REQUIRE(root.sync().ok());
    };
    CHECK(outcomes(prepare, "/one/f") == Contents{"", std::string(3, '\0'), "new"});
}

TEST_CASE("the model keeps everything after a sync of the file system") {
    const auto prepare = [](Directory& root) {
        REQUIRE(root.make_directory("a").ok());
        REQUIRE(must_open(root, "a/f")->write(0, "kept").ok());
        REQUIRE(root.make_symbolic_link("f", "a/link").ok());
        REQUIRE(root.sync_file_system().ok());
        REQUIRE(must_open(root, "a/g")->write(0, "later").ok());
    };
    CHECK(outcomes(prepare, "/one/a/f") == Contents{"kept"});
    CHECK(outcomes(prepare, "/one/a/link") == Contents{"-> f"});
    CHECK(outcomes(prepare, "/one/a/g").contains(std::nullopt));
}

TEST_CASE("the model tears writes between sectors but never inside one") {
    const std::string old_bytes(2 * sector, 'o');
    const auto prepare = [&](Directory& root) {
        const std::unique_ptr<File> file = must_open(root, "f");
        REQUIRE(file->write(0, old_bytes).ok());
        REQUIRE(root.sync_file_system().ok());
        REQUIRE(file->write(0, std::string(2 * sector, '1')).ok());
        REQUIRE(file->write(0, std::string(2 * sector, '2')).ok());
    };
    Contents all;
    for (const char first : {'o', '1', '2'}) {
        for (const char second : {'o', '1', '2'}) {
            all.insert(std::string(sector, first) + std::string(sector, second));
        }
    }
    CHECK(outcomes(prepare, "/one/f") == all);
}

TEST_CASE("the model draws the size among the durable one and those seen since") {
    const auto prepare = [](Directory& root) {
        const std::unique_ptr<File> file = must_open(root, "f");
        REQUIRE(file->write(0, "abcdef").ok());
        REQUIRE(root.sync_file_system().ok());
        REQUIRE(file->truncate(2).ok());
        REQUIRE(file->truncate(8).ok());
        REQUIRE(file->truncate(4).ok());
    };
    std::set<std::size_t> sizes;
    for (const auto& content : outcomes(prepare, "/one/f")) {
        sizes.insert(content.value().size());
    }
    CHECK(sizes == std::set<std::size_t>{2, 4, 6, 8});

    const auto synced = [&](Directory& root) {
        prepare(root);
        REQUIRE(must_open(root, "f")->truncate(5).ok());
        REQUIRE(must_open(root, "f")->sync().ok());
    };
    CHECK(outcomes(synced, "/one/f") == Contents{std::string("ab\0\0\0", 5)});
}

TEST_CASE("a model file that was cut and grew again is old or short or zeroed after power loss") {
    const auto prepare = [](Directory& root) {
        const std::unique_ptr<File> file = must_open(root, "f");
        REQUIRE(file->write(0, "abcdef").ok());
        REQUIRE(root.sync_file_system().ok());
        REQUIRE(file->truncate(2).ok());
        REQUIRE(file->truncate(6).ok());
    };
    const std::string zeroed("ab\0\0\0\0", 6);
    CHECK(outcomes(prepare, "/one/f") == Contents{"abcdef", "ab", zeroed});
}

TEST_CASE("a directory sync in the model commits earlier names and no later ones") {
    const auto prepare = [](Directory& root) {
        REQUIRE(root.make_directory("a").ok());
        REQUIRE(root.make_directory("b").ok());
        REQUIRE(root.open_file("b/before", OpenMode::create).ok());
        REQUIRE(root.open_file("a/f", OpenMode::create).ok());
        REQUIRE(root.open_file("b/after", OpenMode::create).ok());
        REQUIRE(root.open_directory("a").value()->sync().ok());
    };
    CHECK(outcomes(prepare, "/one/a/f") == Contents{""});
    CHECK(outcomes(prepare, "/one/b/before") == Contents{""});
    CHECK(outcomes(prepare, "/one/b/after") == Contents{std::nullopt, ""});
}

TEST_CASE("names in the model survive in the order in which they were made") {
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
        CAPTURE(seed);
        ModelDisk disk({"/one"});
        {
            const std::unique_ptr<Directory> root = open_at(disk, "/one");
            REQUIRE(root->make_directory("a").ok());
            REQUIRE(root->make_directory("b").ok());
            must_open(*root, "a/f");
            REQUIRE(root->rename("a/f", "b/g").ok());
            REQUIRE(root->rename("b", "c").ok());
            REQUIRE(root->remove("c/g").ok());
        }
        cut_power(disk, seed);
        const std::array<std::set<std::string>, 7> moments{{
            {},
            {"/one/a/"},
            {"/one/a/", "/one/b/"},
            {"/one/a/", "/one/a/f", "/one/b/"},
            {"/one/a/", "/one/b/", "/one/b/g"},
            {"/one/a/", "/one/c/", "/one/c/g"},
            {"/one/a/", "/one/c/"},
        }};
        std::set<std::string> names;
        for (const auto& [path, content] : disk.seen_tree("/one")) {
            names.insert(path);
        }
        CHECK(std::find(moments.begin(), moments.end(), names) != moments.end());
        // What was found can be worked with: paths and entries agree.
        for (const std::string& name : names) {
            if (name.ends_with('/')) {
                const std::string path = name.substr(0, name.size() - 1);
                CHECK(open_at(disk, path)->path().value() == path);
            }
        }
    }
}

// Writes "old" and syncs it, writes "newer" and has its sync refused, writes again if told so.
void check_refused_sync(Op op, bool write_again) {
    CAPTURE(static_cast<int>(op));
    CAPTURE(write_again);
    ModelDisk disk({"/one"});
    const std::unique_ptr<Directory> root = open_at(disk, "/one");
    const std::unique_ptr<File> file = must_open(*root, "f");
    const auto sync = [&] {
        return op == Op::sync ? file->sync() : root->sync_file_system();
    };
    REQUIRE(file->write(0, "old").ok());
    REQUIRE(root->sync_file_system().ok());
    REQUIRE(file->write(0, "newer").ok());
    disk.set_faults({{.os_errno = EIO, .only = op}});
    CHECK(code_of(sync()) == Errc::io);
    CHECK_FALSE(disk.faults_left());
    CHECK(sync().ok());
    CHECK(disk.seen("/one/f") == "newer");
    CHECK(disk.durable("/one/f") == "old");
    if (write_again) {
        REQUIRE(file->write(0, "newer").ok());
        REQUIRE(sync().ok());
    }
    cut_power(disk, 1);
    CHECK(disk.seen("/one/f") == (write_again ? "newer" : "old"));
}

TEST_CASE("a refused sync in the model drops the dirty pages and the next one lies") {
    check_refused_sync(Op::sync, false);
    check_refused_sync(Op::sync_file_system, false);
}

TEST_CASE("writing again after a refused sync heals the model") {
    check_refused_sync(Op::sync, true);
    check_refused_sync(Op::sync_file_system, true);
}

TEST_CASE("after a refused sync the model heals only the bytes that are written again") {
    ModelDisk disk({"/one"});
    const std::unique_ptr<Directory> root = open_at(disk, "/one");
    const std::unique_ptr<File> file = must_open(*root, "f");
    REQUIRE(file->write(0, "old").ok());
    REQUIRE(root->sync_file_system().ok());
    REQUIRE(file->write(0, "newer").ok());
    disk.set_faults({{.os_errno = EIO, .only = Op::sync}});
    CHECK_FALSE(file->sync().ok());
    REQUIRE(file->write(0, "n").ok());
    REQUIRE(file->sync().ok());
    CHECK(disk.seen("/one/f") == "newer");
    cut_power(disk, 1);
    CHECK(disk.seen("/one/f") == std::string("nld\0\0", 5));
}

TEST_CASE("a failed write back in the model is heard by those who had the file open") {
    ModelDisk disk({"/one"});
    const std::unique_ptr<Directory> sentinel = open_at(disk, "/one");
    const std::unique_ptr<File> holder = must_open(*sentinel, "f");
    REQUIRE(sentinel->sync().ok());
    disk.fail_writeback("/one/f");
    CHECK(holder->sync().ok());
    REQUIRE(holder->write(0, "lost").ok());
    disk.fail_writeback("/one/f");
    const std::unique_ptr<File> late = must_open(*sentinel, "f");
    const std::unique_ptr<Directory> late_sentinel = open_at(disk, "/one");
    CHECK(late->sync().ok());
    CHECK(late_sentinel->sync_file_system().ok());
    CHECK(code_of(holder->sync()) == Errc::io);
    CHECK(holder->sync().ok());
    CHECK(code_of(sentinel->sync_file_system()) == Errc::io);
    CHECK(sentinel->sync_file_system().ok());
    CHECK(disk.seen("/one/f") == "lost");
    CHECK(disk.durable("/one/f") == "");
}

TEST_CASE("files of the model are synced in any order without touching each other") {
    ModelDisk disk({"/one"});
    const std::unique_ptr<Directory> root = open_at(disk, "/one");
    std::vector<std::unique_ptr<File>> files;
    for (const std::string_view name : {"a", "b", "c", "d"}) {
        files.push_back(must_open(*root, name));
    }
    REQUIRE(root->sync().ok());
    for (const std::size_t synced : {0U, 3U, 1U, 2U}) {
        for (const std::unique_ptr<File>& file : files) {
            REQUIRE(file->write(file->stat().value().size, "x").ok());
        }
        const std::string name(1, static_cast<char>('a' + synced));
        const std::string before = disk.durable("/one/" + name).value();
        REQUIRE(files[synced]->sync().ok());
        CHECK(disk.durable("/one/" + name) == disk.seen("/one/" + name));
        CHECK(disk.durable("/one/" + name) != before);
    }
    CHECK(disk.durable("/one/a") == "x");
    CHECK(disk.durable("/one/d") == "xx");
    CHECK(disk.durable("/one/b") == "xxx");
    CHECK(disk.durable("/one/c") == "xxxx");
    for (const std::size_t synced : {1U, 2U, 0U, 3U}) {
        REQUIRE(files[synced]->sync().ok());
    }
    cut_power(disk, 2);
    for (const std::string_view name : {"a", "b", "c", "d"}) {
        CHECK(disk.seen("/one/" + std::string(name)) == "xxxx");
    }
}

TEST_CASE("a refused directory sync in the model commits nothing") {
    ModelDisk disk({"/one"});
    const std::unique_ptr<Directory> root = open_at(disk, "/one");
    must_open(*root, "f");
    disk.set_faults({{.os_errno = EIO, .only = Op::sync_directory}});
    CHECK(code_of(root->sync()) == Errc::io);
    CHECK_FALSE(disk.durable("/one/f").has_value());
    CHECK(root->sync().ok());
    CHECK(disk.durable("/one/f").has_value());
}

TEST_CASE("bytes in the model are durable from their sync on whatever their name is") {
    ModelDisk disk({"/one"});
    const std::unique_ptr<Directory> root = open_at(disk, "/one");
    const std::unique_ptr<File> file = must_open(*root, "f");
    REQUIRE(file->write(2, "xyz").ok());
    CHECK_FALSE(disk.is_durable("/one/f", 2, "xyz"));
    REQUIRE(file->sync().ok());
    CHECK(disk.is_durable("/one/f", 2, "xyz"));
    CHECK(disk.is_durable("/one/f", 3, "yz"));
    CHECK_FALSE(disk.is_durable("/one/f", 3, "yzz"));
    CHECK_FALSE(disk.is_durable("/one/f", 9, "x"));
    CHECK_FALSE(disk.is_durable("/one/g", 0, ""));
    REQUIRE(root->rename("f", "g").ok());
    CHECK(disk.is_durable("/one/g", 2, "xyz"));
}

TEST_CASE("a rename to a new name of the model leaves whatever has that name already") {
    ModelDisk disk({"/one"});
    const std::unique_ptr<Directory> root = open_at(disk, "/one");
    static_cast<void>(must_open(*root, "f"));
    static_cast<void>(must_open(*root, "g"));
    CHECK(code_of(root->rename_new("f", "g")) == Errc::exists);
    REQUIRE(root->rename_new("f", "h").ok());
    CHECK(code_of(root->stat("f")) == Errc::not_found);
    CHECK_FALSE(root->deleted().value());
}

TEST_CASE("without power every handle of the model is dead for ever") {
    ModelDisk disk({"/one", "/two"});
    {
        const std::unique_ptr<Directory> root = open_at(disk, "/one");
        const std::unique_ptr<File> file = must_open(*root, "f");
        REQUIRE(root->lock().ok());
        REQUIRE(root->sync().ok());
        Random random(1);
        disk.lose_power(random);
        CHECK_FALSE(disk.has_power());
        CHECK(code_of(disk.open_directory("/two")) == Errc::io);
        disk.power_on();
        const Status written = file->write(0, "x");
        CHECK(code_of(written) == Errc::io);
        CHECK(written.error().os_errno == EIO);
        CHECK(written.error().context == "write f: the power is off");
        CHECK(code_of(file->sync()) == Errc::io);
        CHECK(code_of(file->stat()) == Errc::io);
        CHECK(code_of(root->list()) == Errc::io);
        CHECK(code_of(root->sync_file_system()) == Errc::io);
        CHECK(code_of(root->path()) == Errc::io);
        CHECK(code_of(root->open_file("f", OpenMode::existing)) == Errc::io);

        const std::unique_ptr<Directory> fresh = open_at(disk, "/one");
        CHECK(fresh->lock().ok());
        CHECK(must_open(*fresh, "f", OpenMode::existing)->write(0, "y").ok());
        CHECK(disk.open_handles() == 3);
    }
    CHECK(disk.open_handles() == 0);
    CHECK(disk.seen("/one/f") == "y");
}

TEST_CASE("the end of a process leaves in the model what was seen") {
    ModelDisk disk({"/one"});
    REQUIRE(must_open(*open_at(disk, "/one"), "f")->write(0, "seen").ok());
    CHECK(disk.open_handles() == 0);
    CHECK(disk.seen("/one/f") == "seen");
    CHECK_FALSE(disk.durable("/one/f").has_value());
    must_open(*open_at(disk, "/one"), "f", OpenMode::existing);
}

TEST_CASE("a full model disk writes what fits and heals when a file is removed") {
    ModelDisk disk({"/one", "/two"});
    disk.set_capacity("/one", 10);
    const std::unique_ptr<Directory> root = open_at(disk, "/one");
    std::unique_ptr<File> first = must_open(*root, "first");
    const std::unique_ptr<File> second = must_open(*root, "second");
    REQUIRE(first->write(0, "123456").ok());
    const Status refused = second->write(0, "abcdef");
    CHECK(code_of(refused) == Errc::no_space);
    CHECK(refused.error().os_errno == ENOSPC);
    CHECK(refused.error().context == "write second: No space left on device");
    CHECK(disk.seen("/one/second") == "abcd");
    CHECK(disk.used("/one") == 10);
    CHECK(first->write(0, "654321").ok());
    CHECK(code_of(first->write(6, "7")) == Errc::no_space);
    CHECK(must_open(*open_at(disk, "/two"), "f")->write(0, "0123456789abc").ok());

    REQUIRE(root->remove("first").ok());
    CHECK(code_of(second->write(4, "e")) == Errc::no_space);
    first.reset();
    CHECK(second->write(4, "efghij").ok());
    REQUIRE(second->truncate(1).ok());
    CHECK(disk.used("/one") == 1);
    REQUIRE(second->write(1, "bcd").ok());
    REQUIRE(root->sync_file_system().ok());
    REQUIRE(must_open(*root, "third")->write(0, "12345").ok());
    CHECK(disk.used("/one") == 9);
    REQUIRE(root->remove("third").ok());
    CHECK(disk.used("/one") == 4);
}

TEST_CASE("what power loss takes from the model no longer counts as used") {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        CAPTURE(seed);
        ModelDisk disk({"/one"});
        const std::unique_ptr<Directory> root = open_at(disk, "/one");
        const std::unique_ptr<File> kept = must_open(*root, "kept");
        REQUIRE(root->sync().ok());
        REQUIRE(kept->write(0, "12345").ok());
        REQUIRE(must_open(*root, "lost")->write(0, "123456789").ok());
        cut_power(disk, seed);
        std::size_t bytes = 0;
        for (const auto& [path, content] : disk.seen_tree("/one")) {
            bytes += content.size();
        }
        CHECK(disk.used("/one") == static_cast<std::int64_t>(bytes));
    }
}

TEST_CASE("a read only file system of the model refuses every change and no other one does") {
    ModelDisk disk({"/one", "/two"});
    const std::unique_ptr<Directory> root = open_at(disk, "/one");
    const std::unique_ptr<File> file = must_open(*root, "f");
    disk.set_read_only("/one", true);
    const Status written = file->write(0, "x");
    CHECK(code_of(written) == Errc::io);
    CHECK(written.error().os_errno == EROFS);
    CHECK_FALSE(file->truncate(0).ok());
    CHECK_FALSE(root->open_file("g", OpenMode::create).ok());
    CHECK_FALSE(root->open_file("f", OpenMode::existing).ok());
    CHECK_FALSE(root->make_directory("d").ok());
    CHECK_FALSE(root->rename("f", "g").ok());
    CHECK_FALSE(root->rename_new("f", "g").ok());
    CHECK_FALSE(root->remove("f").ok());
    CHECK_FALSE(root->make_symbolic_link("f", "l").ok());
    CHECK(root->stat("f").ok());
    CHECK(root->list().ok());
    CHECK(must_open(*open_at(disk, "/two"), "f")->write(0, "x").ok());
    disk.set_read_only("/one", false);
    CHECK(file->write(0, "x").ok());
}

TEST_CASE("a fault strikes the operation with its number and no other") {
    const auto run = [](ModelDisk& disk) {
        int refused = 0;
        const auto count = [&](bool ok) {
            refused += ok ? 0 : 1;
        };
        auto root = disk.open_directory("/one");
        count(root.ok());
        if (root.ok()) {
            auto file = root.value()->open_file("f", OpenMode::create);
            count(file.ok());
            if (file.ok()) {
                count(file.value()->write(0, "x").ok());
                file.value()->start_writeback();
                count(file.value()->sync().ok());
                count(file.value()->stat().ok());
            }
            count(root.value()->sync().ok());
            count(root.value()->list().ok());
        }
        return refused;
    };
    ModelDisk whole({"/one"});
    CHECK(run(whole) == 0);
    CHECK(whole.operations() == 7);
    for (std::int64_t number = 0; number < 7; ++number) {
        CAPTURE(number);
        ModelDisk disk({"/one"});
        disk.set_faults({{.at_operation = number, .os_errno = EDQUOT}});
        CHECK(run(disk) == 1);
        CHECK_FALSE(disk.faults_left());
        CHECK(disk.open_handles() == 0);
    }
    ModelDisk spared({"/one"});
    spared.set_faults({{.at_operation = 7, .os_errno = EIO}});
    CHECK(run(spared) == 0);
    CHECK(spared.faults_left());
}

TEST_CASE("a fault of the model may be tied to a kind and a place and last for ever") {
    ModelDisk disk({"/one", "/two"});
    const std::unique_ptr<Directory> one = open_at(disk, "/one");
    const std::unique_ptr<Directory> two = open_at(disk, "/two");
    const std::unique_ptr<File> sick = must_open(*one, "f");
    const std::unique_ptr<File> sound = must_open(*two, "f");
    disk.set_faults(
        {{.os_errno = ENOSPC, .for_ever = true, .only = Op::write, .mount_point = "/one"},
         {.os_errno = EIO, .only = Op::sync}});
    for (int round = 0; round < 3; ++round) {
        CHECK(code_of(sick->write(0, "x")) == Errc::no_space);
        CHECK(sound->write(0, "x").ok());
        CHECK(one->stat().ok());
    }
    CHECK(code_of(sound->sync()) == Errc::io);
    CHECK(sick->sync().ok());
    CHECK(sound->sync().ok());
    disk.set_faults({{.os_errno = EIO, .short_write_bytes = 2, .only = Op::write}});
    CHECK(code_of(sick->write(0, "abcdef")) == Errc::io);
    CHECK(disk.seen("/one/f") == "ab");
    disk.set_faults({{.os_errno = EIO, .only = Op::write}});
    CHECK(code_of(sick->write(2, "cd")) == Errc::io);
    CHECK(disk.seen("/one/f") == "ab");
}

TEST_CASE("acts of a user on the model are seen and durable at once") {
    ModelDisk disk({"/one"});
    const std::unique_ptr<Directory> root = open_at(disk, "/one");
    REQUIRE(root->make_directory("d").ok());
    const std::unique_ptr<Directory> child = std::move(root->open_directory("d").value());
    const std::unique_ptr<File> file = must_open(*child, "f");
    REQUIRE(file->write(0, "ours").ok());
    const FileStat before = file->stat().value();
    CHECK(before.links == 1);
    CHECK(before.owner == ::geteuid());

    disk.user_edit_in_place("/one/d/f", "edited");
    CHECK(disk.durable("/one/d/f") == "edited");
    CHECK(file->stat().value().size == 6);
    CHECK(file->stat().value().modified_ns > before.modified_ns);
    CHECK(child->stat("f").value().same_file(before));

    disk.user_write("/one/d/f", "saved");
    CHECK(disk.durable("/one/d/f") == "saved");
    CHECK_FALSE(child->stat("f").value().same_file(before));
    CHECK(file->stat().value().links == 0);
    CHECK(file->write(0, "lost").ok());
    CHECK(file->sync().ok());
    CHECK(disk.seen("/one/d/f") == "saved");

    disk.user_rename("/one/d", "/one/elsewhere/e");
    CHECK(child->path().value() == "/one/elsewhere/e");
    CHECK(disk.durable("/one/elsewhere/e/f") == "saved");
    disk.user_remove_tree("/one/elsewhere");
    CHECK(code_of(child->path()) == Errc::gone);
    CHECK(child->stat().value().links == 0);
    CHECK(child->list().value().empty());
    CHECK(code_of(child->open_file("g", OpenMode::create)) == Errc::not_found);
    CHECK(code_of(child->make_directory("g")) == Errc::not_found);
    CHECK(disk.seen_tree("/one").empty());
    cut_power(disk, 5);
    CHECK(disk.seen_tree("/one").empty());
}

TEST_CASE("the lock of a model directory is held by one handle until it closes") {
    ModelDisk disk({"/one"});
    std::unique_ptr<Directory> first = open_at(disk, "/one");
    const std::unique_ptr<Directory> second = open_at(disk, "/one");
    CHECK(first->lock().ok());
    CHECK(first->lock().ok());
    CHECK(code_of(second->lock()) == Errc::busy);
    first.reset();
    CHECK(second->lock().ok());
}

TEST_CASE("the same seed gives the same power loss") {
    const auto tree_after = [](std::uint64_t seed) {
        ModelDisk disk({"/one"});
        {
            const std::unique_ptr<Directory> root = open_at(disk, "/one");
            for (const std::string name : {"a", "b", "c", "d"}) {
                REQUIRE(must_open(*root, name)->write(0, std::string(3000, name[0])).ok());
            }
        }
        cut_power(disk, seed);
        return disk.seen_tree("/one");
    };
    CHECK(tree_after(7) == tree_after(7));
    CHECK(tree_after(7) != tree_after(8));
}

enum class Mistake { none, no_file_sync, no_directory_sync, unchecked_write };

Status replace_content(recorder::Disk& disk, std::string_view content, Mistake mistake) {
    auto directory = disk.open_directory("/one");
    if (!directory.ok()) {
        return directory.error();
    }
    {
        auto file = directory.value()->open_file(".tmp", OpenMode::create);
        if (!file.ok()) {
            return file.error();
        }
        if (Status cut = file.value()->truncate(0); !cut.ok()) {
            return cut;
        }
        Status written = file.value()->write(0, content);
        if (!written.ok() && mistake != Mistake::unchecked_write) {
            return written;
        }
        if (mistake != Mistake::no_file_sync) {
            if (Status synced = file.value()->sync(); !synced.ok()) {
                return synced;
            }
        }
    }
    if (Status renamed = directory.value()->rename(".tmp", "f"); !renamed.ok()) {
        return renamed;
    }
    return mistake == Mistake::no_directory_sync ? Status(Done{}) : directory.value()->sync();
}

// Strikes each operation in turn, cuts the power, and counts the runs that left neither the old
// content nor the new one, or not the new one after success.
int broken_promises(Mistake mistake, ModelDisk::Fault fault) {
    const std::string old_content(1300, 'o');
    const std::string new_content(1700, 'n');
    int broken = 0;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
        for (std::int64_t step = 0;; ++step) {
            ModelDisk disk({"/one"}, seed);
            disk.user_write("/one/f", old_content);
            fault.at_operation = step;
            disk.set_faults({fault});
            const bool done = replace_content(disk, new_content, mistake).ok();
            const bool struck = !disk.faults_left();
            Random random(seed);
            disk.lose_power(random);
            const auto found = disk.seen("/one/f");
            const bool whole = found == new_content || (!done && found == old_content);
            broken += whole ? 0 : 1;
            if (!struck) {
                break;
            }
        }
    }
    return broken;
}

TEST_CASE("power loss before any step of a replacement leaves old or new whole") {
    const ModelDisk::Fault power{.lose_power_instead = true};
    CHECK(broken_promises(Mistake::none, power) == 0);
    CHECK(broken_promises(Mistake::no_file_sync, power) > 0);
    CHECK(broken_promises(Mistake::no_directory_sync, power) > 0);
}

TEST_CASE("a refusal of any step of a replacement leaves old or new whole") {
    const ModelDisk::Fault full{.os_errno = ENOSPC, .short_write_bytes = 100};
    CHECK(broken_promises(Mistake::none, full) == 0);
    CHECK(broken_promises(Mistake::unchecked_write, full) > 0);
}

// What one random operation answered, in a form that two disks can be compared by.
struct Answer {
    bool ok = true;
    Errc code = Errc::io;
    int os_errno = 0;
    std::string value;

    bool operator==(const Answer&) const = default;
};

template<typename Value>
Answer answer_of(const Result<Value>& result, std::string value = {}) {
    if (result.ok()) {
        return {true, Errc::io, 0, std::move(value)};
    }
    // Refused before the kernel is asked: there is no errno to compare.
    const bool asked = result.error().code != Errc::unsafe;
    return {false, result.error().code, asked ? result.error().os_errno : 0, {}};
}

Answer answer_of_stat(const Result<FileStat>& stat) {
    if (!stat.ok()) {
        return answer_of(stat);
    }
    const bool regular = stat.value().kind == FileKind::regular;
    return answer_of(
        stat,
        std::to_string(static_cast<int>(stat.value().kind)) + " "
            + std::to_string(regular ? stat.value().size : 0));
}

Answer answer_of_list(Result<std::vector<std::string>> names) {
    std::string joined;
    if (names.ok()) {
        std::sort(names.value().begin(), names.value().end());
        for (const std::string& name : names.value()) {
            joined += name + "\n";
        }
    }
    return answer_of(names, joined);
}

Answer answer_of_file(Directory& root, const std::string& name, OpenMode mode, Random& random) {
    const std::uint64_t offset = random.below(2000);
    const std::string bytes(random.below(2000), static_cast<char>('a' + random.below(26)));
    const std::uint64_t size = random.below(3000);
    const bool cut = random.chance(3);
    const auto file = root.open_file(name, mode);
    if (!file.ok()) {
        return answer_of(file);
    }
    REQUIRE(file.value()->write(static_cast<std::int64_t>(offset), bytes).ok());
    if (cut) {
        REQUIRE(file.value()->truncate(static_cast<std::int64_t>(size)).ok());
    }
    std::string content(5000, '\0');
    const auto count = file.value()->read(0, content.data(), content.size());
    REQUIRE(count.ok());
    content.resize(count.value());
    return answer_of(file, content);
}

Answer random_operation(Directory& root, Random& random) {
    constexpr std::array<std::string_view, 14> names{
        "a",
        "b",
        "c",
        "a/a",
        "a/b",
        "a/c",
        "b/a",
        "b/b",
        "a/a/a",
        "a/b/a",
        "c/x",
        "..",
        "a/../b",
        ""};
    const std::string name(names[random.below(names.size())]);
    const std::string other(names[random.below(names.size())]);
    const auto mode = static_cast<OpenMode>(random.below(3));
    switch (random.below(10)) {
    case 0:
    case 1:
        return answer_of(root.make_directory(name));
    case 2:
    case 3:
        return answer_of(root.rename(name, other));
    case 4:
        return answer_of(root.remove(name));
    case 5:
        return answer_of(root.make_symbolic_link("a", name));
    case 6:
        return answer_of_stat(root.stat(name));
    case 7: {
        const auto directory = root.open_directory(name);
        return directory.ok() ? answer_of_list(directory.value()->list()) : answer_of(directory);
    }
    default:
        return answer_of_file(root, name, mode, random);
    }
}

TEST_CASE("the model answers as the real disk does") {
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
        CAPTURE(seed);
        const TemporaryDirectory real_root;
        recorder::PosixDisk real_disk;
        ModelDisk model_disk({"/one"});
        const std::unique_ptr<Directory> real = open_at(real_disk, real_root.path());
        const std::unique_ptr<Directory> model = open_at(model_disk, "/one");
        Random real_random(seed);
        Random model_random(seed);
        for (int step = 0; step < 150; ++step) {
            CAPTURE(step);
            const Answer expected = random_operation(*real, real_random);
            const Answer answered = random_operation(*model, model_random);
            CHECK(answered.ok == expected.ok);
            CHECK(static_cast<int>(answered.code) == static_cast<int>(expected.code));
            CHECK(answered.os_errno == expected.os_errno);
            CHECK(answered.value == expected.value);
            REQUIRE(answered == expected);
        }
    }
}

TEST_CASE("random numbers depend on the seed alone") {
    Random first(1);
    Random again(1);
    Random other(2);
    const std::uint64_t drawn = first.next();
    CHECK(drawn == again.next());
    CHECK(drawn != other.next());
    CHECK(drawn == 0x910A2DEC89025CC1);
    std::array<int, 5> counts{};
    int hits = 0;
    for (int draw = 0; draw < 5000; ++draw) {
        ++counts[first.below(counts.size())];
        hits += first.chance(10) ? 1 : 0;
    }
    for (const int count : counts) {
        CHECK(count > 800);
        CHECK(count < 1200);
    }
    CHECK(hits > 400);
    CHECK(hits < 600);
}

}  // namespace
TEST_CASE("the model's process may end before any operation and what is seen stays") {
    ModelDisk disk({"/one"});
    {
        const auto root = open_at(disk, "/one");
        const auto file = must_open(*root, "file");
        REQUIRE(file->write(0, "written").ok());
        disk.set_faults({{.at_operation = disk.operations(), .end_process_instead = true}});
        CHECK(code_of(file->sync()) == Errc::io);
        CHECK(code_of(file->write(0, "NEVER")) == Errc::io);
        CHECK(code_of(root->remove("file")) == Errc::io);
        CHECK_FALSE(disk.has_power());
    }
    disk.power_on();
    CHECK(disk.seen("/one/file") == "written");
    CHECK_FALSE(disk.is_settled("/one/file"));
    const auto root = open_at(disk, "/one");
    REQUIRE(must_open(*root, "file", OpenMode::existing)->sync().ok());
    CHECK(disk.is_settled("/one/file"));
}

TEST_CASE("a file whose sync was refused is settled only once it was written again") {
    ModelDisk disk({"/one"});
    const auto root = open_at(disk, "/one");
    const auto file = must_open(*root, "file");
    REQUIRE(file->write(0, "written").ok());
    disk.set_faults({{.at_operation = 0, .os_errno = EIO, .only = Op::sync}});
    CHECK_FALSE(file->sync().ok());
    CHECK(file->sync().ok());
    CHECK_FALSE(disk.is_settled("/one/file"));
    REQUIRE(file->write(0, "written").ok());
    REQUIRE(file->sync().ok());
    CHECK(disk.is_settled("/one/file"));
}

TEST_CASE("the model's observer hears of every operation that is let through") {
    ModelDisk disk({"/one", "/two"});
    std::vector<std::pair<Op, std::string>> heard;
    disk.set_observer([&heard](Op op, const std::string& mount) { heard.emplace_back(op, mount); });
    const auto root = open_at(disk, "/two");
    disk.set_faults({{.at_operation = 0, .os_errno = EIO}});
    CHECK_FALSE(root->make_directory("below").ok());
    CHECK(root->make_directory("below").ok());
    REQUIRE(heard.size() == 2);
    CHECK(heard[0] == std::pair(Op::open, std::string("/two")));
    CHECK(heard[1] == std::pair(Op::make_directory, std::string("/two")));
    disk.set_observer(nullptr);
}

}  // namespace relay::tests
