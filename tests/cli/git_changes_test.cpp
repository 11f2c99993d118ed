// SPDX-License-Identifier: Apache-2.0
#include "cli/git_changes.hpp"
#include "tests/support/daemon_process.hpp"
#include "tests/support/temporary_directory.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <time.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <utility>

using nlohmann::json;
using relay::cli::GitChanges;
using relay::tests::run_shell;
using relay::tests::TemporaryDirectory;

namespace {

const std::string path = "/usr/local/bin:/usr/bin:/bin";

std::string text_of(const std::string& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

// A repository with tracked.txt and old.txt committed.
struct Repository {
    TemporaryDirectory directory;

    Repository() {
        shell("git init -q -b main . && git config user.email a@b && git config user.name n && "
              "echo one > tracked.txt && echo old > old.txt && printf '*.log\\n' > .gitignore && "
              "git add -A && git commit -q -m first");
    }
    void shell(const std::string& line) const {
        const auto end = run_shell("cd '" + directory.path() + "' && " + line);
        REQUIRE_MESSAGE(end.status == 0, end.err);
    }
    [[nodiscard]] std::string file(const std::string& name) const {
        return directory.path() + "/" + name;
    }
    // Until what was done so far is older than what comes, by the clock that file systems go by.
    static void await_tick() {
        const auto tick = [] {
            timespec now{};
            ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
            return std::pair(now.tv_sec, now.tv_nsec);
        };
        for (const auto before = tick(); tick() == before;) {
            std::this_thread::yield();
        }
    }
    // What is said of a turn that runs `line`.
    [[nodiscard]] json facts(GitChanges& changes, const std::string& line) const {
        changes.begin();
        shell(line);
        return json::parse("{" + changes.end() + "}");
    }
    // Of that, what it changed.
    [[nodiscard]] json turn(GitChanges& changes, const std::string& line) const {
        json change = facts(changes, line);
        change.erase("dirty");
        return change;
    }
};

std::map<std::string, std::string> files_of(const json& change) {
    std::map<std::string, std::string> files;
    for (const json& file : change.value("files", json::array())) {
        files[file.at("path")] = file.at("status");
    }
    return files;
}

using Files = std::map<std::string, std::string>;

}  // namespace

TEST_CASE("outside a git work tree nothing is watched") {
    const TemporaryDirectory directory;
    CHECK_FALSE(GitChanges::watch(directory.path(), path));
    const Repository repository;
    CHECK_FALSE(GitChanges::watch(repository.directory.path(), "/nowhere"));
}

TEST_CASE("a turn's change is the difference it made and not what was there before") {
    const Repository repository;
    repository.shell("echo dirty >> old.txt && echo mine > untracked.txt && "
                     "touch -d '1 hour ago' old.txt untracked.txt");
    Repository::await_tick();
    auto changes = GitChanges::watch(repository.directory.path(), path);
    REQUIRE(changes);
    const json first = repository.turn(
        *changes, "echo two >> tracked.txt && echo new > 'a new file' && echo noise > x.log");
    CHECK(files_of(first) == Files{{"a new file", "added"}, {"tracked.txt", "modified"}});
    const std::string patch = first.at("diff");
    CHECK(patch.find("+two") != std::string::npos);
    CHECK(patch.find("dirty") == std::string::npos);
    CHECK(patch.find("mine") == std::string::npos);
    // The next turn begins where this one ended, also for what git does not track.
    const json second = repository.turn(*changes, "rm old.txt && echo more >> untracked.txt");
    CHECK(files_of(second) == Files{{"old.txt", "deleted"}, {"untracked.txt", "modified"}});
    CHECK(std::string(second.at("diff")).find("+more") != std::string::npos);
    CHECK(repository.turn(*changes, "true").empty());
}

TEST_CASE("a file that the agent changes in its first moment is part of the turn") {
    const Repository repository;
    auto changes = GitChanges::watch(repository.directory.path(), path);
    REQUIRE(changes);
    changes->begin();
    // Before git has even been started.
    std::ofstream(repository.file("tracked.txt")) << "at once\n";
    std::ofstream(repository.file("fresh.txt")) << "at once\n";
    ::unlink(repository.file("old.txt").c_str());
    const json change = json::parse("{" + changes->end() + "}");
    CHECK(
        files_of(change)
        == Files{{"fresh.txt", "added"}, {"old.txt", "deleted"}, {"tracked.txt", "modified"}});
}

TEST_CASE("a directory that the agent deletes in its first moment is part of the turn") {
    const Repository repository;
    repository.shell("mkdir -p kept/deep && echo x > kept/deep/x && git add kept && "
                     "git commit -q -m kept");
    Repository::await_tick();
    auto changes = GitChanges::watch(repository.directory.path(), path);
    REQUIRE(changes);
    CHECK(files_of(repository.turn(*changes, "rm -r kept")) == Files{{"kept/deep/x", "deleted"}});
}

TEST_CASE("a file that the agent changes between our look and git's is part of the turn") {
    const Repository repository;
    // Changed before the turn, so that the first picture has to have them anew.
    repository.shell(
        "echo second > second.txt && echo third > third.txt && git add . && "
        "echo mine >> tracked.txt && echo mine >> old.txt && echo mine >> second.txt && "
        "rm third.txt");
    Repository::await_tick();
    // The agent's hand comes before git's, once.
    const std::string script = repository.file(".git/git");
    std::ofstream(script)
        << "#!/bin/sh\ncase \"$*\" in *update-index*) cd '" << repository.directory.path()
        << "' && if mkdir .git/once 2>/dev/null; then echo agent > tracked.txt; "
           "rm old.txt; rm second.txt; mkdir second.txt; echo agent > third.txt; fi;; "
           "esac\nexec /usr/bin/env git \"$@\"\n";
    repository.shell("chmod +x .git/git");
    auto changes = GitChanges::watch(repository.directory.path(), repository.file(".git"));
    REQUIRE(changes);
    changes->begin();
    const json change = json::parse("{" + changes->end() + "}");
    CHECK(
        files_of(change)
        == Files{
            {"old.txt", "deleted"},
            {"second.txt", "deleted"},
            {"third.txt", "modified"},
            {"tracked.txt", "modified"}});
}

TEST_CASE("looking at changes leaves index and objects and hooks of the user alone") {
    const Repository repository;
    repository.shell(
        "printf '#!/bin/sh\\ntouch \"$PWD/hook-ran\"\\n' > .git/hooks/post-index-change && "
        "chmod +x .git/hooks/post-index-change && echo staged > staged.txt && "
        "git add staged.txt && rm -f hook-ran");
    const std::string index = text_of(repository.file(".git/index"));
    const auto objects = run_shell("cd " + repository.file(".git/objects") + " && find . | sort");
    auto changes = GitChanges::watch(repository.directory.path(), path);
    REQUIRE(changes);
    const json change = repository.turn(*changes, "echo two >> tracked.txt; echo x > y");
    CHECK(files_of(change) == Files{{"tracked.txt", "modified"}, {"y", "added"}});
    CHECK(text_of(repository.file(".git/index")) == index);
    const auto after = run_shell("cd " + repository.file(".git/objects") + " && find . | sort");
    CHECK(after.out == objects.out);
    CHECK(::access(repository.file("hook-ran").c_str(), F_OK) != 0);
}

TEST_CASE("large and binary files are named and not shown") {
    const Repository repository;
    auto changes = GitChanges::watch(repository.directory.path(), path);
    REQUIRE(changes);
    const json change = repository.turn(
        *changes, "head -c 3000000 /dev/urandom > large.bin && printf 'a\\0b' > small.bin");
    CHECK(files_of(change) == Files{{"large.bin", "added"}, {"small.bin", "added"}});
    const std::string patch = change.at("diff");
    CHECK(patch.size() < 1000);
    CHECK(patch.find("Binary files") != std::string::npos);
    const json text = repository.turn(
        *changes,
        "for n in 1 2 3 4 5 6 7 8; do yes \"line $n\" | head -c 900000 > big$n.txt; done");
    CHECK(files_of(text).size() == 8);
    const std::string cut = text.at("diff");
    CHECK(cut.size() < GitChanges::patch_bytes_max + 200);
    CHECK(cut.find("# cut here by agent-relay") != std::string::npos);
}

TEST_CASE("lines are counted as far as a file has lines") {
    const Repository repository;
    auto changes = GitChanges::watch(repository.directory.path(), path);
    REQUIRE(changes);
    const json change = repository.turn(
        *changes,
        "printf 'a\\nb\\nc\\n' > tracked.txt && rm old.txt && printf 'a\\0b' > binary && "
        "printf 'x\\n' > 'a\ttab'");
    json files = json::object();
    for (const json& file : change.at("files")) {
        files[std::string(file.at("path"))] = {
            file.value("added", json()), file.value("removed", json())};
    }
    CHECK(files["tracked.txt"] == json{3, 1});
    CHECK(files["old.txt"] == json{0, 1});
    CHECK(files["a\ttab"] == json{1, 0});
    CHECK(files["binary"] == json{nullptr, nullptr});
}

TEST_CASE("a turn tells whether something is left to commit") {
    const Repository repository;
    auto changes = GitChanges::watch(repository.directory.path(), path);
    REQUIRE(changes);
    const auto is_dirty = [&](const std::string& line) {
        return repository.facts(*changes, line).at("dirty").get<bool>();
    };
    CHECK_FALSE(is_dirty("echo noise > ignored.log"));
    CHECK(is_dirty("echo mine > new.txt"));
    CHECK(is_dirty("git add new.txt"));
    CHECK_FALSE(is_dirty("git commit -q -m second"));
    // Too large for our pictures, and git's business all the same.
    CHECK(is_dirty("yes | head -c 2000000 > large.txt"));
    CHECK_FALSE(is_dirty("git add large.txt && git commit -q -m third"));
    CHECK(is_dirty("rm tracked.txt"));
    const std::string index = text_of(repository.file(".git/index"));
    CHECK_FALSE(is_dirty("echo one > tracked.txt"));
    CHECK(text_of(repository.file(".git/index")) == index);
}

TEST_CASE("a turn that settles a merge in its first moment has changes") {
    const Repository repository;
    repository.shell(
        "git checkout -q -b side && echo side > tracked.txt && git rm -q old.txt && "
        "git commit -q -a -m side && git checkout -q main && echo main > tracked.txt && "
        "echo older > old.txt && git commit -q -a -m main && ! git merge -q side");
    auto changes = GitChanges::watch(repository.directory.path(), path);
    REQUIRE(changes);
    const json first =
        repository.facts(*changes, "echo settled > tracked.txt && rm old.txt && echo 1 > new.txt");
    CHECK(
        files_of(first)
        == Files{{"new.txt", "added"}, {"old.txt", "deleted"}, {"tracked.txt", "modified"}});
    CHECK(std::string(first.at("diff")).find("-main\n+settled\n") != std::string::npos);
    CHECK(first.at("dirty") == true);
    const json second = repository.facts(*changes, "git add -A && git commit -q -m merged");
    CHECK(files_of(second).empty());
    CHECK(second.at("dirty") == false);
}

TEST_CASE("a repository without a commit has changes too") {
    const TemporaryDirectory directory;
    REQUIRE(run_shell("cd " + directory.path() + " && git init -q .").status == 0);
    auto changes = GitChanges::watch(directory.path(), path);
    REQUIRE(changes);
    changes->begin();
    std::ofstream(directory.path() + "/first.txt") << "hello\n";
    const json change = json::parse("{" + changes->end() + "}");
    CHECK(files_of(change) == Files{{"first.txt", "added"}});
}

TEST_CASE(
    "a submodule that was moved to another commit is a change and a repository inside is none") {
    const Repository repository;
    repository.shell("git init -q -b main part && cd part && git config user.email a@b && "
                     "git config user.name n && git commit -q --allow-empty -m one && cd .. && "
                     "git -c advice.addEmbeddedRepo=false add part && git commit -q -m part && "
                     "touch -d '1 hour ago' part");
    Repository::await_tick();
    auto changes = GitChanges::watch(repository.directory.path(), path);
    REQUIRE(changes);
    CHECK(repository.turn(*changes, "echo dirty > part/file").empty());
    const json change = repository.turn(
        *changes,
        "git -C part commit -q --allow-empty -m two && git init -q other && echo x > other/x");
    CHECK(files_of(change) == Files{{"part", "modified"}});
    CHECK(std::string(change.at("diff")).find("+Subproject commit ") != std::string::npos);
}

TEST_CASE("names with spaces and line breaks and foreign bytes are told") {
    const Repository repository;
    auto changes = GitChanges::watch(repository.directory.path(), path);
    REQUIRE(changes);
    const json change = repository.turn(
        *changes, "touch 'a b' 'ünï' \"$(printf 'two\\nlines')\" \"$(printf 'foreign\\377')\"");
    CHECK(
        files_of(change)
        == Files{
            {"a b", "added"},
            {"foreign\ufffd", "added"},
            {"two\nlines", "added"},
            {"ünï", "added"}});
}

TEST_CASE("a file may become a directory and a directory a file") {
    const Repository repository;
    repository.shell("mkdir kept && echo x > kept/x && git add kept && git commit -q -m kept && "
                     "touch -d '1 hour ago' kept kept/x");
    Repository::await_tick();
    auto changes = GitChanges::watch(repository.directory.path(), path);
    REQUIRE(changes);
    const json change = repository.turn(
        *changes,
        "rm old.txt && mkdir old.txt && echo y > old.txt/y && rm -r kept && echo z > kept");
    CHECK(
        files_of(change)
        == Files{
            {"kept", "added"},
            {"kept/x", "deleted"},
            {"old.txt", "deleted"},
            {"old.txt/y", "added"}});
}
