// SPDX-License-Identifier: Apache-2.0
#include "cli/database.hpp"

#include <sqlite3.h>

namespace relay::cli {

namespace {

using layout::Done;
using layout::Errc;
using layout::Error;
using layout::Result;
using layout::Status;

// A cache is not worth more: whoever cannot have it within this time reads the files.
constexpr int busy_timeout_ms = 20;

Error error_of(sqlite3* connection, int code) {
    Errc meaning = Errc::io;
    const int primary = code & 0xff;
    if (primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB) {
        meaning = Errc::corrupt;
    } else if (primary == SQLITE_BUSY || primary == SQLITE_LOCKED) {
        meaning = Errc::busy;
    } else if (primary == SQLITE_FULL) {
        meaning = Errc::no_space;
    }
    const char* const words =
        connection == nullptr ? ::sqlite3_errstr(code) : ::sqlite3_errmsg(connection);
    return Error{meaning, 0, words};
}

}  // namespace

void Statement::Finalize::operator()(sqlite3_stmt* statement) const {
    // It repeats the error of the last step.
    static_cast<void>(::sqlite3_finalize(statement));
}

void Statement::bind(int parameter, std::int64_t value) {
    // It fails for a parameter that the statement does not have, which the next step would show.
    static_cast<void>(::sqlite3_bind_int64(statement_.get(), parameter + 1, value));
}

void Statement::bind(int parameter, std::string_view bytes) {
    // Likewise. The pointer must not be null, which would bind NULL.
    static_cast<void>(::sqlite3_bind_blob64(
        statement_.get(),
        parameter + 1,
        bytes.empty() ? "" : bytes.data(),
        bytes.size(),
        SQLITE_STATIC));
}

Result<bool> Statement::step() {
    const int code = ::sqlite3_step(statement_.get());
    if (code == SQLITE_ROW) {
        return true;
    }
    Result<bool> end = false;
    if (code != SQLITE_DONE) {
        end = error_of(::sqlite3_db_handle(statement_.get()), code);
    }
    reset();
    return end;
}

Status Statement::run() {
    const Result<bool> stepped = step();
    return stepped.ok() ? Status(Done{}) : stepped.error();
}

void Statement::reset() {
    // It repeats the error of the last step.
    static_cast<void>(::sqlite3_reset(statement_.get()));
}

std::int64_t Statement::integer(int column) const {
    return ::sqlite3_column_int64(statement_.get(), column);
}

std::string_view Statement::bytes(int column) const {
    const void* const data = ::sqlite3_column_blob(statement_.get(), column);
    const int size = ::sqlite3_column_bytes(statement_.get(), column);
    return data == nullptr
               ? std::string_view()
               : std::string_view(static_cast<const char*>(data), static_cast<std::size_t>(size));
}

void Database::Close::operator()(sqlite3* connection) const {
    // The statements are gone, so it cannot be refused.
    static_cast<void>(::sqlite3_close_v2(connection));
}

Result<Database> Database::open(const std::string& path, Access access) {
    // Reading goes through a connection that may write, too: only such a one can mend what a writer that
    // was killed has left.
    constexpr int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
    sqlite3* connection = nullptr;
    const int code = ::sqlite3_open_v2(path.c_str(), &connection, flags, nullptr);
    Database database(connection);
    if (code != SQLITE_OK) {
        return error_of(connection, code);
    }
    static_cast<void>(::sqlite3_busy_timeout(connection, busy_timeout_ms));  // cannot fail
    const Status set = database.run(
        access == Access::read ? "PRAGMA trusted_schema=OFF; PRAGMA query_only=ON"
                               : "PRAGMA trusted_schema=OFF; PRAGMA synchronous=NORMAL");
    return set.ok() ? Result<Database>(std::move(database)) : set.error();
}

Status Database::run(const std::string& sql) {
    const int code = ::sqlite3_exec(connection_.get(), sql.c_str(), nullptr, nullptr, nullptr);
    return code == SQLITE_OK ? Status(Done{}) : error_of(connection_.get(), code);
}

Result<Statement> Database::prepare(std::string_view sql) {
    sqlite3_stmt* statement = nullptr;
    const int code = ::sqlite3_prepare_v3(
        connection_.get(), sql.data(), static_cast<int>(sql.size()), 0, &statement, nullptr);
    if (code != SQLITE_OK) {
        return error_of(connection_.get(), code);
    }
    return Statement(statement);
}

Result<std::int64_t> Database::integer(std::string_view sql) {
    Result<Statement> statement = prepare(sql);
    if (!statement.ok()) {
        return statement.error();
    }
    const Result<bool> row = statement.value().step();
    if (!row.ok()) {
        return row.error();
    }
    return row.value() ? statement.value().integer(0) : 0;
}

}  // namespace relay::cli
