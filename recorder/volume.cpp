// SPDX-License-Identifier: Apache-2.0
#include "recorder/volume.hpp"

#include "layout/journal_change.hpp"
#include "recorder/order_monitor.hpp"
#include "recorder/superseded.hpp"
#include "recorder/volume_seal.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <iterator>
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

// Each holds some descriptors until its sync.
constexpr std::size_t replay_seals_max = 256;

// What may wait for a volume to catch up without a word to anybody.
constexpr std::size_t waiting_bytes_max = std::size_t{8} << 20;

// In replay the turn may be sealed already, and a sealed file must not be found empty.
bool is_synced_replacement(const Effect& effect, ApplyMode mode) {
    return effect.kind == EffectKind::replace_synced
           || (effect.kind == EffectKind::replace && mode == ApplyMode::replay);
}

bool needs_sync(const Effect& effect, ApplyMode mode) {
    return is_synced_replacement(effect, mode) || effect.kind == EffectKind::settle;
}

Error found_gone(const SessionFiles& files) {
    return Error{
        Errc::gone,
        0,
        "the directory of session " + files.id.text() + " was deleted or moved away"};
}

ChangeReader::Change change_of(const WorkItem& item) {
    ChangeReader changes(item.change);
    auto change = changes.next();
    assert(change && "a change in the pipeline is whole");
    return *change;
}

bool needs_sync(const WorkItem& item, ApplyMode mode) {
    const ChangeReader::Change change = change_of(item);
    EffectReader effects(change);
    while (const auto effect = effects.next()) {
        if (needs_sync(*effect, mode)) {
            return true;
        }
    }
    return false;
}

}  // namespace

Volume::Volume(VolumeContext context, std::string name, layout::Claim place)
    : context_(context), name_(std::move(name)), place_(std::move(place)) {
}

Volume::~Volume() = default;

