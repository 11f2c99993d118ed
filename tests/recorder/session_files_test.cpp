// SPDX-License-Identifier: Apache-2.0
#include "recorder/session_files.hpp"
#include "tests/support/model_disk.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <string>

namespace relay::recorder {
namespace {

using layout::Claim;
using tests::ModelDisk;
using Op = ModelDisk::Op;

const layout::Ulid id = layout::Ulid::parse("01J9X3M7K5VBHQEN6T2F4D8RPZ").value();
const std::string output = "turns/001-output.md";

Claim some_claim() {
    Claim claim;
    claim.anchor = "/one/repo";
    claim.below = ".agent-relay";
    claim.is_repo = true;
    claim.create = true;
    return claim;
}

struct FilesWorld {
    FilesWorld() {
        disk.user_write("/one/repo/README", "");
        REQUIRE(files->apply_claim(some_claim()).ok());
    }

    void must_append(std::int64_t offset, std::string_view data) {
        const Status done = files->append(output, offset, data, ApplyMode::live);
        REQUIRE_MESSAGE(done.ok(), (done.ok() ? "" : done.error().context));
    }
    void
    must_replace(std::string_view name, std::string_view data, ApplyMode mode = ApplyMode::live) {
        auto staged = files->stage(name, data);
        REQUIRE(staged.ok());
        REQUIRE(files->publish(name, *staged.value(), mode).ok());
    }
    // As after a restart: nothing is remembered but the mark.
    void restart(const layout::SessionMark& mark) {
        files = std::make_unique<SessionFiles>(disk, id, mark.claim);
        files->expect(mark);
    }
    [[nodiscard]] std::string seen(const std::string& name) const {
        return disk.seen(root + name).value_or("(absent)");
    }

