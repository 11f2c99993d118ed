// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/checkpoint_record.hpp"
#include "layout/ulid.hpp"
#include "recorder/checkpoint_slots.hpp"
#include "recorder/clock.hpp"
#include "recorder/commit_queue.hpp"
#include "recorder/disk.hpp"
#include "recorder/journal.hpp"
#include "recorder/session_files.hpp"
#include "recorder/spill.hpp"
#include "recorder/sync_latency.hpp"
#include "recorder/volume.hpp"
#include "recorder/work.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace relay::recorder {

struct PipelineLimits {
    JournalLimits journal;
    std::int64_t batch_bytes_max = 4 << 20;  // at 500 MB/s one batch is 8 ms of writing
    std::int64_t stall_limit_ms = 5'000;     // a disk silent for longer is treated as sick
    std::int64_t sync_patience_ms =
        20'000;  // a checkpoint waits this long for a disk's sync, then spills
    std::int64_t no_space_patience_ms = 10'000;  // a full journal disk is waited for, then refuses
    std::size_t open_sessions_max = 1000;        // with descriptors held open, a volume
};

// Journal, volumes and checkpoints put together: changes go in at submit(), outcomes come out at the
// listener. No threads of its own: the daemon drives the steps from threads, the simulation from one
// deterministic scheduler. Recovery (recovery.hpp) makes it; until then nothing may be submitted.
//
// Threads: submit(), commit_here() and the files_for() family from one (io); commit_step() from the one
// whose turn it is; checkpoint_step() from one; each volume's steps as volume.hpp says.
class Pipeline {
public:
    Pipeline(Disk& disk, const Clock& clock, PipelineListener& listener, PipelineLimits limits);

    // The file system that a session of this place is on. Asks the disk, so it may wait: not for the
    // io thread. An anchor that cannot be reached has a name of its own; an error when the disk fails, because
    // what stands there at the next look may be another disk.
    [[nodiscard]] static Result<std::string> volume_name(Disk& disk, const layout::Claim& claim);
    [[nodiscard]] static std::string volume_name(const FileStat& stat);
    [[nodiscard]] static std::string volume_name(const layout::Claim& unreachable);

    // -- io thread
    // The session's files on the volume of this name; new ones for a new session. Touches no disk.
    [[nodiscard]] std::shared_ptr<SessionFiles>
    files_for(const layout::Ulid& session, const layout::Claim& claim, const std::string& volume);
    void submit(WorkItem item);
    // To be called once nothing has come for a while: if nothing says yet that the last batch was synced, neither a later
    // one nor a checkpoint, an empty batch is submitted that does. From then on its damage cannot be taken for a
    // torn tail.
    void vouch();

    // -- whoever's turn it is: one batch, one write, one sync, and off to the volumes.
    enum class Commit {
        idle,     // nothing waits
        done,     // a batch is durable
        blocked,  // no room until a checkpoint frees some: nothing was lost, call again after one
        failed,   // the journal has latched a failure; every item was answered so
    };
    Commit commit_step();

    // io thread, after PipelineListener::submitted(): commits what waits, and applies what lies on the
    // journal's own disk, here and now, because every change of threads would cost as much as a tenth of
    // the sync. When the journal is not that quick, the commit thread is handed the work instead.
    Commit commit_here();

    // -- commit thread
    void wait_commit();
    void wait_for_room();  // until a checkpoint ended or stop()

    // -- checkpoint thread
    // Goes on with a checkpoint, beginning one when it is due or asked for. True when it did something.
    bool checkpoint_step();
    void wait_checkpoint();  // until checkpoint_step() may have something to do
    void set_checkpoint_interval(std::int64_t interval_ms) {
        checkpoint_interval_ms_ = interval_ms;
    }

    // Asks for a checkpoint that covers everything submitted and committed so far; the ticket counts as
    // done once checkpoints_done() reaches it. Any thread.
    std::uint64_t request_checkpoint();
    [[nodiscard]] std::uint64_t checkpoints_done() const { return checkpoints_done_.load(); }
    // The last checkpoint had to leave something in the spill: a disk refused it.
    [[nodiscard]] bool checkpoint_deferred() const { return checkpoint_deferred_.load(); }

    // The last act of an orderly stop: everything submitted has been settled. Leaves an empty journal
    // and says so in the checkpoint. Steps must not run any more.
    [[nodiscard]] Status finish();

    void stop();
    [[nodiscard]] bool stopping() const;
    void note_last_ulid(const layout::Ulid& last);

