// SPDX-License-Identifier: Apache-2.0
#include "layout/store.hpp"
#include "tests/support/temporary_directory.hpp"

#include <boost/filesystem.hpp>
#include <doctest/doctest.h>

#include <unistd.h>

#include <fstream>
#include <map>
#include <string>
#include <utility>

using relay::layout::Environment;
using relay::layout::Errc;
using relay::layout::place_session;
using relay::layout::Placement;
using relay::layout::socket_path;
using relay::layout::Store;
using relay::layout::StorePreference;
using relay::layout::user_directories;
using relay::layout::user_store;
using relay::layout::UserDirectories;
using relay::tests::TemporaryDirectory;

namespace {

Environment environment_of(std::map<std::string, std::string> values) {
    return [values = std::move(values)](const char* name) -> std::optional<std::string> {
        const auto found = values.find(name);
        return found == values.end() ? std::nullopt : std::optional{found->second};
    };
}

void make(const std::string& directory) {
    boost::filesystem::create_directories(directory);
}

void write(const std::string& file, const std::string& content) {
    make(boost::filesystem::path{file}.parent_path().string());
    std::ofstream{file} << content;
}

// homes/u is HOME; nothing above homes/ is ever a repository's root.
struct Machine {
    TemporaryDirectory directory;
    std::string homes = directory.path() + "/homes";
    std::string home = homes + "/u";
    UserDirectories user{
        .state = home + "/.local/state/agent-relay",
        .cache = home + "/.cache/agent-relay",
        .config = home + "/.config/agent-relay",
        .home = home,
        .relocated = false};

    Machine() { make(home); }

    [[nodiscard]] auto
    place(const std::string& cwd, StorePreference preference = StorePreference::automatic) const {
        return place_session(cwd, preference, user);
    }
    [[nodiscard]] Placement
    placed(const std::string& cwd, StorePreference preference = StorePreference::automatic) const {
        const auto placement = place(cwd, preference);
        REQUIRE_MESSAGE(placement.ok(), placement.error().context);
        return placement.value();
    }
    [[nodiscard]] Store users() const { return user_store(user); }
};

Store repo_store(const std::string& root) {
    return {root, ".agent-relay", /*is_repo=*/true};
}

}  // namespace

TEST_CASE("the user's directories follow XDG and else the home directory") {
    const auto plain = user_directories(environment_of({{"HOME", "/home/u"}}));
    REQUIRE(plain.ok());
    CHECK(plain.value().state == "/home/u/.local/state/agent-relay");
    CHECK(plain.value().cache == "/home/u/.cache/agent-relay");
    CHECK(plain.value().config == "/home/u/.config/agent-relay");
    CHECK(plain.value().home == "/home/u");
    CHECK_FALSE(plain.value().relocated);

    const auto xdg = user_directories(environment_of(
        {{"HOME", "/home/u"},
         {"XDG_STATE_HOME", "/s//t/"},
         {"XDG_CACHE_HOME", "/c"},
         {"XDG_CONFIG_HOME", "//g/./h"}}));
    REQUIRE(xdg.ok());
    CHECK(xdg.value().state == "/s/t/agent-relay");
    CHECK(xdg.value().cache == "/c/agent-relay");
    CHECK(xdg.value().config == "/g/h/agent-relay");
}

TEST_CASE("relative and empty XDG values are ignored") {
    const auto user = user_directories(environment_of(
        {{"HOME", "/home/u/"},
         {"XDG_STATE_HOME", "state"},
         {"XDG_CACHE_HOME", ""},
         {"XDG_CONFIG_HOME", "./config"}}));
    REQUIRE(user.ok());
    CHECK(user.value().state == "/home/u/.local/state/agent-relay");
    CHECK(user.value().cache == "/home/u/.cache/agent-relay");
    CHECK(user.value().config == "/home/u/.config/agent-relay");
    CHECK(user.value().home == "/home/u");
}

