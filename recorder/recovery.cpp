// SPDX-License-Identifier: Apache-2.0
#include "recorder/recovery.hpp"

#include "layout/journal_change.hpp"
#include "layout/little_endian.hpp"
#include "recorder/instance_lock.hpp"
#include "recorder/session_loader.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace relay::recorder {

using layout::ChangeReader;
using layout::Done;
using layout::EffectKind;
using layout::EffectReader;
using layout::SessionMark;
using layout::Ulid;

namespace {

constexpr std::string_view spill_directory = "spill";
constexpr std::int64_t copy_piece_bytes = 1 << 20;

// The disk refuses, not this one file; trying later may help.
Status copy_file(Directory& from, Directory& to, const std::string& name) {
    auto source = from.open_file(name, OpenMode::existing);
    if (!source.ok()) {
        return source.error();
    }
    auto target = to.open_file(name, OpenMode::create_exclusive);
    if (!target.ok()) {
        return target.error();
    }
    std::string piece(static_cast<std::size_t>(copy_piece_bytes), '\0');
    for (std::int64_t offset = 0;;) {
        auto count = source.value()->read(offset, piece.data(), piece.size());
        if (!count.ok()) {
            return count.error();
        }
        if (count.value() == 0) {
            return target.value()->sync();
        }
        if (Status written =
                target.value()->write(offset, std::string_view(piece).substr(0, count.value()));
            !written.ok()) {
            return written;
        }
        offset += static_cast<std::int64_t>(count.value());
    }
}

}  // namespace

Status Recovery::open(const RecoveryOptions& options) {
    Pipeline& pipeline = pipeline_;
    auto directory = pipeline.disk_.open_directory(options.journal_directory);
    if (!directory.ok()) {
        return directory.error();
    }
    pipeline.journal_directory_ = std::move(directory.value());
    Directory& journal = *pipeline.journal_directory_;
    if (Status locked = take_instance_lock(journal, options.own_pid); !locked.ok()) {
        return locked;
    }
    auto durability = journal.durability();
    if (!durability.ok()) {
        return durability.error();
    }
    if (durability.value() == Durability::memory && !options.unsafe_journal) {
        return Error{
            Errc::unsafe,
            0,
            "the journal at " + options.journal_directory
                + " lies on tmpfs, in memory, and would not survive a power loss; put it on a disk"
                  " (journal.dir), or allow it with --unsafe-journal"};
    }
    auto stat = journal.stat();
    if (!stat.ok()) {
        return stat.error();
    }
    pipeline.journal_volume_ = Pipeline::volume_name(stat.value());
    journal.prefer_in_place_writes();
    if (Status made = journal.make_directory(spill_directory); made.ok()) {
        if (Status synced = journal.sync(); !synced.ok()) {
            return synced;
        }
    } else if (made.error().code != Errc::exists) {
        return made;
    }
    auto spill = journal.open_directory(spill_directory);
    if (!spill.ok()) {
        return spill.error();
    }
    pipeline.spill_directory_ = std::move(spill.value());
    auto opened = Journal::open(journal, pipeline.limits_.journal, options.random);
    if (!opened.ok()) {
        return opened.error();
    }
    pipeline.journal_ = std::move(opened.value());
    pipeline.slots_ = std::make_unique<CheckpointSlots>(journal);
    return Done{};
}

Status Recovery::load_checkpoint(const RecoveryOptions& options) {
    auto loaded = pipeline_.slots_->load();
    if (!loaded.ok()) {
        return loaded.error();
    }
    if (loaded.value()) {
        checkpoint_ = std::move(*loaded.value());
    } else if (pipeline_.journal_->has_segments()) {
        return Error{
            Errc::corrupt, 0, "the journal has segments and no checkpoint that can be read"};
    } else {
        report_.fresh = true;
        for (std::size_t half = 0; half < checkpoint_.journal.size(); half += 8) {
            const std::uint64_t random = options.random();
            for (std::size_t byte = 0; byte < 8; ++byte) {
                checkpoint_.journal[half + byte] = static_cast<std::uint8_t>(random >> (8 * byte));
            }
        }
        checkpoint_.clean = true;
        // Before the first segment: a segment without a checkpoint is damage.
        if (Status written = pipeline_.slots_->write(checkpoint_); !written.ok()) {
            return written;
        }
    }
    pipeline_.journal_id_ = checkpoint_.journal;
    pipeline_.last_ulid_ = checkpoint_.last_ulid;
    pipeline_.spill_ = std::make_unique<Spill>(*pipeline_.spill_directory_, checkpoint_.lsn);
    return Done{};
}

