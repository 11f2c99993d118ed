// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/result.hpp"
#include "layout/timestamp.hpp"
#include "layout/ulid.hpp"

#include <optional>
#include <string>
#include <vector>

// The trash of a store: <store>/trash/<session>, the session's directory as it was, and <session>.json, a record
// of when it went there and where it lay. Beside sessions/, so that neither readers nor the daemon see it.

namespace relay::cli {

// The trash that belongs to a directory of sessions. Errc::invalid when that is in no store: its name is not
// "sessions".
[[nodiscard]] layout::Result<std::string> trash_beside(const std::string& sessions_directory);

struct TrashedSession {
    layout::Ulid id;
    std::string directory;
    std::optional<layout::Timestamp> deleted_at;  // none: its record is gone
    std::string from;
};

// What is in it, newest session first. None when there is no trash.
[[nodiscard]] layout::Result<std::vector<TrashedSession>> list_trash(const std::string& trash);

// Moves a session's directory from sessions/ to the trash, and returns where it lies now. Errc::busy, and nothing
// is moved, when it runs; Errc::exists when one of its id is there already.
[[nodiscard]] layout::Result<std::string> move_to_trash(const std::string& session_directory);

// Moves it back to sessions/, and returns where it lies now. Errc::exists when there is one.
[[nodiscard]] layout::Result<std::string> restore_from_trash(const std::string& trashed_directory);

// Removes a session for good, from sessions/ or from the trash. It is out of sight at once and then goes file by
// file; what a crash leaves of it is removed by the next call. Errc::busy when it runs.
[[nodiscard]] layout::Status remove_for_good(const std::string& session_directory);

}  // namespace relay::cli
