// SPDX-License-Identifier: Apache-2.0
#include "recorder/pipeline.hpp"

#include "layout/journal_change.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

namespace relay::recorder {

using layout::batch_header_bytes;
using layout::Done;
using layout::Ulid;

namespace {

// How often a checkpoint that waits for a slow disk looks again whether it should go on without it.
constexpr std::int64_t checkpoint_poll_ms = 5;

// How often the commit thread looks again for room when no checkpoint tells it, and how long a failed
// checkpoint waits.
constexpr std::int64_t retry_room_ms = 500;

// Gathering for a batch: from this many items in the last one on, for this part of the last commit's time.
constexpr std::size_t gather_items_min = 4;
constexpr std::int64_t gather_share = 4;

// The io thread commits by itself while the last commit took no longer than this, no more than this much
// at a time, and applies no more than this many changes at a time.
constexpr std::int64_t prompt_commit_us = 2'000;
// A journal that hung is likely to hang again, and with it everybody whom the io thread serves: after a commit that took
// as long as this, so many are the commit thread's, however quick they are.
constexpr std::int64_t hung_commit_us = 250'000;
constexpr int doubtful_commits = 256;
constexpr std::string_view device_prefix = "dev:";

constexpr std::size_t commit_here_bytes_max = std::size_t{256} * 1024;
// A larger batch gives its memory back.
constexpr std::size_t batch_kept_bytes_max = std::size_t{1024} * 1024;
constexpr std::size_t apply_here_items_max = 64;

// While anything is under way, how often disks are looked at that may have stopped answering.
constexpr std::int64_t stall_look_ms = 1'000;

bool begins_with_claim(std::string_view change) {
    layout::ChangeReader changes(change);
    const auto first = changes.next();
    if (!first) {
        return false;
    }
    layout::EffectReader effects(*first);
    const auto effect = effects.next();
    return effect && effect->kind == layout::EffectKind::claim;
}

std::string with_claim(std::string_view change, layout::Claim claim) {
    claim.create = false;
    layout::ChangeReader changes(change);
    std::string out;
    if (const auto whole = changes.next()) {
        layout::ChangeWriter writer(out, whole->header);
        writer.add_claim(claim);
        layout::EffectReader effects(*whole);
        while (const auto effect = effects.next()) {
            writer.add(*effect);
        }
        writer.finish();
    }
    return out;
}

}  // namespace

Pipeline::Pipeline(
    Disk& disk, const Clock& clock, PipelineListener& listener, PipelineLimits limits)
    : disk_(disk), clock_(clock), listener_(listener), limits_(limits) {
}

// Sessions share a volume when they lie on the same file system. One that cannot be reached gets one of
// its own, named by its anchor.
Result<std::string> Pipeline::volume_name(Disk& disk, const layout::Claim& claim) {
    auto place = open_place(disk, claim);
    auto stat = place.ok() ? place.value()->stat() : Result<FileStat>(place.error());
    if (!stat.ok() && is_disk_fault(stat.error())) {
        return stat.error();
    }
    return stat.ok() ? volume_name(stat.value()) : volume_name(claim);
}

std::string Pipeline::volume_name(const layout::Claim& unreachable) {
    return "path:" + unreachable.anchor;
}

// A disk may be mounted at two places, and read-only at one of them, by a sandbox for example. What is refused there must
// not make the rest of the disk sick.
std::string Pipeline::volume_name(const FileStat& stat) {
    return std::string(device_prefix) + std::to_string(stat.device)
           + (stat.read_only ? ":read-only" : "");
}

// 0 when the name does not tell.
std::uint64_t Pipeline::device_of(const std::string& volume_name) {
    return volume_name.starts_with(device_prefix)
               ? std::stoull(volume_name.substr(device_prefix.size()))
               : 0;
}

std::shared_ptr<SessionFiles> Pipeline::files_for(
    const Ulid& session, const layout::Claim& claim, const std::string& volume_name) {
    // Whatever the place is called now: a session has one set of files, or its changes would overtake
    // one another.
    for (const auto& volume : volumes()) {
        if (std::shared_ptr<SessionFiles> known = volume->find(session)) {
            return known;
        }
    }
    const std::shared_ptr<Volume> volume = find_or_add_volume(volume_name, claim);
    auto files = std::make_shared<SessionFiles>(disk_, session, claim);
    files->volume = volume.get();
    volume->adopt(files, std::nullopt);
    return files;
}

std::shared_ptr<Volume>
Pipeline::find_or_add_volume(const std::string& name, const layout::Claim& place) {
    const std::lock_guard guard(mutex_);
    for (const auto& volume : volumes_) {
        if (volume->name() == name) {
            return volume;
        }
    }
    auto volume = std::make_shared<Volume>(
        VolumeContext{
            .disk = disk_,
            .journal = *journal_,
            .spill = *spill_,
            .clock = clock_,
            .listener = listener_,
            .dispatched_lsn = dispatched_lsn_,
            .open_sessions_max = limits_.open_sessions_max},
        name,
        place);
    volume->expect_device(device_of(name));
    volume->resume_at(dispatched_lsn_.load(), 0);
    volumes_.push_back(volume);
    return volume;
}

// Replay finds a session through the checkpoint or through a claim in the journal. One that is in
// neither (it had ended, was let go, and gets one more change now) needs a claim in that change.
void Pipeline::submit(WorkItem item) {
    if (!item.files->announced && !begins_with_claim(item.change)) {
        item.change = with_claim(item.change, item.files->initial_claim);
    }
    item.files->announced = true;
    if (queue_.push(std::move(item))) {
        listener_.submitted();
    }
}

void Pipeline::vouch() {
    const std::uint64_t last = dispatched_lsn_.load();
    {
        const std::lock_guard guard(mutex_);
        if (failure_ || last == checkpointed_lsn_ || last == vouching_lsn_ || queue_.size() > 0) {
            return;
        }
    }
    if (queue_.push(WorkItem{})) {
        listener_.submitted();
    }
}

Pipeline::Commit Pipeline::commit_step() {
    return commit(static_cast<std::size_t>(limits_.batch_bytes_max), Volume::Where::later);
}

bool Pipeline::is_prompt() const {
    return last_commit_us_ <= prompt_commit_us && doubtful_commits_ == 0;
}

Pipeline::Commit Pipeline::commit_here() {
    if (queue_.is_handed_over()) {
        return Commit::idle;
    }
    if (!is_prompt()) {
        queue_.hand_over();
        return Commit::idle;
    }
    const Commit outcome = commit(commit_here_bytes_max, Volume::Where::here);
    if (outcome == Commit::blocked || (outcome == Commit::done && queue_.size() > 0)) {
        queue_.hand_over();
    }
    return outcome;
}

void Pipeline::fill_batch(const std::vector<WorkItem>& items) {
    std::size_t bytes = batch_header_bytes;
    for (const WorkItem& item : items) {
        bytes += item.change.size();
    }
    batch_.clear();
    batch_.reserve(layout::batch_bytes(bytes));
    batch_.assign(batch_header_bytes, '\0');
    for (const WorkItem& item : items) {
        batch_ += item.change;
    }
}

Pipeline::Commit Pipeline::commit(std::size_t bytes_max, Volume::Where where) {
    const auto room = static_cast<std::size_t>(std::min<std::int64_t>(
        static_cast<std::int64_t>(bytes_max), journal_->payload_bytes_max()));
    std::vector<WorkItem> items = queue_.take(room);
    if (items.empty()) {
        return Commit::idle;
    }
    if (const auto reason = failure()) {
        refuse(std::move(items), failure_verdict_, *reason);
        return Commit::failed;
    }
    fill_batch(items);
    const bool batch_vouches = batch_.size() == batch_header_bytes;
    const std::int64_t begin_us = clock_.steady_us();
    Result<std::uint64_t> written = journal_->write(batch_);
    if (batch_.capacity() > batch_kept_bytes_max) {
        batch_.clear();
        batch_.shrink_to_fit();  // an empty string moved in would leave it its memory
    }
    if (written.ok()) {
        last_commit_us_ = clock_.steady_us() - begin_us;
        doubtful_commits_ = last_commit_us_ >= hung_commit_us ? doubtful_commits
                                                              : std::max(0, doubtful_commits_ - 1);
        last_batch_items_ = items.size();
        starved_since_ms_.reset();
        sync_latency_.add(last_commit_us_);
        for (WorkItem& item : items) {
            item.lsn = written.value();
        }
        if (batch_vouches) {
            vouching_lsn_ = written.value();
        }
        const auto count = static_cast<std::uint64_t>(
            std::count_if(items.begin(), items.end(), [](const WorkItem& item) {
                return item.files != nullptr;
            }));
        dispatch(std::move(items), where);
        batches_.fetch_add(1, std::memory_order_relaxed);
        changes_.fetch_add(count);  // after dispatch(): a checkpoint begun now covers them
        return Commit::done;
    }
    const Error& error = written.error();
    const bool full = error.code == Errc::no_space;
    if (batch_vouches && (error.code == Errc::busy || full)) {
        return Commit::idle;  // nobody waits for it, and the checkpoint vouches as well
    }
    if (full) {
        starved_since_ms_ = starved_since_ms_.value_or(clock_.steady_ms());
    }
    const bool starved =
        full && clock_.steady_ms() - *starved_since_ms_ >= limits_.no_space_patience_ms;
    if ((error.code == Errc::busy || full) && !starved) {
        queue_.put_back(std::move(items));
        static_cast<void>(request_checkpoint());
        const std::lock_guard guard(mutex_);
        trouble_ = error.context;
        return Commit::blocked;
    }
    {
        const std::lock_guard guard(mutex_);
        failure_ = error.context;
    }
    failure_verdict_ = full ? Verdict::no_space : Verdict::failed;
    refuse(std::move(items), failure_verdict_, error.context);
    return Commit::failed;
}

void Pipeline::refuse(std::vector<WorkItem> items, Verdict verdict, const std::string& reason) {
    std::vector<Outcome> outcomes;
    for (WorkItem& item : items) {
        if (item.waiter.connection != 0) {
            outcomes.push_back({verdict, std::move(item.waiter), reason});
        }
    }
    if (!outcomes.empty()) {
        listener_.settled(std::move(outcomes));
    }
}

// Where::here is for what lies on the journal's own disk alone: should that hang, the journal does, too,
// and nobody waits who would not have to anyway.
void Pipeline::dispatch(std::vector<WorkItem> items, Volume::Where where) {
    const std::uint64_t lsn = items.front().lsn;
    std::vector<std::pair<Volume*, std::vector<WorkItem>>> parts;
    for (WorkItem& item : items) {
        if (item.files == nullptr) {
            continue;  // it only vouched
        }
        Volume* volume = item.files->volume;
        auto part = std::find_if(parts.begin(), parts.end(), [volume](const auto& known) {
            return known.first == volume;
        });
        if (part == parts.end()) {
            parts.emplace_back(volume, std::vector<WorkItem>());
            part = parts.end() - 1;
        }
        part->second.push_back(std::move(item));
    }
    for (auto& [volume, part] : parts) {
        const bool here = where == Volume::Where::here && volume->name() == journal_volume_
                          && part.size() <= apply_here_items_max;
        volume->enqueue(std::move(part), here ? Volume::Where::here : Volume::Where::later);
    }
    dispatched_lsn_ = lsn;
    const std::lock_guard guard(mutex_);
    if (next_checkpoint_ms_ == 0) {
        next_checkpoint_ms_ = clock_.steady_ms() + checkpoint_interval_ms_;
        checkpoint_wakeup_.notify_one();
    }
}

// With one client there is nothing to gather. With many, a wait of a fraction of a sync pays: without it
// the clients fall into two halves that take turns.
void Pipeline::wait_commit() {
    if (is_prompt()) {
        queue_.give_back();
        if (queue_.size() > 0) {
            listener_.submitted();
        }
    }
    queue_.wait();
    if (last_batch_items_ >= gather_items_min) {
        queue_.gather(last_batch_items_, std::chrono::microseconds(last_commit_us_ / gather_share));
    }
}

void Pipeline::wait_for_room() {
    std::unique_lock lock(mutex_);
    const std::uint64_t done = checkpoints_done_;
    room_wakeup_.wait_for(lock, std::chrono::milliseconds(retry_room_ms), [this, done] {
        return stopping_ || checkpoints_done_ != done;
    });
}

bool Pipeline::checkpoint_due() const {
    if (clock_.steady_ms() < retry_checkpoint_ms_) {
        return false;
    }
    if (tickets_ > checkpoints_done_) {
        return true;
    }
    // Half the journal is the latest moment at which a checkpoint still comes before it is full.
    const bool filling = journal_->live_bytes() > limits_.journal.segment_bytes
                         && journal_->durable_lsn() > checkpointed_lsn_;
    return next_checkpoint_ms_ != 0 && (filling || clock_.steady_ms() >= next_checkpoint_ms_);
}

void Pipeline::begin_checkpoint() {
    Checkpoint begun;
    begun.ticket = std::max(tickets_, checkpoints_done_ + 1);
    tickets_ = begun.ticket;
    // Whatever is offered to the volumes from here on is not part of this one.
    begun.lsn = dispatched_lsn_.load();
    next_checkpoint_ms_ = 0;
    checkpoint_ = begun;
    for (const auto& volume : volumes_) {
        volume->request_sync();
    }
}

bool Pipeline::volumes_ready() {
    for (const auto& volume : volumes()) {
        volume->check_stall(limits_.stall_limit_ms);
        if (volume->synced_lsn() >= checkpoint_->lsn) {
            continue;
        }
        // A disk that works, however slowly, is waited for: the journal has room, or its clients wait.
        if (!volume->sick() && volume->silent_ms() < limits_.sync_patience_ms) {
            return false;
        }
        checkpoint_->spilled = true;
        if (Status spilled = volume->spill_to(checkpoint_->lsn); !spilled.ok()) {
            fail_checkpoint(spilled.error());
            return false;
        }
    }
    return true;
}

void Pipeline::fail_checkpoint(const Error& error) {
    const std::lock_guard guard(mutex_);
    trouble_ = error.context;
    checkpoint_.reset();
    // Not at once, whoever asks: what failed will not be well in a microsecond.
    retry_checkpoint_ms_ = clock_.steady_ms() + retry_room_ms;
    next_checkpoint_ms_ = retry_checkpoint_ms_;
}

bool Pipeline::checkpoint_step() {
    for (const auto& volume : volumes()) {
        volume->check_stall(limits_.stall_limit_ms);
    }
    {
        const std::lock_guard guard(mutex_);
        if (!checkpoint_) {
            if (!checkpoint_due()) {
                return false;
            }
            begin_checkpoint();
            return true;
        }
    }
    if (!volumes_ready()) {
        return false;
    }
    const Checkpoint done = *checkpoint_;
    if (Status finished = finish_checkpoint(done.lsn, /*clean=*/false); !finished.ok()) {
        fail_checkpoint(finished.error());
        return true;
    }
    journal_->release(done.lsn);
    // A failure here is no failure of the checkpoint: the commit thread will meet it and say so.
    static_cast<void>(journal_->prepare_spare());
    {
        const std::lock_guard guard(mutex_);
        checkpoint_.reset();
        trouble_.reset();
        retry_checkpoint_ms_ = 0;
        checkpointed_lsn_ = done.lsn;
        checkpointed_ms_ = clock_.steady_ms();
        checkpoint_deferred_ = done.spilled;
        checkpoints_done_ = done.ticket;
        if (dispatched_lsn_ > done.lsn && next_checkpoint_ms_ == 0) {
            next_checkpoint_ms_ = clock_.steady_ms() + checkpoint_interval_ms_;
        }
        room_wakeup_.notify_all();
    }
    listener_.checkpointed();
    return true;
}

Status Pipeline::remove_spills(const std::vector<DrainedSpills>& drained) {
    for (const auto& [volume, sessions] : drained) {
        for (const Ulid& session : sessions) {
            if (Status removed = spill_->remove(session); !removed.ok()) {
                return removed;
            }
        }
        if (Status synced = spill_->sync_removals(); !synced.ok()) {
            return synced;
        }
        volume->forget_spills();
    }
    return Done{};
}

Status Pipeline::finish_checkpoint(std::uint64_t lsn, bool clean) {
    // A spill goes once the checkpoint with the marks that make it needless is durable. Looked at before
    // the marks are: a spill that drains in between waits for the next checkpoint.
    std::vector<DrainedSpills> drained;
    for (const auto& volume : volumes()) {
        if (std::vector<Ulid> sessions = volume->drained_spills(); !sessions.empty()) {
            drained.push_back({volume, std::move(sessions)});
        }
    }
    layout::CheckpointRecord record;
    record.journal = journal_id_;
    record.lsn = lsn;
    record.next_generation = journal_->next_generation();
    record.clean = clean;
    {
        const std::lock_guard guard(mutex_);
        record.last_ulid = last_ulid_;
    }
    for (const auto& volume : volumes()) {
        std::vector<layout::SessionMark> marks = volume->marks();
        record.sessions.insert(
            record.sessions.end(),
            std::make_move_iterator(marks.begin()),
            std::make_move_iterator(marks.end()));
    }
    if (Status written = slots_->write(std::move(record)); !written.ok()) {
        return written;
    }
    return remove_spills(drained);
}

void Pipeline::wait_checkpoint() {
    std::unique_lock lock(mutex_);
    if (stopping_) {
        return;
    }
    if (checkpoint_) {
        checkpoint_wakeup_.wait_for(lock, std::chrono::milliseconds(checkpoint_poll_ms));
        return;
    }
    if (checkpoint_due()) {
        return;
    }
    if (next_checkpoint_ms_ == 0) {
        checkpoint_wakeup_.wait(lock, [this] {
            return stopping_ || tickets_ > checkpoints_done_ || next_checkpoint_ms_ != 0;
        });
        return;
    }
    const std::int64_t due_ms = std::max(next_checkpoint_ms_, retry_checkpoint_ms_);
    const std::int64_t wait_ms =
        std::clamp<std::int64_t>(due_ms - clock_.steady_ms(), 1, stall_look_ms);
    checkpoint_wakeup_.wait_for(
        lock, std::chrono::milliseconds(wait_ms), [this] { return stopping_ || checkpoint_due(); });
}

std::uint64_t Pipeline::request_checkpoint() {
    const std::lock_guard guard(mutex_);
    // One that is under way began too early to cover everything.
    tickets_ =
        std::max(tickets_, (checkpoint_ ? checkpoint_->ticket : checkpoints_done_.load()) + 1);
    checkpoint_wakeup_.notify_one();
    return tickets_;
}

Status Pipeline::finish() {
    const std::uint64_t lsn = dispatched_lsn_.load();
    for (const auto& volume : volumes()) {
        volume->request_sync();
        while (!volume->sick()
               && (volume->seal_step() || volume->apply_step() || volume->sync_step())) {
        }
        if (volume->synced_lsn() < lsn) {
            if (Status spilled = volume->spill_to(lsn); !spilled.ok()) {
                return spilled;
            }
        }
    }
    // What a failed journal holds beyond its last good batch only a scan can tell.
    return finish_checkpoint(lsn, /*clean=*/!failure());
}

void Pipeline::stop() {
    {
        const std::lock_guard guard(mutex_);
        stopping_ = true;
        checkpoint_wakeup_.notify_all();
        room_wakeup_.notify_all();
    }
    queue_.stop();
    for (const auto& volume : volumes()) {
        volume->stop();
    }
}

bool Pipeline::stopping() const {
    const std::lock_guard guard(mutex_);
    return stopping_;
}

void Pipeline::note_last_ulid(const Ulid& last) {
    const std::lock_guard guard(mutex_);
    last_ulid_ = std::max(last_ulid_, last);
}

bool Pipeline::is_readable(const Ulid& session) const {
    const auto all = volumes();
    return std::none_of(all.begin(), all.end(), [&session](const auto& volume) {
        return volume->sick() && volume->find(session) != nullptr;
    });
}

std::vector<std::shared_ptr<Volume>> Pipeline::volumes() const {
    const std::lock_guard guard(mutex_);
    return volumes_;
}

std::int64_t Pipeline::checkpoint_age_ms() const {
    const std::lock_guard guard(mutex_);
    return next_checkpoint_ms_ == 0 && !checkpoint_ ? 0 : clock_.steady_ms() - checkpointed_ms_;
}

std::optional<std::string> Pipeline::failure() const {
    const std::lock_guard guard(mutex_);
    return failure_;
}

std::optional<std::string> Pipeline::checkpoint_trouble() const {
    const std::lock_guard guard(mutex_);
    return trouble_;
}

}  // namespace relay::recorder