// A disk may have another number than at the checkpoint; whoever is there tells which. And where it is not
// mounted there may be a directory of another one, which must not suffer for it.
void Recovery::find_disks() {
    for (const SessionMark& mark : checkpoint_.sessions) {
        const auto place = open_place(pipeline_.disk_, mark.claim);
        const auto stat = place.ok() ? place.value()->stat() : Result<FileStat>(place.error());
        if (stat.ok() && SessionFiles(pipeline_.disk_, mark.session, mark.claim).directory().ok()) {
            disks_.emplace(mark.device, stat.value().device);
        }
    }
}

std::string Recovery::volume_of(const SessionMark& mark) const {
    const auto place = open_place(pipeline_.disk_, mark.claim);
    const auto stat = place.ok() ? place.value()->stat() : Result<FileStat>(place.error());
    const bool known = stat.ok()
                       && (mark.device == 0 || mark.device == stat.value().device
                           || disks_.contains({mark.device, stat.value().device}));
    return known ? Pipeline::volume_name(stat.value()) : Pipeline::volume_name(mark.claim);
}

// Sessions begun after the checkpoint.
Status Recovery::adopt_claims(std::string_view payload) {
    ChangeReader changes(payload);
    while (auto change = changes.next()) {
        EffectReader effects(*change);
        while (auto effect = effects.next()) {
            if (effect->kind != EffectKind::claim) {
                continue;
            }
            auto claim = layout::decode_claim(*effect);
            if (!claim.ok()) {
                return claim.error();
            }
            pipeline_.last_ulid_ = std::max(pipeline_.last_ulid_, change->header.session);
            const auto volume = Pipeline::volume_name(pipeline_.disk_, claim.value());
            static_cast<void>(pipeline_.files_for(
                change->header.session,
                claim.value(),
                volume.ok() ? volume.value() : Pipeline::volume_name(claim.value())));
        }
        if (effects.damaged()) {
            return Error{
                Errc::invalid,
                0,
                "the journal holds a kind of change that this version does not know; start the"
                " newer agent-relayd that wrote it"};
        }
    }
    if (changes.damaged()) {
        return Error{Errc::corrupt, 0, "a batch of the journal is whole and holds no changes"};
    }
    return Done{};
}

Status Recovery::find_sessions() {
    find_disks();
    for (const SessionMark& mark : checkpoint_.sessions) {
        const auto files = pipeline_.files_for(mark.session, mark.claim, volume_of(mark));
        files->expect(mark);
        if (files->volume->name() == Pipeline::volume_name(mark.claim)) {
            files->volume->expect_device(mark.device);
        }
        files->volume->adopt(files, mark);
    }
    for (const auto* batches : {&scan_.chain, &scan_.severed}) {
        for (const BatchPlace& batch : *batches) {
            auto payload = pipeline_.journal_->read_payload(batch);
            if (!payload.ok()) {
                return payload.error();
            }
            if (Status adopted = adopt_claims(payload.value()); !adopted.ok()) {
                return adopted;
            }
        }
    }
    return Done{};
}

// A volume with spilled sessions begins where the oldest of them stopped being synced.
Status Recovery::place_volumes() {
    auto spills = pipeline_.spill_->sessions();
    if (!spills.ok()) {
        return spills.error();
    }
    const std::set<Ulid> spilled(spills.value().begin(), spills.value().end());
    for (const auto& volume : pipeline_.volumes()) {
        std::uint64_t synced = checkpoint_.lsn;
        bool any = false;
        for (const SessionMark& mark : checkpoint_.sessions) {
            if (spilled.contains(mark.session) && volume->find(mark.session)) {
                any = true;
                synced = std::min(synced, mark.synced_lsn);
            }
        }
        volume->resume_at(synced, any ? checkpoint_.lsn : 0);
    }
    return Done{};
}

