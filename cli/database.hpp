// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/result.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

// A file of SQLite, for a cache: whoever gets an error does without it. One thread at a time.

namespace relay::cli {

// One prepared statement. Must not outlive its database.
class Statement {
public:
    // Parameters and columns count from 0. Bytes must stay until the next step().
    void bind(int parameter, std::int64_t value);
    void bind(int parameter, std::string_view bytes);

    // True: there is a row. False: there is no more, and the statement can be bound anew.
    [[nodiscard]] layout::Result<bool> step();
    // step() for a statement that gives no rows.
    [[nodiscard]] layout::Status run();
    // Gives up the rows that are left.
    void reset();

    // Of the row; bytes until the next step().
    [[nodiscard]] std::int64_t integer(int column) const;
    [[nodiscard]] std::string_view bytes(int column) const;

private:
    friend class Database;
    struct Finalize {
        void operator()(sqlite3_stmt* statement) const;
    };
    explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}

    std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

class Database {
public:
    enum class Access { read, write };
    // A file that is there; SQLite makes of an empty one an empty database. Errc::corrupt when it is no database.
    [[nodiscard]] static layout::Result<Database> open(const std::string& path, Access access);

    // Statements without rows, or whose rows nobody wants. Errc::corrupt and Errc::busy are told apart.
    [[nodiscard]] layout::Status run(const std::string& sql);
    [[nodiscard]] layout::Result<Statement> prepare(std::string_view sql);
    // The first column of the first row.
    [[nodiscard]] layout::Result<std::int64_t> integer(std::string_view sql);

private:
    struct Close {
        void operator()(sqlite3* connection) const;
    };
    explicit Database(sqlite3* connection) : connection_(connection) {}

    std::unique_ptr<sqlite3, Close> connection_;
};

}  // namespace relay::cli
