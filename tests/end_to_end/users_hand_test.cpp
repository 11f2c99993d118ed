// SPDX-License-Identifier: Apache-2.0
#include "tests/end_to_end/recording.hpp"
#include "tests/support/eventually.hpp"

#include <boost/filesystem.hpp>
#include <doctest/doctest.h>

#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>

namespace relay::tests {
namespace {

namespace filesystem = boost::filesystem;

// A session in a repository, in the middle of a turn, and another one elsewhere that must not notice.
struct Scene {
    DaemonProcess daemon;
    std::string repo;
    WireClient client{""};
    Recording session;
    Recording bystander;
    std::string said;  // what the session's output should be

    Scene() : daemon(repo_stores()), repo(daemon.root() + "/repo") {
        REQUIRE(make_repository(repo));
        REQUIRE_MESSAGE(daemon.start(), daemon.log());
        client = WireClient(daemon.socket());
        session = start_session(client, repo);
        bystander = start_session(client, daemon.work());
        CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "p"}}));
        CHECK_ACK(client.ask("turn.start", bystander.id, {{"prompt", "p"}}));
        CHECK_ACK(say("first words\n"));
    }

    static DaemonSetup repo_stores() {
        DaemonSetup setup = small_journal({"--checkpoint-interval", "100ms"});
        setup.relocated = false;
        return setup;
    }

    Json say(const std::string& text) {
        Json answer = client.ask("turn.output", session.id, {{"text", text}});
        if (is_ack(answer)) {
            said += text;
        }
        return answer;
    }

    void check_bystander() {
        const std::string before = bystander.text("turns/001-output.md");
        CHECK_ACK(client.ask("turn.output", bystander.id, {{"text", "undisturbed\n"}}));
        CHECK(bystander.text("turns/001-output.md") == before + "undisturbed\n");
        CHECK(daemon.running());
    }

    // Speaks until the daemon says that the session is gone.
    bool gone_in_the_end() {
        return eventually([this] { return code_of(say("more\n")) == "session_gone"; });
    }

    // A journal that still names what is gone is no reason not to start.
    bool survives_restart() {
        const bool started = daemon.restart();
        CHECK_MESSAGE(started, daemon.log());
        client = WireClient(daemon.socket());
        return started && is_ack(client.ask("session.attach", bystander.id));
    }
};

TEST_CASE("a deleted session directory is answered with session gone and nothing else suffers") {
    Scene scene;
    filesystem::remove_all(scene.session.path);
    CHECK(scene.gone_in_the_end());
    CHECK_FALSE(exists(scene.session.path));
    scene.check_bystander();
    const Recording next = start_session(scene.client, scene.repo);
    CHECK_ACK(next.answer);
    CHECK_ACK(scene.client.ask("turn.start", next.id, {{"prompt", "p"}}));
    CHECK(scene.survives_restart());
}

TEST_CASE("a deleted repository is answered with session gone and not made again") {
    Scene scene;
    filesystem::remove_all(scene.repo);
    CHECK(scene.gone_in_the_end());
    CHECK_FALSE(exists(scene.repo));
    scene.check_bystander();
    CHECK(code_of(start_session(scene.client, scene.repo).answer) == "bad_field");
    CHECK_FALSE(exists(scene.repo));
    CHECK(scene.survives_restart());
    CHECK_FALSE(exists(scene.repo));
}

TEST_CASE("a moved repository keeps every acked word and nothing appears at its old place") {
    Scene scene;
    const std::string moved = scene.daemon.root() + "/moved";
    filesystem::rename(scene.repo, moved);
    for (int round = 0; round < 50; ++round) {
        const Json answer = scene.say("after the move " + std::to_string(round) + "\n");
        const bool known = is_ack(answer) || code_of(answer) == "session_gone";
        CHECK_MESSAGE(known, answer.dump());
    }
    scene.check_bystander();
    const std::string place = moved + "/.agent-relay/sessions/" + scene.session.id;
    CHECK(eventually([&] { return read_text(place + "/turns/001-output.md") == scene.said; }));
    CHECK_FALSE(exists(scene.repo));
}

