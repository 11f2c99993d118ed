// SPDX-License-Identifier: Apache-2.0

// Whatever somebody plants where the recorder is about to write, nothing outside of the store changes and
// nobody else's recording suffers.

#include "tests/end_to_end/recording.hpp"
#include "tests/support/eventually.hpp"

#include <boost/filesystem.hpp>
#include <doctest/doctest.h>

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <thread>

namespace relay::tests {
namespace {

namespace filesystem = boost::filesystem;

const std::string precious = "precious\n";

struct Scene {
    DaemonProcess daemon;
    std::string repo;
    std::string elsewhere;
    WireClient client{""};
    Recording bystander;
    std::string heard;  // of the bystander

    Scene() : daemon(repo_stores()) {
        repo = daemon.root() + "/repo";
        elsewhere = daemon.root() + "/elsewhere";
        filesystem::create_directory(elsewhere);
        write_text(elsewhere + "/file", precious);
        REQUIRE(make_repository(repo));
        REQUIRE_MESSAGE(daemon.start(), daemon.log());
        client = WireClient(daemon.socket());
        bystander = start_session(client, daemon.work());
        CHECK_ACK(client.ask("turn.start", bystander.id, {{"prompt", "p"}}));
    }

    static DaemonSetup repo_stores() {
        DaemonSetup setup = small_journal({"--checkpoint-interval", "50ms"});
        setup.relocated = false;
        return setup;
    }

    // Of everything outside: names and contents.
    [[nodiscard]] std::map<std::string, std::string> outside() const {
        std::map<std::string, std::string> all;
        for (const std::string& name : tree_of(elsewhere)) {
            all[name] = name.ends_with('/') ? "" : read_text(elsewhere + "/" + name);
        }
        return all;
    }

    void check_unharmed(const std::string& what) {
        const std::map<std::string, std::string> expected{{"file", precious}};
        CHECK_MESSAGE(outside() == expected, what);
        CHECK_MESSAGE(mode_of(elsewhere + "/file") == 0644, what);
        CHECK_MESSAGE(daemon.running(), what << "\n" << daemon.log());
        const Json answer = client.ask("turn.output", bystander.id, {{"text", "undisturbed\n"}});
        CHECK_MESSAGE(is_ack(answer), what << ": " << answer.dump());
        heard += "undisturbed\n";
        const bool whole =
            eventually([this] { return bystander.text("turns/001-output.md") == heard; });
        CHECK_MESSAGE(whole, what << "\n" << daemon.log());
    }

