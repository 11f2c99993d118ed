// SPDX-License-Identifier: Apache-2.0
#include "delivery/outbox.hpp"

#include "layout/ulid.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <utility>

namespace relay::delivery {

namespace {

using layout::Done;
using layout::Result;
using layout::Status;

// When not even the spool file can be written: beyond it output is counted and forgotten, because the agent
// must go on.
constexpr std::size_t desperate_bytes_max = 64 << 20;
constexpr std::size_t event_overhead_bytes = 128;

std::size_t cost_of(const PendingEvent& event) {
    return event.size() + event_overhead_bytes;
}

}  // namespace

std::string new_session_id() {
    const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::system_clock::now().time_since_epoch());
    return layout::UlidSource().next(layout::Timestamp{now.count()}).text();
}

Outbox::Outbox(std::string session, std::string spool_directory)
    : session_(std::move(session)),
      spool_directory_(std::move(spool_directory)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
}

Outbox::Outbox(SpoolFile left)
    : session_(left.session()),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      acknowledged_(left.first_seq() - 1),
      taken_(left.first_seq() - 1) {
    std::int64_t records = 0;
    off_t at = SpoolFile::first_record();
    while (true) {
        const Result<std::optional<PendingEvent>> event = left.read(at);
        if (!event.ok() || !event.value()) {
            break;
        }
        ++records;
    }
    const off_t first = SpoolFile::first_record();
    spooled_.emplace(Spooled{std::move(left), first, first, {}, records});
}

void Outbox::wake() const {
    const std::uint64_t one = 1;
    // A counter that is full is awake already.
    static_cast<void>(::write(wake_.get(), &one, sizeof one) == sizeof one);
}

void Outbox::clear_wake() const {
    std::uint64_t count = 0;
    static_cast<void>(::read(wake_.get(), &count, sizeof count) == sizeof count);
}

std::int64_t Outbox::waiting() const {
    return spooled_ ? spooled_->records : static_cast<std::int64_t>(events_.size());
}

void Outbox::event(std::string members) {
    assert(members.size() > 2 && members.back() == '}');
    const std::scoped_lock lock(mutex_);
    if (!abandoned_) {
        add({std::move(members), {}, false});
    }
}

void Outbox::bytes(AgentStream stream, std::string_view bytes) {
    const std::scoped_lock lock(mutex_);
    while (!bytes.empty() && !abandoned_) {
        const std::string_view part = bytes.substr(0, stream_event_bytes_max);
        bytes.remove_prefix(part.size());
        if (!join_last(stream, part)) {
            add_bytes(stream, part);
        }
    }
}

bool Outbox::join_last(AgentStream stream, std::string_view part) {
    const bool last_is_free = !spooled_ && !events_.empty()
                              && acknowledged_ + static_cast<std::int64_t>(events_.size()) > taken_;
    if (!last_is_free || !events_.back().is_stream
        || events_.back().members != stream_members(stream)
        || events_.back().bytes.size() + part.size() > stream_event_bytes_max) {
        return false;
    }
    events_.back().bytes.append(part);
    memory_bytes_ += part.size();
    return true;
}

// A spool file that is in use takes them as they are.
void Outbox::add_bytes(AgentStream stream, std::string_view part) {
    if (!spooled_ || dropped_bytes_ > 0) {
        add(stream_event(stream, part));
        return;
    }
    const bool sleeps = taken_ == acknowledged_ + waiting();
    if (spooled_->file.append_stream(stream_members(stream), part).ok()) {
        ++spooled_->records;
    } else {
        dropped_bytes_ += part.size();
    }
    if (sleeps) {
        wake();
    }
}

