// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/journal_change.hpp"
#include "layout/result.hpp"
#include "recorder/disk.hpp"
#include "recorder/session.hpp"

#include <cstdint>

namespace relay::recorder {

// Reads a session back from its directory, complete enough to go on with it: meta.json, the seals of its
// turns, the timeline of the open turn, and the streams of the open turn for their hashes. Writes nothing.
// The seqs are what the journal or the checkpoint knows; the larger of them and the files' own counts.
// Errc::not_found without a meta.json, Errc::corrupt or Errc::invalid when it cannot be read.
// Timeline lines that the crash kept from being written (coalesced output) are made good by the next
// step: the state's Session finds its output longer than its timeline and names the rest.
[[nodiscard]] Result<SessionState> load_session(
    Directory& directory,
    const layout::Claim& claim,
    std::int64_t client_seq,
    std::int64_t event_seq);

}  // namespace relay::recorder