    // -- any thread
    // Whether the session may be read back from its files. While its disk is ill they may be older than
    // what was acknowledged: replay passes through every earlier version.
    [[nodiscard]] bool is_readable(const layout::Ulid& session) const;
    [[nodiscard]] std::vector<std::shared_ptr<Volume>> volumes() const;
    [[nodiscard]] std::size_t queued() const { return queue_.size(); }
    [[nodiscard]] std::int64_t journal_bytes() const {
        return journal_ ? journal_->live_bytes() : 0;
    }
    [[nodiscard]] std::uint64_t durable_lsn() const { return journal_->durable_lsn(); }
    [[nodiscard]] std::uint64_t batches() const { return batches_.load(); }
    [[nodiscard]] std::uint64_t changes() const { return changes_.load(); }
    [[nodiscard]] std::int64_t checkpoint_age_ms() const;
    [[nodiscard]] const SyncLatency& sync_latency() const { return sync_latency_; }
    [[nodiscard]] std::optional<std::string> failure() const;
    [[nodiscard]] std::optional<std::string> checkpoint_trouble() const;

private:
    friend class Recovery;

    struct Checkpoint {
        std::uint64_t lsn = 0;
        std::uint64_t ticket = 0;
        bool spilled = false;  // a volume could not be synced
    };

    [[nodiscard]] static std::uint64_t device_of(const std::string& volume_name);
    [[nodiscard]] std::shared_ptr<Volume>
    find_or_add_volume(const std::string& name, const layout::Claim& place);
    [[nodiscard]] Commit commit(std::size_t bytes_max, Volume::Where where);
    [[nodiscard]] bool is_prompt() const;
    void fill_batch(const std::vector<WorkItem>& items);
    void dispatch(std::vector<WorkItem> items, Volume::Where where);
    void refuse(std::vector<WorkItem> items, Verdict verdict, const std::string& reason);
    [[nodiscard]] bool checkpoint_due() const;
    void begin_checkpoint();
    [[nodiscard]] bool volumes_ready();
    [[nodiscard]] Status finish_checkpoint(std::uint64_t lsn, bool clean);
    struct DrainedSpills {
        std::shared_ptr<Volume> volume;
        std::vector<layout::Ulid> sessions;
    };
    [[nodiscard]] Status remove_spills(const std::vector<DrainedSpills>& drained);
    void fail_checkpoint(const Error& error);

    Disk& disk_;
    const Clock& clock_;
    PipelineListener& listener_;
    PipelineLimits limits_;

    // Made by recovery, in this order, and never changed afterwards.
    std::unique_ptr<Directory> journal_directory_;
    std::unique_ptr<Directory> spill_directory_;
    std::unique_ptr<CheckpointSlots> slots_;
    std::unique_ptr<Journal> journal_;
    std::unique_ptr<Spill> spill_;
    layout::JournalId journal_id_{};
    std::string journal_volume_;  // the name of the file system that the journal is on

    CommitQueue queue_;
    // Whose turn it is to commit.
    std::string batch_;                             // the buffer of the batch being written
    std::optional<std::int64_t> starved_since_ms_;  // the journal's disk is full
    Verdict failure_verdict_ = Verdict::failed;
    std::size_t last_batch_items_ = 0;
    std::atomic<std::int64_t> last_commit_us_ = 0;
    std::atomic<int> doubtful_commits_ = 0;  // left, since the journal hung
    std::atomic<std::uint64_t> dispatched_lsn_ = 0;
    std::atomic<std::uint64_t> vouching_lsn_ = 0;  // of the last batch that only vouches
    std::atomic<std::uint64_t> batches_ = 0;
    std::atomic<std::uint64_t> changes_ = 0;
    SyncLatency sync_latency_;

    mutable std::mutex mutex_;  // what follows
    std::condition_variable checkpoint_wakeup_;
    std::condition_variable room_wakeup_;
    std::vector<std::shared_ptr<Volume>> volumes_;
    layout::Ulid last_ulid_{};
    std::optional<std::string> failure_;
    std::optional<std::string> trouble_;
    bool stopping_ = false;
    std::uint64_t tickets_ = 0;             // checkpoints asked for
    std::int64_t next_checkpoint_ms_ = 0;   // 0: nothing happened since the last one
    std::int64_t retry_checkpoint_ms_ = 0;  // none before; set when one failed
    std::int64_t checkpointed_ms_ = 0;
    std::uint64_t checkpointed_lsn_ = 0;
    std::optional<Checkpoint> checkpoint_;  // under way

    std::atomic<std::int64_t> checkpoint_interval_ms_ = 5'000;
    std::atomic<std::uint64_t> checkpoints_done_ = 0;
    std::atomic<bool> checkpoint_deferred_ = false;
};

}  // namespace relay::recorder