void Outbox::add(PendingEvent event) {
    const bool sleeps = taken_ == acknowledged_ + waiting();
    if (!spooled_ && memory_bytes_ + cost_of(event) > memory_bytes_max) {
        // A disk that refuses is not the agent's trouble: keep_in_memory() goes on for a while.
        static_cast<void>(move_to_spool());
    }
    if (dropped_bytes_ > 0 && spooled_) {
        const PendingEvent note{
            R"({"type":"turn.note","kind":"dropped","payload":{"bytes":)"
                + std::to_string(dropped_bytes_) + "}}",
            {},
            false};
        if (spooled_->file.append(note).ok()) {
            ++spooled_->records;
            dropped_bytes_ = 0;
        }
    }
    if (!spooled_) {
        keep_in_memory(std::move(event));
    } else if (spooled_->file.append(event).ok()) {
        ++spooled_->records;
    } else {
        dropped_bytes_ += event.bytes.size();
    }
    if (sleeps) {
        wake();
    }
}

void Outbox::keep_in_memory(PendingEvent event) {
    if (memory_bytes_ > desperate_bytes_max && event.is_stream) {
        dropped_bytes_ += event.bytes.size();
        return;
    }
    memory_bytes_ += cost_of(event);
    events_.push_back(std::move(event));
}

Status Outbox::move_to_spool() {
    if (idle_file_) {
        if (Status cleared = idle_file_->clear(acknowledged_ + 1); !cleared.ok()) {
            return cleared;
        }
    } else {
        Result<SpoolFile> made = SpoolFile::create(spool_directory_, session_, acknowledged_ + 1);
        if (!made.ok()) {
            return made.error();
        }
        idle_file_.emplace(std::move(made.value()));
    }
    off_t next_at = SpoolFile::first_record();
    off_t at = next_at;
    std::deque<off_t> ends;
    std::int64_t seq = acknowledged_;
    for (const PendingEvent& event : events_) {
        if (Status written = idle_file_->append(event); !written.ok()) {
            return written;
        }
        if (++seq <= taken_) {
            const Result<std::optional<PendingEvent>> skipped = idle_file_->read(at);
            if (!skipped.ok()) {
                return skipped.error();
            }
            ends.push_back(at);
            next_at = at;
        }
    }
    const auto records = static_cast<std::int64_t>(events_.size());
    spooled_.emplace(Spooled{
        std::move(*idle_file_), SpoolFile::first_record(), next_at, std::move(ends), records});
    idle_file_.reset();
    events_.clear();
    memory_bytes_ = 0;
    return Done{};
}

std::optional<Outbox::Numbered> Outbox::take() {
    const std::scoped_lock lock(mutex_);
    const std::int64_t index = taken_ - acknowledged_;
    if (index >= waiting()) {
        return std::nullopt;
    }
    if (!spooled_) {
        ++taken_;
        return Numbered{taken_, events_[static_cast<std::size_t>(index)]};
    }
    Result<std::optional<PendingEvent>> event = spooled_->file.read(spooled_->next_at);
    if (!event.ok() || !event.value()) {
        return std::nullopt;
    }
    ++taken_;
    spooled_->ends.push_back(spooled_->next_at);
    return Numbered{taken_, std::move(*event.value())};
}

void Outbox::acknowledge(std::int64_t seq) {
    const std::scoped_lock lock(mutex_);
    seq = std::min(seq, taken_);
    while (acknowledged_ < seq) {
        ++acknowledged_;
        if (spooled_) {
            spooled_->acknowledged_at = spooled_->ends.front();
            spooled_->ends.pop_front();
            --spooled_->records;
        } else {
            memory_bytes_ -= std::min(memory_bytes_, cost_of(events_.front()));
            events_.pop_front();
        }
    }
    if (spooled_ && spooled_->records == 0) {
        idle_file_.emplace(std::move(spooled_->file));
        spooled_.reset();
    }
    if (waiting() == 0) {
        emptied_.notify_all();
    }
}

bool Outbox::rewind(std::int64_t last_seq) {
    {
        const std::scoped_lock lock(mutex_);
        if (last_seq < acknowledged_ || last_seq > acknowledged_ + waiting()) {
            return false;
        }
        taken_ = acknowledged_;
        if (spooled_) {
            spooled_->ends.clear();
            spooled_->next_at = spooled_->acknowledged_at;
        }
    }
    while (taken_ < last_seq) {
        if (!take()) {
            return false;
        }
    }
    acknowledge(last_seq);
    return true;
}