Status Volume::ensure_sentinel() {
    return sentinel_ ? Status(Done{}) : find_again();
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

// Under the mutex.
void Volume::take_in(WorkItem& item, std::vector<Outcome>& outcomes) {
    item.number = ++offered_;
    if (nearly_well_) {
        waiting_bytes_ += item.change.size();
        if (waiting_bytes_ > waiting_bytes_max) {
            stop_waiting(outcomes);
        }
    }
    if (item.lsn <= caught_up_lsn_) {
        settle_item(item, Verdict::visible, {}, outcomes);
    } else if (sick_ && !nearly_well_) {
        defer(item, outcomes);
    } else {
        queue_.push_back(std::move(item));
    }
}

void Volume::enqueue(std::vector<WorkItem> items, Where where) {
    std::vector<Outcome> outcomes;
    bool here = false;
    bool later = false;
    {
        const std::lock_guard guard(mutex_);
        // Whoever applies already, heals or captures is waited for by nobody.
        here = where == Where::here && !busy_ && !sick_ && !sync_wanted_ && queue_.empty()
               && members_.size() <= context_.open_sessions_max;
        for (WorkItem& item : items) {
            take_in(item, outcomes);
        }
        here = here && !queue_.empty();
        later = !here && ready_to_apply();
        if (here) {
            take_work();
        }
    }
    if (later) {
        apply_wakeup_.notify_one();
    }
    deliver(std::move(outcomes));
    if (here) {
        if (Status applied = apply_inflight(); !applied.ok()) {
            fall_sick(applied.error());
        }
        finish_apply();
    }
}

void Volume::settle_item(
    WorkItem& item, Verdict verdict, std::string reason, std::vector<Outcome>& out) {
    if (!item.files) {
        return;  // it is somewhere else by now
    }
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
        return claim.ok() ? files.apply_claim(claim.value(), device_) : Status(claim.error());
    }
    case EffectKind::append:
        return files.append(effect.name, effect.offset, effect.data, mode);
    case EffectKind::replace:
    case EffectKind::replace_synced: {
        auto staged = files.stage(effect.name, effect.data);
        if (!staged.ok()) {
            return staged.error();
        }
        OrderMonitor::publishing(effect.kind == EffectKind::replace_synced, false);
        Status published = files.publish(effect.name, *staged.value(), mode);
        if (published.ok()) {
            files.keep_to_settle(effect.name, std::move(staged.value()));
        }
        return published;
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

Status Volume::apply_plain(WorkItem& item, ApplyMode mode) {
    const ChangeReader::Change change = change_of(item);
    EffectReader effects(change);
    while (const auto effect = effects.next()) {
        if (Status applied = apply_effect(*item.files, *effect, mode); !applied.ok()) {
            return applied;
        }
    }
    assert(!effects.damaged());
    item.files->applied_lsn = item.lsn;
    return Done{};
}

// Writes the document of `effect` aside, or, in replay, over itself where it lies already.
Status Volume::stage_document(Seal& seal, const Effect& effect, ApplyMode mode) {
    SessionFiles& files = *seal.item.files;
    if (mode == ApplyMode::replay) {
        auto present = files.affirm(effect.name, effect.data);
        if (!present.ok()) {
            return present.error();
        }
        if (present.value()) {
            seal.affirmed.push_back(std::move(present.value()));
            return Done{};
        }
    }
    auto temporary = files.stage(effect.name, effect.data);
    if (!temporary.ok()) {
        return temporary.error();
    }
    seal.steps.push_back({effect, std::move(temporary.value()), false});
    return Done{};
}

// Applies an effect that comes before the first one that needs a sync; from there on, prepares it.
Status Volume::prepare_step(Seal& seal, const Effect& effect, ApplyMode mode) {
    SessionFiles& files = *seal.item.files;
    if (effect.kind == EffectKind::settle) {
        auto file = files.file_to_settle(effect.name);
        if (!file.ok()) {
            return file.error();
        }
        if (file.value() != nullptr) {
            seal.settling.push_back(file.value());
        }
        return Done{};
    }
    if (is_synced_replacement(effect, mode)) {
        return stage_document(seal, effect, mode);
    }
    // In replay nothing waits that is only to be synced: where all documents lie in place, there is nothing to keep in order.
    const bool begun = !seal.steps.empty() || (mode == ApplyMode::live && !seal.settling.empty());
    if (begun) {
        seal.steps.push_back({effect, nullptr, false});
        return Done{};
    }
    return apply_effect(files, effect, mode);
}

Status Volume::begin_seal(WorkItem& item, ApplyMode mode) {
    auto made = std::make_unique<Seal>();
    Seal& seal = *made;
    {
        const std::lock_guard guard(mutex_);
        seal.item = std::move(item);
        item = {};
        staging_.push_back(std::move(made));
    }
    const ChangeReader::Change change = change_of(seal.item);
    EffectReader effects(change);
    while (const auto effect = effects.next()) {
        if (Status prepared = prepare_step(seal, *effect, mode); !prepared.ok()) {
            return prepared;
        }
    }
    assert(!effects.damaged());
    seal.item.files->sealing = mode == ApplyMode::live || !seal.steps.empty();
    return Done{};
}

// All at once and at the end: until then the changes are where fall_sick() finds them, so that a step
// that hangs keeps nobody waiting, and a session's answers come in the order of its changes.
void Volume::settle(const std::vector<Finished>& finished, ApplyMode mode) {
    std::vector<Outcome> outcomes;
    {
        const std::lock_guard guard(mutex_);
        if (sick_ && mode == ApplyMode::live) {
            return;  // already told: deferred
        }
        for (const Finished& one : finished) {
            settle_item(
                *one.item,
                one.status.ok() ? Verdict::visible : Verdict::gone,
                one.status.ok() ? std::string() : one.status.error().context,
                outcomes);
        }
    }
    deliver(std::move(outcomes));
}

// One change of a session that is not with the sealer. An error is the disk's; what only the session has
// to bear finishes the change.
Status Volume::apply_item(WorkItem& item, ApplyMode mode, std::vector<Finished>& finished) {
    const std::shared_ptr<SessionFiles> files = item.files;
    OrderMonitor::applying(item.lsn, context_.journal.durable_lsn());
    note_progress();
    files->last_used = ++use_count_;
    files->take_new_files();
    const bool seals = !files->gone && needs_sync(item, mode);
    Status applied = Done{};
    if (files->gone) {
        applied = found_gone(*files);
    } else {
        const layout::ChangeHeader header = change_of(item).header;
        applied = seals ? begin_seal(item, mode) : apply_plain(item, mode);
        files->client_seq = std::max(files->client_seq.load(), header.client_seq);
        files->event_seq = std::max(files->event_seq.load(), header.event_seq);
    }
    if (applied.ok() && seals) {
        return applied;
    }
    if (!applied.ok() && !is_session_fault(*files, applied.error(), mode)) {
        return applied;
    }
    std::unique_ptr<Seal> failed;
    if (seals) {
        const std::lock_guard guard(mutex_);
        failed = std::move(staging_.back());
        staging_.pop_back();
        item = std::move(failed->item);
    }
    if (!applied.ok()) {
        lose_session(*files, applied.error());
    }
    finished.push_back({&item, std::move(applied)});
    return Done{};
}

// Everything in inflight_, as far as its sessions are not with the sealer; the rest is held.
Status Volume::apply_inflight() {
    if (Status opened = ensure_sentinel(); !opened.ok()) {
        return opened;
    }
    std::vector<Finished> finished;
    Status worked = Done{};
    for (WorkItem& item : inflight_) {
        if (item.files->sealing) {
            const std::lock_guard guard(mutex_);
            held_.push_back(std::move(item));
            item = {};
            continue;
        }
        const std::shared_ptr<SessionFiles> files = item.files;
        dirty_ = true;
        worked = apply_item(item, ApplyMode::live, finished);
        if (!worked.ok()) {
            break;
        }
        report_conflicts(*files);
    }
    settle(finished, ApplyMode::live);
    return worked;
}

// In rounds: everything is written, in place or aside, then synced together, then published in order. What a
// session did after a document that has no name yet waits for the next round: no reader finds a turn before the seal
// of the one before it.
Status Volume::replay_items(std::vector<WorkItem>& items) {
    if (Status opened = ensure_sentinel(); !opened.ok()) {
        return opened;
    }
    dirty_ = dirty_ || !items.empty();
    drop_superseded(items);
    while (!items.empty()) {
        std::vector<WorkItem> next;
        std::vector<Finished> finished;
        Status applied = Done{};
        for (WorkItem& item : items) {
            if (staging_.size() >= replay_seals_max || item.files->sealing) {
                next.push_back(std::move(item));
                continue;
            }
            const std::shared_ptr<SessionFiles> files = item.files;
            applied = apply_item(item, ApplyMode::replay, finished);
            if (!applied.ok()) {
                break;
            }
            report_conflicts(*files);
            if (files->gone) {
                drop_staged(*files);
            }
        }
        settle(finished, ApplyMode::replay);
        Seals seals;
        {
            const std::lock_guard guard(mutex_);
            seals = std::exchange(staging_, {});
        }
        if (applied.ok()) {
            applied = finish_seals(seals, ApplyMode::replay);
        }
        for (const auto& seal : seals) {
            seal->item.files->sealing = false;
        }
        if (!applied.ok()) {
            return applied;
        }
        items = std::move(next);
    }
    return Done{};
}

// Those of a session whose files were closed under them, because it was found gone.
void Volume::drop_staged(SessionFiles& files) {
    files.sealing = false;
    const std::lock_guard guard(mutex_);
    std::erase_if(
        staging_, [&files](const auto& seal) { return seal->item.files.get() == &files; });
}

Status Volume::sync_seals(Seals& seals) {
    std::vector<File*> files;
    for (const auto& seal : seals) {
        files.insert(files.end(), seal->settling.begin(), seal->settling.end());
        for (const auto& affirmed : seal->affirmed) {
            files.push_back(affirmed.get());
        }
        for (Seal::Step& step : seal->steps) {
            if (step.temporary) {
                files.push_back(step.temporary.get());
            }
        }
    }
    if (Status synced = seal_sync_.sync(*sentinel_, files, context_.clock); !synced.ok()) {
        return synced;
    }
    note_progress();
    for (const auto& seal : seals) {
        for (Seal::Step& step : seal->steps) {
            step.synced = step.temporary != nullptr;
        }
    }
    return Done{};
}

Status Volume::finish_seal(Seal& seal, ApplyMode mode) {
    SessionFiles& files = *seal.item.files;
    note_progress();
    files.close_settled();
    for (Seal::Step& step : seal.steps) {
        if (!step.temporary) {
            if (Status applied = apply_effect(files, step.effect, mode); !applied.ok()) {
                return applied;
            }
            continue;
        }
        OrderMonitor::publishing(true, step.synced);
        if (Status published = files.publish(step.effect.name, *step.temporary, mode);
            !published.ok()) {
            return published;
        }
        step.temporary.reset();
    }
    files.applied_lsn = std::max(files.applied_lsn.load(), seal.item.lsn);
    return Done{};
}

Status Volume::finish_seals(Seals& seals, ApplyMode mode) {
    if (seals.empty()) {
        return Done{};
    }
    if (Status synced = sync_seals(seals); !synced.ok()) {
        return synced;
    }
    std::vector<Finished> finished;
    Status worked = Done{};
    for (const auto& seal : seals) {
        SessionFiles& files = *seal->item.files;
        // It may be since an earlier one of this round.
        Status sealed = files.gone ? Status(found_gone(files)) : finish_seal(*seal, mode);
        if (!sealed.ok() && !is_session_fault(files, sealed.error(), mode)) {
            worked = std::move(sealed);
            break;
        }
        if (!sealed.ok()) {
            lose_session(files, sealed.error());
        }
        finished.push_back({&seal->item, std::move(sealed)});
        report_conflicts(files);
    }
    settle(finished, mode);
    return worked;
}

bool Volume::seal_step() {
    bool useless = false;
    {
        const std::lock_guard guard(mutex_);
        if (seals_.empty()) {
            return false;
        }
        sealing_ = std::exchange(seals_, {});
        useless = sick_;  // replay will do it
        note_progress();
    }
    if (!useless) {
        if (Status sealed = finish_seals(sealing_, ApplyMode::live); !sealed.ok()) {
            fall_sick(sealed.error());
        }
    }
    Seals done;
    bool awaited = false;
    {
        const std::lock_guard guard(mutex_);
        for (const auto& seal : sealing_) {
            sealed_.push_back(seal->item.files);
        }
        done = std::exchange(sealing_, {});
        awaited = ready_to_apply();
    }
    if (awaited) {
        apply_wakeup_.notify_one();
    }
    let_go();
    return true;
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

bool Volume::is_due(const WorkItem& item) const {
    return !sync_wanted_ || item.lsn <= *sync_wanted_;
}

// Nobody has a session's files in their hands.
bool Volume::is_quiet() const {
    return !busy_ && seals_.empty() && sealing_.empty();
}

// Everything that was asked for is applied, and no session is with the sealer.
bool Volume::ready_to_capture() const {
    const bool applied = held_.empty() && (queue_.empty() || !is_due(queue_.front()));
    return sync_wanted_ && !captured_ && applied && staging_.empty() && seals_.empty()
           && sealing_.empty();
}

bool Volume::ready_to_apply() const {
    if (busy_ || sick_) {
        return false;
    }
    return (!queue_.empty() && is_due(queue_.front())) || (!held_.empty() && !sealed_.empty())
           || ready_to_capture();
}

// What can be done now, oldest first: what was held back for a seal that is done, then what is new. A
// capture that is asked for goes before whatever came after the asking; but what was held back belongs to a
// batch of which a part is applied already, and a session's mark speaks of whole batches.
void Volume::take_work() {
    busy_ = true;
    note_progress();
    for (const auto& files : sealed_) {
        files->sealing = false;
    }
    sealed_.clear();
    inflight_ = std::exchange(held_, {});
    const auto later = std::find_if_not(
        queue_.begin(), queue_.end(), [this](const WorkItem& item) { return is_due(item); });
    inflight_.insert(
        inflight_.end(), std::make_move_iterator(queue_.begin()), std::make_move_iterator(later));
    queue_.erase(queue_.begin(), later);
}

// The end of somebody's turn to apply.
void Volume::finish_apply() {
    bool seal = false;
    bool more = false;
    {
        const std::lock_guard guard(mutex_);
        inflight_.clear();
        seal = !staging_.empty();
        seals_.insert(
            seals_.end(),
            std::make_move_iterator(staging_.begin()),
            std::make_move_iterator(staging_.end()));
        staging_.clear();
        busy_ = false;
        more = ready_to_apply();
    }
    if (seal) {
        seal_wakeup_.notify_one();
    }
    if (more) {
        apply_wakeup_.notify_one();
    }
    let_go();
}

bool Volume::apply_step() {
    bool heal = false;
    {
        const std::lock_guard guard(mutex_);
        heal = sick_ && is_quiet() && context_.clock.steady_ms() >= retry_at_ms_;
        if (!heal && !ready_to_apply()) {
            return false;
        }
        take_work();
    }
    Status worked = heal ? catch_up() : apply_inflight();
    if (!worked.ok()) {
        fall_sick(worked.error());
    }
    bool capturing = false;
    {
        const std::lock_guard guard(mutex_);
        capturing = !sick_ && !heal && ready_to_capture();
    }
    if (capturing) {
        capture();
    }
    if (!sick()) {
        limit_open_sessions();
    }
    finish_apply();
    return true;
}

// Lets go of every handle of a sick volume, once nobody works on it any more.
void Volume::let_go() {
    {
        const std::lock_guard guard(mutex_);
        if (!sick_ || !is_quiet()) {
            return;
        }
        busy_ = true;
    }
    close_all();
    const std::lock_guard guard(mutex_);
    sealed_.clear();
    busy_ = false;
    apply_wakeup_.notify_one();
}

// Looks at the session's files again if anything was applied to them since the last time.
Status Volume::mark_member(Member& member) {
    SessionFiles& files = *member.files;
    const bool unchanged = member.mark && member.mark->synced_lsn == files.applied_lsn;
    if (files.gone || unchanged || files.applied_lsn == 0) {
        return Done{};
    }
    auto mark = files.mark();
    report_conflicts(files);
    if (mark.ok()) {
        member.mark = std::move(mark.value());
        return Done{};
    }
    if (!is_session_fault(files, mark.error(), ApplyMode::live)) {
        return mark.error().code == Errc::gone ? not_mounted(place_.anchor) : mark.error();
    }
    lose_session(files, mark.error());
    return Done{};
}

void Volume::capture() {
    std::vector<Member> members;
    Capture capture;
    {
        const std::lock_guard guard(mutex_);
        capture.lsn = *sync_wanted_;
        members.reserve(members_.size());
        for (const auto& [session, member] : members_) {
            members.push_back(member);
        }
    }
    for (Member& member : members) {
        if (Status marked = mark_member(member); !marked.ok()) {
            fall_sick(marked.error());
            return;
        }
        if (member.mark && !member.files->gone) {
            capture.marks.push_back(*member.mark);
        }
    }
    const bool written = std::exchange(dirty_, false);
    const std::lock_guard guard(mutex_);
    if (sick_) {
        return;
    }
    sync_wanted_.reset();
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
    std::shared_ptr<Directory> sentinel;
    {
        const std::lock_guard guard(mutex_);
        if (!captured_) {
            return false;
        }
        number = captured_->number;
        sentinel = sentinel_;
    }
    note_progress();
    Status synced = sentinel->sync_file_system();
    if (!synced.ok()) {
        fall_sick(synced.error());
        let_go();
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
            if (!member.files->sealing && member.files->is_open()) {
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
        files->sealing = false;
    }
}

void Volume::wait_apply() {
    std::unique_lock lock(mutex_);
    const auto ready = [this] {
        return stopping_ || ready_to_apply();
    };
    if (!sick_ || stopping_) {
        apply_wakeup_.wait(lock, [&ready, this] { return ready() || sick_; });
        return;
    }
    if (!is_quiet()) {
        apply_wakeup_.wait(lock, [this] { return stopping_ || is_quiet(); });
        return;
    }
    const std::int64_t wait_ms = retry_at_ms_ - context_.clock.steady_ms();
    apply_wakeup_.wait_for(
        lock, std::chrono::milliseconds(std::max<std::int64_t>(wait_ms, 1)), ready);
}

void Volume::wait_seal() {
    std::unique_lock lock(mutex_);
    seal_wakeup_.wait(lock, [this] { return stopping_ || !seals_.empty(); });
}

void Volume::wait_sync() {
    std::unique_lock lock(mutex_);
    sync_wakeup_.wait(lock, [this] { return stopping_ || captured_; });
}

void Volume::stop() {
    const std::lock_guard guard(mutex_);
    stopping_ = true;
    apply_wakeup_.notify_all();
    seal_wakeup_.notify_all();
    sync_wakeup_.notify_all();
}

bool Volume::stopping() const {
    const std::lock_guard guard(mutex_);
    return stopping_;
}

void Volume::request_sync() {
    const std::lock_guard guard(mutex_);
    sync_wanted_ = context_.dispatched_lsn.load();
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
        .queued = queue_.size() + inflight_.size() + held_.size() + staging_.size() + seals_.size()
                  + sealing_.size()};
}

}  // namespace relay::recorder
