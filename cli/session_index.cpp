// SPDX-License-Identifier: Apache-2.0
#include "cli/session_index.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

namespace relay::cli {

namespace {

using layout::Done;
using layout::Errc;
using layout::Error;
using layout::Result;
using layout::Status;
using layout::Ulid;

constexpr int turn_bits = 20;

std::string_view bytes_of(const Ulid& id) {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): bytes as SQLite takes them
    return {reinterpret_cast<const char*>(id.bytes.data()), id.bytes.size()};
}

// False when the column has not the size of the value.
template<typename Array>
bool read_array(std::string_view bytes, Array& into) {
    if (bytes.size() != sizeof into) {
        return false;
    }
    std::memcpy(into.data(), bytes.data(), bytes.size());
    return true;
}

Error odd_row() {
    return Error{Errc::corrupt, 0, "a row of the index is not as it was written"};
}

}  // namespace

Result<std::int64_t> SessionIndex::find_store(const std::string& sessions_directory) {
    Result<Statement> find = database_.prepare("SELECT number FROM store WHERE directory=?");
    if (!find.ok()) {
        return find.error();
    }
    find.value().bind(0, sessions_directory);
    const Result<bool> row = find.value().step();
    if (!row.ok()) {
        return row.error();
    }
    return row.value() ? find.value().integer(0) : 0;
}

Result<std::int64_t> SessionIndex::make_store(const std::string& sessions_directory) {
    Result<std::int64_t> there = find_store(sessions_directory);
    if (!there.ok() || there.value() != 0) {
        return there;
    }
    Result<Statement> make = database_.prepare("INSERT INTO store(directory) VALUES(?)");
    if (!make.ok()) {
        return make.error();
    }
    make.value().bind(0, sessions_directory);
    if (const Status made = make.value().run(); !made.ok()) {
        return made.error();
    }
    return find_store(sessions_directory);
}

Status SessionIndex::metas(
    const std::string& sessions_directory,
    const Ulid& newest,
    const Ulid& oldest,
    bool with_documents,
    const SeeMeta& see) {
    const Result<std::int64_t> store = find_store(sessions_directory);
    if (!store.ok()) {
        return store.error();
    }
    Result<Statement> rows = database_.prepare(
        with_documents
            ? "SELECT id, stamp, card, document FROM card JOIN document USING(store, id) "
              "WHERE store=? AND id BETWEEN ? AND ? ORDER BY id DESC"
            : "SELECT id, stamp, card, '' FROM card "
              "WHERE store=? AND id BETWEEN ? AND ? ORDER BY id DESC");
    if (!rows.ok()) {
        return rows.error();
    }
    Statement& row = rows.value();
    row.bind(0, store.value());
    row.bind(1, bytes_of(oldest));
    row.bind(2, bytes_of(newest));
    for (;;) {
        const Result<bool> more = row.step();
        if (!more.ok()) {
            return more.error();
        }
        if (!more.value()) {
            return Done{};
        }
        MetaRow meta;
        if (!read_array(row.bytes(0), meta.id.bytes)
            || !read_array(row.bytes(1), meta.stamp.fields)) {
            return odd_row();
        }
        meta.card = row.bytes(2);
        meta.document = row.bytes(3);
        see(meta);
    }
}

Result<std::vector<TextRow>> SessionIndex::texts(const std::string& sessions_directory) {
    const Result<std::int64_t> store = find_store(sessions_directory);
    if (!store.ok()) {
        return store.error();
    }
    Result<Statement> rows =
        database_.prepare("SELECT id, stamp, number FROM text WHERE store=? ORDER BY id DESC");
    if (!rows.ok()) {
        return rows.error();
    }
    Statement& row = rows.value();
    row.bind(0, store.value());
    std::vector<TextRow> texts;
    for (;;) {
        const Result<bool> more = row.step();
        if (!more.ok()) {
            return more.error();
        }
        if (!more.value()) {
            return texts;
        }
        TextRow& text = texts.emplace_back();
        if (!read_array(row.bytes(0), text.id.bytes)
            || !read_array(row.bytes(1), text.stamp.fields)) {
            return odd_row();
        }
        text.number = row.integer(2);
    }
}

Status
SessionIndex::turns_with(const std::string& query, std::size_t turns_max, TurnsByNumber& turns) {
    Result<Statement> rows =
        database_.prepare("SELECT rowid FROM grams WHERE grams MATCH CAST(? AS TEXT)");
    if (!rows.ok()) {
        return rows.error();
    }
    rows.value().bind(0, query);
    for (std::size_t count = 0;; ++count) {
        const Result<bool> more = rows.value().step();
        if (!more.ok()) {
            return more.error();
        }
        if (!more.value()) {
            return Done{};
        }
        if (count == turns_max) {
            return Error{Errc::busy, 0, "nearly every turn may have it"};
        }
        const std::int64_t row = rows.value().integer(0);
        turns[row >> turn_bits].push_back(row & indexed_turn_max);
    }
}

Status SessionIndex::note(const std::string& sessions_directory, std::span<const NotedMeta> metas) {
    const Result<std::int64_t> store = make_store(sessions_directory);
    if (!store.ok()) {
        return store.error();
    }
    Result<Statement> card =
        database_.prepare("INSERT OR REPLACE INTO card(store, id, stamp, card) VALUES(?,?,?,?)");
    Result<Statement> document =
        database_.prepare("INSERT OR REPLACE INTO document(store, id, document) VALUES(?,?,?)");
    if (!card.ok() || !document.ok()) {
        return !card.ok() ? card.error() : document.error();
    }
    for (const NotedMeta& meta : metas) {
        for (Statement* const insert : {&card.value(), &document.value()}) {
            insert->bind(0, store.value());
            insert->bind(1, bytes_of(meta.id));
        }
        card.value().bind(2, meta.stamp.bytes());
        card.value().bind(3, meta.card);
        document.value().bind(2, meta.document);
        for (Statement* const insert : {&card.value(), &document.value()}) {
            if (Status inserted = insert->run(); !inserted.ok()) {
                return inserted;
            }
        }
    }
    return Done{};
}

Status SessionIndex::note(const std::string& sessions_directory, std::span<const NotedText> texts) {
    const Result<std::int64_t> store = make_store(sessions_directory);
    if (!store.ok()) {
        return store.error();
    }
    Result<Statement> text =
        database_.prepare("INSERT OR REPLACE INTO text(store, id, stamp, number) VALUES(?,?,?,?)");
    Result<Statement> gram =
        database_.prepare("INSERT INTO grams(rowid, gram) VALUES(?, CAST(? AS TEXT))");
    const Result<std::int64_t> last = database_.integer("SELECT number FROM last");
    if (!text.ok() || !gram.ok() || !last.ok()) {
        return !text.ok() ? text.error() : !gram.ok() ? gram.error() : last.error();
    }
    std::int64_t number = last.value();
    for (const NotedText& session : texts) {
        ++number;
        text.value().bind(0, store.value());
        text.value().bind(1, bytes_of(session.id));
        text.value().bind(2, session.stamp.bytes());
        text.value().bind(3, number);
        if (Status inserted = text.value().run(); !inserted.ok()) {
            return inserted;
        }
        for (const TurnGrams& turn : session.turns) {
            gram.value().bind(0, (number << turn_bits) | turn.turn);
            gram.value().bind(1, turn.grams);
            if (Status inserted = gram.value().run(); !inserted.ok()) {
                return inserted;
            }
        }
    }
    return database_.run("UPDATE last SET number=" + std::to_string(number));
}

}  // namespace relay::cli