std::optional<PendingEvent> Outbox::peek() {
    const std::scoped_lock lock(mutex_);
    const std::int64_t index = taken_ - acknowledged_;
    if (index >= waiting()) {
        return std::nullopt;
    }
    if (!spooled_) {
        return events_[static_cast<std::size_t>(index)];
    }
    off_t at = spooled_->next_at;
    Result<std::optional<PendingEvent>> event = spooled_->file.read(at);
    return event.ok() ? std::move(event.value()) : std::nullopt;
}

void Outbox::put_before(std::vector<PendingEvent> inserted) {
    const std::scoped_lock lock(mutex_);
    assert(taken_ == acknowledged_);
    const auto count = static_cast<std::int64_t>(inserted.size());
    if (spooled_) {
        if (spooled_->file.put_before(spooled_->next_at, taken_ + 1, inserted).ok()) {
            spooled_->next_at = spooled_->acknowledged_at = SpoolFile::first_record();
            spooled_->records += count;
        }
        return;
    }
    for (auto event = inserted.rbegin(); event != inserted.rend(); ++event) {
        memory_bytes_ += cost_of(*event);
        events_.push_front(std::move(*event));
    }
}

void Outbox::replace_next(PendingEvent event) {
    const std::scoped_lock lock(mutex_);
    assert(taken_ == acknowledged_);
    if (spooled_) {
        off_t behind = spooled_->next_at;
        const Result<std::optional<PendingEvent>> old = spooled_->file.read(behind);
        if (old.ok() && old.value()
            && spooled_->file.put_before(behind, taken_ + 1, {event}).ok()) {
            spooled_->next_at = spooled_->acknowledged_at = SpoolFile::first_record();
        }
    } else if (!events_.empty()) {
        memory_bytes_ += cost_of(event);
        memory_bytes_ -= std::min(memory_bytes_, cost_of(events_.front()));
        events_.front() = std::move(event);
    }
}

void Outbox::spill() {
    const std::scoped_lock lock(mutex_);
    if (!spooled_ && !events_.empty()) {
        // Without a disk they stay in memory.
        static_cast<void>(move_to_spool());
    }
}

void Outbox::abandon() {
    const std::scoped_lock lock(mutex_);
    abandoned_ = true;
    events_.clear();
    memory_bytes_ = 0;
    if (spooled_) {
        idle_file_.emplace(std::move(spooled_->file));
        spooled_.reset();
    }
    taken_ = acknowledged_;
    emptied_.notify_all();
}

std::int64_t Outbox::spooled_events() const {
    const std::scoped_lock lock(mutex_);
    return spooled_ ? acknowledged_ + spooled_->records : 0;
}

bool Outbox::is_empty() const {
    const std::scoped_lock lock(mutex_);
    return waiting() == 0;
}

bool Outbox::wait_empty(std::chrono::milliseconds most) const {
    std::unique_lock lock(mutex_);
    return emptied_.wait_for(lock, most, [this] { return waiting() == 0 || abandoned_; })
           && !abandoned_;
}

std::int64_t Outbox::acknowledged() const {
    const std::scoped_lock lock(mutex_);
    return acknowledged_;
}

bool Outbox::close(Result<std::string>& left_in) {
    const std::scoped_lock lock(mutex_);
    if (waiting() == 0) {
        if (idle_file_) {
            idle_file_->remove();
            idle_file_.reset();
        }
        return true;
    }
    Status written = spooled_ ? Status(Done{}) : move_to_spool();
    if (!written.ok()) {
        left_in = written.error();
        return false;
    }
    const Status synced = spooled_->file.sync();
    left_in = synced.ok() ? Result<std::string>(spooled_->file.path()) : synced.error();
    spooled_.reset();
    events_.clear();
    abandoned_ = true;
    return false;
}

}  // namespace relay::delivery
