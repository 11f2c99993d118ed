// SPDX-License-Identifier: Apache-2.0
#include "layout/git_work_tree.hpp"
#include "tests/support/temporary_directory.hpp"

#include <boost/filesystem.hpp>
#include <doctest/doctest.h>

#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <string>

using relay::layout::GitWorkTree;
using relay::layout::read_git_work_tree;
using relay::tests::TemporaryDirectory;

namespace {

const std::string id_a(40, 'a');
const std::string id_b(40, 'b');
const std::string id_long(64, 'c');

void write(const std::string& file, const std::string& content) {
    boost::filesystem::create_directories(boost::filesystem::path{file}.parent_path());
    std::ofstream{file} << content;
}

bool shell(const std::string& command) {
    return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

// `git` in a directory, with the machine's own settings kept out.
std::string git_command(const std::string& directory, const std::string& arguments) {
    return "cd '" + directory
           + "' && env -u GIT_DIR -u GIT_WORK_TREE -u GIT_INDEX_FILE GIT_CONFIG_GLOBAL=/dev/null"
             " GIT_CONFIG_NOSYSTEM=1 git -c init.defaultBranch=main -c user.name=tester"
             " -c user.email=tester@example.org -c protocol.file.allow=always "
           + arguments;
}

bool git(const std::string& directory, const std::string& arguments) {
    return shell(git_command(directory, arguments));
}

bool have_git() {
    const bool found = shell("git --version");
    if (!found) {
        MESSAGE("SKIPPED: git is not installed");
    }
    return found;
}

std::string git_says(const std::string& directory, const std::string& arguments) {
    const TemporaryDirectory scratch;
    const std::string file = scratch.path() + "/answer";
    const std::string command = git_command(directory, arguments) + " > '" + file + "'";
    REQUIRE(std::system(command.c_str()) == 0);
    std::ifstream stream{file};
    std::string line;
    std::getline(stream, line);
    return line;
}

GitWorkTree read(const std::string& root) {
    const auto tree = read_git_work_tree(root);
    REQUIRE(tree.has_value());
    return *tree;
}

}  // namespace

TEST_CASE("a directory without a git directory is no work tree") {
    const TemporaryDirectory directory;
    CHECK_FALSE(read_git_work_tree(directory.path()).has_value());
    CHECK_FALSE(read_git_work_tree(directory.path() + "/absent").has_value());
    write(directory.path() + "/.git", "not what git writes\n");
    CHECK_FALSE(read_git_work_tree(directory.path()).has_value());
    write(directory.path() + "/.git", "gitdir: \n");
    CHECK_FALSE(read_git_work_tree(directory.path()).has_value());
}

TEST_CASE("a branch before its first commit has a name and no head") {
    const TemporaryDirectory directory;
    write(directory.path() + "/.git/HEAD", "ref: refs/heads/main\n");
    const GitWorkTree tree = read(directory.path());
    CHECK(tree.root == directory.path());
    CHECK(tree.main_root == directory.path());
    CHECK(tree.branch == "main");
    CHECK_FALSE(tree.head.has_value());
}

TEST_CASE("the head is the loose ref and else the packed one") {
    const TemporaryDirectory directory;
    const std::string git_directory = directory.path() + "/.git";
    write(git_directory + "/HEAD", "ref: refs/heads/feature/x\n");
    write(
        git_directory + "/packed-refs",
        "# pack-refs with: peeled fully-peeled sorted \n" + id_b + " refs/heads/feature/x2\n" + id_a
            + " refs/heads/feature/x\n^" + id_b + "\n");
    CHECK(read(directory.path()).branch == "feature/x");
    CHECK(read(directory.path()).head == id_a);

    write(git_directory + "/refs/heads/feature/x", id_b + "\n");
    CHECK(read(directory.path()).head == id_b);

    write(git_directory + "/refs/heads/feature/x", id_long);
    CHECK(read(directory.path()).head == id_long);
}

TEST_CASE("a packed ref on a last line without its end is found") {
    const TemporaryDirectory directory;
    write(directory.path() + "/.git/HEAD", "ref: refs/heads/main");
    write(directory.path() + "/.git/packed-refs", id_a + " refs/heads/main");
    CHECK(read(directory.path()).head == id_a);
}

TEST_CASE("a packed-refs file above sixteen MiB is not read") {
    const TemporaryDirectory directory;
    const std::string packed = directory.path() + "/.git/packed-refs";
    write(directory.path() + "/.git/HEAD", "ref: refs/heads/main\n");
    write(packed, id_a + " refs/heads/main\n");
    boost::filesystem::resize_file(packed, 16 * 1024 * 1024);
    CHECK(read(directory.path()).head == id_a);
    boost::filesystem::resize_file(packed, 16 * 1024 * 1024 + 1);
    CHECK_FALSE(read(directory.path()).head.has_value());
    CHECK(read(directory.path()).branch == "main");
}

TEST_CASE("a detached head has no branch") {
    const TemporaryDirectory directory;
    write(directory.path() + "/.git/HEAD", id_a + "\n");
    const GitWorkTree tree = read(directory.path());
    CHECK_FALSE(tree.branch.has_value());
    CHECK(tree.head == id_a);
}

TEST_CASE("a symbolic branch leads to its target and a circle of them to nothing") {
    const TemporaryDirectory directory;
    const std::string heads = directory.path() + "/.git/refs/heads/";
    write(directory.path() + "/.git/HEAD", "ref: refs/heads/alias\n");
    write(heads + "alias", "ref: refs/heads/main\n");
    write(heads + "main", id_a + "\n");
    CHECK(read(directory.path()).branch == "alias");
    CHECK(read(directory.path()).head == id_a);
    write(heads + "main", "ref: refs/heads/alias\n");
    CHECK_FALSE(read(directory.path()).head.has_value());
}

TEST_CASE("a HEAD that points outside the refs is not followed") {
    const TemporaryDirectory directory;
    write(directory.path() + "/secret", id_a + "\n");
    for (const char* head : {
             "ref: ../secret",
             "ref: refs/../../secret",
             "ref: refs/heads/../../../secret",
             "ref: /etc/hostname",
             "ref: refs/heads/.invalid",
             "ref: refs/heads/a\x1b[31m",
             "ref: refs/heads/",
             "ref:",
             "nonsense",
             "",
         }) {
        CAPTURE(head);
        write(directory.path() + "/.git/HEAD", std::string{head} + "\n");
        const GitWorkTree tree = read(directory.path());
        CHECK_FALSE(tree.branch.has_value());
        CHECK_FALSE(tree.head.has_value());
    }
}

TEST_CASE("a ref that is no commit id is not taken for one") {
    const TemporaryDirectory directory;
    write(directory.path() + "/.git/HEAD", "ref: refs/heads/main\n");
    for (const std::string& content :
         {std::string{"abc"}, id_a + "0", std::string(40, 'A'), std::string(40, 'g')}) {
        CAPTURE(content);
        write(directory.path() + "/.git/refs/heads/main", content + "\n");
        CHECK_FALSE(read(directory.path()).head.has_value());
    }
}

TEST_CASE("a pipe in place of HEAD does not stop the reader") {
    const TemporaryDirectory directory;
    boost::filesystem::create_directory(directory.path() + "/.git");
    REQUIRE(::mkfifo((directory.path() + "/.git/HEAD").c_str(), 0600) == 0);
    const GitWorkTree tree = read(directory.path());
    CHECK_FALSE(tree.branch.has_value());
    CHECK_FALSE(tree.head.has_value());
}

TEST_CASE("a linked worktree written by hand finds its main one") {
    const TemporaryDirectory directory;
    const std::string main_root = directory.path() + "/main";
    const std::string linked = directory.path() + "/linked";
    const std::string own = main_root + "/.git/worktrees/linked";
    write(main_root + "/.git/HEAD", "ref: refs/heads/main\n");
    write(main_root + "/.git/refs/heads/topic", id_b + "\n");
    write(own + "/HEAD", "ref: refs/heads/topic\n");
    for (const std::string& gitdir : {own, std::string{"../main/.git/worktrees/linked"}}) {
        for (const std::string& common :
             {std::string{"../.."},
              std::string{"../../"},
              main_root + "/.git",
              main_root + "/.git/"}) {
            CAPTURE(gitdir);
            CAPTURE(common);
            write(linked + "/.git", "gitdir: " + gitdir + "\n");
            write(own + "/commondir", common + "\n");
            const GitWorkTree tree = read(linked);
            CHECK(tree.root == linked);
            CHECK(tree.main_root == main_root);
            CHECK(tree.branch == "topic");
            CHECK(tree.head == id_b);
        }
    }
}

TEST_CASE("a worktree whose main one cannot be told stands for itself") {
    const TemporaryDirectory directory;
    const std::string linked = directory.path() + "/linked";
    const std::string bare = directory.path() + "/repo.git";
    write(linked + "/.git", "gitdir: " + bare + "/worktrees/linked\n");
    write(bare + "/worktrees/linked/HEAD", "ref: refs/heads/topic\n");
    write(bare + "/worktrees/linked/commondir", "../..\n");
    write(bare + "/refs/heads/topic", id_a + "\n");
    CHECK(read(linked).main_root == linked);
    CHECK(read(linked).head == id_a);

    write(bare + "/worktrees/linked/commondir", directory.path() + "/absent/.git\n");
    CHECK(read(linked).main_root == linked);
}

TEST_CASE("what git itself makes of a repository is read as git reads it") {
    if (!have_git()) {
        return;
    }
    const TemporaryDirectory directory;
    const std::string root = directory.path() + "/main";
    boost::filesystem::create_directory(root);
    REQUIRE(git(root, "init"));
    CHECK(read(root).branch == "main");
    CHECK_FALSE(read(root).head.has_value());

    REQUIRE(git(root, "commit --allow-empty -m one"));
    const std::string first = git_says(root, "rev-parse HEAD");
    CHECK(read(root).head == first);

    REQUIRE(git(root, "pack-refs --all"));
    REQUIRE_FALSE(boost::filesystem::exists(root + "/.git/refs/heads/main"));
    CHECK(read(root).head == first);

    const std::string linked = directory.path() + "/linked";
    REQUIRE(git(root, "worktree add -b topic/a '" + linked + "'"));
    REQUIRE(git(linked, "commit --allow-empty -m two"));
    const GitWorkTree tree = read(linked);
    CHECK(tree.root == linked);
    CHECK(tree.main_root == root);
    CHECK(tree.branch == "topic/a");
    CHECK(tree.head == git_says(linked, "rev-parse HEAD"));
    CHECK(tree.head != first);
    CHECK(read(root).head == first);

    REQUIRE(git(linked, "checkout --detach"));
    CHECK_FALSE(read(linked).branch.has_value());
    CHECK(read(linked).head == tree.head);
}

TEST_CASE("a submodule and a bare repository's worktree are their own main worktrees") {
    if (!have_git()) {
        return;
    }
    const TemporaryDirectory directory;
    const std::string inner = directory.path() + "/inner";
    const std::string outer = directory.path() + "/outer";
    boost::filesystem::create_directory(inner);
    boost::filesystem::create_directory(outer);
    REQUIRE(git(inner, "init"));
    REQUIRE(git(inner, "commit --allow-empty -m one"));
    const std::string head = git_says(inner, "rev-parse HEAD");

    REQUIRE(git(outer, "init"));
    REQUIRE(git(outer, "submodule add '" + inner + "' module"));
    const GitWorkTree module = read(outer + "/module");
    CHECK(module.root == outer + "/module");
    CHECK(module.main_root == outer + "/module");
    CHECK(module.head == head);

    REQUIRE(git(directory.path(), "clone --bare inner repo.git"));
    REQUIRE(git(
        directory.path() + "/repo.git", "worktree add -b topic '" + directory.path() + "/tree'"));
    const GitWorkTree tree = read(directory.path() + "/tree");
    CHECK(tree.main_root == directory.path() + "/tree");
    CHECK(tree.branch == "topic");
    CHECK(tree.head == head);
}
