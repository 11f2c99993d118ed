// SPDX-License-Identifier: Apache-2.0

// Deleting, and thinking better of it: beside a daemon that runs, one that was killed, and none at all.

#include "tests/end_to_end/relay_home.hpp"
#include "tests/support/pseudo_terminal.hpp"
#include "tests/support/wire_client.hpp"
#include "tests/support/written_session.hpp"

#include <boost/filesystem.hpp>
#include <doctest/doctest.h>

#include <signal.h>

#include <sstream>
#include <string>
#include <vector>

namespace relay::tests {
namespace {

namespace filesystem = boost::filesystem;

bool says(const std::string& text, const std::string& words) {
    return text.find(words) != std::string::npos;
}

std::string state_of(const RelayHome& home) {
    return home.root() + "/relay/state";
}

std::string latest_of(const RelayHome& home) {
    boost::system::error_code none;
    return filesystem::read_symlink(state_of(home) + "/latest", none).string();
}

// Every file below with its content.
std::string content_of(const std::string& directory) {
    std::string all;
    for (const std::string& name : tree_of(directory)) {
        all += name + "\n" + (name.ends_with('/') ? "" : read_text(directory + "/" + name));
    }
    return all;
}

TEST_CASE("a deleted session lies whole in the trash and comes back as it was") {
    const RelayHome home;
    REQUIRE(
        home.shell("for n in a b c; do agent-relay run --name $n -- echo $n; done").status == 0);
    const std::vector<Recording> sessions = home.sessions();
    const std::string before = content_of(sessions[2].path);
    const ProgramEnd end = home.shell("agent-relay delete --yes c --json");
    CHECK_MESSAGE(end.status == 0, end.err);
    const Json told = Json::parse(end.out);
    CHECK(told["action"] == "trashed");
    const std::string place = state_of(home) + "/trash/" + sessions[2].id;
    CHECK(told["path"] == place);
    CHECK(content_of(place) == before);
    CHECK(mode_of(state_of(home) + "/trash") == 0700);
    const Json record = Json::parse(read_text(place + ".json"));
    CHECK(record["session"] == sessions[2].id);
    CHECK(record["from"] == sessions[2].path);
    CHECK(record["deleted_at"].is_string());
    // Nobody sees it, and latest is the newest of those that are left.
    CHECK(home.sessions().size() == 2);
    CHECK(latest_of(home) == "sessions/" + sessions[1].id);
    CHECK_FALSE(says(home.shell("agent-relay list --json --all").out, sessions[2].id));
    CHECK(home.shell("agent-relay verify").status == 0);
    CHECK(home.shell("agent-relay show c").status == 3);
    const ProgramEnd listed = home.shell("agent-relay delete --list --json");
    CHECK(Json::parse(listed.out)["session"] == sessions[2].id);
    CHECK(Json::parse(listed.out)["name"] == "c");
    CHECK(says(home.shell("agent-relay delete --list").out, " c "));
    // Back, by its name.
    CHECK(home.shell("agent-relay delete --undo c").status == 0);
    CHECK(content_of(sessions[2].path) == before);
    CHECK(latest_of(home) == "sessions/" + sessions[2].id);
    CHECK(tree_of(state_of(home) + "/trash").empty());
    CHECK(says(home.shell("agent-relay delete --list").err, "the trash is empty"));
}

TEST_CASE("deleting for good leaves nothing and also empties the trash") {
    const RelayHome home;
    REQUIRE(home.shell("for n in a b; do agent-relay run --name $n -- true; done").status == 0);
    CHECK(home.shell("agent-relay delete --yes a").status == 0);
    const ProgramEnd end = home.shell("agent-relay delete --yes --now a b --json");
    CHECK_MESSAGE(end.status == 0, end.err);
    CHECK(says(end.out, "\"action\":\"removed\",\"path\":null"));
    CHECK(home.sessions().empty());
    CHECK(tree_of(state_of(home) + "/trash").empty());
    CHECK(tree_of(state_of(home) + "/sessions").empty());
    CHECK_FALSE(
        filesystem::symlink_status(state_of(home) + "/latest").type() == filesystem::symlink_file);
    // What a crash left on its way out goes with the next one.
    REQUIRE(home.shell("agent-relay run --name c -- true").status == 0);
    const std::string leftover = state_of(home) + "/sessions/." + home.session().id + "x.tmp";
    const std::string ours = state_of(home) + "/sessions/." + new_ulid() + ".tmp";
    filesystem::create_directories(leftover);
    filesystem::create_directories(ours + "/turns");
    CHECK(home.shell("agent-relay delete --yes --now c").status == 0);
    CHECK_FALSE(exists(ours));
    CHECK(exists(leftover));  // no name of ours
}

TEST_CASE("delete asks at a terminal and does nothing without a yes") {
    const RelayHome home;
    REQUIRE(home.shell("agent-relay run --name a -- true").status == 0);
    const ProgramEnd unasked = home.shell("agent-relay delete a < /dev/null");
    CHECK(unasked.status == 2);
    CHECK(says(unasked.err, "say --yes"));
    for (const std::string answer : {"n\n", "\n", "yep\n"}) {
        CAPTURE(answer);
        PseudoTerminal terminal({home.program(), "delete", "a"}, home.environment());
        REQUIRE(terminal.await("[y/N] "));
        terminal.type(answer);
        CHECK(terminal.wait() == 1);
        CHECK(home.sessions().size() == 1);
    }
    PseudoTerminal terminal({home.program(), "delete", "a"}, home.environment());
    REQUIRE(terminal.await("(a)? [y/N] "));
    terminal.type("y\n");
    CHECK(terminal.wait() == 0);
    CHECK(home.sessions().empty());
}

TEST_CASE("a session that runs is not deleted and neither are others beside a wrong name") {
    const RelayHome home;
    REQUIRE(home.shell("agent-relay run --name a -- true").status == 0);
    const ProgramEnd end = home.shell("agent-relay run --name b -- bash -c 'touch ready; while [ ! "
                                      "-e done ]; do sleep 0.01; done' & "
                                      "while [ ! -e ready ] || ! agent-relay show @running --path "
                                      "> /dev/null 2>&1; do sleep 0.01; "
                                      "done; agent-relay delete --yes b; echo \"status $?\"; "
                                      "agent-relay delete --yes --now b; echo "
                                      "\"status $?\"; touch done; wait");
    CHECK(says(end.out, "status 1\nstatus 1\n"));
    CHECK(says(end.err, "is running; stop it first: agent-relay handoff --now --session"));
    CHECK(home.sessions().size() == 2);
    CHECK(damage_of(home.sessions()[1].path).empty());
    CHECK(home.shell("agent-relay delete --yes a nobody").status == 3);
    CHECK(home.shell("agent-relay delete --undo a").status == 3);
    CHECK(home.shell("agent-relay delete").status == 2);
    CHECK(home.shell("agent-relay delete --undo --now a").status == 2);
    CHECK(home.shell("agent-relay delete --list a").status == 2);
    CHECK(home.sessions().size() == 2);
}

TEST_CASE("a deleted session does not come back with a killed daemon's journal") {
    const RelayHome home;
    REQUIRE(
        home.shell("agent-relay run --name a -- echo one; agent-relay run --name b -- true").status
        == 0);
    const std::vector<Recording> sessions = home.sessions();
    // Killed before its checkpoint: the journal still has both from their first event on.
    home.kill_daemon();
    CHECK(home.shell("agent-relay delete --yes a").status == 0);
    CHECK(home.shell("agent-relay delete --yes --now b").status == 0);
    home.kill_daemon();
    REQUIRE(home.shell("agent-relay run --name c -- true").status == 0);
    CHECK(home.sessions().size() == 1);
    CHECK_FALSE(exists(sessions[0].path));
    CHECK_FALSE(exists(sessions[1].path));
    CHECK(damage_of(state_of(home) + "/trash/" + sessions[0].id).empty());
    // The same beside one that lives, long before it would have written a checkpoint by itself.
    const std::string third = home.session().path;
    CHECK(home.shell("agent-relay delete --yes c").status == 0);
    home.kill_daemon();
    REQUIRE(home.shell("agent-relay daemon start").status == 0);
    CHECK_FALSE(exists(third));
    CHECK(home.sessions().empty());
}

TEST_CASE("what was deleted beside a running daemon cannot be reopened or changed") {
    const RelayHome home;
    REQUIRE(home.shell("agent-relay daemon start").status == 0);
    WireClient owner(state_of(home) + "/relay.sock");
    // Its owner stays connected, so the daemon keeps it in mind.
    const Recording held = start_session(owner, home.work());
    CHECK_ACK(owner.ask("turn.start", held.id, {{"prompt", "p"}}));
    CHECK_ACK(owner.ask("turn.output", held.id, {{"text", "said"}}));
    CHECK_ACK(owner.ask("session.end", held.id));
    REQUIRE(home.shell("agent-relay run --name other -- true").status == 0);
    const std::string other = home.sessions()[1].id;
    CHECK(home.shell("agent-relay delete --yes other " + held.id).status == 0);
    const std::string before = content_of(state_of(home) + "/trash");
    CHECK(code_of(owner.ask("session.attach", held.id, {{"reopen", true}})) == "session_gone");
    CHECK(code_of(owner.ask("session.update", held.id, {{"name", "late"}})) == "session_gone");
    CHECK(code_of(owner.ask("session.attach", other, {{"reopen", true}})) == "unknown_session");
    CHECK(code_of(owner.ask("session.update", other, {{"name", "late"}})) == "unknown_session");
    CHECK(content_of(state_of(home) + "/trash") == before);
    CHECK(home.sessions().empty());
    // Back again, it is like any other.
    CHECK(home.shell("agent-relay delete --undo " + held.id).status == 0);
    CHECK_ACK(owner.ask("session.attach", held.id, {{"reopen", true}}));
    CHECK_ACK(owner.ask("turn.start", held.id, {{"prompt", "again"}}));
    CHECK_ACK(owner.ask("session.end", held.id));
    CHECK(damage_of(held.path).empty());
    CHECK(Json::parse(read_text(held.path + "/meta.json"))["turn_count"] == 2);
}

TEST_CASE("a copied store is tidied without a daemon and a bare directory is left alone") {
    const RelayHome home;
    const std::string copy = home.root() + "/copy";
    const std::string bare = home.root() + "/bare";
    static_cast<void>(write_session(copy + "/sessions", example_meta(1), {{"p", "o"}}));
    static_cast<void>(write_session(bare, example_meta(2), {{"p", "o"}}));
    home.forbid_daemon(true);
    const std::string id = example_meta(1).id.text();
    const ProgramEnd gone = home.shell("agent-relay delete --yes --store ../copy " + id);
    CHECK(gone.status == 0);
    CHECK(exists(copy + "/trash/" + id + "/meta.json"));
    // What it says brings it back.
    const std::string back = "back with: ";
    REQUIRE(says(gone.out, back));
    CHECK(home.shell(gone.out.substr(gone.out.find(back) + back.size())).status == 0);
    CHECK(exists(copy + "/sessions/" + id + "/meta.json"));
    const ProgramEnd end = home.shell("agent-relay delete --yes --store ../bare @latest");
    CHECK(end.status == 2);
    CHECK(says(end.err, "belongs to no store"));
    CHECK(exists(bare + "/" + example_meta(2).id.text()));
    CHECK(home.daemons().empty());
    // Where a daemon records, it is asked first.
    const std::string own = state_of(home) + "/sessions";
    static_cast<void>(write_session(own, example_meta(3), {{"p", "o"}}));
    const ProgramEnd asked = home.shell("agent-relay delete --yes @latest");
    CHECK(asked.status == 4);
    CHECK(says(asked.err, "nothing was changed"));
    CHECK(exists(own + "/" + example_meta(3).id.text()));
}

}  // namespace
}  // namespace relay::tests
