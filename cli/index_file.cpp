// SPDX-License-Identifier: Apache-2.0
#include "cli/index_file.hpp"

#include "cli/durable_change.hpp"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string_view>
#include <system_error>
#include <utility>

namespace relay::cli {

namespace {

using layout::Done;
using layout::Errc;
using layout::Error;
using layout::Result;
using layout::Status;

constexpr std::int64_t application = 0x41525849;  // "ARXI"
constexpr std::int64_t version = 2;

// `names` has the ids of a store's sessions, newest first and side by side, as they were listed when sessions/ had the
// stamp. `card` serves lists: what they show and filter by of a session, and the stamp of the meta.json it was read from;
// `document` has that as one line, apart, because only list --json needs it and it is large. `text` serves searches: the stamp of turns/ when all turns were sealed and `grams` got a row for each, whose rowid is
// number * 2^20 + turn. A session that is read again gets a new number, because rows without content cannot
// be deleted from FTS5 of SQLite 3.40; what stands under the old one then belongs to nobody. Stores and ids are the
// first columns of tables without rowid, so that the sessions of a store lie side by side in the order of a list.
constexpr std::string_view schema = R"(
CREATE TABLE store(number INTEGER PRIMARY KEY, directory BLOB NOT NULL UNIQUE);
CREATE TABLE names(directory BLOB PRIMARY KEY, stamp BLOB NOT NULL, ids BLOB NOT NULL);
CREATE TABLE card(store INTEGER, id BLOB, stamp BLOB NOT NULL, card BLOB NOT NULL,
                  PRIMARY KEY(store, id)) WITHOUT ROWID;
CREATE TABLE document(store INTEGER, id BLOB, document BLOB NOT NULL,
                      PRIMARY KEY(store, id)) WITHOUT ROWID;
CREATE TABLE text(store INTEGER, id BLOB, stamp BLOB NOT NULL, number INTEGER NOT NULL,
                  PRIMARY KEY(store, id)) WITHOUT ROWID;
CREATE TABLE last(number INTEGER NOT NULL);
INSERT INTO last VALUES(0);
CREATE VIRTUAL TABLE grams USING fts5(gram, content='', detail=none, columnsize=0, tokenize='ascii');
)";

constexpr std::array<std::string_view, 4> companions{"", "-wal", "-shm", "-journal"};

std::string staged_path(const std::string& cache_directory) {
    return cache_directory + "/index.new.sqlite";
}

enum class Hold { shared, alone, alone_or_busy };

Result<Descriptor> hold(const std::string& path, Hold how) {
    const int create = how == Hold::shared ? 0 : O_CREAT;
    Descriptor lock(::open(path.c_str(), O_RDWR | create | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!lock.valid()) {
        return Error{
            errno == ENOENT ? Errc::not_found : Errc::io,
            errno,
            "open " + path + ": " + std::system_category().message(errno)};
    }
    const int operation = how == Hold::shared  ? LOCK_SH | LOCK_NB
                          : how == Hold::alone ? LOCK_EX
                                               : LOCK_EX | LOCK_NB;
    int held = -1;
    do {
        held = ::flock(lock.get(), operation);
    } while (held != 0 && errno == EINTR);
    if (held != 0) {
        return Error{
            errno == EWOULDBLOCK ? Errc::busy : Errc::io,
            errno,
            "lock " + path + ": " + std::system_category().message(errno)};
    }
    return lock;
}

// SQLite would make a file that everybody may read.
Status make_private_file(const std::string& path) {
    const Descriptor file(
        ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file.valid()) {
        return Error{
            errno == EEXIST ? Errc::exists : Errc::io,
            errno,
            "make " + path + ": " + std::system_category().message(errno)};
    }
    return Done{};
}

Status check_owner(const std::string& path) {
    struct stat found {};
    if (::lstat(path.c_str(), &found) != 0) {
        return Error{errno == ENOENT ? Errc::not_found : Errc::io, errno, path};
    }
    constexpr mode_t others = 077;
    if (!S_ISREG(found.st_mode) || found.st_uid != ::geteuid() || (found.st_mode & others) != 0) {
        return Error{Errc::unsafe, 0, path + " is no file of this user alone"};
    }
    return Done{};
}

Status make_schema(Database& database) {
    // Large pages: a whole meta.json fits into its row.
    return database.run(
        "PRAGMA page_size=16384; PRAGMA application_id=" + std::to_string(application)
        + "; PRAGMA user_version=" + std::to_string(version) + ";" + std::string(schema));
}

Status check_version(Database& database) {
    const Result<std::int64_t> whose = database.integer("PRAGMA application_id");
    if (!whose.ok()) {
        return whose.error();
    }
    const Result<std::int64_t> which = database.integer("PRAGMA user_version");
    if (!which.ok()) {
        return which.error();
    }
    if (whose.value() != application || which.value() != version) {
        return Error{Errc::corrupt, 0, "is an index of another version"};
    }
    return Done{};
}

Status sync_file(const std::string& path) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (!file.valid() || ::fsync(file.get()) != 0) {
        return Error{
            Errc::io, errno, "sync " + path + ": " + std::system_category().message(errno)};
    }
    return Done{};
}

// The main file goes first: without it the others mean nothing.
Status remove_all_of(const std::string& path) {
    for (const std::string_view companion : companions) {
        if (Status removed = remove_file(path + std::string(companion)); !removed.ok()) {
            return removed;
        }
    }
    return Done{};
}

std::string lock_path(const std::string& cache_directory) {
    return cache_directory + "/index.lock";
}

}  // namespace

