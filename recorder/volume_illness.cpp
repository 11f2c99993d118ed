// SPDX-License-Identifier: Apache-2.0
// What a volume does when its disk refuses, and how it gets well.
#include "layout/journal_change.hpp"
#include "recorder/volume.hpp"
#include "recorder/volume_seal.hpp"

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>

namespace relay::recorder {

using layout::ChangeReader;
using layout::Done;
using layout::Ulid;

namespace {

// What is applied together: its seals share their syncs, and of each document's versions the last alone is
// written.
constexpr std::size_t catch_up_bytes = std::size_t{16} << 20;

constexpr std::int64_t retry_delay_first_ms = 500;
constexpr std::int64_t retry_delay_max_ms = 30'000;

}  // namespace

Result<std::unique_ptr<Directory>> open_place(Disk& disk, const layout::Claim& place) {
    auto here = disk.open_directory(place.anchor);
    std::string_view rest = place.below;
    while (here.ok() && !rest.empty()) {
        const std::size_t slash = rest.find('/');
        auto next = here.value()->open_directory(rest.substr(0, slash));
        if (!next.ok()) {
            return next.error().code == Errc::not_found ? std::move(here) : std::move(next);
        }
        here = std::move(next);
        rest.remove_prefix(slash == std::string_view::npos ? rest.size() : slash + 1);
    }
    if (here.ok()) {
        if (auto sessions = here.value()->open_directory("sessions"); sessions.ok()) {
            return sessions;
        }
    }
    return here;
}

// Where the file system is not mounted there may be a directory all the same: what is written there
// would be hidden by the next mount. A disk that comes back may have another number, but it has our
// sessions.
Status Volume::find_again() {
    auto opened = open_place(context_.disk, place_);
    if (!opened.ok()) {
        return opened.error();
    }
    auto stat = opened.value()->stat();
    if (!stat.ok()) {
        return stat.error();
    }
    if (device_ != 0 && stat.value().device != device_ && !holds_a_session()) {
        return not_mounted(place_.anchor);
    }
    device_ = stat.value().device;
    const std::lock_guard guard(mutex_);
    sentinel_ = std::move(opened.value());
    return Done{};
}

// Looks for one that was there before. Nobody has their files open.
bool Volume::holds_a_session() {
    for (const auto& files : sessions()) {
        if (!files->gone && files->applied_lsn != 0 && files->directory().ok()) {
            return true;
        }
    }
    return false;
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
    if (error.code == Errc::unsafe) {
        return true;
    }
    if (error.code == Errc::gone) {
        return files.gone || still_mounted();  // else all of them seem to have moved
    }
    if ((error.code != Errc::not_found && error.code != Errc::exists) || !still_mounted()) {
        return false;
    }
    if (error.code == Errc::exists || error.os_errno == ENOTDIR) {
        // Perhaps somebody put something in the way for a moment: then replay finds it gone.
        return mode == ApplyMode::replay || !files.directory().ok();
    }
    // Perhaps somebody swept away a temporary file: then replay puts it back.
    if (mode == ApplyMode::replay) {
        files.close();
    }
    const bool begins = files.applied_lsn == 0 && files.claim().create;
    return begins ? !context_.disk.open_directory(files.claim().anchor).ok()
                  : !files.directory().ok();
}

void Volume::defer(WorkItem& item, std::vector<Outcome>& out) {
    dropped_lsn_ = std::max(dropped_lsn_, item.lsn);
    settle_item(item, Verdict::deferred, illness_.context, out);
}

// Those who wait for the volume to catch up are told instead that it will be later.
void Volume::stop_waiting(std::vector<Outcome>& out) {
    nearly_well_ = false;
    for (WorkItem& item : queue_) {
        defer(item, out);
    }
    queue_.clear();
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
    if (captured_) {
        sync_wanted_ = std::max(sync_wanted_.value_or(0), captured_->lsn);
        captured_.reset();
    }
    std::vector<WorkItem*> under_way;
    for (const auto* seals : {&sealing_, &seals_, &staging_}) {
        for (const auto& seal : *seals) {
            under_way.push_back(&seal->item);
        }
    }
    for (auto* items : {&held_, &inflight_}) {
        for (WorkItem& item : *items) {
            under_way.push_back(&item);
        }
    }
    // A session's answers come in the order of its changes.
    std::sort(under_way.begin(), under_way.end(), [](const WorkItem* left, const WorkItem* right) {
        return left->number < right->number;
    });
    for (WorkItem* item : under_way) {
        defer(*item, deferred);
    }
    held_.clear();
    stop_waiting(deferred);
    apply_wakeup_.notify_one();
}

// Adds the changes of our sessions to `items`, but for those that are in their files already.
Status Volume::gather_changes(
    std::uint64_t lsn, std::string_view changes, std::uint64_t after, Gathered& gathered) {
    ChangeReader reader(changes);
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
        gathered.bytes += item.change.size();
        gathered.items.push_back(std::move(item));
    }
    if (reader.damaged()) {
        return Error{Errc::corrupt, 0, "a change in the journal cannot be read"};
    }
    return gathered.bytes < catch_up_bytes ? Status(Done{}) : replay_gathered(gathered);
}

