// SPDX-License-Identifier: Apache-2.0
#include "recorder/posix_disk.hpp"

#include "recorder/sync_crew.hpp"
#include "recorder/unique_fd.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

namespace relay::recorder {
namespace {

using layout::Done;

constexpr mode_t file_mode = 0600;
constexpr mode_t directory_mode = 0700;
constexpr mode_t permission_bits = 0777;
constexpr int lowest_fd = 3;
constexpr std::size_t sync_helpers = 3;  // more of them gain nothing on two cores

Errc code_of(int number) {
    switch (number) {
    case ENOSPC:
    case EDQUOT:
        return Errc::no_space;
    case ENOENT:
    case ENOTDIR:
        return Errc::not_found;
    case EEXIST:
        return Errc::exists;
    case EISDIR:  // a directory where a file of ours should be
    case ELOOP:
        return Errc::unsafe;
    default:
        return Errc::io;
    }
}

std::string context_of(std::string_view verb, std::string_view object, std::string_view reason) {
    std::string context;
    context.reserve(verb.size() + object.size() + reason.size() + 3);
    context.append(verb).append(" ").append(object).append(": ").append(reason);
    return context;
}

Error refused(std::string_view verb, std::string_view object, int number) {
    std::array<char, 128> buffer{};
    const char* const reason = ::strerror_r(number, buffer.data(), buffer.size());
    return Error{code_of(number), number, context_of(verb, object, reason)};
}

Error not_ours(std::string_view verb, std::string_view object, std::string_view reason) {
    return Error{Errc::unsafe, 0, context_of(verb, object, reason)};
}

Error open_refused(std::string_view object, int number) {
    Error error = refused("open", object, number);
    // Where a file of ours should be: a way out, a socket.
    if (number == EXDEV || number == ENXIO) {
        error.code = Errc::unsafe;
    }
    return error;
}

template<typename Call>
auto uninterrupted(Call call) {
    auto answer = call();
    while (answer == -1 && errno == EINTR) {
        answer = call();
    }
    return answer;
}

Status done_or(std::string_view verb, std::string_view object, int answer) {
    if (answer != 0) {
        return refused(verb, object, errno);
    }
    return Done{};
}

// -1 with errno, as open() does.
int above_standard_streams(int fd) {
    if (fd < 0 || fd >= lowest_fd) {
        return fd;
    }
    const int moved = ::fcntl(fd, F_DUPFD_CLOEXEC, lowest_fd);
    const int number = errno;
    ::close(fd);
    errno = number;
    return moved;
}

bool plain_component(std::string_view component) {
    return !component.empty() && component != "." && component != ".."
           && component.find('\0') == std::string_view::npos;
}

bool plain_name(std::string_view name) {
    while (true) {
        const std::size_t slash = name.find('/');
        if (!plain_component(name.substr(0, slash))) {
            return false;
        }
        if (slash == std::string_view::npos) {
            return true;
        }
        name.remove_prefix(slash + 1);
    }
}

bool is_symbolic_link(int directory, const std::string& component) {
    struct stat found {};
    return ::fstatat(directory, component.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0
           && S_ISLNK(found.st_mode);
}

int open_component(int directory, const std::string& component, int flags, mode_t mode) {
    const int fd = uninterrupted(
        [&] { return ::openat(directory, component.c_str(), flags | O_NOFOLLOW, mode); });
    // With O_DIRECTORY the kernel calls a link "not a directory"; openat2 calls it ELOOP.
    if (fd < 0 && errno == ENOTDIR) {
        errno = is_symbolic_link(directory, component) ? ELOOP : ENOTDIR;
    }
    return fd;
}

int open_by_components(int directory, const std::string& name, int flags, mode_t mode) {
    UniqueFd parent;
    std::size_t start = 0;
    std::size_t slash = 0;
    while ((slash = name.find('/', start)) != std::string::npos) {
        const int from = parent.valid() ? parent.get() : directory;
        const std::string component = name.substr(start, slash - start);
        UniqueFd next(open_component(from, component, O_PATH | O_DIRECTORY | O_CLOEXEC, 0));
        if (!next.valid()) {
            return -1;
        }
        parent = std::move(next);
        start = slash + 1;
    }
    const int from = parent.valid() ? parent.get() : directory;
    const int fd = open_component(from, name.substr(start), flags, mode);
    const int number = errno;
    static_cast<void>(parent.close());
    errno = number;
    return fd;
}

// -1 with errno. `name` is plain.
int open_beneath(int directory, const std::string& name, int flags, mode_t mode = 0) {
    open_how how{};
    how.flags = static_cast<unsigned>(flags | O_CLOEXEC);
    how.mode = mode;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    int fd = static_cast<int>(uninterrupted(
        [&] { return ::syscall(SYS_openat2, directory, name.c_str(), &how, sizeof how); }));
    // ENOSYS: Linux before 5.6. EPERM: a sandbox that does not know the call; when it is an honest
    // refusal the second attempt is refused as well.
    if (fd < 0 && (errno == ENOSYS || errno == EPERM)) {
        fd = open_by_components(directory, name, flags | O_CLOEXEC, mode);
    }
    return above_standard_streams(fd);
}

FileStat stat_of(const struct stat& found) {
    FileStat stat;
    if (S_ISREG(found.st_mode)) {
        stat.kind = FileKind::regular;
    } else if (S_ISDIR(found.st_mode)) {
        stat.kind = FileKind::directory;
    } else if (S_ISLNK(found.st_mode)) {
        stat.kind = FileKind::symbolic_link;
    } else {
        stat.kind = FileKind::other;
    }
    stat.device = found.st_dev;
    stat.inode = found.st_ino;
    stat.links = found.st_nlink;
    stat.owner = found.st_uid;
    stat.size = found.st_size;
    stat.modified_ns = found.st_mtim.tv_sec * std::int64_t{1'000'000'000} + found.st_mtim.tv_nsec;
    return stat;
}

Result<FileStat> stat_open(int fd, std::string_view object) {
    struct stat found {};
    if (::fstat(fd, &found) != 0) {
        return refused("stat", object, errno);
    }
    return stat_of(found);
}

// The directory that holds the last component of a name, as the *at calls want it.
struct Place {
    UniqueFd owned;  // only when the name has several components
    int directory = -1;
    std::string last;
};

Result<Place> place_of(int directory, std::string_view name, std::string_view verb) {
    if (!plain_name(name)) {
        return not_ours(verb, name, "the name leads elsewhere");
    }
    Place place;
    place.directory = directory;
    const std::size_t slash = name.rfind('/');
    if (slash == std::string_view::npos) {
        place.last = name;
        return place;
    }
    place.last = name.substr(slash + 1);
    const std::string parent(name.substr(0, slash));
    place.owned = UniqueFd(open_beneath(directory, parent, O_PATH | O_DIRECTORY));
    if (!place.owned.valid()) {
        Error error = open_refused(name, errno);
        error.context.replace(0, std::strlen("open"), verb);
        return error;
    }
    place.directory = place.owned.get();
    return place;
}

std::string_view parent_of(std::string_view name) {
    const std::size_t slash = name.rfind('/');
    return name.substr(0, slash == std::string_view::npos ? 0 : slash);
}

// A name in the directory of `place`, which stays open for it.
Result<Place> beside(const Place& place, std::string_view name, std::string_view verb) {
    if (!plain_name(name)) {
        return not_ours(verb, name, "the name leads elsewhere");
    }
    Place there;
    there.directory = place.directory;
    there.last = name.substr(name.rfind('/') + 1);  // npos + 1 is 0: all of it
    return there;
}

// The umask and default ACLs may have cut or widened what was asked for at birth.
int give_mode(int fd, mode_t mode) {
    struct stat found {};
    if (::fstat(fd, &found) != 0) {
        return -1;
    }
    return (found.st_mode & permission_bits) == mode ? 0 : ::fchmod(fd, mode);
}

std::string descriptor_path(int fd) {
    return "/proc/self/fd/" + std::to_string(fd);
}

// A umask of 0777 leaves a directory that its owner cannot open for reading; O_PATH still can, but
// fchmod refuses such a descriptor, hence the way through /proc.
int give_directory_mode(int fd) {
    struct stat found {};
    if (::fstat(fd, &found) != 0) {
        return -1;
    }
    if ((found.st_mode & permission_bits) == directory_mode) {
        return 0;
    }
    const mode_t inherited = found.st_mode & S_ISGID;
    return ::chmod(descriptor_path(fd).c_str(), directory_mode | inherited);
}

class PosixFile final : public File {
public:
    PosixFile(UniqueFd fd, std::string name) : fd_(std::move(fd)), name_(std::move(name)) {}

    Result<std::size_t> read(std::int64_t offset, char* into, std::size_t size) override {
        std::size_t got = 0;
        while (got < size) {
            const off_t from = offset + static_cast<off_t>(got);
            const ssize_t count =
                uninterrupted([&] { return ::pread(fd_.get(), into + got, size - got, from); });
            if (count < 0) {
                return refused("read", name_, errno);
            }
            if (count == 0) {
                break;
            }
            got += static_cast<std::size_t>(count);
        }
        return got;
    }

    Status write(std::int64_t offset, std::string_view bytes) override {
        while (!bytes.empty()) {
            const ssize_t count = uninterrupted(
                [&] { return ::pwrite(fd_.get(), bytes.data(), bytes.size(), offset); });
            if (count <= 0) {
                // Nothing written and no reason given would loop for ever.
                return refused("write", name_, count == 0 ? EIO : errno);
            }
            bytes.remove_prefix(static_cast<std::size_t>(count));
            offset += count;
        }
        return Done{};
    }

    Status sync() override {
        return done_or("sync", name_, uninterrupted([&] { return ::fdatasync(fd_.get()); }));
    }

    void start_writeback() override {
        // A hint: the sync that follows reports what goes wrong.
        static_cast<void>(::sync_file_range(fd_.get(), 0, 0, SYNC_FILE_RANGE_WRITE));
    }

    Status truncate(std::int64_t size) override {
        const int answer = uninterrupted([&] { return ::ftruncate(fd_.get(), size); });
        return done_or("truncate", name_, answer);
    }

    Result<FileStat> stat() override { return stat_open(fd_.get(), name_); }

private:
    UniqueFd fd_;
    std::string name_;
};

Result<std::unique_ptr<File>> open_existing(int directory, const std::string& name) {
    // O_NONBLOCK: somebody may have put a FIFO there, and opening that would wait for ever.
    UniqueFd fd(open_beneath(directory, name, O_RDWR | O_NONBLOCK | O_NOCTTY));
    if (!fd.valid()) {
        return open_refused(name, errno);
    }
    struct stat found {};
    if (::fstat(fd.get(), &found) != 0) {
        return open_refused(name, errno);
    }
    if (!S_ISREG(found.st_mode)) {
        return not_ours("open", name, "not a regular file");
    }
    if (found.st_uid != ::geteuid()) {
        return not_ours("open", name, "belongs to another user");
    }
    if (found.st_nlink != 1) {
        return not_ours("open", name, "has " + std::to_string(found.st_nlink) + " links");
    }
    return std::unique_ptr<File>(std::make_unique<PosixFile>(std::move(fd), name));
}

Result<std::unique_ptr<File>> create_new(int directory, const std::string& name) {
    UniqueFd fd(open_beneath(directory, name, O_RDWR | O_CREAT | O_EXCL | O_NOCTTY, file_mode));
    if (!fd.valid()) {
        return open_refused(name, errno);
    }
    if (give_mode(fd.get(), file_mode) != 0) {
        return refused("chmod", name, errno);
    }
    return std::unique_ptr<File>(std::make_unique<PosixFile>(std::move(fd), name));
}

// Most are new: each turn begins some.
Result<std::unique_ptr<File>> open_or_create(int directory, const std::string& name) {
    // Each round loses only if somebody creates and removes the name between our two calls.
    constexpr int rounds_max = 8;
    for (int round = 0;; ++round) {
        auto created = create_new(directory, name);
        if (created.ok() || created.error().code != Errc::exists) {
            return created;
        }
        auto existing = open_existing(directory, name);
        if (existing.ok() || existing.error().os_errno != ENOENT || round == rounds_max) {
            return existing;
        }
    }
}

// For file systems and sandboxes that cannot do it in one step.
int rename_new_in_two_steps(int from, const char* name, int to, const char* new_name) {
    struct stat found {};
    if (::fstatat(to, new_name, &found, AT_SYMLINK_NOFOLLOW) == 0) {
        errno = EEXIST;
        return -1;
    }
    return errno == ENOENT ? ::renameat(from, name, to, new_name) : -1;
}

int rename_new_at(int from, const char* name, int to, const char* new_name) {
    const int answer = ::renameat2(from, name, to, new_name, RENAME_NOREPLACE);
    // EINVAL: the file system. ENOSYS, EPERM: as of openat2.
    const bool unknown = answer != 0 && (errno == EINVAL || errno == ENOSYS || errno == EPERM);
    return unknown ? rename_new_in_two_steps(from, name, to, new_name) : answer;
}

class PosixDirectory final : public Directory {
public:
    PosixDirectory(UniqueFd fd, std::string name) : fd_(std::move(fd)), name_(std::move(name)) {}

    Result<std::unique_ptr<File>> open_file(std::string_view name, OpenMode mode) override {
        if (!plain_name(name)) {
            return not_ours("open", name, "the name leads elsewhere");
        }
        const std::string owned_name(name);
        switch (mode) {
        case OpenMode::existing:
            return open_existing(fd_.get(), owned_name);
        case OpenMode::create_exclusive:
            return create_new(fd_.get(), owned_name);
        case OpenMode::create:
            break;
        }
        return open_or_create(fd_.get(), owned_name);
    }

    Result<std::unique_ptr<Directory>> open_directory(std::string_view name) override {
        if (!plain_name(name)) {
            return not_ours("open", name, "the name leads elsewhere");
        }
        std::string owned_name(name);
        UniqueFd fd(open_beneath(fd_.get(), owned_name, O_RDONLY | O_DIRECTORY));
        if (!fd.valid()) {
            return open_refused(name, errno);
        }
        return std::unique_ptr<Directory>(
            std::make_unique<PosixDirectory>(std::move(fd), std::move(owned_name)));
    }

    Status make_directory(std::string_view name) override {
        Result<Place> place = place_of(fd_.get(), name, "mkdir");
        if (!place.ok()) {
            return place.error();
        }
        const auto& [owned, parent, last] = place.value();
        if (::mkdirat(parent, last.c_str(), directory_mode) != 0) {
            return refused("mkdir", name, errno);
        }
        const UniqueFd made(open_beneath(parent, last, O_PATH | O_DIRECTORY));
        if (!made.valid()) {
            return open_refused(name, errno);
        }
        return done_or("chmod", name, give_directory_mode(made.get()));
    }

    Status rename(std::string_view from, std::string_view to) override {
        return rename_by(::renameat, from, to);
    }

    Status rename_new(std::string_view from, std::string_view to) override {
        return rename_by(rename_new_at, from, to);
    }

    Status remove(std::string_view name) override {
        Result<Place> place = place_of(fd_.get(), name, "remove");
        if (!place.ok()) {
            return place.error();
        }
        const auto& [owned, parent, last] = place.value();
        return done_or("remove", name, ::unlinkat(parent, last.c_str(), 0));
    }

    Status make_symbolic_link(std::string_view target, std::string_view name) override {
        Result<Place> place = place_of(fd_.get(), name, "symlink");
        if (!place.ok()) {
            return place.error();
        }
        const auto& [owned, parent, last] = place.value();
        const std::string owned_target(target);
        return done_or("symlink", name, ::symlinkat(owned_target.c_str(), parent, last.c_str()));
    }

    Result<FileStat> stat(std::string_view name) override {
        Result<Place> place = place_of(fd_.get(), name, "stat");
        if (!place.ok()) {
            return place.error();
        }
        const auto& [owned, parent, last] = place.value();
        struct stat found {};
        if (::fstatat(parent, last.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) {
            return refused("stat", name, errno);
        }
        return stat_of(found);
    }

    Result<FileStat> stat() override {
        Result<FileStat> found = stat_open(fd_.get(), name_);
        struct statvfs mounted {};
        if (found.ok() && ::fstatvfs(fd_.get(), &mounted) == 0) {
            found.value().read_only = (mounted.f_flag & ST_RDONLY) != 0;
        }
        return found;
    }

    Result<bool> deleted() override {
        const Result<FileStat> found = stat_open(fd_.get(), name_);
        return found.ok() ? Result<bool>(found.value().links == 0) : found.error();
    }

    Result<std::vector<std::string>> list() override;

    Status sync() override {
        return done_or("sync", name_, uninterrupted([&] { return ::fsync(fd_.get()); }));
    }

    Status sync_file_system() override {
        const int answer = uninterrupted([&] { return ::syncfs(fd_.get()); });
        return done_or("sync the file system of", name_, answer);
    }

    Status sync_files(std::span<File* const> files) override;

    Result<std::string> path() override;
    Result<Durability> durability() override;

    Status lock() override {
        if (uninterrupted([&] { return ::flock(fd_.get(), LOCK_EX | LOCK_NB); }) == 0) {
            return Done{};
        }
        Error error = refused("lock", name_, errno);
        if (error.os_errno == EWOULDBLOCK) {
            error.code = Errc::busy;
        }
        return error;
    }

    void prefer_in_place_writes() override;

private:
    using RenameCall = int (*)(int from, const char* name, int to, const char* new_name);

    Status rename_by(RenameCall call, std::string_view from, std::string_view to) {
        Result<Place> source = place_of(fd_.get(), from, "rename");
        if (!source.ok()) {
            return source.error();
        }
        Result<Place> target = parent_of(from) == parent_of(to)
                                   ? beside(source.value(), to, "rename")
                                   : place_of(fd_.get(), to, "rename");
        if (!target.ok()) {
            return target.error();
        }
        const int answer = call(
            source.value().directory,
            source.value().last.c_str(),
            target.value().directory,
            target.value().last.c_str());
        if (answer != 0) {
            const int number = errno;
            return refused("rename", std::string(from).append(" -> ").append(to), number);
        }
        return Done{};
    }

    UniqueFd fd_;
    std::string name_;
    std::unique_ptr<SyncCrew> crew_;  // of sync_files()
};

// The data of all of them goes out first, so that the first commit of the file system covers them all.
Status PosixDirectory::sync_files(std::span<File* const> files) {
    for (File* const file : files) {
        file->start_writeback();
    }
    if (!crew_) {
        crew_ = std::make_unique<SyncCrew>(sync_helpers);
    }
    std::mutex mutex;
    Status answer = Done{};
    crew_->run(files.size(), [&](std::size_t index) {
        Status synced = files[index]->sync();
        const std::lock_guard guard(mutex);
        if (!synced.ok() && answer.ok()) {
            answer = std::move(synced);
        }
    });
    return answer;
}

Result<std::vector<std::string>> PosixDirectory::list() {
    // A descriptor of its own: reading moves the offset, and threads share fd_.
    UniqueFd fresh(above_standard_streams(uninterrupted(
        [&] { return ::openat(fd_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); })));
    if (!fresh.valid()) {
        return refused("list", name_, errno);
    }
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(fresh.get()), ::closedir);
    if (entries == nullptr) {
        return refused("list", name_, errno);
    }
    static_cast<void>(fresh.release());
    std::vector<std::string> names;
    while (true) {
        errno = 0;
        // NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is ours alone
        const dirent* const entry = ::readdir(entries.get());
        if (entry == nullptr) {
            break;
        }
        const std::string_view name(entry->d_name);
        if (name != "." && name != "..") {
            names.emplace_back(name);
        }
    }
    if (errno != 0) {
        return refused("list", name_, errno);
    }
    return names;
}

Result<std::string> PosixDirectory::path() {
    std::array<char, PATH_MAX> buffer{};
    const ssize_t length = ::readlink(descriptor_path(fd_.get()).c_str(), buffer.data(), PATH_MAX);
    if (length < 0) {
        return refused("find the path of", name_, errno);
    }
    // Looked at after the link was read, so that a directory deleted in between is not reported
    // under the name with " (deleted)" that the kernel gives it.
    const Result<FileStat> found = stat();
    if (!found.ok()) {
        return found.error();
    }
    // Without a leading slash: the mount is detached or out of this namespace.
    if (found.value().links == 0 || length == 0 || buffer[0] != '/') {
        return Error{Errc::gone, 0, context_of("find the path of", name_, "it was deleted")};
    }
    return std::string(buffer.data(), static_cast<std::size_t>(length));
}

Result<Durability> PosixDirectory::durability() {
    return layout::durability_of(fd_.get(), name_);
}

void PosixDirectory::prefer_in_place_writes() {
    const Result<std::uint32_t> magic = layout::file_system_magic(fd_.get(), name_);
    if (!magic.ok() || magic.value() != BTRFS_SUPER_MAGIC) {
        return;
    }
    int flags = 0;
    if (::ioctl(fd_.get(), FS_IOC_GETFLAGS, &flags) == 0) {
        flags |= FS_NOCOW_FL;
        // A wish: refused, the journal works as before and only a full disk hurts earlier.
        static_cast<void>(::ioctl(fd_.get(), FS_IOC_SETFLAGS, &flags));
    }
}

}  // namespace

Result<std::unique_ptr<Directory>> PosixDisk::open_directory(const std::string& path) {
    if (!path.starts_with('/') || path.find('\0') != std::string::npos) {
        return Error{Errc::invalid, 0, context_of("open", path, "not an absolute path")};
    }
    UniqueFd fd(above_standard_streams(
        uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); })));
    if (!fd.valid()) {
        return refused("open", path, errno);
    }
    return std::unique_ptr<Directory>(std::make_unique<PosixDirectory>(std::move(fd), path));
}

}  // namespace relay::recorder
