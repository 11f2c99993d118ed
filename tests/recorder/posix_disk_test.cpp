// SPDX-License-Identifier: Apache-2.0
#include "recorder/posix_disk.hpp"
#include "recorder/unique_fd.hpp"
#include "tests/support/temporary_directory.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/magic.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <iterator>
#include <thread>

namespace relay::recorder {
namespace {

using tests::TemporaryDirectory;

std::unique_ptr<Directory> open_root(const TemporaryDirectory& root) {
    PosixDisk disk;
    Result<std::unique_ptr<Directory>> opened = disk.open_directory(root.path());
    REQUIRE(opened.ok());
    return std::move(opened.value());
}

std::unique_ptr<File> must_open(Directory& directory, std::string_view name, OpenMode mode) {
    Result<std::unique_ptr<File>> opened = directory.open_file(name, mode);
    REQUIRE_MESSAGE(opened.ok(), name);
    return std::move(opened.value());
}

void make_file(Directory& directory, std::string_view name, std::string_view content) {
    const std::unique_ptr<File> file = must_open(directory, name, OpenMode::create_exclusive);
    REQUIRE(file->write(0, content).ok());
}

std::string content_of(const std::string& path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

mode_t mode_of(const std::string& path) {
    struct stat found {};
    REQUIRE(::lstat(path.c_str(), &found) == 0);
    return found.st_mode & 07777;
}

template<typename Value>
Errc code_of(const Result<Value>& result) {
    REQUIRE_FALSE(result.ok());
    return result.error().code;
}

// Every operation that takes a name answers `wanted` for this one.
void check_refused(Directory& directory, std::string_view name, Errc wanted) {
    CAPTURE(name);
    CHECK(code_of(directory.open_file(name, OpenMode::existing)) == wanted);
    CHECK(code_of(directory.open_file(name, OpenMode::create_exclusive)) == wanted);
    CHECK(code_of(directory.open_file(name, OpenMode::create)) == wanted);
    CHECK(code_of(directory.open_directory(name)) == wanted);
    CHECK(code_of(directory.make_directory(name)) == wanted);
    CHECK(code_of(directory.rename(name, "other")) == wanted);
    CHECK(code_of(directory.rename("plain", name)) == wanted);
    CHECK(code_of(directory.remove(name)) == wanted);
    CHECK(code_of(directory.make_symbolic_link("target", name)) == wanted);
    CHECK(code_of(directory.stat(name)) == wanted);
}

// The laws of the walk, which hold with openat2 and without it.
void check_walk() {
    const TemporaryDirectory outside;
    const TemporaryDirectory root;
    const std::unique_ptr<Directory> directory = open_root(root);
    make_file(*directory, "plain", "plain");
    REQUIRE(directory->make_directory("a").ok());
    REQUIRE(directory->make_directory("a/b").ok());
    make_file(*directory, "a/b/c", "deep");
    REQUIRE(::symlink(outside.path().c_str(), (root.path() + "/out").c_str()) == 0);
    REQUIRE(::symlink("b", (root.path() + "/a/inner").c_str()) == 0);
    REQUIRE(::symlink("c", (root.path() + "/a/b/link").c_str()) == 0);
    REQUIRE(::symlink("nowhere", (root.path() + "/dangling").c_str()) == 0);

    for (const std::string_view name : {"out/x", "out/x/y", "a/inner/c", "a/b/link/x"}) {
        check_refused(*directory, name, Errc::unsafe);
    }
    for (const std::string_view name : {"out", "a/inner", "a/b/link", "dangling"}) {
        CAPTURE(name);
        CHECK(code_of(directory->open_file(name, OpenMode::existing)) == Errc::unsafe);
        CHECK(code_of(directory->open_file(name, OpenMode::create)) == Errc::unsafe);
        CHECK(code_of(directory->open_file(name, OpenMode::create_exclusive)) == Errc::exists);
        CHECK(code_of(directory->open_directory(name)) == Errc::unsafe);
        CHECK(directory->stat(name).value().kind == FileKind::symbolic_link);
    }
    CHECK(::access((root.path() + "/nowhere").c_str(), F_OK) != 0);
    for (const std::string_view name : {"missing/x", "plain/x", "a/missing/x"}) {
        CAPTURE(name);
        CHECK(code_of(directory->open_file(name, OpenMode::create)) == Errc::not_found);
        CHECK(code_of(directory->stat(name)) == Errc::not_found);
    }
    CHECK(directory->open_file("a/b/c", OpenMode::existing).ok());
    CHECK(directory->open_file("a/b/d", OpenMode::create_exclusive).ok());
    CHECK(directory->open_directory("a/b").ok());
    CHECK(code_of(directory->open_file("a/b/d", OpenMode::create_exclusive)) == Errc::exists);
    CHECK(code_of(directory->make_directory("a/b")) == Errc::exists);
    CHECK(content_of(root.path() + "/plain") == "plain");
}

// Makes a system call fail so in the calling thread for the rest of its life.
bool forbid(long call, int answer) {
    std::array<sock_filter, 4> program{{
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(answer)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    }};
    const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
           && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

class Umask {
public:
    explicit Umask(mode_t mask) : previous_(::umask(mask)) {}
    Umask(const Umask&) = delete;
    Umask& operator=(const Umask&) = delete;
    ~Umask() { ::umask(previous_); }

private:
    mode_t previous_;
};

TEST_CASE("a moved descriptor has one owner even when moved into itself") {
    UniqueFd first(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    REQUIRE(first.valid());
    const int number = first.get();
    UniqueFd& alias = first;
    first = std::move(alias);
    CHECK(first.get() == number);
    CHECK(::fcntl(number, F_GETFD) != -1);

    UniqueFd second(std::move(first));
    CHECK(second.get() == number);
    CHECK(
        first.get() == -1);  // NOLINT(bugprone-use-after-move): the state after the move is the law
    CHECK(second.close() == 0);
    CHECK(::fcntl(number, F_GETFD) == -1);
    CHECK(second.close() == 0);
}

TEST_CASE("files are 0600 and directories 0700 whatever the umask says") {
    const TemporaryDirectory root;
    const std::unique_ptr<Directory> directory = open_root(root);
    for (const mode_t mask : {mode_t{0}, mode_t{022}, mode_t{077}, mode_t{0777}}) {
        CAPTURE(mask);
        const std::string suffix = std::to_string(mask);
        const Umask umask(mask);
        REQUIRE(directory->make_directory("dir" + suffix).ok());
        make_file(*directory, "dir" + suffix + "/exclusive", "x");
        must_open(*directory, "dir" + suffix + "/either", OpenMode::create);
        CHECK(mode_of(root.path() + "/dir" + suffix) == 0700);
        CHECK(mode_of(root.path() + "/dir" + suffix + "/exclusive") == 0600);
        CHECK(mode_of(root.path() + "/dir" + suffix + "/either") == 0600);
    }
}

TEST_CASE("files are synced side by side and renamed beside each other") {
    const TemporaryDirectory root;
    const std::unique_ptr<Directory> directory = open_root(root);
    REQUIRE(directory->make_directory("below").ok());
    std::vector<std::unique_ptr<File>> files;
    std::vector<File*> all;
    for (int index = 0; index < 20; ++index) {
        const std::string name = "below/." + std::to_string(index) + ".tmp";
        files.push_back(must_open(*directory, name, OpenMode::create_exclusive));
        REQUIRE(files.back()->write(0, std::to_string(index)).ok());
        all.push_back(files.back().get());
    }
    REQUIRE(directory->sync_files(all).ok());
    REQUIRE(directory->sync_files({}).ok());
    for (int index = 0; index < 20; ++index) {
        const std::string number = std::to_string(index);
        REQUIRE(directory->rename("below/." + number + ".tmp", "below/" + number).ok());
        CHECK(content_of(root.path() + "/below/" + number) == number);
    }
    REQUIRE(directory->rename("below/1", "one").ok());
    REQUIRE(directory->rename("one", "two").ok());
    CHECK(content_of(root.path() + "/two") == "1");
    CHECK(code_of(directory->rename("below/2", "below/..")) == Errc::unsafe);
}

TEST_CASE("bytes written at an offset are read back from there") {
    const TemporaryDirectory root;
    const std::unique_ptr<Directory> directory = open_root(root);
    const std::unique_ptr<File> file = must_open(*directory, "f", OpenMode::create);
    REQUIRE(file->write(3, "three").ok());
    REQUIRE(file->write(0, "abc").ok());
    file->start_writeback();
    REQUIRE(file->sync().ok());
    CHECK(content_of(root.path() + "/f") == "abcthree");

    std::array<char, 16> buffer{};
    const Result<std::size_t> read = file->read(2, buffer.data(), buffer.size());
    REQUIRE(read.ok());
    CHECK(std::string_view(buffer.data(), read.value()) == "cthree");
    CHECK(file->read(100, buffer.data(), buffer.size()).value() == 0);

    REQUIRE(file->truncate(2).ok());
    const FileStat stat = file->stat().value();
    CHECK(stat.kind == FileKind::regular);
    CHECK(stat.size == 2);
    CHECK(stat.links == 1);
    CHECK(stat.owner == ::geteuid());
    CHECK(stat.modified_ns > 1'600'000'000'000'000'000);
    CHECK(stat.same_file(directory->stat("f").value()));
    CHECK_FALSE(stat.same_file(directory->stat().value()));
}

TEST_CASE("an exclusive creation never takes a name that is there") {
    const TemporaryDirectory root;
    const std::unique_ptr<Directory> directory = open_root(root);
    make_file(*directory, "f", "first");
    const auto second = directory->open_file("f", OpenMode::create_exclusive);
    CHECK(code_of(second) == Errc::exists);
    CHECK(second.error().os_errno == EEXIST);
    CHECK(content_of(root.path() + "/f") == "first");
    must_open(*directory, "f", OpenMode::create);
    CHECK(content_of(root.path() + "/f") == "first");
    CHECK(code_of(directory->open_file("g", OpenMode::existing)) == Errc::not_found);
}

TEST_CASE("a link in any component of a name is refused") {
    check_walk();
}

TEST_CASE("a link in any component of a name is refused where openat2 is missing") {
    bool forbidden = false;
    std::thread([&] {
        forbidden = forbid(SYS_openat2, ENOSYS);
        if (forbidden) {
            CHECK(::syscall(SYS_openat2, AT_FDCWD, "/", nullptr, 0) == -1);
            CHECK(errno == ENOSYS);
            check_walk();
        }
    }).join();
    if (!forbidden) {
        MESSAGE("seccomp is not available here");
    }
}

TEST_CASE("names that are absolute or lead upwards are refused before the kernel is asked") {
    const TemporaryDirectory root;
    const std::unique_ptr<Directory> directory = open_root(root);
    make_file(*directory, "plain", "");
    REQUIRE(directory->make_directory("a").ok());
    const std::array<std::string_view, 11> names{
        "",
        ".",
        "..",
        "/",
        "/etc",
        "../x",
        "a/../plain",
        "a/..",
        "a//b",
        "a/",
        std::string_view("a\0b", 3)};
    for (const std::string_view name : names) {
        check_refused(*directory, name, Errc::unsafe);
    }
    PosixDisk disk;
    CHECK(code_of(disk.open_directory("relative")) == Errc::invalid);
    CHECK(code_of(disk.open_directory(root.path() + "/missing")) == Errc::not_found);
    CHECK(code_of(disk.open_directory(root.path() + "/plain")) == Errc::not_found);
}

TEST_CASE("only a regular file of ours with one link is opened") {
    const TemporaryDirectory root;
    const std::unique_ptr<Directory> directory = open_root(root);
    make_file(*directory, "two", "x");
    REQUIRE(::link((root.path() + "/two").c_str(), (root.path() + "/twin").c_str()) == 0);
    REQUIRE(::mkfifo((root.path() + "/fifo").c_str(), 0600) == 0);
    REQUIRE(directory->make_directory("dir").ok());
    for (const std::string_view name : {"two", "twin", "fifo", "dir"}) {
        CAPTURE(name);
        CHECK(code_of(directory->open_file(name, OpenMode::existing)) == Errc::unsafe);
        CHECK(code_of(directory->open_file(name, OpenMode::create)) == Errc::unsafe);
        CHECK(code_of(directory->open_file(name, OpenMode::create_exclusive)) == Errc::exists);
    }
    CHECK(directory->stat("fifo").value().kind == FileKind::other);
    if (::geteuid() == 0) {
        make_file(*directory, "foreign", "x");
        REQUIRE(::chown((root.path() + "/foreign").c_str(), 12345, 12345) == 0);
        CHECK(code_of(directory->open_file("foreign", OpenMode::existing)) == Errc::unsafe);
    }
}

void check_rename_new() {
    const TemporaryDirectory root;
    const std::unique_ptr<Directory> directory = open_root(root);
    REQUIRE(directory->make_directory("a").ok());
    for (const char* const name : {"a/.tmp", "a/file"}) {
        make_file(*directory, name, name);
    }
    REQUIRE(directory->make_symbolic_link("nowhere", "a/link").ok());
    for (const char* const taken : {"a/file", "a/link", "a"}) {
        CAPTURE(taken);
        CHECK(code_of(directory->rename_new("a/.tmp", taken)) == Errc::exists);
        CHECK(directory->stat("a/.tmp").ok());
    }
    CHECK(directory->stat("a/link").value().kind == FileKind::symbolic_link);
    REQUIRE(directory->rename_new("a/.tmp", "a/new").ok());
    CHECK(code_of(directory->stat("a/.tmp")) == Errc::not_found);
    REQUIRE(directory->rename_new("a/new", "elsewhere").ok());
    CHECK(code_of(directory->rename_new("a/new", "free")) == Errc::not_found);
}

TEST_CASE("a rename to a new name leaves whatever has that name already") {
    check_rename_new();
}

TEST_CASE("a rename to a new name replaces nothing where that cannot be had in one step") {
    for (const int answer : {EINVAL, ENOSYS, EPERM}) {
        CAPTURE(answer);
        bool forbidden = false;
        std::thread([&] {
            forbidden = forbid(SYS_renameat2, answer);
            if (forbidden) {
                check_rename_new();
            }
        }).join();
        if (!forbidden) {
            MESSAGE("seccomp is not available here");
        }
    }
}

TEST_CASE("a directory that is open tells that it was deleted") {
    const TemporaryDirectory root;
    const std::unique_ptr<Directory> directory = open_root(root);
    REQUIRE(directory->make_directory("a").ok());
    const auto inside = std::move(directory->open_directory("a").value());
    CHECK_FALSE(inside->deleted().value());
    REQUIRE(directory->rename("a", "b").ok());
    CHECK_FALSE(inside->deleted().value());
    REQUIRE(::rmdir((root.path() + "/b").c_str()) == 0);
    CHECK(inside->deleted().value());
}

TEST_CASE("a rename replaces its target and works across directories") {
    const TemporaryDirectory root;
    const std::unique_ptr<Directory> directory = open_root(root);
    REQUIRE(directory->make_directory("a").ok());
    REQUIRE(directory->make_directory("a/b").ok());
    make_file(*directory, "a/.tmp", "new");
    make_file(*directory, "a/b/f", "old");
    REQUIRE(directory->rename("a/.tmp", "a/b/f").ok());
    CHECK(content_of(root.path() + "/a/b/f") == "new");
    CHECK(code_of(directory->stat("a/.tmp")) == Errc::not_found);

    const Status missing = directory->rename("a/.tmp", "a/b/f");
    CHECK(code_of(missing) == Errc::not_found);
    CHECK(missing.error().context == "rename a/.tmp -> a/b/f: No such file or directory");
    REQUIRE(directory->sync().ok());
    REQUIRE(directory->sync_file_system().ok());
}

TEST_CASE("remove takes files and links but no directories") {
    const TemporaryDirectory root;
    const std::unique_ptr<Directory> directory = open_root(root);
    REQUIRE(directory->make_directory("dir").ok());
    make_file(*directory, "dir/f", "x");
    REQUIRE(directory->make_symbolic_link("dir/f", "link").ok());
    std::array<char, 16> target{};
    CHECK(::readlink((root.path() + "/link").c_str(), target.data(), target.size()) == 5);
    CHECK(std::string_view(target.data()) == "dir/f");
    CHECK(code_of(directory->make_symbolic_link("x", "link")) == Errc::exists);
    REQUIRE(directory->remove("link").ok());
    CHECK(content_of(root.path() + "/dir/f") == "x");
    REQUIRE(directory->remove("dir/f").ok());
    CHECK(code_of(directory->remove("dir/f")) == Errc::not_found);
    CHECK(code_of(directory->remove("dir")) == Errc::unsafe);
}

TEST_CASE("an open directory follows its move and says so when it is deleted") {
    const TemporaryDirectory root;
    const std::unique_ptr<Directory> directory = open_root(root);
    REQUIRE(directory->make_directory("before").ok());
    Result<std::unique_ptr<Directory>> opened = directory->open_directory("before");
    REQUIRE(opened.ok());
    const std::unique_ptr<Directory> child = std::move(opened.value());
    CHECK(child->path().value() == root.path() + "/before");
    REQUIRE(directory->rename("before", "after (deleted)").ok());
    CHECK(child->path().value() == root.path() + "/after (deleted)");
    make_file(*child, "f", "x");
    CHECK(content_of(root.path() + "/after (deleted)/f") == "x");
    REQUIRE(child->remove("f").ok());
    REQUIRE(::rmdir((root.path() + "/after (deleted)").c_str()) == 0);
    CHECK(code_of(child->path()) == Errc::gone);
    CHECK(child->stat().value().links == 0);
    CHECK(code_of(child->open_file("f", OpenMode::create)) == Errc::not_found);
}

TEST_CASE("the lock of a directory is held by one opener until it closes") {
    const TemporaryDirectory root;
    std::unique_ptr<Directory> first = open_root(root);
    const std::unique_ptr<Directory> second = open_root(root);
    REQUIRE(first->lock().ok());
    CHECK(first->lock().ok());
    CHECK(code_of(second->lock()) == Errc::busy);
    first.reset();
    CHECK(second->lock().ok());
}

TEST_CASE("a directory is listed anew each time and without its dots") {
    const TemporaryDirectory root;
    const std::unique_ptr<Directory> directory = open_root(root);
    CHECK(directory->list().value().empty());
    make_file(*directory, ".hidden", "");
    make_file(*directory, "shown", "");
    REQUIRE(directory->make_directory("sub").ok());
    for (int round = 0; round < 2; ++round) {
        std::vector<std::string> names = directory->list().value();
        std::sort(names.begin(), names.end());
        CHECK(names == std::vector<std::string>{".hidden", "shown", "sub"});
    }
}

TEST_CASE("memory file systems are told from disks") {
    struct statfs found {};
    if (::statfs("/dev/shm", &found) != 0 || found.f_type != TMPFS_MAGIC) {
        MESSAGE("/dev/shm is not a tmpfs here");
        return;
    }
    PosixDisk disk;
    const auto memory = disk.open_directory("/dev/shm");
    REQUIRE(memory.ok());
    CHECK(memory.value()->durability().value() == Durability::memory);
}

// Runs in a child with mounts of its own. 0: told apart; 1: not; 2: mounting is not allowed here.
int overlay_verdict(const std::string& root, const char* extra) {
    if (::unshare(CLONE_NEWNS) != 0
        || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
        return 2;
    }
    const std::string options =
        "lowerdir=" + root + "/lower,upperdir=" + root + "/upper,workdir=" + root + "/work" + extra;
    const std::string merged = root + "/merged";
    if (::mount("overlay", merged.c_str(), "overlay", 0, options.c_str()) != 0) {
        return 2;
    }
    PosixDisk disk;
    const auto directory = disk.open_directory(merged);
    if (!directory.ok()) {
        return 1;
    }
    const Result<Durability> found = directory.value()->durability();
    const Durability wanted = *extra == '\0' ? Durability::synced : Durability::memory;
    return found.ok() && found.value() == wanted ? 0 : 1;
}

TEST_CASE("an overlay that ignores syncs counts as memory") {
    for (const char* const extra : {"", ",volatile"}) {
        CAPTURE(std::string(extra));
        const TemporaryDirectory root;
        const std::unique_ptr<Directory> directory = open_root(root);
        for (const std::string_view name : {"lower", "upper", "work", "merged"}) {
            REQUIRE(directory->make_directory(name).ok());
        }
        const pid_t child = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            ::_exit(overlay_verdict(root.path(), extra));
        }
        int status = 0;
        REQUIRE(::waitpid(child, &status, 0) == child);
        REQUIRE(WIFEXITED(status));
        CHECK(WEXITSTATUS(status) != 1);
        if (WEXITSTATUS(status) == 2) {
            MESSAGE("overlays cannot be mounted here");
        }
    }
}

TEST_CASE("no descriptor of ours takes the place of a closed standard stream") {
    const TemporaryDirectory root;
    PosixDisk disk;
    const UniqueFd kept(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 10));
    ::close(STDIN_FILENO);
    const auto directory = disk.open_directory(root.path());
    const bool opened = directory.ok() && directory.value()->make_directory("a").ok();
    const auto file = directory.value()->open_file("a/f", OpenMode::create);
    const auto sub = directory.value()->open_directory("a");
    const bool listed = directory.value()->list().ok();
    const bool still_closed = ::fcntl(STDIN_FILENO, F_GETFD) == -1;
    if (kept.valid()) {
        ::dup2(kept.get(), STDIN_FILENO);
    }
    CHECK(opened);
    CHECK(file.ok());
    CHECK(sub.ok());
    CHECK(listed);
    CHECK(still_closed);
}

// The descriptors of this process that point below `root`.
std::vector<int> descriptors_below(const std::string& root) {
    PosixDisk disk;
    const auto table = disk.open_directory("/proc/self/fd");
    const std::vector<std::string> names = table.value()->list().value();
    std::vector<int> found;
    for (const std::string& name : names) {
        std::array<char, 4096> target{};
        const std::string link = "/proc/self/fd/" + name;
        if (::readlink(link.c_str(), target.data(), target.size() - 1) > 0
            && std::string_view(target.data()).starts_with(root)) {
            found.push_back(std::stoi(name));
        }
    }
    return found;
}

TEST_CASE("every descriptor is closed on exec and none leaks") {
    const TemporaryDirectory root;
    {
        const std::unique_ptr<Directory> directory = open_root(root);
        REQUIRE(directory->make_directory("a").ok());
        const std::unique_ptr<File> file = must_open(*directory, "a/f", OpenMode::create);
        REQUIRE(directory->rename("a/f", "a/g").ok());
        REQUIRE(directory->list().ok());
        const std::vector<int> held = descriptors_below(root.path());
        CHECK(held.size() == 2);
        for (const int fd : held) {
            CHECK((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
        }
    }
    CHECK(descriptors_below(root.path()).empty());
}

TEST_CASE("a refused write names the file and the reason") {
    const TemporaryDirectory root;
    const std::unique_ptr<Directory> directory = open_root(root);
    REQUIRE(directory->make_directory("turns").ok());
    const auto file = must_open(*directory, "turns/001-output.md", OpenMode::create);
    rlimit previous{};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &previous) == 0);
    rlimit tight = previous;
    tight.rlim_cur = 10;
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &tight) == 0);
    const Status written = file->write(0, "0123456789abcdef");
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &previous) == 0);
    static_cast<void>(std::signal(SIGXFSZ, handler));
    CHECK(code_of(written) == Errc::io);
    CHECK(written.error().os_errno == EFBIG);
    CHECK(written.error().context == "write turns/001-output.md: File too large");
    CHECK(content_of(root.path() + "/turns/001-output.md") == "0123456789");
}

TEST_CASE("a full disk is told from a broken one") {
    const auto verdict = [](const std::string& root) {
        if (::unshare(CLONE_NEWNS) != 0
            || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0
            || ::mount("tmpfs", root.c_str(), "tmpfs", 0, "size=64k") != 0) {
            return 2;
        }
        PosixDisk disk;
        const auto directory = disk.open_directory(root);
        const auto file = directory.value()->open_file("f", OpenMode::create);
        const Status written = file.value()->write(0, std::string(1 << 20, 'x'));
        const bool full = !written.ok() && written.error().code == Errc::no_space
                          && written.error().context == "write f: No space left on device";
        return full ? 0 : 1;
    };
    const TemporaryDirectory root;
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        ::_exit(verdict(root.path()));
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) != 1);
    if (WEXITSTATUS(status) == 2) {
        MESSAGE("a tmpfs cannot be mounted here");
    }
}

TEST_CASE("asking for writes in place is harmless where it means nothing") {
    const TemporaryDirectory root;
    const std::unique_ptr<Directory> directory = open_root(root);
    directory->prefer_in_place_writes();
    CHECK(directory->open_file("f", OpenMode::create).ok());
}

}  // namespace
}  // namespace relay::recorder
