// SPDX-License-Identifier: Apache-2.0
#include "layout/session_reader.hpp"

#include "layout/input_file.hpp"
#include "layout/session_paths.hpp"

#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>
#include <system_error>

namespace relay::layout {

namespace {

std::optional<Ulid> session_named(std::string_view name) {
    std::optional<Ulid> ulid = Ulid::parse(name);
    // Lower case and the aliases of letters are ways to type an id, not names of a directory.
    if (ulid && ulid->text() != name) {
        ulid.reset();
    }
    return ulid;
}

// The number of "001-prompt.md"; 0 when the name is no turn's.
std::int64_t turn_of(std::string_view name) {
    std::int64_t turn = 0;
    const auto [rest, failure] = std::from_chars(name.data(), name.data() + name.size(), turn);
    const auto digits = static_cast<std::size_t>(rest - name.data());
    const bool named =
        failure == std::errc{} && digits >= 3 && name.substr(digits).starts_with('-');
    return named && turn > 0 ? turn : 0;
}

}  // namespace

Result<std::string> read_file(const std::string& path, std::int64_t bytes_max) {
    Result<InputFile> file = InputFile::open(AT_FDCWD, path);
    if (!file.ok()) {
        return file.error();
    }
    return read_rest(file.value(), path, bytes_max);
}

Result<Meta> read_meta(const std::string& session_directory) {
    const std::string path = session_directory + "/" + std::string(meta_file);
    const Result<std::string> text = read_file(path, meta_bytes_max);
    if (!text.ok()) {
        Error error = text.error();
        // To a caller of this function Errc::invalid means a newer format.
        error.code = error.code == Errc::invalid ? Errc::corrupt : error.code;
        return error;
    }
    Result<Meta> meta = decode_meta(text.value());
    if (!meta.ok()) {
        Error error = meta.error();
        error.context.insert(0, path + ": ");
        return error;
    }
    return meta;
}

Result<std::vector<Ulid>> list_sessions(const std::string& sessions_directory) {
    std::vector<Ulid> sessions;
    Result<InputDirectory> directory =
        InputDirectory::open(AT_FDCWD, sessions_directory, InputDirectory::Links::follow);
    if (!directory.ok()) {
        if (directory.error().os_errno == ENOENT) {
            return sessions;
        }
        return directory.error();
    }
    const Result<std::vector<InputDirectory::Entry>> entries = directory.value().entries();
    if (!entries.ok()) {
        return entries.error();
    }
    for (const InputDirectory::Entry& entry : entries.value()) {
        const std::optional<Ulid> session = session_named(entry.name);
        if (session && entry.kind == InputDirectory::Kind::directory) {
            sessions.push_back(*session);
        }
    }
    std::sort(sessions.begin(), sessions.end(), std::greater<>());
    return sessions;
}

Result<std::vector<std::int64_t>> list_turns(const std::string& session_directory) {
    std::vector<std::int64_t> turns;
    Result<InputDirectory> directory = InputDirectory::open(
        AT_FDCWD,
        session_directory + "/" + std::string(turns_directory),
        InputDirectory::Links::refuse);
    if (!directory.ok()) {
        if (directory.error().os_errno == ENOENT) {
            return turns;
        }
        return directory.error();
    }
    const Result<std::vector<InputDirectory::Entry>> entries = directory.value().entries();
    if (!entries.ok()) {
        return entries.error();
    }
    for (const InputDirectory::Entry& entry : entries.value()) {
        if (const std::int64_t turn = turn_of(entry.name); turn > 0) {
            turns.push_back(turn);
        }
    }
    std::sort(turns.begin(), turns.end());
    turns.erase(std::unique(turns.begin(), turns.end()), turns.end());
    return turns;
}

}  // namespace relay::layout