std::string index_path(const std::string& cache_directory) {
    return cache_directory + "/index.sqlite";
}

Result<IndexFile> IndexFile::open(const std::string& cache_directory, Database::Access access) {
    Result<Descriptor> lock = hold(lock_path(cache_directory), Hold::shared);
    if (!lock.ok()) {
        return lock.error();
    }
    const std::string path = index_path(cache_directory);
    if (const Status safe = check_owner(path); !safe.ok()) {
        return safe.error();
    }
    Result<Database> database = Database::open(path, access);
    if (!database.ok()) {
        return database.error();
    }
    if (const Status ours = check_version(database.value()); !ours.ok()) {
        return ours.error();
    }
    return IndexFile(std::move(lock.value()), std::move(database.value()));
}

Result<IndexFile> IndexFile::open_or_make(const std::string& cache_directory) {
    Result<IndexFile> there = open(cache_directory, Database::Access::write);
    if (there.ok() || there.error().code != Errc::not_found) {
        return there;
    }
    Result<StagedIndex> staged = StagedIndex::create(cache_directory);
    if (!staged.ok()) {
        return staged.error();
    }
    if (const Status made = StagedIndex::publish(std::move(staged.value())); !made.ok()) {
        return made.error();
    }
    return open(cache_directory, Database::Access::write);
}

Result<StagedIndex> StagedIndex::create(const std::string& cache_directory) {
    if (const Status made = make_directories(cache_directory); !made.ok()) {
        return made.error();
    }
    Result<Descriptor> lock = hold(cache_directory + "/index.new.lock", Hold::alone_or_busy);
    if (!lock.ok()) {
        return lock.error();
    }
    const std::string path = staged_path(cache_directory);
    if (const Status removed = remove_all_of(path); !removed.ok()) {
        return removed.error();
    }
    if (const Status made = make_private_file(path); !made.ok()) {
        return made.error();
    }
    Result<Database> database = Database::open(path, Database::Access::write);
    if (!database.ok()) {
        return database.error();
    }
    // Nobody reads it before it is whole and synced, so it needs neither a journal nor syncs on the way.
    Status made = make_schema(database.value());
    if (made.ok()) {
        made = database.value().run(
            "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA locking_mode=EXCLUSIVE");
    }
    if (!made.ok()) {
        return made.error();
    }
    return StagedIndex(cache_directory, std::move(lock.value()), std::move(database.value()));
}

Status StagedIndex::publish(StagedIndex staged) {
    const std::string path = staged_path(staged.cache_directory_);
    {
        Database whole = std::move(staged.database_);
        if (Status set = whole.run("PRAGMA locking_mode=NORMAL; PRAGMA journal_mode=WAL");
            !set.ok()) {
            return set;
        }
    }
    if (Status synced = sync_file(path); !synced.ok()) {
        return synced;
    }
    const Result<Descriptor> lock = hold(lock_path(staged.cache_directory_), Hold::alone);
    if (!lock.ok()) {
        return lock.error();
    }
    const std::string final_path = index_path(staged.cache_directory_);
    if (Status removed = remove_all_of(final_path); !removed.ok()) {
        return removed;
    }
    return replace_file(path, final_path);
}

Status remove_index(const std::string& cache_directory, IfOpen if_open) {
    const Result<Descriptor> lock = hold(
        lock_path(cache_directory), if_open == IfOpen::wait ? Hold::alone : Hold::alone_or_busy);
    if (!lock.ok()) {
        return lock.error().code == Errc::not_found ? Status(Done{}) : lock.error();
    }
    return remove_all_of(index_path(cache_directory));
}

std::int64_t index_bytes(const std::string& cache_directory) {
    std::int64_t bytes = 0;
    for (const std::string_view companion : companions) {
        struct stat found {};
        const std::string path = index_path(cache_directory) + std::string(companion);
        bytes += ::stat(path.c_str(), &found) == 0 ? found.st_size : 0;
    }
    return bytes;
}

}  // namespace relay::cli