TEST_CASE("a moved session directory keeps every acked word") {
    Scene scene;
    const std::string moved = scene.daemon.root() + "/saved-session";
    filesystem::rename(scene.session.path, moved);
    for (int round = 0; round < 50; ++round) {
        const Json answer = scene.say("after the move " + std::to_string(round) + "\n");
        const bool known = is_ack(answer) || code_of(answer) == "session_gone";
        CHECK_MESSAGE(known, answer.dump());
    }
    scene.check_bystander();
    CHECK(eventually([&] { return read_text(moved + "/turns/001-output.md") == scene.said; }));
}

// The user does something to the live output; the recorder leaves it as it is and keeps its own version
// beside it, and says so.
//
// `lost`: the act destroys the only copy of what was said before it; those bytes are zeros then, and
// everything after them stands where it would have stood.
enum class Past { kept, lost };

void check_users_version_wins(
    const std::function<void(const std::string& file)>& act, Past past = Past::kept) {
    Scene scene;
    const std::string live = scene.session.file("turns/001-output.md");
    // So that the journal does not hold it any more.
    CHECK_ACK(scene.client.request({{"type", "flush"}}));
    if (past == Past::lost) {
        std::fill(scene.said.begin(), scene.said.end(), '\0');
    }
    act(live);
    const bool there = exists(live);
    const std::string users_version = read_text(live);
    const auto conflict_noted = [&] {
        if (!is_ack(scene.say("more words\n"))) {
            return false;
        }
        const Json meta = scene.session.meta();
        return meta.is_object() && meta["capture"].contains("conflicts");
    };
    REQUIRE(eventually(conflict_noted));
    CHECK(exists(live) == there);
    CHECK(read_text(live) == users_version);
    CHECK_ACK(scene.say("after the conflict\n"));
    CHECK_ACK(scene.client.ask("turn.end", scene.session.id));
    CHECK(read_text(live) == users_version);
    CHECK(scene.session.text("recovered/001-output.md") == scene.said);
    const Json conflict = scene.session.meta()["capture"]["conflicts"][0];
    CHECK(conflict["file"] == "turns/001-output.md");
    CHECK(conflict["kept"] == "recovered/001-output.md");
    CHECK(mode_of(scene.session.file("recovered")) == 0700);
    CHECK(mode_of(scene.session.file("recovered/001-output.md")) == 0600);
    scene.check_bystander();

    // The next turn is recorded as if nothing had happened.
    CHECK_ACK(scene.client.ask("turn.start", scene.session.id, {{"prompt", "p"}}));
    CHECK_ACK(scene.client.ask("turn.output", scene.session.id, {{"text", "fresh"}}));
    CHECK(scene.session.text("turns/002-output.md") == "fresh");
}

TEST_CASE("a live file that an editor replaced stays the user's") {
    check_users_version_wins([](const std::string& file) {
        write_text(file + ".new", "edited by hand\n");
        REQUIRE(::rename((file + ".new").c_str(), file.c_str()) == 0);
    });
}

TEST_CASE("a live file that was edited in place stays the user's") {
    check_users_version_wins([](const std::string& file) {
        std::ofstream(file, std::ios::app) << "a remark of the user\n";
    });
}

TEST_CASE("a live file that was truncated stays truncated") {
    check_users_version_wins(
        [](const std::string& file) { REQUIRE(::truncate(file.c_str(), 0) == 0); }, Past::lost);
}

TEST_CASE("a live file that was deleted is kept beside its old place") {
    check_users_version_wins([](const std::string& file) { REQUIRE(::unlink(file.c_str()) == 0); });
}

TEST_CASE("a live file that was moved away is kept beside its old place") {
    check_users_version_wins([](const std::string& file) {
        REQUIRE(::rename(file.c_str(), (file + ".moved").c_str()) == 0);
    });
}

TEST_CASE("a live file that became a symbolic link is not followed") {
    const TemporaryDirectory elsewhere;
    const std::string target = elsewhere.path() + "/target";
    write_text(target, "precious");
    check_users_version_wins([&target](const std::string& file) {
        REQUIRE(::unlink(file.c_str()) == 0);
        REQUIRE(::symlink(target.c_str(), file.c_str()) == 0);
    });
    CHECK(read_text(target) == "precious");
}

