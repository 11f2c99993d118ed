// SPDX-License-Identifier: Apache-2.0
#include "recorder/volume.hpp"

#include "layout/journal_change.hpp"
#include "recorder/order_monitor.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <set>
#include <utility>

namespace relay::recorder {

using layout::ChangeReader;
using layout::Done;
using layout::Effect;
using layout::EffectKind;
using layout::EffectReader;
using layout::SessionMark;
using layout::Ulid;

namespace {

// From here on one syncfs is cheaper than syncing file by file (measured on ext4: 8 files 104 µs each
// against 230 µs).
constexpr std::size_t sync_together_min = 8;

constexpr std::int64_t retry_delay_first_ms = 500;
constexpr std::int64_t retry_delay_max_ms = 30'000;

}  // namespace

// The part of a change that must wait for a sync: what was written under temporary names, and the
// effects from the first synced one on, in order.
struct Volume::Staged {
    std::size_t index = 0;
    std::shared_ptr<SessionFiles> files;
    std::uint64_t lsn = 0;
    struct Step {
        Effect effect;
        std::unique_ptr<File> temporary;  // of a replacement
        bool synced = false;
    };
    std::vector<Step> steps;
    std::vector<File*> settling;
};

struct Volume::Round {
    std::vector<std::size_t> done;  // applied without having to wait
    std::vector<Staged> staged;
    std::set<Ulid> waiting;  // sessions in `staged`
};

Volume::Volume(VolumeContext context, std::string name, std::string anchor)
    : context_(context), name_(std::move(name)), anchor_(std::move(anchor)) {
}

Status Volume::ensure_sentinel() {
    if (sentinel_) {
        return Done{};
    }
    auto opened = context_.disk.open_directory(anchor_);
    if (!opened.ok()) {
        return opened.error();
    }
    sentinel_ = std::move(opened.value());
    return Done{};
}

// After a lazy unmount everything held open still works; only the way from the root leads elsewhere.
bool Volume::still_mounted() {
    if (!sentinel_) {
        return false;
    }
    auto held = sentinel_->stat();
    if (!held.ok()) {
        return false;
    }
    if (held.value().links == 0) {
        return true;  // deleted, and that only happens to what is mounted
    }
    auto path = sentinel_->path();
    if (!path.ok()) {
        return false;
    }
    auto named = context_.disk.open_directory(path.value());
    if (!named.ok()) {
        return false;
    }
    auto stat = named.value()->stat();
    return stat.ok() && stat.value().same_file(held.value());
}

// The session itself is at fault, not the disk it lies on: nobody else has to suffer.
bool Volume::is_session_fault(SessionFiles& files, const Error& error, ApplyMode mode) {
    if (error.code == Errc::gone || error.code == Errc::unsafe) {
        return true;
    }
    if ((error.code != Errc::not_found && error.code != Errc::exists) || !still_mounted()) {
        return false;
    }
    // Perhaps somebody swept away a temporary file: then replay puts it back.
    return mode == ApplyMode::replay || !files.directory().ok();
}

void Volume::adopt(std::shared_ptr<SessionFiles> files, std::optional<SessionMark> mark) {
    const std::lock_guard guard(mutex_);
    Member& member = members_[files->id];
    member.files = std::move(files);
    member.mark = std::move(mark);
}

std::shared_ptr<SessionFiles> Volume::find(const Ulid& session) const {
    const std::lock_guard guard(mutex_);
    const auto member = members_.find(session);
    return member == members_.end() ? nullptr : member->second.files;
}

void Volume::enqueue(std::vector<WorkItem> items) {
    std::vector<Outcome> outcomes;
    {
        const std::lock_guard guard(mutex_);
        for (WorkItem& item : items) {
            if (item.lsn <= caught_up_lsn_) {
                settle_item(item, Verdict::visible, {}, outcomes);
            } else if (sick_) {
                dropped_lsn_ = std::max(dropped_lsn_, item.lsn);
                settle_item(item, Verdict::deferred, illness_.context, outcomes);
            } else {
                queue_.push_back(std::move(item));
            }
        }
    }
    apply_wakeup_.notify_one();
    deliver(std::move(outcomes));
}

void Volume::settle_item(
    WorkItem& item, Verdict verdict, std::string reason, std::vector<Outcome>& out) {
    item.files->finished = item.finishes;
    if (verdict == Verdict::visible) {
        OrderMonitor::acking(
            item.lsn,
            item.lsn <= std::max(item.files->applied_lsn.load(), caught_up_lsn_),
            context_.journal.durable_lsn());
    }
    if (item.waiter.connection != 0) {
        out.push_back({verdict, std::move(item.waiter), std::move(reason)});
        item.waiter.connection = 0;
    }
}

void Volume::deliver(std::vector<Outcome> outcomes) {
    if (!outcomes.empty()) {
        context_.listener.settled(std::move(outcomes));
    }
}

Status Volume::apply_effect(SessionFiles& files, const Effect& effect, ApplyMode mode) {
    switch (effect.kind) {
    case EffectKind::claim: {
        auto claim = layout::decode_claim(effect);
        return claim.ok() ? files.apply_claim(claim.value()) : Status(claim.error());
    }
    case EffectKind::append:
        return files.append(effect.name, effect.offset, effect.data, mode);
    case EffectKind::replace:
    case EffectKind::replace_synced: {
        auto staged = files.stage(effect.name, effect.data);
        if (!staged.ok()) {
            return staged.error();
        }
        auto stat = staged.value()->stat();
        if (!stat.ok()) {
            return stat.error();
        }
        OrderMonitor::publishing(effect.kind == EffectKind::replace_synced, false);
        return files.publish(effect.name, stat.value(), mode);
    }
    case EffectKind::remove:
        return files.remove(effect.name);
    case EffectKind::link_latest:
        return files.link_latest();
    case EffectKind::settle:
        return Done{};
    }
    return Done{};
}

// Applies the effects up to the first one that needs a sync; from there on, prepares them.
Status Volume::begin_item(WorkItem& item, std::size_t index, ApplyMode mode, Round& round) {
    OrderMonitor::applying(item.lsn, context_.journal.durable_lsn());
    note_progress();
    SessionFiles& files = *item.files;
    files.last_used = ++use_count_;
    ChangeReader changes(item.change);
    const auto change = changes.next();
    assert(change && "a change in the pipeline is whole");
    EffectReader effects(*change);
    Staged staged;
    staged.index = index;
    staged.files = item.files;
    staged.lsn = item.lsn;
    while (auto effect = effects.next()) {
        // In replay the turn may be sealed already, and a sealed file must not be found empty.
        const bool replaces = effect->kind == EffectKind::replace_synced
                              || (effect->kind == EffectKind::replace && mode == ApplyMode::replay);
        const bool needs_sync = replaces || effect->kind == EffectKind::settle;
        if (!needs_sync && staged.steps.empty() && staged.settling.empty()) {
            if (Status applied = apply_effect(files, *effect, mode); !applied.ok()) {
                return applied;
            }
            continue;
        }
        if (effect->kind == EffectKind::settle) {
            auto file = files.file_to_settle(effect->name);
            if (!file.ok()) {
                return file.error();
            }
            if (file.value() != nullptr) {
                staged.settling.push_back(file.value());
            }
            continue;
        }
        Staged::Step step;
        step.effect = *effect;
        if (replaces) {
            auto temporary = files.stage(effect->name, effect->data);
            if (!temporary.ok()) {
                return temporary.error();
            }
            step.temporary = std::move(temporary.value());
        }
        staged.steps.push_back(std::move(step));
    }
    assert(!effects.damaged());
    files.client_seq = std::max(files.client_seq, change->header.client_seq);
    files.event_seq = std::max(files.event_seq, change->header.event_seq);
    if (staged.steps.empty() && staged.settling.empty()) {
        files.applied_lsn = item.lsn;
        round.done.push_back(index);
    } else {
        round.waiting.insert(files.id);
        round.staged.push_back(std::move(staged));
    }
    return Done{};
}

Status Volume::sync_round(Round& round) {
    std::vector<File*> files;
    for (Staged& staged : round.staged) {
        files.insert(files.end(), staged.settling.begin(), staged.settling.end());
        for (Staged::Step& step : staged.steps) {
            if (step.temporary) {
                files.push_back(step.temporary.get());
            }
        }
    }
    if (files.size() >= sync_together_min) {
        if (Status synced = sentinel_->sync_file_system(); !synced.ok()) {
            return synced;
        }
    } else {
        for (File* file : files) {
            file->start_writeback();
        }
        for (File* file : files) {
            if (Status synced = file->sync(); !synced.ok()) {
                return synced;
            }
            note_progress();
        }
    }
    for (Staged& staged : round.staged) {
        for (Staged::Step& step : staged.steps) {
            step.synced = step.temporary != nullptr;
        }
    }
    return Done{};
}

Status Volume::finish_staged(Staged& staged, ApplyMode mode) {
    SessionFiles& files = *staged.files;
    note_progress();
    files.close_settled();
    for (Staged::Step& step : staged.steps) {
        if (!step.temporary) {
            if (Status applied = apply_effect(files, step.effect, mode); !applied.ok()) {
                return applied;
            }
            continue;
        }
        auto stat = step.temporary->stat();
        if (!stat.ok()) {
            return stat.error();
        }
        OrderMonitor::publishing(true, step.synced);
        if (Status published = files.publish(step.effect.name, stat.value(), mode);
            !published.ok()) {
            return published;
        }
        step.temporary.reset();
    }
    files.applied_lsn = staged.lsn;
    return Done{};
}

Status Volume::finish_round(std::vector<WorkItem>& items, ApplyMode mode, Round& round) {
    std::vector<Outcome> outcomes;
    const auto settle = [&](std::size_t index, const Status& status) {
        const std::lock_guard guard(mutex_);
        const bool ours = !sick_ || mode == ApplyMode::replay;  // else already told: deferred
        if (ours) {
            settle_item(
                items[index],
                status.ok() ? Verdict::visible : Verdict::gone,
                status.ok() ? std::string() : status.error().context,
                outcomes);
        }
    };
    for (const std::size_t index : round.done) {
        settle(index, Done{});
    }
    deliver(std::exchange(outcomes, {}));
    if (round.staged.empty()) {
        return Done{};
    }
    if (Status synced = sync_round(round); !synced.ok()) {
        return synced;
    }
    for (Staged& staged : round.staged) {
        Status finished = finish_staged(staged, mode);
        if (!finished.ok()) {
            if (!is_session_fault(*staged.files, finished.error(), mode)) {
                deliver(std::move(outcomes));  // of those that were done before this one
                return finished;
            }
            lose_session(*staged.files, finished.error());
        }
        settle(staged.index, finished);
    }
    deliver(std::move(outcomes));
    return Done{};
}

// Applies a run of changes. Those of one session stay in order: one that has to wait for a sync holds
// back the session's next ones to a further round, and nobody else's.
Status Volume::apply_items(std::vector<WorkItem>& items, ApplyMode mode) {
    if (Status opened = ensure_sentinel(); !opened.ok()) {
        return opened;
    }
    std::vector<std::size_t> todo(items.size());
    for (std::size_t index = 0; index < items.size(); ++index) {
        todo[index] = index;
    }
    dirty_ = dirty_ || !items.empty();
    while (!todo.empty()) {
        Round round;
        std::vector<std::size_t> held;
        for (const std::size_t index : todo) {
            WorkItem& item = items[index];
            if (round.waiting.contains(item.files->id)) {
                held.push_back(index);
                continue;
            }
            Status begun = item.files->gone ? Status(Error{
                               Errc::gone,
                               0,
                               "the directory of session " + item.files->id.text()
                                   + " was deleted or moved away"})
                                            : begin_item(item, index, mode, round);
            if (begun.ok()) {
                continue;
            }
            if (!is_session_fault(*item.files, begun.error(), mode)) {
                return begun;
            }
            lose_session(*item.files, begun.error());
            std::vector<Outcome> outcomes;
            {
                const std::lock_guard guard(mutex_);
                settle_item(item, Verdict::gone, begun.error().context, outcomes);
            }
            deliver(std::move(outcomes));
        }
        if (Status finished = finish_round(items, mode, round); !finished.ok()) {
            return finished;
        }
        todo = std::move(held);
    }
    for (WorkItem& item : items) {
        report_conflicts(*item.files);
    }
    return Done{};
}

void Volume::lose_session(SessionFiles& files, const Error& error) {
    static_cast<void>(error);  // the waiter hears it; the record it would belong in is gone
    if (!files.gone || files.is_open()) {
        Notice notice;
        notice.session = files.id;
        notice.gone = true;
        files.gone = true;
        files.finished = true;
        files.close();
        context_.listener.noticed(std::move(notice));
    }
}

void Volume::report_conflicts(SessionFiles& files) {
    for (FileConflict& conflict : files.take_conflicts()) {
        Notice notice;
        notice.session = files.id;
        notice.conflict = layout::CaptureConflict{
            std::move(conflict.file), std::move(conflict.kept), context_.clock.now()};
        context_.listener.noticed(std::move(notice));
    }
}

bool Volume::apply_step() {
    // Read before looking at the queue: whatever was offered up to here is then either in it or done.
    const std::uint64_t dispatched = context_.dispatched_lsn.load();
    bool wants_sync = false;
    bool heal = false;
    {
        const std::lock_guard guard(mutex_);
        heal = sick_ && context_.clock.steady_ms() >= retry_at_ms_;
        if (sick_ && !heal) {
            return false;
        }
        wants_sync = sync_wanted_ && !captured_;
        if (!heal && queue_.empty() && !wants_sync) {
            return false;
        }
        inflight_ = std::exchange(queue_, {});
        busy_ = true;
        note_progress();
    }
    Status worked = heal ? catch_up() : apply_items(inflight_, ApplyMode::live);
    if (!worked.ok()) {
        fall_sick(worked.error());
    }
    bool still_well = false;
    {
        const std::lock_guard guard(mutex_);
        still_well = !sick_;
        inflight_.clear();
        if (!still_well) {
            busy_ = false;
        }
    }
    if (!still_well) {
        close_all();
        return true;
    }
    if (wants_sync && !heal) {
        capture(dispatched);
    }
    limit_open_sessions();
    const std::lock_guard guard(mutex_);
    busy_ = false;
    return true;
}

void Volume::capture(std::uint64_t dispatched) {
    std::vector<Member> members;
    {
        const std::lock_guard guard(mutex_);
        members.reserve(members_.size());
        for (const auto& [session, member] : members_) {
            members.push_back(member);
        }
    }
    Capture capture;
    capture.lsn = dispatched;
    for (Member& member : members) {
        SessionFiles& files = *member.files;
        if (files.gone) {
            continue;
        }
        const bool unchanged = member.mark && member.mark->synced_lsn == files.applied_lsn;
        if (!unchanged && files.applied_lsn != 0) {
            auto mark = files.mark();
            report_conflicts(files);
            if (!mark.ok()) {
                if (is_session_fault(files, mark.error(), ApplyMode::live)) {
                    lose_session(files, mark.error());
                    continue;
                }
                fall_sick(mark.error());
                return;
            }
            member.mark = std::move(mark.value());
        }
        if (member.mark) {
            capture.marks.push_back(*member.mark);
        }
    }
    const bool written = std::exchange(dirty_, false);
    const std::lock_guard guard(mutex_);
    if (sick_) {
        return;
    }
    sync_wanted_ = false;
    if (!written) {
        // Nothing touched this disk since the last sync, so there is nothing to sync.
        synced_lsn_ = std::max(synced_lsn_, capture.lsn);
        return;
    }
    capture.number = ++captures_;
    captured_ = std::move(capture);
    sync_wakeup_.notify_one();
}

bool Volume::sync_step() {
    std::uint64_t number = 0;
    {
        const std::lock_guard guard(mutex_);
        if (!captured_) {
            return false;
        }
        number = captured_->number;
    }
    note_progress();
    Status synced = sentinel_->sync_file_system();
    if (!synced.ok()) {
        fall_sick(synced.error());
        return true;
    }
    const std::lock_guard guard(mutex_);
    if (!captured_ || captured_->number != number) {
        return true;  // fell sick meanwhile: what was synced says nothing about what was dropped
    }
    synced_lsn_ = std::max(synced_lsn_, captured_->lsn);
    for (SessionMark& mark : captured_->marks) {
        if (const auto member = members_.find(mark.session); member != members_.end()) {
            member->second.mark = std::move(mark);
        }
    }
    captured_.reset();
    apply_wakeup_.notify_one();
    return true;
}

// Descriptors are finite: the sessions not used for longest are synced and closed. Called by the apply
// thread between two pieces of work.
void Volume::limit_open_sessions() {
    std::vector<std::shared_ptr<SessionFiles>> open;
    {
        const std::lock_guard guard(mutex_);
        if (members_.size() <= context_.open_sessions_max) {
            return;
        }
        for (const auto& [session, member] : members_) {
            if (member.files->is_open()) {
                open.push_back(member.files);
            }
        }
    }
    if (open.size() <= context_.open_sessions_max) {
        return;
    }
    // A quarter at a time, so that this is not repeated for every change.
    const std::size_t surplus = open.size() - context_.open_sessions_max * 3 / 4;
    std::nth_element(
        open.begin(),
        open.begin() + static_cast<std::ptrdiff_t>(surplus),
        open.end(),
        [](const auto& left, const auto& right) { return left->last_used < right->last_used; });
    for (std::size_t index = 0; index < surplus; ++index) {
        SessionFiles& files = *open[index];
        if (Status closed = files.sync_and_close(); !closed.ok()) {
            fall_sick(closed.error());
            return;
        }
    }
}

void Volume::close_all() {
    for (const auto& files : sessions()) {
        files->close();
    }
}

void Volume::fall_sick(const Error& error) {
    std::vector<Outcome> deferred;
    {
        const std::lock_guard guard(mutex_);
        fall_sick_locked(error, deferred);
    }
    deliver(std::move(deferred));
}

void Volume::fall_sick_locked(const Error& error, std::vector<Outcome>& deferred) {
    if (!sick_) {
        sick_since_ = context_.clock.now();
        retry_delay_ms_ = retry_delay_first_ms;
    } else {
        retry_delay_ms_ = std::min(retry_delay_ms_ * 2, retry_delay_max_ms);
    }
    sick_ = true;
    illness_ = error;
    retry_at_ms_ = context_.clock.steady_ms() + retry_delay_ms_;
    sync_wanted_ = sync_wanted_ || captured_.has_value();
    captured_.reset();
    for (auto* items : {&inflight_, &queue_}) {
        for (WorkItem& item : *items) {
            dropped_lsn_ = std::max(dropped_lsn_, item.lsn);
            settle_item(item, Verdict::deferred, error.context, deferred);
        }
    }
    queue_.clear();
    apply_wakeup_.notify_one();
}

Status Volume::replay_changes(std::uint64_t lsn, std::string_view changes, std::uint64_t after) {
    ChangeReader reader(changes);
    std::vector<WorkItem> items;
    while (auto change = reader.next()) {
        std::shared_ptr<SessionFiles> files = find(change->header.session);
        // What the session's own mark covers is synced in its files already.
        if (!files || files->gone || lsn <= after || lsn <= files->marked_lsn) {
            continue;
        }
        WorkItem item;
        item.files = std::move(files);
        item.change = change->bytes;
        item.lsn = lsn;
        items.push_back(std::move(item));
    }
    if (reader.damaged()) {
        return Error{Errc::corrupt, 0, "a change in the journal cannot be read"};
    }
    return apply_items(items, ApplyMode::replay);
}

Status Volume::catch_up_spill(std::uint64_t after, std::uint64_t upto) {
    std::vector<std::pair<Ulid, std::uint64_t>> sessions;
    {
        const std::lock_guard guard(mutex_);
        for (const auto& [session, member] : members_) {
            sessions.emplace_back(session, member.mark ? member.mark->synced_lsn : 0);
        }
    }
    for (const auto& [session, marked] : sessions) {
        const std::uint64_t done = std::max(marked, after);
        Status read = context_.spill.read(
            session, [this, done, upto](std::uint64_t lsn, std::string_view changes) {
                return lsn <= upto ? replay_changes(lsn, changes, done) : Status(Done{});
            });
        if (!read.ok()) {
            return read;
        }
    }
    return Done{};
}

// Brings a volume that was sick up to date from spill and journal, and makes it well. Everything since
// the last sync is applied again: a disk that failed may have dropped any of it.
Status Volume::catch_up() {
    if (Status opened = ensure_sentinel(); !opened.ok()) {
        return opened;
    }
    close_all();
    std::uint64_t done = 0;
    {
        const std::lock_guard guard(mutex_);
        done = synced_lsn_;
        for (const auto& [session, member] : members_) {
            if (member.mark) {
                member.files->expect(*member.mark);
            }
        }
    }
    for (;;) {
        std::uint64_t spilled = 0;
        {
            const std::lock_guard guard(mutex_);
            spilled = spilled_lsn_;
        }
        if (done < spilled) {
            if (Status applied = catch_up_spill(done, spilled); !applied.ok()) {
                return applied;
            }
            done = spilled;
        }
        const std::uint64_t durable = context_.journal.durable_lsn();
        if (done < durable) {
            Status applied = context_.journal.read(
                done + 1, durable, [this, done](std::uint64_t lsn, std::string_view payload) {
                    return replay_changes(lsn, payload, done);
                });
            if (!applied.ok() && applied.error().code == Errc::not_found) {
                const std::lock_guard guard(mutex_);
                if (spilled_lsn_ > done) {
                    continue;  // spilled and recycled while we read
                }
                return Error{Errc::corrupt, 0, applied.error().context + " nor in the spill"};
            }
            if (!applied.ok()) {
                return applied;
            }
            done = durable;
        }
        close_all();
        std::vector<Notice> notices;
        {
            const std::lock_guard guard(mutex_);
            if (done < dropped_lsn_) {
                continue;
            }
            caught_up_lsn_ = std::max(caught_up_lsn_, done);
            if (sick_) {
                recovered_locked(notices);
            }
        }
        for (Notice& notice : notices) {
            context_.listener.noticed(std::move(notice));
        }
        return Done{};
    }
}

void Volume::recovered_locked(std::vector<Notice>& notices) {
    sick_ = false;
    retry_delay_ms_ = 0;
    for (const auto& [session, member] : members_) {
        if (member.files->gone) {
            continue;
        }
        Notice notice;
        notice.session = session;
        notice.deferral =
            layout::CaptureDeferral{sick_since_, context_.clock.now(), illness_.context};
        notice.client_seq = member.files->client_seq;
        notice.event_seq = member.files->event_seq;
        notices.push_back(std::move(notice));
    }
}

Status Volume::check_marked_files() {
    for (const auto& files : sessions()) {
        if (files->gone || files->applied_lsn == 0) {
            continue;  // the checkpoint knew of it, but its first event never came
        }
        Status checked = files->check_marked_files();
        report_conflicts(*files);
        if (!checked.ok()) {
            if (!is_session_fault(*files, checked.error(), ApplyMode::replay)) {
                return checked;
            }
            lose_session(*files, checked.error());
        }
    }
    return Done{};
}

Status Volume::recover() {
    Status caught_up = catch_up();
    if (caught_up.ok()) {
        caught_up = check_marked_files();
    }
    if (!caught_up.ok()) {
        fall_sick(caught_up.error());
        close_all();
    }
    return caught_up;
}

Status Volume::replay(std::vector<WorkItem> items) {
    if (sick()) {
        return Error{Errc::busy, 0, illness_.context};
    }
    Status applied = apply_items(items, ApplyMode::replay);
    if (!applied.ok()) {
        fall_sick(applied.error());
        close_all();
    }
    return applied;
}

void Volume::declare_sick(const Error& error) {
    fall_sick(error);
    close_all();
}

void Volume::wait_apply(std::unique_lock<std::mutex>& lock) {
    const auto ready = [this] {
        return stopping_ || (!sick_ && (!queue_.empty() || (sync_wanted_ && !captured_)));
    };
    if (sick_ && !stopping_) {
        const std::int64_t wait_ms = retry_at_ms_ - context_.clock.steady_ms();
        apply_wakeup_.wait_for(
            lock, std::chrono::milliseconds(std::max<std::int64_t>(wait_ms, 1)), ready);
        return;
    }
    apply_wakeup_.wait(lock, [&ready, this] { return ready() || sick_; });
}

void Volume::wait_sync(std::unique_lock<std::mutex>& lock) {
    sync_wakeup_.wait(lock, [this] { return stopping_ || captured_; });
}

void Volume::stop() {
    const std::lock_guard guard(mutex_);
    stopping_ = true;
    apply_wakeup_.notify_all();
    sync_wakeup_.notify_all();
}

bool Volume::stopping() const {
    const std::lock_guard guard(mutex_);
    return stopping_;
}

void Volume::request_sync() {
    const std::lock_guard guard(mutex_);
    sync_wanted_ = true;
    note_progress();
    apply_wakeup_.notify_one();
}

std::uint64_t Volume::synced_lsn() const {
    const std::lock_guard guard(mutex_);
    return synced_lsn_;
}

bool Volume::sick() const {
    const std::lock_guard guard(mutex_);
    return sick_;
}

std::int64_t Volume::silent_ms() const {
    return context_.clock.steady_ms() - progress_ms_;
}

void Volume::check_stall(std::int64_t limit_ms) {
    std::vector<Outcome> deferred;
    {
        const std::lock_guard guard(mutex_);
        if (sick_ || !busy_ || silent_ms() < limit_ms) {
            return;
        }
        fall_sick_locked(
            Error{Errc::io, 0, "the file system at " + anchor_ + " does not answer"}, deferred);
    }
    deliver(std::move(deferred));
}

Status Volume::spill_to(std::uint64_t lsn) {
    std::uint64_t from = 0;
    std::set<Ulid> sessions;
    {
        const std::lock_guard guard(mutex_);
        from = std::max(synced_lsn_, spilled_lsn_) + 1;
        for (const auto& [session, member] : members_) {
            sessions.insert(session);
        }
    }
    if (from > lsn) {
        return Done{};
    }
    Status read = context_.journal.read(
        from, lsn, [this, &sessions](std::uint64_t batch, std::string_view payload) {
            std::unordered_map<Ulid, std::string> changes;
            ChangeReader reader(payload);
            while (auto change = reader.next()) {
                if (sessions.contains(change->header.session)) {
                    changes[change->header.session].append(change->bytes);
                }
            }
            for (const auto& [session, bytes] : changes) {
                if (Status added = context_.spill.add(session, batch, bytes); !added.ok()) {
                    return added;
                }
            }
            return Status(Done{});
        });
    if (!read.ok()) {
        return read;
    }
    if (Status synced = context_.spill.sync(); !synced.ok()) {
        return synced;
    }
    const std::lock_guard guard(mutex_);
    spilled_lsn_ = std::max(spilled_lsn_, lsn);
    return Done{};
}

std::vector<Ulid> Volume::drained_spills() const {
    const std::lock_guard guard(mutex_);
    std::vector<Ulid> drained;
    if (spilled_lsn_ != 0 && !sick_ && synced_lsn_ >= spilled_lsn_) {
        for (const auto& [session, member] : members_) {
            drained.push_back(session);
        }
    }
    return drained;
}

void Volume::forget_spills() {
    const std::lock_guard guard(mutex_);
    spilled_lsn_ = 0;
}

std::vector<std::shared_ptr<SessionFiles>> Volume::sessions() const {
    const std::lock_guard guard(mutex_);
    std::vector<std::shared_ptr<SessionFiles>> all;
    for (const auto& [session, member] : members_) {
        all.push_back(member.files);
    }
    return all;
}

std::vector<SessionMark> Volume::marks() {
    const std::lock_guard guard(mutex_);
    std::vector<SessionMark> marks;
    for (auto entry = members_.begin(); entry != members_.end();) {
        const Member& member = entry->second;
        const bool synced = member.files->applied_lsn <= synced_lsn_ && !sick_;
        if (member.files->gone || (member.files->finished && synced)) {
            // As long as it may have a spill it stays known, or nobody would remove that.
            const bool unused = member.files.use_count() == 1 && spilled_lsn_ == 0;
            if (unused) {
                entry = members_.erase(entry);
                continue;
            }
            if (member.files->gone) {
                ++entry;
                continue;
            }
        }
        SessionMark mark;
        if (member.mark) {
            mark = *member.mark;
        } else {
            mark.session = entry->first;
            mark.claim = member.files->initial_claim;
        }
        marks.push_back(std::move(mark));
        ++entry;
    }
    return marks;
}

void Volume::resume_at(std::uint64_t synced_lsn, std::uint64_t spilled_lsn) {
    const std::lock_guard guard(mutex_);
    synced_lsn_ = synced_lsn;
    spilled_lsn_ = spilled_lsn;
    dropped_lsn_ = spilled_lsn;
}

VolumeHealth Volume::health() const {
    const std::lock_guard guard(mutex_);
    return {
        .name = name_,
        .sick = sick_,
        .reason = sick_ ? illness_.context : std::string(),
        .since = sick_ ? sick_since_ : layout::Timestamp{},
        .sessions = members_.size(),
        .queued = queue_.size() + inflight_.size()};
}

}  // namespace relay::recorder
