// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/journal_change.hpp"
#include "layout/ulid.hpp"
#include "recorder/journal.hpp"
#include "recorder/pipeline.hpp"
#include "recorder/session.hpp"

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace relay::recorder {

struct RecoveryOptions {
    std::string journal_directory;  // exists; private to this daemon
    bool unsafe_journal = false;    // a journal in memory is allowed
    std::int64_t own_pid = 0;
    Journal::Random random;
};

// A session that was not finished when the last daemon stopped, brought up to date.
struct RecoveredSession {
    std::shared_ptr<SessionFiles> files;
    SessionState state;
    bool damaged = false;  // acknowledged events of it could not be read
};

struct RecoveryReport {
    bool fresh = false;  // there was no journal yet
    std::uint64_t batches = 0;
    std::string_view tail;     // the rule that said how the journal ended
    std::string damaged_copy;  // where a damaged journal was kept; empty when it was whole
    std::vector<RecoveredSession> sessions;
    // Not finished either, but their disk cannot be reached or read now. They must not be read back
    // before a Notice with a deferral says that their files are complete.
    std::vector<layout::Ulid> waiting;
    std::vector<std::string>
        remarks;  // one sentence each: sessions deleted, disks not reachable, …
    layout::Ulid last_ulid;
};

// From whatever a crash or a stop left to a running pipeline: scan the journal, make its tail durable,
// apply it, sync, and only then write the checkpoint that lets it go. May be interrupted anywhere and
// run again: nothing is removed before that checkpoint, and applying twice is applying once.
class Recovery {
public:
    explicit Recovery(Pipeline& pipeline) : pipeline_(pipeline) {}

    // Errc::busy when another daemon holds the journal; Errc::unsafe when it lies in memory;
    // Errc::invalid when it is of a newer version; Errc::corrupt when both checkpoints are damaged.
    [[nodiscard]] Result<RecoveryReport> run(const RecoveryOptions& options);

private:
    [[nodiscard]] Status open(const RecoveryOptions& options);
    [[nodiscard]] Status load_checkpoint(const RecoveryOptions& options);
    [[nodiscard]] Status find_sessions();
    void find_disks();
    [[nodiscard]] std::string volume_of(const layout::SessionMark& mark) const;
    [[nodiscard]] Status adopt_claims(std::string_view payload);
    [[nodiscard]] Status place_volumes();
    [[nodiscard]] Status keep_damaged_journal();
    [[nodiscard]] Status salvage();
    [[nodiscard]] Result<bool>
    follows(SessionFiles& files, const layout::ChangeReader::Change& change);
    [[nodiscard]] Status remove_needless_spills();
    [[nodiscard]] Status close_and_restart();
    void load_sessions();

    Pipeline& pipeline_;
    RecoveryReport report_;
    layout::CheckpointRecord checkpoint_;
    std::set<std::pair<std::uint64_t, std::uint64_t>> disks_;  // number at the checkpoint, and now
    JournalScan scan_;
    std::uint64_t end_lsn_ = 0;  // of the unbroken chain
    std::vector<layout::Ulid> damaged_;
};

}  // namespace relay::recorder
