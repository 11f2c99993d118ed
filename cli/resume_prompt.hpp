// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/result.hpp"
#include "layout/store.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace relay::cli {

// The handoff packet as the first prompt of the next agent: the objective, the state of the tree, decisions,
// blockers, validation, what to do next, and where the full turns lie. Everything that the earlier session said
// stands behind "> ", line by line, so that nothing in it can pass for a word of ours. `request` is what the
// user adds; empty: nothing.
[[nodiscard]] std::string render_resume_prompt(
    const nlohmann::json& packet, const std::string& session_directory, std::string_view request);

// A session that another one goes on from, read from its directory.
struct ResumableSession {
    std::string directory;
    std::string id;
    std::string agent;           // the one that stopped
    std::int64_t last_turn = 0;  // 0: there was none
    std::string prompt;          // rendered
    std::string relation = "resume";

    // Of session.start.
    [[nodiscard]] std::string parent_json() const;
};

// Errc::not_found when there is no such session; Errc::invalid, with a sentence that says what to do instead, when it
// has not stopped short.
[[nodiscard]] layout::Result<ResumableSession>
read_resumable(const std::string& session_directory, std::string_view request);

// What is known of a session as of one of its turns, by default the last that has ended: its resume.json if it
// stopped short there, else packet_as_of(), with its errors.
[[nodiscard]] layout::Result<nlohmann::json>
find_packet(const std::string& session_directory, const std::optional<std::int64_t>& turn);

// A session to go on from as of one of its turns, whether or not it stopped short: find_packet(), rendered.
[[nodiscard]] layout::Result<ResumableSession> read_as_of(
    const std::string& session_directory,
    const std::optional<std::int64_t>& turn,
    std::string_view relation,
    std::string_view request);

// The directory of the session that `word` names, or without one of the newest that stopped short, here or else
// in the user's store, and that nobody goes on with or has gone on with to a good end. Errc as of choose_session().
[[nodiscard]] layout::Result<std::string>
find_resumable(const std::string& word, const layout::Environment& environment);

}  // namespace relay::cli
