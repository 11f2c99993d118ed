// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/documents.hpp"
#include "layout/result.hpp"
#include "layout/ulid.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// Reading sessions back from plain files, for both programs. Opens read-only, follows no symbolic link
// below the directory it is given, and needs no daemon.

namespace relay::layout {

// The whole content of a regular file. Errc::not_found when there is none, Errc::invalid when it is
// larger than `bytes_max`, Errc::unsafe when it is a link or no regular file.
[[nodiscard]] Result<std::string> read_file(const std::string& path, std::int64_t bytes_max);

// Several times what the bounds of docs/protocol.md let a meta.json grow to.
inline constexpr std::int64_t meta_bytes_max = std::int64_t{4} * 1024 * 1024;

[[nodiscard]] Result<Meta> read_meta(const std::string& session_directory);

// Ids of the session directories of a store's sessions/, newest first. Other names are passed over.
// A missing directory is an empty list.
[[nodiscard]] Result<std::vector<Ulid>> list_sessions(const std::string& sessions_directory);

// Numbers of the turns of a session that left a file in turns/, ascending. A missing directory is an
// empty list.
[[nodiscard]] Result<std::vector<std::int64_t>> list_turns(const std::string& session_directory);

struct Finding {
    std::string file;  // relative to the session directory
    std::string what;  // one sentence
};

struct Verification {
    std::int64_t turns = 0;        // sealed turns looked at
    std::int64_t open_turns = 0;   // turns without a seal: running, not damaged
    std::vector<Finding> damage;   // empty: everything is as it was sealed
    std::vector<Finding> remarks;  // not damage, but worth knowing
};

// Recomputes every hash and the chain of a session. Errc::not_found when the directory is no session;
// Errc::invalid when its format is newer than this program.
[[nodiscard]] Result<Verification> verify_session(const std::string& session_directory);

}  // namespace relay::layout