    // A session's whole life; what the daemon answers is its own affair, that it answers is ours.
    void live(const std::string& what, const std::string& id) {
        WireClient own(daemon.socket());
        const auto answered = [&](const Json& answer) {
            CHECK_MESSAGE(!answer.empty(), what << ": no answer");
        };
        for (int turn = 0; turn < 2; ++turn) {
            answered(own.ask("turn.start", id, {{"prompt", "p"}}));
            answered(own.ask("turn.output", id, {{"text", "o"}}));
            answered(own.ask("turn.stderr", id, {{"text", "e"}}));
            answered(own.ask("session.attachment", id, {{"name", "a"}, {"data", "YQ=="}}));
            answered(own.ask("turn.end", id, {{"diff", "d"}}));
        }
        answered(own.ask("session.checkpoint", id, {{"reason", "manual"}}));
    }
};

using Plant = bool (*)(const std::string& elsewhere, const std::string& path);

bool link_to_directory(const std::string& elsewhere, const std::string& path) {
    return ::symlink(elsewhere.c_str(), path.c_str()) == 0;
}
bool link_to_file(const std::string& elsewhere, const std::string& path) {
    return ::symlink((elsewhere + "/file").c_str(), path.c_str()) == 0;
}
bool link_to_nothing(const std::string& elsewhere, const std::string& path) {
    return ::symlink((elsewhere + "/made").c_str(), path.c_str()) == 0;
}
bool hard_link(const std::string& elsewhere, const std::string& path) {
    return ::link((elsewhere + "/file").c_str(), path.c_str()) == 0;
}
bool fifo(const std::string&, const std::string& path) {
    return ::mkfifo(path.c_str(), 0600) == 0;
}

const std::map<std::string, Plant> plants{
    {"a link to a directory", link_to_directory},
    {"a link to a file", link_to_file},
    {"a link to nothing", link_to_nothing},
    {"a hard link", hard_link},
    {"a FIFO", fifo},
};

TEST_CASE("nothing planted in a store before a session leads its recording outside") {
    Scene scene;
    const std::string store = scene.repo + "/.agent-relay";
    for (const std::string name : {"", "/sessions", "/.gitignore", "/latest", "/sessions/ULID"}) {
        for (const auto& [kind, plant] : plants) {
            const std::string what = kind + " at .agent-relay" + name;
            filesystem::remove_all(store);
            const std::string id = new_ulid();
            const std::string path = store + (name == "/sessions/ULID" ? "/sessions/" + id : name);
            filesystem::create_directories(filesystem::path(path).parent_path());
            REQUIRE_MESSAGE(plant(scene.elsewhere, path), what);
            const Recording started = start_session(scene.client, scene.repo, {{"session", id}});
            CHECK_MESSAGE(!started.answer.empty(), what << ": no answer");
            CHECK_ACK(scene.client.request({{"type", "flush"}}));
            scene.check_unharmed(what);
        }
    }
}

TEST_CASE("nothing planted in a session leads its recording outside") {
    Scene scene;
    // The names of the second turn are free until it begins; the others are taken away first.
    for (const std::string name :
         {"meta.json",
          ".meta.json.tmp",
          "events.jsonl",
          "resume.json",
          ".resume.json.tmp",
          "attachments",
          "attachments/a",
          "recovered",
          "turns",
          "turns/001-prompt.md",
          "turns/001-output.md",
          "turns/001-stderr.log",
          "turns/001-diff.patch",
          "turns/001-state.json",
          "turns/.001-state.json.tmp",
          "turns/002-prompt.md",
          "turns/002-output.md",
          "turns/002-stderr.log",
          "turns/002-state.json"}) {
        for (const auto& [kind, plant] : plants) {
            const std::string what = kind + " at " + name;
            WireClient own(scene.daemon.socket());
            const Recording session = start_session(own, scene.repo);
            REQUIRE_MESSAGE(is_ack(session.answer), what << ": " << session.answer.dump());
            const std::string path = session.file(name);
            filesystem::create_directories(filesystem::path(path).parent_path());
            filesystem::remove_all(path);
            REQUIRE_MESSAGE(plant(scene.elsewhere, path), what);
            own.close();
            WireClient next(scene.daemon.socket());
            const auto attached = [&] {
                const Json answer = next.ask("session.attach", session.id);
                return code_of(answer) != "not_owner";
            };
            CHECK_MESSAGE(eventually(attached), what);
            scene.live(what, session.id);
            CHECK_ACK(scene.client.request({{"type", "flush"}}));
            // While it stands the disk may seem ill; it may not hold others up once it is gone.
            filesystem::remove(path);
            scene.check_unharmed(what);
        }
    }
}

TEST_CASE("a directory swapped with a link again and again never leads the recording outside") {
    Scene scene;
    WireClient own(scene.daemon.socket());
    const Recording session = start_session(own, scene.repo);
    REQUIRE(is_ack(session.answer));
    const std::string turns = session.file("turns");
    const std::string link = session.file("link");
    filesystem::create_directories(turns);
    REQUIRE(::symlink(scene.elsewhere.c_str(), link.c_str()) == 0);
    std::atomic<bool> enough = false;
    std::int64_t swaps = 0;
    std::thread swapper([&] {
        while (!enough) {
            swaps +=
                ::renameat2(AT_FDCWD, turns.c_str(), AT_FDCWD, link.c_str(), RENAME_EXCHANGE) == 0
                    ? 1
                    : 0;
        }
    });
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(3);
    std::int64_t events = 0;
    for (; std::chrono::steady_clock::now() < until; ++events) {
        // Whether it is taken or refused as gone: somebody else's files are not touched.
        const Json answer = own.ask(
            events % 5 == 0 ? "turn.start" : "turn.output",
            session.id,
            {{"prompt", "p"}, {"text", "o"}});
        CHECK_FALSE(answer.empty());
    }
    enough = true;
    swapper.join();
    MESSAGE(swaps << " swaps, " << events << " events");
    CHECK(swaps > 1000);
    CHECK(events > 10);
    scene.check_unharmed("swapped");
}

}  // namespace
}  // namespace relay::tests