    ModelDisk disk{{"/one"}};
    const std::string root = some_claim().session_directory(id) + "/";
    std::unique_ptr<SessionFiles> files = std::make_unique<SessionFiles>(disk, id, some_claim());
};

}  // namespace

TEST_CASE("a session begins with its directories and the store's ignore file") {
    FilesWorld world;
    CHECK(world.disk.seen("/one/repo/.agent-relay/.gitignore") == "*\n!config.toml\n");
    CHECK(world.disk.seen_tree("/one").contains(world.root + "turns/"));
    REQUIRE(world.files->link_latest().ok());
    CHECK(world.disk.seen("/one/repo/.agent-relay/latest") == "-> sessions/" + id.text());
    // Once, and never again.
    world.disk.user_write("/one/repo/.agent-relay/.gitignore", "mine");
    SessionFiles again(world.disk, id, some_claim());
    REQUIRE(again.apply_claim(some_claim()).ok());
    CHECK(world.disk.seen("/one/repo/.agent-relay/.gitignore") == "mine");
}

TEST_CASE("a document that is right already is written over itself and any other is not") {
    FilesWorld world;
    world.must_replace("meta.json", "{1}");
    const auto mark = world.files->mark();
    REQUIRE(mark.ok());
    world.restart(mark.value());
    auto other = world.files->affirm("meta.json", "{2}");
    REQUIRE(other.ok());
    CHECK(other.value() == nullptr);
    auto longer = world.files->affirm("meta.json", "{1}{1}");
    REQUIRE(longer.ok());
    CHECK(longer.value() == nullptr);
    auto absent = world.files->affirm("resume.json", "{1}");
    REQUIRE(absent.ok());
    CHECK(absent.value() == nullptr);
    REQUIRE(world.disk.open_directory("/one").value()->sync_file_system().ok());
    REQUIRE(world.disk.is_settled(world.root + "meta.json"));
    // They are written, whatever an earlier sync said of them: only then does the next one mean anything.
    auto same = world.files->affirm("meta.json", "{1}");
    REQUIRE(same.ok());
    REQUIRE(same.value() != nullptr);
    CHECK_FALSE(world.disk.is_settled(world.root + "meta.json"));
    REQUIRE(same.value()->sync().ok());
    CHECK(world.disk.is_settled(world.root + "meta.json"));
    // From here on it is ours: another version follows without a conflict.
    world.must_replace("meta.json", "{3}");
    CHECK(world.seen("meta.json") == "{3}");
    CHECK(world.files->take_conflicts().empty());
}

TEST_CASE("appends grow a file and replacements replace one") {
    FilesWorld world;
    world.must_append(0, "");
    CHECK(world.seen(output).empty());
    world.must_append(0, "one ");
    world.must_append(4, "two");
    CHECK(world.seen(output) == "one two");
    world.must_replace("meta.json", "{1}");
    world.must_replace("meta.json", "{2}");
    CHECK(world.seen("meta.json") == "{2}");
    REQUIRE(world.files->remove("meta.json").ok());
    CHECK(world.seen("meta.json") == "(absent)");
    CHECK(world.files->take_conflicts().empty());
}

TEST_CASE("an empty output file that was let go of is continued and no conflict") {
    FilesWorld world;
    world.must_append(0, "");
    world.files->close();
    world.must_append(0, "first words");
    CHECK(world.seen(output) == "first words");
    CHECK(world.files->take_conflicts().empty());
}

TEST_CASE("a live file that the user deleted goes on under recovered with everything it held") {
    FilesWorld world;
    world.must_append(0, "one ");
    world.disk.user_remove_tree(world.root + output);
    world.must_append(4, "two");
    CHECK(world.seen(output) == "(absent)");
    CHECK(world.seen("recovered/001-output.md") == "one two");
    const auto conflicts = world.files->take_conflicts();
    REQUIRE(conflicts.size() == 1);
    CHECK(conflicts[0].file == output);
    CHECK(conflicts[0].kept == "recovered/001-output.md");
    world.must_append(7, " three");
    CHECK(world.seen("recovered/001-output.md") == "one two three");
    CHECK(world.files->take_conflicts().empty());
}

TEST_CASE("a live file that the user lengthened stays theirs and ours goes on beside it") {
    FilesWorld world;
    world.must_append(0, "one ");
    world.disk.user_edit_in_place(world.root + output, "one and mine");
    world.must_append(4, "two");
    CHECK(world.seen(output) == "one and mine");
    CHECK(world.seen("recovered/001-output.md") == "one two");
    CHECK(world.files->take_conflicts().size() == 1);
}

TEST_CASE("a live file that the user truncated stays theirs and ours goes on beside it") {
    FilesWorld world;
    world.must_append(0, "one ");
    world.disk.user_edit_in_place(world.root + output, "");
    world.must_append(4, "two");
    CHECK(world.seen(output).empty());
    CHECK(world.seen("recovered/001-output.md") == std::string(4, '\0') + "two");
    CHECK(world.files->take_conflicts().size() == 1);
}

TEST_CASE("a live file that the user replaced is noticed at the next mark") {
    FilesWorld world;
    world.must_append(0, "one two");
    world.disk.user_write(world.root + output, "mine");
    const auto mark = world.files->mark();
    REQUIRE(mark.ok());
    CHECK(mark.value().files.empty());
    CHECK(world.seen(output) == "mine");
    CHECK(world.seen("recovered/001-output.md") == "one two");
    world.must_append(7, " three");
    CHECK(world.seen(output) == "mine");
    CHECK(world.seen("recovered/001-output.md") == "one two three");
}

TEST_CASE("a file of the user's where a turn's output should begin stays theirs") {
    FilesWorld world;
    world.disk.user_write(world.root + output, "mine");
    world.must_append(0, "ours");
    CHECK(world.seen(output) == "mine");
    CHECK(world.seen("recovered/001-output.md") == "ours");
}

TEST_CASE(
    "an edited meta.json stays the user's and ours goes on under recovered also after a restart") {
    FilesWorld world;
    world.must_replace("meta.json", "{1}");
    world.disk.user_edit_in_place(world.root + "meta.json", "{mine}");
    world.must_replace("meta.json", "{2}");
    CHECK(world.files->take_conflicts().size() == 1);
    world.must_replace("meta.json", "{3}");
    CHECK(world.files->take_conflicts().empty());
    layout::SessionMark mark;
    mark.session = id;
    mark.claim = some_claim();
    world.restart(mark);
    world.must_replace("meta.json", "{4}", ApplyMode::replay);
    CHECK(world.seen("recovered/meta.json") == "{4}");
    world.must_replace("meta.json", "{5}");
    CHECK(world.seen("meta.json") == "{mine}");
    CHECK(world.seen("recovered/meta.json") == "{5}");
}

TEST_CASE("a deleted session directory is gone and not an ill disk") {
    FilesWorld world;
    world.must_append(0, "one");
    world.disk.user_remove_tree(world.root.substr(0, world.root.size() - 1));
    const Status appended = world.files->append(output, 3, "two", ApplyMode::live);
    REQUIRE_FALSE(appended.ok());
    CHECK(appended.error().code == Errc::gone);
    CHECK(world.files->gone);
    CHECK(world.files->stage("meta.json", "{}").error().code == Errc::gone);
    CHECK(world.files->mark().error().code == Errc::gone);
}

TEST_CASE("a moved repository is followed and the mark knows its new place") {
    FilesWorld world;
    world.must_append(0, "one ");
    world.disk.user_rename("/one/repo", "/one/elsewhere/repo2");
    world.must_append(4, "two");
    const auto mark = world.files->mark();
    REQUIRE(mark.ok());
    CHECK(mark.value().claim.anchor == "/one/elsewhere/repo2");
    world.restart(mark.value());
    REQUIRE(world.files->append(output, 7, "!", ApplyMode::live).ok());
    CHECK(
        world.disk.seen("/one/elsewhere/repo2/.agent-relay/sessions/" + id.text() + "/" + output)
        == "one two!");
}

TEST_CASE("a claim of before a repository was moved does not lead back to its old place") {
    FilesWorld world;
    world.must_append(0, "one");
    world.disk.user_rename("/one/repo", "/one/moved");
    const auto mark = world.files->mark();
    REQUIRE(mark.ok());
    world.restart(mark.value());
    Claim old = some_claim();
    old.create = false;
    old.owner = "7 8 9";
    REQUIRE(world.files->apply_claim(old).ok());
    CHECK(world.files->claim().anchor == "/one/moved");
    CHECK(world.files->claim().owner == "7 8 9");
}

TEST_CASE("a session directory moved on its own is gone") {
    FilesWorld world;
    world.must_append(0, "one");
    world.disk.user_rename(world.root.substr(0, world.root.size() - 1), "/one/kept");
    CHECK(world.files->mark().error().code == Errc::gone);
}

TEST_CASE(
    "replay writes every byte again and touches nothing that the user changed below the mark") {
    FilesWorld world;
    world.must_append(0, "one ");
    const layout::SessionMark mark = world.files->mark().value();
    SUBCASE("untouched") {
        world.must_append(4, "XXX");  // as a torn tail would look
        world.restart(mark);
        REQUIRE(world.files->append(output, 4, "two", ApplyMode::replay).ok());
        CHECK(world.seen(output) == "one two");
        CHECK(world.files->take_conflicts().empty());
    }
    SUBCASE("edited") {
        world.disk.user_edit_in_place(world.root + output, "ONE ");
        world.restart(mark);
        REQUIRE(world.files->append(output, 4, "two", ApplyMode::replay).ok());
        CHECK(world.seen(output) == "ONE ");
        CHECK(world.files->take_conflicts().size() == 1);
    }
    SUBCASE("truncated") {
        world.disk.user_edit_in_place(world.root + output, "o");
        world.restart(mark);
        REQUIRE(world.files->append(output, 4, "two", ApplyMode::replay).ok());
        CHECK(world.seen(output) == "o");
    }
    SUBCASE("replaced") {
        world.disk.user_write(world.root + output, "one ");
        world.restart(mark);
        REQUIRE(world.files->append(output, 4, "two", ApplyMode::replay).ok());
        CHECK(world.seen(output) == "one ");
    }
}

TEST_CASE("a full disk never replaces a good document by half a one") {
    FilesWorld world;
    world.must_replace("meta.json", "{1}");
    world.disk.set_capacity("/one", world.disk.used("/one") + 3);
    const auto staged = world.files->stage("meta.json", std::string(500, 'x'));
    REQUIRE_FALSE(staged.ok());
    CHECK(staged.error().code == Errc::no_space);
    CHECK(world.seen("meta.json") == "{1}");
    CHECK(world.seen(".meta.json.tmp") == "(absent)");
}

TEST_CASE("temporary files go and everything else stays") {
    FilesWorld world;
    world.must_append(0, "one");
    world.disk.user_write(world.root + ".meta.json.tmp", "half");
    world.disk.user_write(world.root + "turns/.001-state.json.tmp", "half");
    REQUIRE(world.files->remove_temporaries().ok());
    CHECK(world.seen(".meta.json.tmp") == "(absent)");
    CHECK(world.seen("turns/.001-state.json.tmp") == "(absent)");
    CHECK(world.seen(output) == "one");
}

TEST_CASE("something of the user's under the name latest stays") {
    FilesWorld world;
    world.disk.user_write("/one/repo/.agent-relay/latest", "mine");
    REQUIRE(world.files->link_latest().ok());
    CHECK(world.disk.seen("/one/repo/.agent-relay/latest") == "mine");
}

TEST_CASE("a leftover in the store that cannot be removed for a moment is the disk's fault") {
    for (const std::string leftover : {"..gitignore.tmp", ".latest.tmp"}) {
        FilesWorld world;
        const std::string store = "/one/repo/.agent-relay/";
        world.disk.user_remove_tree(store + ".gitignore");
        world.disk.user_write(store + leftover, "half a file");
        ModelDisk::Fault fault;
        fault.os_errno = EIO;
        fault.only = Op::remove;
        world.disk.set_faults({fault});
        const auto again = [&world] {
            SessionFiles files(world.disk, id, some_claim());
            const Status done = files.apply_claim(some_claim());
            return done.ok() ? files.link_latest() : done;
        };
        const Status struck = again();
        REQUIRE_FALSE(struck.ok());
        CHECK(struck.error().os_errno == EIO);
        CHECK(again().ok());
        CHECK(world.disk.seen(store + ".gitignore") == "*\n!config.toml\n");
        CHECK(world.disk.seen(store + "latest") == "-> sessions/" + id.text());
    }
}

TEST_CASE(
    "a directory under a temporary name of the store stays and keeps no session from beginning") {
    FilesWorld world;
    const std::string store = "/one/repo/.agent-relay/";
    world.disk.user_remove_tree(store + ".gitignore");
    world.disk.user_write(store + "..gitignore.tmp/theirs", "");
    world.disk.user_write(store + ".latest.tmp/theirs", "");
    SessionFiles files(world.disk, id, some_claim());
    CHECK(files.apply_claim(some_claim()).ok());
    CHECK(files.link_latest().ok());
    CHECK(world.disk.seen(store + "..gitignore.tmp/theirs").has_value());
    CHECK(world.disk.seen(store + ".latest.tmp/theirs").has_value());
}

TEST_CASE("an error while a file is compared with its mark is no conflict") {
    for (const Op op : {Op::open, Op::read, Op::stat}) {
        FilesWorld world;
        world.must_append(0, "one ");
        const layout::SessionMark mark = world.files->mark().value();
        world.restart(mark);
        for (std::int64_t after = 0; after < 12; ++after) {
            world.disk.set_faults(
                {{.at_operation = world.disk.operations() + after, .os_errno = EIO, .only = op}});
            const Status replayed = world.files->append(output, 4, "two", ApplyMode::replay);
            CHECK(replayed.ok() == world.disk.faults_left());
            world.disk.set_faults({});
            world.files->close();
            CHECK(world.seen("recovered/001-output.md") == "(absent)");
            CHECK(world.files->take_conflicts().empty());
        }
        REQUIRE(world.files->append(output, 4, "two", ApplyMode::replay).ok());
        CHECK(world.seen(output) == "one two");
    }
}

TEST_CASE("what was published without a sync is settled through the handle that wrote it") {
    const std::string prompt = "turns/001-prompt.md";
    FilesWorld world;
    auto staged = world.files->stage(prompt, "do it");
    REQUIRE(staged.ok());
    const FileStat ours = staged.value()->stat().value();
    REQUIRE(world.files->publish(prompt, *staged.value(), ApplyMode::live).ok());
    world.files->keep_to_settle(prompt, std::move(staged.value()));
    world.disk.user_rename(world.root + prompt, world.root + "mine");
    world.disk.user_write(world.root + prompt, "the user's");
    auto settled = world.files->file_to_settle(prompt);
    REQUIRE(settled.ok());
    REQUIRE(settled.value() != nullptr);
    CHECK(settled.value()->stat().value().same_file(ours));
    world.files->close_settled();
    CHECK_FALSE(world.files->file_to_settle(prompt).value()->stat().value().same_file(ours));
}

TEST_CASE("no file is closed before it is synced when a session makes room for others") {
    const std::string prompt = "turns/001-prompt.md";
    FilesWorld world;
    auto staged = world.files->stage(prompt, "do it");
    REQUIRE(staged.ok());
    REQUIRE(world.files->publish(prompt, *staged.value(), ApplyMode::live).ok());
    world.files->keep_to_settle(prompt, std::move(staged.value()));
    REQUIRE(world.files->sync_and_close().ok());
    CHECK(world.disk.is_durable(world.root + prompt, 0, "do it"));
    CHECK_FALSE(world.files->is_open());
}

TEST_CASE("an error while the place of a document is looked at does not choose another place") {
    FilesWorld world;
    world.must_replace("meta.json", "{1}");
    world.disk.user_edit_in_place(world.root + "meta.json", "{mine}");
    world.must_replace("meta.json", "{2}");
    auto staged = world.files->stage("meta.json", "{3}");
    REQUIRE(staged.ok());
    world.disk.set_faults({{.at_operation = 0, .os_errno = EIO, .only = Op::stat}});
    CHECK_FALSE(world.files->publish("meta.json", *staged.value(), ApplyMode::replay).ok());
    CHECK(world.seen("meta.json") == "{mine}");
    CHECK(world.seen("recovered/meta.json") == "{2}");
}

}  // namespace relay::recorder