Status Recovery::keep_damaged_journal() {
    Directory& journal = *pipeline_.journal_directory_;
    const std::string stem = "damaged-" + layout::format_timestamp(pipeline_.clock_.now());
    std::string name = stem;
    Status made = journal.make_directory(name);
    for (int attempt = 2; !made.ok() && made.error().code == Errc::exists; ++attempt) {
        name = stem + "-" + std::to_string(attempt);
        made = journal.make_directory(name);
    }
    if (!made.ok()) {
        return made;
    }
    auto copy = journal.open_directory(name);
    if (!copy.ok()) {
        return copy.error();
    }
    auto names = journal.list();
    if (!names.ok()) {
        return names.error();
    }
    for (const std::string& file : names.value()) {
        if (file.starts_with("segment-") || file.starts_with("checkpoint.")) {
            if (Status copied = copy_file(journal, *copy.value(), file); !copied.ok()) {
                return copied;
            }
        }
    }
    if (Status synced = copy.value()->sync(); !synced.ok()) {
        return synced;
    }
    report_.damaged_copy = name;
    return journal.sync();
}

// Whether nothing of the session is missing before this change. Every event but a chunk extends the
// timeline, and a chunk extends its stream, so a missing one shows as a hole.
Result<bool> Recovery::follows(SessionFiles& files, const layout::ChangeReader::Change& change) {
    EffectReader effects(change);
    while (auto effect = effects.next()) {
        if (effect->kind == EffectKind::claim && effect->offset != 0) {
            return true;  // the session begins here
        }
        if (effect->kind == EffectKind::append) {
            auto reached = files.reaches(effect->name, effect->offset);
            if (!reached.ok() || !reached.value()) {
                return reached;
            }
        }
    }
    return true;
}

// Behind the damage, a session whose events still follow one another lost nothing and goes on. One
// with a gap stops where the gap is; so does one whose disk does not answer now, because nobody could
// tell. The kept copy has what they lack.
Status Recovery::salvage() {
    for (const BatchPlace& batch : scan_.severed) {
        auto payload = pipeline_.journal_->read_payload(batch);
        if (!payload.ok()) {
            return payload.error();
        }
        pipeline_.journal_->trust(batch);
        ChangeReader changes(payload.value());
        while (auto change = changes.next()) {
            const Ulid& session = change->header.session;
            std::shared_ptr<SessionFiles> files;
            for (const auto& volume : pipeline_.volumes()) {
                files = files ? files : volume->find(session);
            }
            if (!files || std::find(damaged_.begin(), damaged_.end(), session) != damaged_.end()) {
                continue;
            }
            auto fits = follows(*files, *change);
            if (!fits.ok() || !fits.value() || files->volume->sick()) {
                damaged_.push_back(session);
                continue;
            }
            WorkItem item;
            item.files = files;
            item.change = change->bytes;
            item.lsn = batch.lsn;
            std::vector<WorkItem> items;
            items.push_back(std::move(item));
            if (!files->volume->replay(std::move(items)).ok()) {
                damaged_.push_back(session);
            }
        }
    }
    for (const Ulid& session : damaged_) {
        report_.remarks.push_back(
            "session " + session.text()
            + " lacks acknowledged events that the damaged journal could not give back");
    }
    return Done{};
}

// What no sick volume waits for. A spill left behind would be replayed over newer content one day.
Status Recovery::remove_needless_spills() {
    auto spills = pipeline_.spill_->sessions();
    if (!spills.ok()) {
        return spills.error();
    }
    bool removed_any = false;
    for (const Ulid& session : spills.value()) {
        bool needed = false;
        for (const auto& volume : pipeline_.volumes()) {
            needed = needed || (volume->sick() && volume->find(session) != nullptr);
        }
        if (!needed) {
            removed_any = true;
            if (Status removed = pipeline_.spill_->remove(session); !removed.ok()) {
                return removed;
            }
        }
    }
    return removed_any ? pipeline_.spill_->sync_removals() : Status(Done{});
}

