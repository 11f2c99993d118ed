// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/checkpoint_record.hpp"
#include "layout/result.hpp"
#include "recorder/clock.hpp"
#include "recorder/disk.hpp"
#include "recorder/journal.hpp"
#include "recorder/seal_sync.hpp"
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

// The deepest directory on the way to a session of this place that exists: what lies there, or will be
// made there, is on its file system. Another one may be mounted anywhere below the anchor.
[[nodiscard]] Result<std::unique_ptr<Directory>> open_place(Disk& disk, const layout::Claim& place);

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
// A change that ends something (a turn, a session) waits for a sync of its own before its documents get
// their names. That is the sealer's work, so that nobody else's chunks wait behind it; the session's later
// changes are held back until it is done.
//
// Step-wise: seal_step() belongs to one thread, sync_step() to another; apply_step() and apply_here() may
// be called from several and take turns; the rest may be called from anywhere. The steps do what there is
// to do and return whether that was anything; wait_* block until there may be. A step that hangs in the
// kernel holds no lock.
class Volume {
public:
    // `place` is that of any session here.
    Volume(VolumeContext context, std::string name, layout::Claim place);
    ~Volume();
    Volume(const Volume&) = delete;
    Volume& operator=(const Volume&) = delete;

    void adopt(std::shared_ptr<SessionFiles> files, std::optional<layout::SessionMark> mark);
    [[nodiscard]] std::shared_ptr<SessionFiles> find(const layout::Ulid& session) const;

    // Durable changes of one batch, in order. Whoever commits. With `here` they are applied before the
    // call returns if that needs no waiting for another thread; otherwise by the next apply_step().
    enum class Where { here, later };
    void enqueue(std::vector<WorkItem> items, Where where);

    // Recovery: applies everything that spill and journal hold beyond the marks. A failure leaves the
    // volume sick, and apply_step() tries again.
    [[nodiscard]] Status recover();
    // Recovery of a damaged journal: single changes from behind the damage. Errc::busy when sick.
    [[nodiscard]] Status replay(std::vector<WorkItem> items);
    [[nodiscard]] std::vector<std::shared_ptr<SessionFiles>> sessions() const;

    bool apply_step();
    bool seal_step();
    bool sync_step();
    void wait_apply();  // until there may be work for apply_step(), or stop()
    void wait_seal();
    void wait_sync();
    void stop();
    [[nodiscard]] bool stopping() const;

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

    // The file system has this number, if it is mounted. Before recover().
    void expect_device(std::uint64_t device) { device_ = device; }
    // What recovery found: everything up to these is synced here, or lies in the spill.
    void resume_at(std::uint64_t synced_lsn, std::uint64_t spilled_lsn);