TEST_CASE("edits made while the daemon is down are found at its start") {
    Scene scene;
    const std::string live = scene.session.file("turns/001-output.md");
    CHECK_ACK(scene.client.request({{"type", "flush"}}));
    scene.daemon.kill();
    std::fill(scene.said.begin(), scene.said.end(), '\0');  // the only copy is overwritten
    write_text(live, "edited while nobody looked\n");
    REQUIRE_MESSAGE(scene.daemon.start(), scene.daemon.log());
    scene.client = WireClient(scene.daemon.socket());
    CHECK_ACK(scene.client.ask("session.attach", scene.session.id));
    CHECK_ACK(scene.say("more\n"));
    CHECK_ACK(scene.client.ask("turn.end", scene.session.id));
    CHECK(read_text(live) == "edited while nobody looked\n");
    CHECK(eventually([&] { return scene.session.text("recovered/001-output.md") == scene.said; }));
}

TEST_CASE("a meta json that the user edited is not lost silently") {
    Scene scene;
    const std::string meta = scene.session.file("meta.json");
    write_text(meta, "{\"mine\":true}\n");
    CHECK_ACK(scene.client.ask("turn.end", scene.session.id));
    scene.check_bystander();
    const std::string kept = read_text(meta);
    const bool one_of_both = kept == "{\"mine\":true}\n"
                             || Json::parse(kept, nullptr, false).value("turn_count", 0) == 1;
    CHECK_MESSAGE(one_of_both, kept);
}

bool git(const std::string& repo, const std::string& words) {
    return run_shell("git -C '" + repo + "' -c user.name=t -c user.email=t@localhost " + words)
               .status
           == 0;
}

TEST_CASE("git clean takes a session away and the next one is recorded") {
    Scene scene;
    REQUIRE(git(scene.repo, "clean -q -fdx"));
    CHECK_FALSE(exists(scene.session.path));
    CHECK(scene.gone_in_the_end());
    CHECK_FALSE(exists(scene.session.path));
    scene.check_bystander();
    const Recording next = start_session(scene.client, scene.repo);
    CHECK_ACK(next.answer);
    CHECK_ACK(scene.client.ask("turn.start", next.id, {{"prompt", "again"}}));
    CHECK(next.text("turns/001-prompt.md") == "again");
    CHECK(scene.survives_restart());
}

TEST_CASE("git stash with untracked files leaves a session alone") {
    Scene scene;
    write_text(scene.repo + "/new.txt", "untracked\n");
    REQUIRE(git(scene.repo, "stash -q -u"));
    CHECK_FALSE(exists(scene.repo + "/new.txt"));
    CHECK_ACK(scene.say("during the stash\n"));
    REQUIRE(git(scene.repo, "stash pop -q"));
    CHECK_ACK(scene.say("after it\n"));
    CHECK(scene.session.text("turns/001-output.md") == scene.said);
    CHECK_ACK(scene.client.ask("turn.end", scene.session.id));
    CHECK_MESSAGE(damage_of(scene.session.path).empty(), damage_of(scene.session.path));
    CHECK_FALSE(scene.session.meta()["capture"].contains("conflicts"));
}

TEST_CASE("git stash with everything takes a session away and its pop brings it back as it was") {
    Scene scene;
    CHECK_ACK(scene.client.request({{"type", "flush"}}));
    const std::string before = scene.session.text("turns/001-output.md");
    REQUIRE(git(scene.repo, "stash -q -a"));
    CHECK_FALSE(exists(scene.session.path));
    CHECK(scene.gone_in_the_end());
    scene.check_bystander();
    REQUIRE(git(scene.repo, "stash pop -q"));
    CHECK(scene.session.text("turns/001-output.md") == before);
    CHECK(scene.session.meta().is_object());
    CHECK(scene.survives_restart());
}

}  // namespace
}  // namespace relay::tests
