// SPDX-License-Identifier: Apache-2.0
#include "cli/trash.hpp"

#include "cli/durable_change.hpp"
#include "cli/human_text.hpp"
#include "layout/input_file.hpp"
#include "layout/json_writer.hpp"
#include "layout/session_paths.hpp"
#include "layout/session_reader.hpp"

#include <nlohmann/json.hpp>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <array>
#include <utility>

namespace relay::cli {

namespace {

using layout::Done;
using layout::Errc;
using layout::Error;
using layout::Meta;
using layout::Result;
using layout::Status;
using layout::Ulid;

constexpr std::int64_t record_bytes_max = 1 << 20;
constexpr int link_attempts_max = 5;

std::string name_in(const std::string& path) {
    return path.substr(path.rfind('/') + 1);
}

std::string parent_of(const std::string& path) {
    return path.substr(0, path.rfind('/'));
}

std::string record_of(const std::string& trash, const std::string& id) {
    return trash + "/" + id + ".json";
}

// The newest session that wants to be the latest; none when there is none.
std::optional<std::string> newest_in(const std::string& sessions) {
    const Result<std::vector<Ulid>> ids = layout::list_sessions(sessions);
    for (const Ulid& id : ids.ok() ? ids.value() : std::vector<Ulid>()) {
        const Result<Meta> meta = layout::read_meta(sessions + "/" + id.text());
        if (meta.ok() && !meta.value().ephemeral) {
            return id.text();
        }
    }
    return std::nullopt;
}

// <store>/latest names the newest session again, or goes with the last one. The daemon may point it to a new
// session meanwhile, so look again after each change.
Status mend_latest(const std::string& sessions) {
    const std::string path = parent_of(sessions) + "/latest";
    for (int attempt = 0; attempt < link_attempts_max; ++attempt) {
        std::array<char, PATH_MAX> buffer{};
        const ssize_t size = ::readlink(path.c_str(), buffer.data(), buffer.size());
        if (size < 0 && errno != ENOENT) {
            return Done{};  // something of the user's: leave it
        }
        const std::string target(buffer.data(), static_cast<std::size_t>(size < 0 ? 0 : size));
        const std::optional<std::string> newest = newest_in(sessions);
        const std::string wanted = newest ? "sessions/" + *newest : "";
        if (target == wanted) {
            return Done{};
        }
        Status changed = newest ? point_link(path, wanted) : remove_file(path);
        if (!changed.ok()) {
            return changed;
        }
    }
    return Done{};
}

Error runs(const std::string& id) {
    return {
        Errc::busy,
        0,
        "session " + id + " is running; stop it first: agent-relay handoff --now --session " + id};
}

// A session whose meta.json cannot be read is nobody's that runs: the recorder would have seen to it.
bool is_active(const std::string& directory) {
    const Result<Meta> meta = layout::read_meta(directory);
    return meta.ok() && meta.value().status == layout::SessionStatus::active;
}

Status write_record(const std::string& trash, const std::string& session_directory) {
    const Result<Meta> meta = layout::read_meta(session_directory);
    std::string record;
    layout::JsonObject object(record, layout::JsonObject::Form::lines);
    object.integer("v", 1);
    object.string("session", name_in(session_directory));
    object.string_or_null(
        "slug", meta.ok() ? std::optional<std::string>(meta.value().slug) : std::nullopt);
    object.timestamp("deleted_at", now());
    object.string("from", session_directory);
    object.finish();
    return write_atomically(record_of(trash, name_in(session_directory)), record);
}

// Sessions that a crash left on their way out.
Status sweep(const std::string& around) {
    Result<layout::InputDirectory> directory =
        layout::InputDirectory::open(AT_FDCWD, around, layout::InputDirectory::Links::follow);
    if (!directory.ok()) {
        return directory.error();
    }
    const auto entries = directory.value().entries();
    if (!entries.ok()) {
        return entries.error();
    }
    for (const layout::InputDirectory::Entry& entry : entries.value()) {
        const std::string_view name = entry.name;
        const bool ours = layout::is_temporary_name(name)
                          && entry.kind == layout::InputDirectory::Kind::directory
                          && Ulid::parse(name.substr(1, name.rfind('.') - 1));
        if (!ours) {
            continue;
        }
        if (Status removed = remove_tree(around + "/" + entry.name); !removed.ok()) {
            return removed;
        }
    }
    return Done{};
}

// Moves it, unless it runs: also when it was reopened at the very moment.
Status move_ended(const std::string& from, const std::string& to) {
    if (is_active(from)) {
        return runs(name_in(from));
    }
    if (Status moved = move_directory(from, to); !moved.ok()) {
        if (moved.error().os_errno == EXDEV) {
            return Error{
                Errc::io,
                EXDEV,
                "the trash " + parent_of(to) + " is on another file system than " + from
                    + "; remove the session for good with --now, or move it yourself"};
        }
        return moved;
    }
    if (is_active(to)) {
        if (Status back = move_directory(to, from); !back.ok()) {
            return back;
        }
        return runs(name_in(from));
    }
    return Done{};
}

}  // namespace

Result<std::string> trash_beside(const std::string& sessions_directory) {
    if (name_in(sessions_directory) != "sessions") {
        return Error{
            Errc::invalid,
            0,
            "\"" + sessions_directory
                + "\" belongs to no store, so there is no trash; remove what you do not need with "
                  "rm"};
    }
    return parent_of(sessions_directory) + "/trash";
}

Result<std::vector<TrashedSession>> list_trash(const std::string& trash) {
    const Result<std::vector<Ulid>> ids = layout::list_sessions(trash);
    if (!ids.ok()) {
        return ids.error();
    }
    std::vector<TrashedSession> sessions;
    sessions.reserve(ids.value().size());
    for (const Ulid& id : ids.value()) {
        TrashedSession session{id, trash + "/" + id.text(), std::nullopt, {}};
        const Result<std::string> text =
            layout::read_file(record_of(trash, id.text()), record_bytes_max);
        const auto record = nlohmann::json::parse(text.ok() ? text.value() : "", nullptr, false);
        if (record.is_object()) {
            const auto at = record.find("deleted_at");
            const auto from = record.find("from");
            if (at != record.end() && at->is_string()) {
                session.deleted_at = layout::parse_timestamp(at->get<std::string>());
            }
            if (from != record.end() && from->is_string()) {
                session.from = from->get<std::string>();
            }
        }
        sessions.push_back(std::move(session));
    }
    return sessions;
}

Result<std::string> move_to_trash(const std::string& session_directory) {
    const std::string sessions = parent_of(session_directory);
    const Result<std::string> trash = trash_beside(sessions);
    if (!trash.ok()) {
        return trash.error();
    }
    if (is_active(session_directory)) {
        return runs(name_in(session_directory));
    }
    const std::string place = trash.value() + "/" + name_in(session_directory);
    if (const Status made = make_private_directory(trash.value()); !made.ok()) {
        return made.error();
    }
    // First, so that nothing is ever in the trash without its record.
    if (const Status written = write_record(trash.value(), session_directory); !written.ok()) {
        return written.error();
    }
    if (const Status moved = move_ended(session_directory, place); !moved.ok()) {
        return moved.error();
    }
    if (const Status mended = mend_latest(sessions); !mended.ok()) {
        return mended.error();
    }
    return place;
}

Result<std::string> restore_from_trash(const std::string& trashed_directory) {
    const std::string trash = parent_of(trashed_directory);
    const std::string id = name_in(trashed_directory);
    const std::string sessions = parent_of(trash) + "/sessions";
    if (const Status made = make_private_directory(sessions); !made.ok()) {
        return made.error();
    }
    if (const Status moved = move_directory(trashed_directory, sessions + "/" + id); !moved.ok()) {
        return moved.error();
    }
    if (const Status removed = remove_file(record_of(trash, id)); !removed.ok()) {
        return removed.error();
    }
    if (const Status mended = mend_latest(sessions); !mended.ok()) {
        return mended.error();
    }
    return sessions + "/" + id;
}

Status remove_for_good(const std::string& session_directory) {
    const std::string around = parent_of(session_directory);
    const std::string id = name_in(session_directory);
    if (Status swept = sweep(around); !swept.ok()) {
        return swept;
    }
    const std::string hidden = layout::temporary_file(session_directory);
    if (Status moved = move_ended(session_directory, hidden); !moved.ok()) {
        return moved;
    }
    Status tidied = name_in(around) == "trash"      ? remove_file(record_of(around, id))
                    : name_in(around) == "sessions" ? mend_latest(around)
                                                    : Status(Done{});
    return tidied.ok() ? remove_tree(hidden) : tidied;
}

}  // namespace relay::cli