Status Recovery::close_and_restart() {
    Pipeline& pipeline = pipeline_;
    const std::uint64_t end = end_lsn_;
    // Numbers that any batch ever bore are not used again, torn ones included.
    const std::uint64_t base = std::max(end, scan_.highest_lsn);
    pipeline.dispatched_lsn_ = base;
    std::vector<std::pair<std::shared_ptr<Volume>, bool>> volumes;
    for (const auto& volume : pipeline.volumes()) {
        volume->request_sync();
        while (!volume->sick() && (volume->apply_step() || volume->sync_step())) {
        }
        const bool synced = volume->synced_lsn() >= base && !volume->sick();
        if (!synced) {
            if (Status spilled = volume->spill_to(end); !spilled.ok()) {
                return spilled;
            }
        }
        volumes.emplace_back(volume, synced);
    }
    layout::CheckpointRecord closing;
    closing.journal = pipeline.journal_id_;
    closing.lsn = base;
    closing.next_generation = scan_.highest_generation + 1;
    closing.last_ulid = pipeline.last_ulid_;
    for (const auto& [volume, synced] : volumes) {
        for (SessionMark& mark : volume->marks()) {
            closing.sessions.push_back(std::move(mark));
        }
    }
    if (Status written = pipeline.slots_->write(closing); !written.ok()) {
        return written;
    }
    if (Status removed = remove_needless_spills(); !removed.ok()) {
        return removed;
    }
    for (const auto& [volume, synced] : volumes) {
        if (synced) {
            volume->resume_at(base, 0);
        } else {
            volume->resume_at(volume->synced_lsn(), base);
        }
    }
    pipeline.checkpointed_lsn_ = base;
    pipeline.checkpointed_ms_ = pipeline.clock_.steady_ms();
    return pipeline.journal_->start(pipeline.journal_id_, closing.next_generation, base);
}

void Recovery::load_sessions() {
    for (const auto& volume : pipeline_.volumes()) {
        for (const auto& files : volume->sessions()) {
            const std::string name = "session " + files->id.text();
            if (files->gone) {
                report_.remarks.push_back(name + " was deleted by its user; nothing to recover");
                continue;
            }
            if (volume->sick()) {
                report_.waiting.push_back(files->id);
                report_.remarks.push_back(name + " waits for its disk: " + volume->health().reason);
                continue;
            }
            auto directory = files->directory();
            Result<SessionState> state =
                directory.ok() ? load_session(
                    *directory.value(), files->claim(), files->client_seq, files->event_seq)
                               : Result<SessionState>(directory.error());
            if (!state.ok() && state.error().code == Errc::not_found && files->applied_lsn == 0) {
                files->finished = true;  // the checkpoint knew of it, its first event never came
                continue;
            }
            if (!state.ok() && is_disk_fault(state.error())) {
                volume->declare_sick(state.error());
                report_.waiting.push_back(files->id);
                report_.remarks.push_back(name + " waits for its disk: " + state.error().context);
                continue;
            }
            if (!state.ok()) {
                // One that may be readable tomorrow keeps its numbers until then.
                files->finished = state.error().code != Errc::io;
                report_.remarks.push_back(
                    name + " cannot be read and is left as it is: " + state.error().context);
                continue;
            }
            files->finished = state.value().meta.status != layout::SessionStatus::active;
            const bool damaged =
                std::find(damaged_.begin(), damaged_.end(), files->id) != damaged_.end();
            report_.sessions.push_back({files, std::move(state.value()), damaged});
        }
    }
}

Result<RecoveryReport> Recovery::run(const RecoveryOptions& options) {
    if (Status opened = open(options); !opened.ok()) {
        return opened.error();
    }
    if (Status loaded = load_checkpoint(options); !loaded.ok()) {
        return loaded.error();
    }
    pipeline_.dispatched_lsn_ = checkpoint_.lsn;
    auto scanned = pipeline_.journal_->scan(checkpoint_);
    if (!scanned.ok()) {
        return scanned.error();
    }
    scan_ = std::move(scanned.value());
    end_lsn_ = pipeline_.journal_->durable_lsn();
    report_.tail = scan_.rule;
    report_.batches = scan_.chain.size();
    if (scan_.verdict == TailVerdict::damaged) {
        if (Status kept = keep_damaged_journal(); !kept.ok()) {
            return kept.error();
        }
    }
    if (Status rewritten = pipeline_.journal_->rewrite_tail(scan_); !rewritten.ok()) {
        return rewritten.error();
    }
    if (Status found = find_sessions(); !found.ok()) {
        return found.error();
    }
    if (Status placed = place_volumes(); !placed.ok()) {
        return placed.error();
    }
    for (const auto& volume : pipeline_.volumes()) {
        if (Status recovered = volume->recover(); !recovered.ok()) {
            report_.remarks.push_back(
                "the disk at " + volume->anchor()
                + " takes no changes for now: " + recovered.error().context);
        }
    }
    if (Status salvaged = salvage(); !salvaged.ok()) {
        return salvaged.error();
    }
    load_sessions();
    if (Status closed = close_and_restart(); !closed.ok()) {
        return closed.error();
    }
    report_.last_ulid = pipeline_.last_ulid_;
    return std::move(report_);
}

}  // namespace relay::recorder
