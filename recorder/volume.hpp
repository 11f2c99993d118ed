// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/checkpoint_record.hpp"
#include "layout/result.hpp"
#include "recorder/clock.hpp"
#include "recorder/disk.hpp"
#include "recorder/journal.hpp"
#include "recorder/session_files.hpp"
#include "recorder/spill.hpp"
#include "recorder/work.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace relay::recorder {

// What the volumes of one pipeline share. All of it outlives them.
struct VolumeContext {
    Disk& disk;
    Journal& journal;
    Spill& spill;
    const Clock& clock;
    PipelineListener& listener;
    const std::atomic<std::uint64_t>&
        dispatched_lsn;  // every batch up to here was offered to its volumes
    std::size_t open_sessions_max = 1000;
};

struct VolumeHealth {
    std::string name;
    bool sick = false;
    std::string reason;
    layout::Timestamp since{};
    std::size_t sessions = 0;
    std::size_t queued = 0;
};

// One file system that holds sessions: applies durable changes to their files, syncs them for the
// checkpoint, and bears its own illness. While its disk refuses (full, read-only, gone, hung), changes
// are acknowledged as deferred, stay in the journal or the spill, and are applied when it is well again;
// no other volume notices.
//
// Step-wise: apply_step() belongs to one thread, sync_step() to another; the rest may be called from
// anywhere. The steps do what there is to do and return whether that was anything; wait_* block until
// there may be. A step that hangs in the kernel holds no lock.
class Volume {
public:
    Volume(VolumeContext context, std::string name, std::string anchor);

    void adopt(std::shared_ptr<SessionFiles> files, std::optional<layout::SessionMark> mark);
    [[nodiscard]] std::shared_ptr<SessionFiles> find(const layout::Ulid& session) const;

    // Durable changes of one batch, in order. Commit thread.
    void enqueue(std::vector<WorkItem> items);

    // Recovery: applies everything that spill and journal hold beyond the marks. A failure leaves the
    // volume sick, and apply_step() tries again.
    [[nodiscard]] Status recover();
    // Recovery of a damaged journal: single changes from behind the damage. Errc::busy when sick.
    [[nodiscard]] Status replay(std::vector<WorkItem> items);
    [[nodiscard]] std::vector<std::shared_ptr<SessionFiles>> sessions() const;

    bool apply_step();
    bool sync_step();
    void
    wait_apply(std::unique_lock<std::mutex>& lock);  // until there may be work for apply_step()
    void wait_sync(std::unique_lock<std::mutex>& lock);
    void stop();
    [[nodiscard]] bool stopping() const;
    [[nodiscard]] std::mutex& mutex() { return mutex_; }

    // The checkpoint's side. request_sync() asks for everything offered so far to be applied, checked
    // and synced; synced_lsn() tells how far that has come.
    void request_sync();
    [[nodiscard]] std::uint64_t synced_lsn() const;
    [[nodiscard]] bool sick() const;
    void declare_sick(const Error& error);  // recovery met it, not one of the steps
    // How long nothing has moved: neither an effect applied nor a sync begun or ended.
    [[nodiscard]] std::int64_t silent_ms() const;
    // Declares the volume sick when it is at work and has been silent for longer than this.
    void check_stall(std::int64_t limit_ms);
    // Copies what is not synced here from the journal to the spill, up to `lsn`. Checkpoint thread.
    [[nodiscard]] Status spill_to(std::uint64_t lsn);
    // Sessions whose spill is not needed any more: applied and synced here.
    [[nodiscard]] std::vector<layout::Ulid> drained_spills() const;
    void forget_spills();
    // What the checkpoint says of the sessions here. Finished and synced ones are dropped.
    [[nodiscard]] std::vector<layout::SessionMark> marks();

    // What recovery found: everything up to these is synced here, or lies in the spill.
    void resume_at(std::uint64_t synced_lsn, std::uint64_t spilled_lsn);

    [[nodiscard]] VolumeHealth health() const;
    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] const std::string& anchor() const { return anchor_; }

private:
    struct Member {
        std::shared_ptr<SessionFiles> files;
        std::optional<layout::SessionMark> mark;  // as of the last sync here
    };
    struct Capture {
        std::uint64_t number = 0;
        std::uint64_t lsn = 0;
        std::vector<layout::SessionMark> marks;
    };
    struct Staged;
    struct Round;

    // Apply thread.
    [[nodiscard]] Status apply_items(std::vector<WorkItem>& items, ApplyMode mode);
    [[nodiscard]] Status
    begin_item(WorkItem& item, std::size_t index, ApplyMode mode, Round& round);
    [[nodiscard]] Status
    apply_effect(SessionFiles& files, const layout::Effect& effect, ApplyMode mode);
    [[nodiscard]] Status finish_round(std::vector<WorkItem>& items, ApplyMode mode, Round& round);
    [[nodiscard]] Status finish_staged(Staged& staged, ApplyMode mode);
    [[nodiscard]] Status sync_round(Round& round);
    void
    settle_item(WorkItem& item, Verdict verdict, std::string reason, std::vector<Outcome>& out);
    void deliver(std::vector<Outcome> outcomes);
    void lose_session(SessionFiles& files, const Error& error);
    void report_conflicts(SessionFiles& files);
    void capture(std::uint64_t dispatched);
    void limit_open_sessions();
    [[nodiscard]] Status catch_up();
    [[nodiscard]] Status check_marked_files();
    [[nodiscard]] Status catch_up_spill(std::uint64_t after, std::uint64_t upto);
    [[nodiscard]] Status
    replay_changes(std::uint64_t lsn, std::string_view changes, std::uint64_t after);
    [[nodiscard]] Status ensure_sentinel();
    [[nodiscard]] bool still_mounted();
    [[nodiscard]] bool is_session_fault(SessionFiles& files, const Error& error, ApplyMode mode);
    void close_all();
    void note_progress() { progress_ms_ = context_.clock.steady_ms(); }

    // Any thread.
    void fall_sick(const Error& error);
    void fall_sick_locked(const Error& error, std::vector<Outcome>& deferred);
    void recovered_locked(std::vector<Notice>& notices);

    VolumeContext context_;
    const std::string name_;
    const std::string anchor_;
    std::unique_ptr<Directory> sentinel_;  // open since before the first write: reports lost ones

    mutable std::mutex mutex_;
    std::condition_variable apply_wakeup_;
    std::condition_variable sync_wakeup_;
    bool stopping_ = false;
    std::unordered_map<layout::Ulid, Member> members_;
    std::vector<WorkItem> queue_;
    std::vector<WorkItem> inflight_;
    bool busy_ = false;  // apply_step() is at work
    bool sync_wanted_ = false;
    std::optional<Capture> captured_;
    std::uint64_t captures_ = 0;
    std::uint64_t synced_lsn_ = 0;
    std::uint64_t spilled_lsn_ = 0;
    std::uint64_t dropped_lsn_ = 0;    // offered while sick and not queued
    std::uint64_t caught_up_lsn_ = 0;  // applied by catch_up(), although it may still be offered
    bool sick_ = false;
    Error illness_;
    layout::Timestamp sick_since_{};
    std::int64_t retry_at_ms_ = 0;
    std::int64_t retry_delay_ms_ = 0;

    std::atomic<std::int64_t> progress_ms_ = 0;

    bool dirty_ = false;           // apply thread: written since the last capture
    std::uint64_t use_count_ = 0;  // apply thread
};

}  // namespace relay::recorder