TEST_CASE("AGENT_RELAY_HOME is one base for all three roles and beats XDG") {
    const auto user = user_directories(environment_of(
        {{"HOME", "/home/u"}, {"XDG_STATE_HOME", "/s"}, {"AGENT_RELAY_HOME", "/relay/"}}));
    REQUIRE(user.ok());
    CHECK(user.value().state == "/relay/state");
    CHECK(user.value().cache == "/relay/cache");
    CHECK(user.value().config == "/relay/config");
    CHECK(user.value().home == "/home/u");
    CHECK(user.value().relocated);

    const auto homeless = user_directories(environment_of({{"AGENT_RELAY_HOME", "/relay"}}));
    REQUIRE(homeless.ok());
    CHECK(homeless.value().home.empty());

    const auto relative =
        user_directories(environment_of({{"HOME", "/home/u"}, {"AGENT_RELAY_HOME", "relay"}}));
    REQUIRE_FALSE(relative.ok());
    CHECK(relative.error().code == Errc::invalid);

    const auto empty =
        user_directories(environment_of({{"HOME", "/home/u"}, {"AGENT_RELAY_HOME", ""}}));
    REQUIRE(empty.ok());
    CHECK_FALSE(empty.value().relocated);
}

TEST_CASE("without any home there are no user directories") {
    for (const auto& environment : {environment_of({}), environment_of({{"HOME", "home/u"}})}) {
        const auto user = user_directories(environment);
        REQUIRE_FALSE(user.ok());
        CHECK(user.error().code == Errc::invalid);
        CHECK(user.error().context.find("HOME") != std::string::npos);
    }
}

TEST_CASE("the socket's path is the first that the environment gives") {
    std::map<std::string, std::string> values{
        {"AGENT_RELAY_SOCKET", "/run/x.sock"},
        {"XDG_RUNTIME_DIR", "/run/user/1000"},
        {"AGENT_RELAY_HOME", "/relay"},
        {"XDG_STATE_HOME", "/s"},
        {"HOME", "/home/u"}};
    CHECK(socket_path(environment_of(values)).value() == "/run/x.sock");
    values["AGENT_RELAY_SOCKET"] = "";
    CHECK(socket_path(environment_of(values)).value() == "/run/user/1000/agent-relay/relay.sock");
    values["XDG_RUNTIME_DIR"] = "run";
    CHECK(socket_path(environment_of(values)).value() == "/relay/state/relay.sock");
    values.erase("AGENT_RELAY_HOME");
    CHECK(
        socket_path(environment_of(values)).value()
        == "/home/u/.local/state/agent-relay/relay.sock");
    values.erase("HOME");
    CHECK(socket_path(environment_of(values)).error().code == Errc::invalid);
    values["AGENT_RELAY_SOCKET"] = "x.sock";
    CHECK(socket_path(environment_of(values)).error().code == Errc::invalid);
}

TEST_CASE("the process environment gives what is set and nothing else") {
    const Environment environment = relay::layout::process_environment();
    CHECK(environment("PATH").has_value());
    CHECK_FALSE(environment("AGENT_RELAY_NO_SUCH_VARIABLE").has_value());
}

TEST_CASE("the user store hangs on the nearest directory above it that exists") {
    const Machine machine;
    CHECK(machine.users() == Store{machine.home, ".local/state/agent-relay", false});
    make(machine.home + "/.local");
    CHECK(machine.users() == Store{machine.home + "/.local", "state/agent-relay", false});
    CHECK(machine.users().root() == machine.user.state);
    CHECK(machine.users().sessions() == machine.user.state + "/sessions");
    make(machine.user.state);
    CHECK(machine.users() == Store{machine.home + "/.local/state", "agent-relay", false});
}

TEST_CASE("a session outside every repository goes to the user store") {
    const Machine machine;
    make(machine.home + "/notes");
    const Placement placement = machine.placed(machine.home + "/notes");
    CHECK(placement.store == machine.users());
    CHECK(placement.cwd == machine.home + "/notes");
    CHECK_FALSE(placement.repo.has_value());
    CHECK_FALSE(placement.worktree.has_value());
}

TEST_CASE("the nearest ancestor with a store or a git directory holds the session") {
    const Machine machine;
    const std::string outer = machine.home + "/outer";
    const std::string inner = outer + "/a/inner";
    write(outer + "/.git/HEAD", "ref: refs/heads/main\n");
    make(inner + "/b");
    CHECK(machine.placed(outer).store == repo_store(outer));
    CHECK(machine.placed(inner + "/b").store == repo_store(outer));

    make(inner + "/.agent-relay");
    const Placement placement = machine.placed(inner + "/b");
    CHECK(placement.store == repo_store(inner));
    REQUIRE(placement.repo.has_value());
    CHECK(placement.repo->root == outer);
    CHECK(placement.repo->branch == "main");
    CHECK_FALSE(placement.worktree.has_value());

    make(inner + "/b/.git");
    CHECK(machine.placed(inner + "/b").store == repo_store(inner + "/b"));
}