    [[nodiscard]] VolumeHealth health() const;
    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] const std::string& anchor() const { return place_.anchor; }

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
    struct Finished {
        WorkItem* item = nullptr;
        Status status = layout::Done{};
    };
    // Changes read back from journal or spill, to be applied together.
    struct Gathered {
        std::vector<WorkItem> items;
        std::size_t bytes = 0;
    };
    struct Seal;
    using Seals = std::vector<std::unique_ptr<Seal>>;

    // Who applies: one at a time, while busy_.
    [[nodiscard]] bool is_due(const WorkItem& item) const;
    [[nodiscard]] bool is_quiet() const;
    [[nodiscard]] bool ready_to_apply() const;
    [[nodiscard]] bool ready_to_capture() const;
    void take_in(WorkItem& item, std::vector<Outcome>& outcomes);
    void take_work();
    [[nodiscard]] Status apply_inflight();
    [[nodiscard]] Status replay_items(std::vector<WorkItem>& items);
    void drop_staged(SessionFiles& files);
    [[nodiscard]] Status
    apply_item(WorkItem& item, ApplyMode mode, std::vector<Finished>& finished);
    [[nodiscard]] Status apply_plain(WorkItem& item, ApplyMode mode);
    [[nodiscard]] Status begin_seal(WorkItem& item, ApplyMode mode);
    [[nodiscard]] Status prepare_step(Seal& seal, const layout::Effect& effect, ApplyMode mode);
    [[nodiscard]] Status stage_document(Seal& seal, const layout::Effect& effect, ApplyMode mode);
    [[nodiscard]] Status
    apply_effect(SessionFiles& files, const layout::Effect& effect, ApplyMode mode);
    void finish_apply();

    // The sealer's; replay does it on the spot.
    [[nodiscard]] Status finish_seals(Seals& seals, ApplyMode mode);
    [[nodiscard]] Status sync_seals(Seals& seals);
    [[nodiscard]] Status finish_seal(Seal& seal, ApplyMode mode);

    void settle(const std::vector<Finished>& finished, ApplyMode mode);
    void
    settle_item(WorkItem& item, Verdict verdict, std::string reason, std::vector<Outcome>& out);
    void defer(WorkItem& item, std::vector<Outcome>& out);
    void stop_waiting(std::vector<Outcome>& out);
    void deliver(std::vector<Outcome> outcomes);
    void lose_session(SessionFiles& files, const Error& error);
    void report_conflicts(SessionFiles& files);
    [[nodiscard]] Status mark_member(Member& member);
    void capture();
    void limit_open_sessions();
    [[nodiscard]] Status catch_up();
    [[nodiscard]] Status remove_temporaries();
    [[nodiscard]] Status check_marked_files();
    [[nodiscard]] Status catch_up_journal(std::uint64_t after, std::uint64_t upto);
    [[nodiscard]] Status catch_up_spill(std::uint64_t after, std::uint64_t upto);
    [[nodiscard]] Status gather_changes(
        std::uint64_t lsn, std::string_view changes, std::uint64_t after, Gathered& gathered);
    [[nodiscard]] Status replay_gathered(Gathered& gathered);
    [[nodiscard]] Status ensure_sentinel();
    [[nodiscard]] Status find_again();
    [[nodiscard]] bool holds_a_session();
    [[nodiscard]] bool still_mounted();
    [[nodiscard]] bool is_session_fault(SessionFiles& files, const Error& error, ApplyMode mode);
    void close_all();
    void let_go();
    void note_progress() { progress_ms_ = context_.clock.steady_ms(); }

    // Any thread.
    void fall_sick(const Error& error);
    void fall_sick_locked(const Error& error, std::vector<Outcome>& deferred);
    void recovered_locked(std::vector<Notice>& notices, std::vector<Outcome>& outcomes);

    VolumeContext context_;
    const std::string name_;
    const layout::Claim place_;
    // Open since before the first write: reports lost ones. Changes hands under mutex_.
    std::shared_ptr<Directory> sentinel_;
    std::uint64_t device_ = 0;  // of the file system; 0: not known yet

    mutable std::mutex mutex_;
    std::condition_variable apply_wakeup_;
    std::condition_variable seal_wakeup_;
    std::condition_variable sync_wakeup_;
    bool stopping_ = false;
    std::unordered_map<layout::Ulid, Member> members_;
    // A change goes from queue_ to inflight_ and is done; or on to staging_, seals_ (it waits for the
    // sealer) and sealing_; or to held_, when its session is with the sealer.
    std::vector<WorkItem> queue_;
    std::vector<WorkItem> inflight_;
    std::vector<WorkItem> held_;
    Seals staging_;
    Seals seals_;
    Seals sealing_;
    std::vector<std::shared_ptr<SessionFiles>> sealed_;  // back from the sealer
    bool busy_ = false;                                  // somebody applies
    std::optional<std::uint64_t> sync_wanted_;           // up to this lsn
    std::optional<Capture> captured_;
    std::uint64_t captures_ = 0;
    std::uint64_t offered_ = 0;  // changes
    std::uint64_t synced_lsn_ = 0;
    std::uint64_t spilled_lsn_ = 0;
    std::uint64_t dropped_lsn_ = 0;    // offered while sick and not queued
    std::uint64_t caught_up_lsn_ = 0;  // applied by catch_up(), although it may still be offered
    bool sick_ = false;
    bool nearly_well_ = false;  // sick, and what is offered now waits in queue_ for the end of that
    std::size_t waiting_bytes_ = 0;  // since then
    Error illness_;
    layout::Timestamp sick_since_{};
    std::int64_t retry_at_ms_ = 0;
    std::int64_t retry_delay_ms_ = 0;

    std::atomic<std::int64_t> progress_ms_ = 0;
    SealSync seal_sync_;  // whoever seals

    // Whose turn it is to apply.
    bool dirty_ = false;  // written since the last capture
    std::uint64_t use_count_ = 0;
};

}  // namespace relay::recorder