Status Volume::replay_gathered(Gathered& gathered) {
    gathered.bytes = 0;
    return replay_items(gathered.items);
}

Status Volume::catch_up_spill(std::uint64_t after, std::uint64_t upto) {
    Gathered gathered;
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
            session, [this, done, upto, &gathered](std::uint64_t lsn, std::string_view changes) {
                return lsn <= upto ? gather_changes(lsn, changes, done, gathered) : Status(Done{});
            });
        if (!read.ok()) {
            return read;
        }
    }
    return replay_gathered(gathered);
}

// Errc::busy when what is needed was spilled and recycled while we read.
Status Volume::catch_up_journal(std::uint64_t after, std::uint64_t upto) {
    Gathered gathered;
    Status read = context_.journal.read(
        after + 1, upto, [this, after, &gathered](std::uint64_t lsn, std::string_view payload) {
            return gather_changes(lsn, payload, after, gathered);
        });
    if (read.ok()) {
        return replay_gathered(gathered);
    }
    if (read.error().code != Errc::not_found) {
        return read;
    }
    const std::lock_guard guard(mutex_);
    const bool spilled = spilled_lsn_ > after;
    return Error{
        spilled ? Errc::busy : Errc::corrupt, 0, read.error().context + " nor in the spill"};
}

// What a crash or an illness left half-written, before anybody reads the sessions back. A directory that only its user
// can open keeps it: hidden, and in nobody's way.
Status Volume::remove_temporaries() {
    for (const auto& files : sessions()) {
        if (files->gone || files->applied_lsn == 0) {
            continue;
        }
        Status removed = files->remove_temporaries();
        files->close();
        if (!removed.ok() && is_disk_fault(removed.error())) {
            return removed;
        }
    }
    return Done{};
}

// Brings a volume that was sick up to date from spill and journal, and makes it well. Everything since
// the last sync is applied again: a disk that failed may have dropped any of it.
Status Volume::catch_up() {
    close_all();
    if (!still_mounted()) {
        if (Status found = find_again(); !found.ok()) {
            return found;
        }
    }
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
            Status applied = catch_up_journal(done, durable);
            if (!applied.ok() && applied.error().code == Errc::busy) {
                continue;
            }
            if (!applied.ok()) {
                return applied;
            }
            done = durable;
        }
        close_all();
        if (Status cleaned = remove_temporaries(); !cleaned.ok()) {
            return cleaned;
        }
        std::vector<Notice> notices;
        std::vector<Outcome> outcomes;
        {
            const std::lock_guard guard(mutex_);
            if (done < dropped_lsn_) {
                // The disk takes changes again. What comes from now on waits for us, so that we come to an
                // end however much it is.
                nearly_well_ = sick_;
                waiting_bytes_ = 0;
                continue;
            }
            caught_up_lsn_ = std::max(caught_up_lsn_, done);
            if (sick_) {
                recovered_locked(notices, outcomes);
            }
        }
        deliver(std::move(outcomes));
        for (Notice& notice : notices) {
            context_.listener.noticed(std::move(notice));
        }
        return Done{};
    }
}

void Volume::recovered_locked(std::vector<Notice>& notices, std::vector<Outcome>& outcomes) {
    sick_ = false;
    nearly_well_ = false;
    retry_delay_ms_ = 0;
    const auto applied = std::find_if_not(queue_.begin(), queue_.end(), [this](const auto& item) {
        return item.lsn <= caught_up_lsn_;
    });
    std::for_each(queue_.begin(), applied, [this, &outcomes](WorkItem& item) {
        settle_item(item, Verdict::visible, {}, outcomes);
    });
    queue_.erase(queue_.begin(), applied);
    for (const auto& [session, member] : members_) {
        if (member.files->gone) {
            continue;
        }
        Notice notice;
        notice.session = session;
        notice.deferral =
            layout::CaptureDeferral{sick_since_, context_.clock.now(), illness_.context};
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
    Status applied = replay_items(items);
    if (!applied.ok()) {
        fall_sick(applied.error());
        close_all();
    }
    return applied;
}

void Volume::declare_sick(const Error& error) {
    fall_sick(error);
    let_go();
}

void Volume::check_stall(std::int64_t limit_ms) {
    std::vector<Outcome> deferred;
    {
        const std::lock_guard guard(mutex_);
        const bool at_work = busy_ || !sealing_.empty();
        if (!at_work || silent_ms() < limit_ms) {
            return;
        }
        if (!sick_) {
            fall_sick_locked(
                Error{Errc::io, 0, "the file system at " + place_.anchor + " does not answer"},
                deferred);
        } else if (nearly_well_) {
            stop_waiting(deferred);
        }
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

}  // namespace relay::recorder