TEST_CASE("a store directory without git gives a store and no repository") {
    const Machine machine;
    make(machine.home + "/plain/.agent-relay");
    const Placement placement = machine.placed(machine.home + "/plain");
    CHECK(placement.store == repo_store(machine.home + "/plain"));
    CHECK_FALSE(placement.repo.has_value());
}

TEST_CASE("the home directory may be a repository but what is above it may not") {
    const Machine machine;
    make(machine.home + "/x");
    make(machine.homes + "/.git");
    make(machine.homes + "/.agent-relay");
    make(machine.directory.path() + "/.git");
    CHECK(machine.placed(machine.home + "/x").store == machine.users());
    CHECK_FALSE(machine.placed(machine.home + "/x").repo.has_value());
    CHECK(machine.placed(machine.homes).store == machine.users());
    CHECK(machine.placed(machine.directory.path()).store == machine.users());
    CHECK(machine.placed("/").store == machine.users());

    make(machine.home + "/.git");
    CHECK(machine.placed(machine.home + "/x").store == repo_store(machine.home));
}

TEST_CASE("a directory away from all homes has its own repositories") {
    const Machine machine;
    const std::string work = machine.directory.path() + "/srv/work";
    make(work + "/deep/er");
    make(machine.directory.path() + "/srv/.git");
    CHECK(machine.placed(work + "/deep/er").store == repo_store(machine.directory.path() + "/srv"));

    UserDirectories homeless = machine.user;
    homeless.home.clear();
    const auto placement = place_session(work, StorePreference::automatic, homeless);
    REQUIRE(placement.ok());
    CHECK(placement.value().store == repo_store(machine.directory.path() + "/srv"));
}

TEST_CASE("a home reached through a symbolic link limits the search all the same") {
    Machine machine;
    make(machine.home + "/x");
    make(machine.homes + "/.git");
    const std::string link = machine.directory.path() + "/link";
    boost::filesystem::create_symlink(machine.homes, link);
    machine.user.home = link + "/u";
    const Placement placement = machine.placed(link + "/u/x");
    CHECK(placement.cwd == machine.home + "/x");
    CHECK_FALSE(placement.store.is_repo);
}

TEST_CASE("the asked preference and AGENT_RELAY_HOME choose the store") {
    Machine machine;
    const std::string repo = machine.home + "/repo";
    write(repo + "/.git/HEAD", "ref: refs/heads/main\n");
    make(machine.home + "/plain");

    CHECK(machine.placed(repo, StorePreference::repo).store == repo_store(repo));
    const Placement asked = machine.placed(repo, StorePreference::user);
    CHECK(asked.store == machine.users());
    REQUIRE(asked.repo.has_value());
    CHECK(asked.repo->root == repo);

    const auto none = machine.place(machine.home + "/plain", StorePreference::repo);
    REQUIRE_FALSE(none.ok());
    CHECK(none.error().code == Errc::invalid);
    CHECK(none.error().context.find("no repository") != std::string::npos);

    machine.user.relocated = true;
    CHECK(machine.placed(repo).store == machine.users());
    CHECK(machine.placed(repo, StorePreference::repo).store == machine.users());
    CHECK(machine.placed(machine.home + "/plain", StorePreference::repo).store == machine.users());
}

TEST_CASE("a linked worktree records into the main worktree") {
    const Machine machine;
    const std::string main_root = machine.home + "/main";
    const std::string linked = machine.home + "/linked";
    const std::string own = main_root + "/.git/worktrees/linked";
    write(main_root + "/.git/HEAD", "ref: refs/heads/main\n");
    write(main_root + "/.git/refs/heads/topic", std::string(40, 'a') + "\n");
    write(own + "/HEAD", "ref: refs/heads/topic\n");
    write(own + "/commondir", "../..\n");
    write(linked + "/.git", "gitdir: " + own + "\n");
    make(linked + "/.agent-relay");
    make(linked + "/sub/.agent-relay");

    for (const std::string& cwd : {linked, linked + "/sub"}) {
        const Placement placement = machine.placed(cwd);
        CHECK(placement.store == repo_store(main_root));
        CHECK(placement.worktree == linked);
        REQUIRE(placement.repo.has_value());
        CHECK(placement.repo->root == linked);
        CHECK(placement.repo->branch == "topic");
        CHECK(placement.repo->head == std::string(40, 'a'));
    }
    CHECK_FALSE(machine.placed(main_root).worktree.has_value());
}

