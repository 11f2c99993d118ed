// SPDX-License-Identifier: Apache-2.0
#include "cli/known_names.hpp"

#include "cli/index_notes.hpp"
#include "layout/session_reader.hpp"

#include <fcntl.h>

#include <cstring>
#include <utility>

namespace relay::cli {

namespace {

using layout::Errc;
using layout::Error;
using layout::Result;
using layout::Status;
using layout::Ulid;

static_assert(sizeof(Ulid) == sizeof(Ulid::bytes), "ids are kept side by side");

// Of what it is, should it be a link.
std::optional<FileStamp> stamp_of(const std::string& sessions_directory) {
    return FileStamp::of(AT_FDCWD, sessions_directory + "/.");
}

}  // namespace

Result<std::vector<Ulid>> known_names(Database& database, const std::string& sessions_directory) {
    const std::optional<FileStamp> stamp = stamp_of(sessions_directory);
    Result<Statement> find =
        database.prepare("SELECT ids FROM names WHERE directory=? AND stamp=?");
    if (!find.ok()) {
        return find.error();
    }
    if (!stamp) {
        return Error{Errc::not_found, 0, sessions_directory};
    }
    find.value().bind(0, sessions_directory);
    find.value().bind(1, stamp->bytes());
    const Result<bool> row = find.value().step();
    if (!row.ok()) {
        return row.error();
    }
    const std::string_view bytes = row.value() ? find.value().bytes(0) : std::string_view();
    if (!row.value() || bytes.size() % sizeof(Ulid) != 0) {
        return Error{Errc::not_found, 0, sessions_directory};
    }
    std::vector<Ulid> ids(bytes.size() / sizeof(Ulid));
    if (!ids.empty()) {
        std::memcpy(ids.data(), bytes.data(), bytes.size());
    }
    return ids;
}

std::optional<FileStamp> names_stamp(const std::string& sessions_directory) {
    std::optional<FileStamp> stamp = stamp_of(sessions_directory);
    return stamp && stamp->settled(file_clock_ns()) ? stamp : std::nullopt;
}

Status note_names(
    Database& database,
    const std::string& sessions_directory,
    const FileStamp& stamp,
    std::span<const Ulid> ids) {
    Result<Statement> insert =
        database.prepare("INSERT OR REPLACE INTO names(directory, stamp, ids) VALUES(?,?,?)");
    if (!insert.ok()) {
        return insert.error();
    }
    insert.value().bind(0, sessions_directory);
    insert.value().bind(1, stamp.bytes());
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): bytes as SQLite takes them
    insert.value().bind(2, {reinterpret_cast<const char*>(ids.data()), ids.size_bytes()});
    return insert.value().run();
}

Result<std::vector<Ulid>>
list_with_index(const std::string& index_directory, const std::string& sessions_directory) {
    const auto open = [&index_directory](Database::Access access) {
        return IndexFile::open(index_directory, access);
    };
    if (index_directory.empty()) {
        return layout::list_sessions(sessions_directory);
    }
    if (Result<IndexFile> index = open(Database::Access::read); index.ok()) {
        Result<std::vector<Ulid>> known = known_names(index.value().database(), sessions_directory);
        if (known.ok()) {
            return known;
        }
    }
    const std::optional<FileStamp> stamp = names_stamp(sessions_directory);
    Result<std::vector<Ulid>> listed = layout::list_sessions(sessions_directory);
    if (stamp && listed.ok() && listed.value().size() >= index_worthwhile) {
        if (Result<IndexFile> index = open(Database::Access::write); index.ok()) {
            // Whoever lists next tries again.
            static_cast<void>(
                note_names(index.value().database(), sessions_directory, *stamp, listed.value()));
        }
    }
    return listed;
}

}  // namespace relay::cli