TEST_CASE("a linked worktree keeps its own store where the main one may not hold any") {
    const Machine machine;
    const std::string linked = machine.home + "/linked";
    const std::string own = machine.homes + "/.git/worktrees/linked";
    write(own + "/HEAD", "ref: refs/heads/topic\n");
    write(own + "/commondir", "../..\n");
    write(linked + "/.git", "gitdir: " + own + "\n");
    CHECK(machine.placed(linked).store == repo_store(linked));
}

TEST_CASE("a session's cwd must be an absolute path of a directory") {
    const Machine machine;
    write(machine.home + "/file", "x");
    using namespace std::string_literals;
    for (const std::string& cwd :
         {""s,
          "."s,
          "relative"s,
          "./x"s,
          machine.home + "/absent",
          machine.home + "/file",
          machine.home + "/file/below",
          machine.home + "\0/x"s}) {
        CAPTURE(cwd);
        const auto placement = machine.place(cwd);
        REQUIRE_FALSE(placement.ok());
        CHECK(placement.error().code == Errc::invalid);
        CHECK(placement.error().context.starts_with("cwd "));
    }
}

TEST_CASE("a session's cwd is told without links and dots") {
    const Machine machine;
    make(machine.home + "/real/sub");
    boost::filesystem::create_directory_symlink(machine.home + "/real", machine.home + "/alias");
    CHECK(machine.placed(machine.home + "/alias/./sub/..//sub/").cwd == machine.home + "/real/sub");
}

TEST_CASE("a store that is a link or no directory is unsafe") {
    const Machine machine;
    const std::string elsewhere = machine.home + "/elsewhere";
    make(elsewhere + "/sessions");
    const std::string repo = machine.home + "/repo";
    const std::string store = repo + "/.agent-relay";
    make(repo + "/.git");
    const auto code = [&] {
        const auto placement = machine.place(repo);
        REQUIRE_FALSE(placement.ok());
        CHECK(placement.error().context.find(store) != std::string::npos);
        return placement.error().code;
    };

    boost::filesystem::create_directory_symlink(elsewhere, store);
    CHECK(code() == Errc::unsafe);
    CHECK(machine.place(repo).error().context.find("symbolic link") != std::string::npos);
    boost::filesystem::remove(store);
    boost::filesystem::create_symlink("absent", store);
    CHECK(code() == Errc::unsafe);
    boost::filesystem::remove(store);
    write(store, "x");
    CHECK(code() == Errc::unsafe);
    boost::filesystem::remove(store);

    make(store);
    CHECK(machine.placed(repo).store == repo_store(repo));
    boost::filesystem::create_directory_symlink(elsewhere, store + "/sessions");
    CHECK(code() == Errc::unsafe);
    boost::filesystem::remove(store + "/sessions");
    write(store + "/sessions", "x");
    CHECK(code() == Errc::unsafe);
    boost::filesystem::remove(store + "/sessions");
    make(store + "/sessions");
    CHECK(machine.placed(repo).store == repo_store(repo));
}

TEST_CASE("a user store that is a link is unsafe") {
    const Machine machine;
    make(machine.home + "/.local/state");
    make(machine.home + "/elsewhere");
    boost::filesystem::create_directory_symlink(machine.home + "/elsewhere", machine.user.state);
    const auto placement = machine.place(machine.home);
    REQUIRE_FALSE(placement.ok());
    CHECK(placement.error().code == Errc::unsafe);
}

TEST_CASE("a store that belongs to another user is unsafe") {
    if (::geteuid() != 0) {
        MESSAGE("SKIPPED: only root can give a directory away");
        return;
    }
    const Machine machine;
    const std::string repo = machine.home + "/repo";
    make(repo + "/.git");
    make(repo + "/.agent-relay/sessions");
    for (const std::string& given : {repo + "/.agent-relay/sessions", repo + "/.agent-relay"}) {
        REQUIRE(::chown(given.c_str(), 12'345, 12'345) == 0);
        const auto placement = machine.place(repo);
        REQUIRE_FALSE(placement.ok());
        CHECK(placement.error().code == Errc::unsafe);
        REQUIRE(::chown(given.c_str(), 0, 0) == 0);
    }
    CHECK(machine.place(repo).ok());
}
