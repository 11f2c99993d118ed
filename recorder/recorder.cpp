// SPDX-License-Identifier: Apache-2.0
#include "recorder/recorder.hpp"

#include "layout/event_redaction.hpp"
#include "layout/json_writer.hpp"
#include "recorder/process_identity.hpp"

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

namespace relay::recorder {

using layout::Event;
using layout::Redactor;
using layout::Refusal;
using layout::Ulid;
using layout::WireError;

namespace {

// About ten lines a second in the timeline of a session that streams.
constexpr std::int64_t timeline_lag_max_ms = 100;
constexpr std::int64_t meta_lag_max_ms = 1'000;
constexpr std::int64_t held_max_ms = 150;

// Outcomes of changes that nobody on a connection waits for come back under this number, so that the
// table knows when a session's files have caught up with it.
constexpr std::uint64_t nobody = std::numeric_limits<std::uint64_t>::max();

// Open to every process of the user: they add to a session without driving it.
bool is_open_to_all(const Event& event) {
    if (event.seq) {
        return false;  // numbering belongs to the owner
    }
    if (const auto* checkpoint = std::get_if<layout::SessionCheckpoint>(&event.body)) {
        return checkpoint->force;
    }
    return std::holds_alternative<layout::TurnNote>(event.body)
           || std::holds_alternative<layout::SessionUpdate>(event.body)
           || std::holds_alternative<layout::SessionAttachment>(event.body);
}

// Nothing more comes of the turn's streams after it.
bool ends_streams(const Event& event) {
    return std::holds_alternative<layout::TurnStart>(event.body)
           || std::holds_alternative<layout::TurnEnd>(event.body)
           || std::holds_alternative<layout::SessionCheckpoint>(event.body)
           || std::holds_alternative<layout::SessionEnd>(event.body);
}

Reply refused(WireError code, std::string message, const Event& event) {
    Reply reply;
    reply.kind = Reply::Kind::refused;
    reply.refusal = {code, std::move(message), event.id};
    return reply;
}

std::string start_fields(const Session& session) {
    std::string fields = R"("slug":)";
    layout::append_json_string(fields, session.meta().slug);
    fields += R"(,"path":)";
    layout::append_json_string(fields, session.directory());
    return fields;
}

}  // namespace

void Recorder::submit(Entry& entry, Step step, Waiter waiter) {
    WorkItem item;
    item.files = entry.files;
    item.change = std::move(step.change);
    item.finishes = !entry.session.active();
    item.waiter = std::move(waiter);
    item.waiter.session = entry.session.id();
    ++entry.outstanding;
    ++outstanding_;
    ++submitted_;
    watch_lag(entry);
    pipeline_.submit(std::move(item));
}

void Recorder::submit_own(Entry& entry, Step step) {
    if (step.change.empty()) {
        return;
    }
    Waiter waiter;
    waiter.connection = nobody;
    submit(entry, std::move(step), std::move(waiter));
}

void Recorder::watch_lag(Entry& entry) {
    const std::int64_t now = clock_.steady_ms();
    const bool listed = entry.timeline_lags_since_ms || entry.meta_lags_since_ms;
    const auto watch = [now](bool lags, std::optional<std::int64_t>& since) {
        if (!lags) {
            since.reset();
        } else if (!since) {
            since = now;
        }
    };
    watch(entry.session.timeline_lags(), entry.timeline_lags_since_ms);
    watch(entry.session.meta_lags(), entry.meta_lags_since_ms);
    if (!listed && (entry.timeline_lags_since_ms || entry.meta_lags_since_ms)) {
        lagging_.push_back(entry.session.id());
    }
}

void Recorder::adopt(SessionState state, const std::string& volume) {
    const Ulid id = state.meta.id;
    std::shared_ptr<SessionFiles> files = pipeline_.files_for(id, state.claim, volume);
    state.client_seq = std::max(state.client_seq, files->client_seq.load());
    state.event_seq = std::max(state.event_seq, files->event_seq.load());
    table_.emplace(id, Entry(Session(std::move(state)), std::move(files)));
}

void Recorder::refresh(SessionState state) {
    const auto found = table_.find(state.meta.id);
    // Not greater: read before or while the table's own last change was written.
    if (found == table_.end() || !is_at_rest(state.meta.id)
        || state.event_seq <= found->second.session.last_event_seq()) {
        return;
    }
    state.client_seq = std::max(state.client_seq, found->second.session.last_client_seq());
    found->second.session = Session(std::move(state));
    found->second.files->made_anew = true;
}

void Recorder::adopt_recovered(RecoveredSession recovered) {
    if (recovered.state.meta.status != layout::SessionStatus::active) {
        return;
    }
    const Ulid id = recovered.state.meta.id;
    auto [place, fresh] =
        table_.emplace(id, Entry(Session(std::move(recovered.state)), std::move(recovered.files)));
    Entry& entry = place->second;
    if (recovered.damaged) {
        submit_own(entry, entry.session.note_gap(clock_.now()));
    }
    await_owner(entry);
}

void Recorder::await_disks(const std::vector<Ulid>& sessions) {
    waiting_.insert(sessions.begin(), sessions.end());
}

void Recorder::adopt_returned(SessionState state, const std::string& volume) {
    waiting_.erase(state.meta.id);
    if (state.meta.status != layout::SessionStatus::active) {
        return;
    }
    const Ulid id = state.meta.id;
    adopt(std::move(state), volume);
    await_owner(table_.at(id));
}

// After a restart: an owner that lives may come back, one that is dead will not.
void Recorder::await_owner(Entry& entry) {
    const std::string& owner = entry.session.claim().owner;
    entry.owner_pid = pid_of(owner);
    switch (fate_of(owner)) {
    case OwnerFate::alive:
    case OwnerFate::unknown:
        orphan(entry, "disconnect", orphan_grace_ms_);
        break;
    case OwnerFate::dead:
        orphan(entry, "crash", 0);
        break;
    case OwnerFate::rebooted:
        orphan(entry, "shutdown", 0);
        break;
    }
}

std::optional<Refusal>
Recorder::may_speak(const Entry& entry, const Event& event, const Speaker& speaker) const {
    if (entry.gone) {
        return Refusal{
            WireError::session_gone,
            "the directory of session " + entry.session.id().text()
                + " was deleted or moved away while it was recorded; start a new session",
            event.id};
    }
    if (entry.owner == speaker.connection || is_open_to_all(event)) {
        return std::nullopt;
    }
    if (!entry.session.active()) {
        return std::nullopt;  // the session itself says `ended`, which helps more than `not_owner`
    }
    const std::string id = entry.session.id().text();
    if (has_owner(entry)) {
        return Refusal{
            WireError::not_owner,
            "session " + id + " is owned by process " + std::to_string(entry.owner_pid)
                + " on another connection; only it may send this",
            event.id};
    }
    return Refusal{
        WireError::not_owner,
        "session " + id + " has no owner now; send session.attach on this connection first",
        event.id};
}

Reply Recorder::finish(
    Entry& entry,
    StepResult result,
    const Event& event,
    const Speaker& speaker,
    std::int64_t inflight_bytes) {
    Reply reply;
    if (auto* refusal = std::get_if<Refusal>(&result)) {
        reply.kind = Reply::Kind::refused;
        reply.refusal = std::move(*refusal);
        reply.refusal.id = event.id;
        return reply;
    }
    Step& step = std::get<Step>(result);
    Waiter waiter;
    waiter.connection = speaker.connection;
    waiter.id = event.id;
    waiter.session = entry.session.id();
    waiter.turn = step.turn;
    waiter.seq = step.seq;
    waiter.fields = std::move(step.fields);
    waiter.duplicate = step.duplicate;
    waiter.inflight_bytes = inflight_bytes;
    if (step.change.empty()) {
        if (entry.outstanding == 0) {
            reply.kind = Reply::Kind::ack;
            reply.waiter = std::move(waiter);
            return reply;
        }
        // The event it repeats may still be on its way: an empty change behind it tells when it arrived.
        layout::ChangeWriter nothing(
            step.change,
            {entry.session.id(), entry.session.last_client_seq(), entry.session.last_event_seq()});
        nothing.finish();
    } else {
        ++events_;
    }
    submit(entry, std::move(step), std::move(waiter));
    reply.kind = Reply::Kind::pending;
    return reply;
}

Reply Recorder::record(
    Entry& entry,
    const Event& event,
    std::int64_t redactions,
    const Speaker& speaker,
    std::int64_t inflight_bytes) {
    const std::int64_t counted = entry.session.accepts(event) ? redactions : 0;
    entry.session.count_redactions(counted);
    Reply reply =
        finish(entry, entry.session.handle(event, clock_.now()), event, speaker, inflight_bytes);
    if (counted > 0 && reply.kind == Reply::Kind::refused) {
        entry.session.count_redactions(-counted);
        return reply;
    }
    redactions_ += static_cast<std::uint64_t>(counted);
    if (counted > 0 && entry.session.meta_lags()) {
        submit_own(entry, entry.session.catch_up_meta(clock_.now()));
    }
    return reply;
}

Reply Recorder::hide_and_record(
    Entry& entry, const Event& event, const Speaker& speaker, std::int64_t inflight_bytes) {
    if (redactor_ && std::holds_alternative<layout::TurnBytes>(event.body)) {
        return take_piece(entry, event, speaker, inflight_bytes);
    }
    settle_held(entry, ends_streams(event) ? Redactor::Rest::none : Redactor::Rest::waited);
    const std::optional<layout::RedactedEvent> hidden =
        redactor_ ? layout::redact_event(*redactor_, event) : std::nullopt;
    return hidden ? record(entry, hidden->event, hidden->count, speaker, inflight_bytes)
                  : record(entry, event, 0, speaker, inflight_bytes);
}

Reply Recorder::take_piece(
    Entry& entry, const Event& event, const Speaker& speaker, std::int64_t inflight_bytes) {
    const auto& piece = std::get<layout::TurnBytes>(event.body);
    if (!entry.held.empty()) {
        const HeldPiece& last = entry.held.back();
        const bool numbered = event.seq && last.event.seq;
        const bool follows =
            std::get<layout::TurnBytes>(last.event.body).stream == piece.stream
            && last.speaker.connection == speaker.connection
            && (numbered ? *event.seq == *last.event.seq + 1 : !event.seq && !last.event.seq);
        if (!follows) {
            settle_held(entry, Redactor::Rest::waited);
        }
    }
    if (entry.held.empty()) {
        std::string hidden;
        std::int64_t count = 0;
        const Redactor::Verdict verdict = redactor_->judge(
            {.written = entry.session.written_end(piece.stream),
             .text = piece.bytes,
             .after = {},
             .rest = Redactor::Rest::unknown},
            hidden,
            count);
        if (verdict == Redactor::Verdict::changed) {
            Event without = event;
            std::get<layout::TurnBytes>(without.body).bytes = hidden;
            return record(entry, without, count, speaker, inflight_bytes);
        }
        if (verdict == Redactor::Verdict::clean || !entry.session.accepts(event)) {
            return record(entry, event, 0, speaker, inflight_bytes);
        }
        entry.held_since_ms = clock_.steady_ms();
        holding_.push_back(entry.session.id());
    }
    entry.held.push_back({event, std::string(piece.bytes), speaker, inflight_bytes});
    settle_held(entry, Redactor::Rest::unknown);
    Reply reply;
    reply.kind = Reply::Kind::pending;
    return reply;
}

void Recorder::settle_held(Entry& entry, Redactor::Rest rest) {
    while (!entry.held.empty()) {
        HeldPiece& first = entry.held.front();
        auto& body = std::get<layout::TurnBytes>(first.event.body);
        std::string after;
        for (auto next = entry.held.begin() + 1;
             next != entry.held.end() && after.size() < Redactor::context_bytes_max;
             ++next) {
            after.append(next->bytes, 0, Redactor::context_bytes_max);
        }
        std::string hidden;
        std::int64_t count = 0;
        body.bytes = first.bytes;
        if (redactor_) {  // a reload may have taken it away
            const Redactor::Verdict verdict = redactor_->judge(
                {entry.session.written_end(body.stream), first.bytes, after, rest}, hidden, count);
            if (verdict == Redactor::Verdict::undecided) {
                return;
            }
            if (verdict == Redactor::Verdict::changed) {
                body.bytes = hidden;
            }
        }
        // It was accepted when it came, and since then nothing has happened to the session that would refuse it.
        const Reply reply = record(entry, first.event, count, first.speaker, first.inflight_bytes);
        assert(reply.kind == Reply::Kind::pending);
        static_cast<void>(reply);
        entry.held.erase(entry.held.begin());
    }
}

Reply Recorder::start(
    const Event& event, SessionPlan plan, const Speaker& speaker, std::int64_t inflight_bytes) {
    const auto& wish = std::get<layout::SessionStart>(event.body);
    if (const auto known = table_.find(plan.id); known != table_.end()) {
        // A retry. The first attempt may have been acknowledged into a connection that was lost.
        Entry& entry = known->second;
        if (entry.owner != speaker.connection) {
            layout::SessionAttach again;
            again.pid = wish.pid;
            return attach(entry, event, again, speaker, inflight_bytes);
        }
        Reply reply;
        reply.kind = Reply::Kind::ack;
        reply.waiter.duplicate = true;
        reply.waiter.connection = speaker.connection;
        reply.waiter.id = event.id;
        reply.waiter.session = plan.id;
        reply.waiter.fields = start_fields(entry.session);
        return reply;
    }
    if (event.seq && *event.seq != 1) {
        return refused(
            WireError::seq_gap,
            "session.start is the first event of its session: its seq is 1 or absent, got "
                + std::to_string(*event.seq),
            event);
    }
    const std::int64_t pid = wish.pid.value_or(speaker.pid);
    const std::optional<layout::RedactedEvent> hidden =
        redactor_ ? layout::redact_event(*redactor_, event) : std::nullopt;
    const auto& start = std::get<layout::SessionStart>(hidden ? hidden->event.body : event.body);
    SessionState state;
    state.meta = std::move(plan.meta);
    state.meta.capture.redactions = hidden ? hidden->count : 0;
    redactions_ += hidden ? static_cast<std::uint64_t>(hidden->count) : 0;
    state.meta.id = plan.id;
    state.meta.agent = start.agent;
    state.meta.command = start.command;
    state.meta.name = start.name;
    state.meta.model = start.model;
    state.meta.labels = start.labels;
    state.meta.parent = start.parent;
    state.meta.ephemeral = start.ephemeral;
    state.meta.extra = start.extra;
    state.meta.pid = pid;
    if (start.user) {
        state.meta.user = start.user;
    }
    state.claim = plan.claim;
    state.claim.create = true;
    state.claim.owner = process_identity(pid);
    state.lineage = std::move(plan.lineage);

    Step first;
    Session session = Session::begin(std::move(state), event.seq, clock_.now(), first);
    std::shared_ptr<SessionFiles> files =
        pipeline_.files_for(plan.id, session.claim(), plan.volume);
    pipeline_.note_last_ulid(plan.id);
    auto [place, fresh] = table_.emplace(plan.id, Entry(std::move(session), std::move(files)));
    Entry& entry = place->second;
    entry.owner = speaker.connection;
    entry.owner_pid = pid;
    first.fields = start_fields(entry.session);
    return finish(entry, std::move(first), event, speaker, inflight_bytes);
}

Reply Recorder::attach(
    Entry& entry,
    const Event& event,
    const layout::SessionAttach& attach,
    const Speaker& speaker,
    std::int64_t inflight_bytes) {
    if (entry.gone || (has_owner(entry) && entry.owner != speaker.connection)) {
        if (auto refusal = may_speak(entry, event, speaker)) {
            Reply reply;
            reply.refusal = std::move(*refusal);
            return reply;
        }
        if (has_owner(entry)) {
            return refused(
                WireError::not_owner,
                "session " + entry.session.id().text() + " is owned by process "
                    + std::to_string(entry.owner_pid) + " on another connection",
                event);
        }
    }
    settle_held(entry, Redactor::Rest::waited);
    const std::int64_t pid = attach.pid.value_or(speaker.pid);
    StepResult result =
        entry.session.attach(attach, process_identity(pid), attach.pid, clock_.now());
    if (std::holds_alternative<Step>(result)) {
        entry.owner = speaker.connection;
        entry.owner_pid = pid;
        entry.orphaned_until_ms.reset();
        if (std::holds_alternative<layout::SessionStart>(event.body)) {
            Step& step = std::get<Step>(result);
            step.duplicate = true;
            step.fields += (step.fields.empty() ? "" : ",") + start_fields(entry.session);
        }
    }
    return finish(entry, std::move(result), event, speaker, inflight_bytes);
}

Reply Recorder::handle(const Event& event, const Speaker& speaker, std::int64_t inflight_bytes) {
    if (awaits_disk(*event.session)) {
        return refused(
            WireError::overloaded,
            "the disk of session " + event.session->text()
                + " cannot be reached or written now; try again once it is back",
            event);
    }
    const auto found = table_.find(*event.session);
    if (found == table_.end()) {
        Reply reply;
        reply.kind = Reply::Kind::absent;
        return reply;
    }
    Entry& entry = found->second;
    if (const auto* wish = std::get_if<layout::SessionAttach>(&event.body)) {
        return attach(entry, event, *wish, speaker, inflight_bytes);
    }
    if (auto refusal = may_speak(entry, event, speaker)) {
        Reply reply;
        reply.refusal = std::move(*refusal);
        return reply;
    }
    Reply reply = hide_and_record(entry, event, speaker, inflight_bytes);
    drop_if_done(*event.session);
    return reply;
}

void Recorder::orphan(Entry& entry, std::string_view reason, std::int64_t grace_ms) {
    settle_held(entry, Redactor::Rest::waited);
    entry.owner = 0;
    if (!entry.session.active() || entry.gone) {
        return;
    }
    entry.orphan_reason = reason;
    entry.orphaned_until_ms = clock_.steady_ms() + grace_ms;
    orphans_.push_back(entry.session.id());
    if (grace_ms <= 0) {
        abandon(entry);
    }
}

void Recorder::abandon(Entry& entry) {
    entry.orphaned_until_ms.reset();
    submit_own(entry, entry.session.abandon(entry.orphan_reason, clock_.now()));
}

void Recorder::connection_closed(std::uint64_t connection) {
    for (const Ulid& id : owned_by(connection)) {
        Entry& entry = table_.at(id);
        const bool dead = fate_of(entry.session.claim().owner) == OwnerFate::dead;
        orphan(entry, dead ? "crash" : "disconnect", dead ? 0 : orphan_grace_ms_);
        drop_if_done(id);
    }
}

void Recorder::owner_died(const Ulid& session, std::int64_t pid) {
    const auto found = table_.find(session);
    if (found == table_.end() || found->second.owner_pid != pid) {
        return;
    }
    orphan(found->second, "crash", 0);
}

std::vector<Ulid> Recorder::owned_by(std::uint64_t connection) const {
    std::vector<Ulid> owned;
    for (const auto& [id, entry] : table_) {
        if (entry.owner == connection) {
            owned.push_back(id);
        }
    }
    return owned;
}

void Recorder::settled(const Outcome& outcome) {
    --outstanding_;
    const auto found = table_.find(outcome.waiter.session);
    if (found == table_.end()) {
        return;
    }
    Entry& entry = found->second;
    --entry.outstanding;
    entry.deferred = entry.deferred || outcome.verdict == Verdict::deferred;
    entry.gone = entry.gone || outcome.verdict == Verdict::gone;
    drop_if_done(outcome.waiter.session);
}

void Recorder::noticed(const Notice& notice) {
    const auto found = table_.find(notice.session);
    if (found == table_.end()) {
        return;
    }
    Entry& entry = found->second;
    if (notice.gone) {
        settle_held(entry, Redactor::Rest::waited);
        entry.gone = true;
        drop_if_done(notice.session);
        return;
    }
    if (notice.conflict) {
        submit_own(
            entry,
            entry.session.note_conflict(
                notice.conflict->file, notice.conflict->kept, clock_.now()));
    }
    if (notice.deferral) {
        entry.deferred = false;
        submit_own(entry, entry.session.note_deferral(*notice.deferral, clock_.now()));
    }
}

// A session leaves the table when it is over, the connection that drove it is closed, and its files say
// all that it knows: from then on it is read from disk like any other.
void Recorder::drop_if_done(const Ulid& session) {
    const auto found = table_.find(session);
    if (found == table_.end()) {
        return;
    }
    const Entry& entry = found->second;
    const bool over = !entry.session.active() || entry.gone;
    if (over && entry.owner == 0 && entry.outstanding == 0 && entry.held.empty()
        && !entry.deferred) {
        table_.erase(found);
    }
}

std::optional<std::int64_t> Recorder::tick() {
    const std::int64_t now = clock_.steady_ms();
    // All lagging meta.json go together, so that their syncs do.
    const bool metas_due =
        std::any_of(lagging_.begin(), lagging_.end(), [this, now](const Ulid& id) {
            const auto found = table_.find(id);
            return found != table_.end() && found->second.meta_lags_since_ms
                   && now - *found->second.meta_lags_since_ms >= meta_lag_max_ms;
        });
    std::optional<std::int64_t> again;
    const auto come_in = [&again](std::int64_t wait_ms) {
        again = std::min(again.value_or(wait_ms), std::max<std::int64_t>(wait_ms, 1));
    };
    for (const Ulid& id : std::exchange(holding_, {})) {
        const auto found = table_.find(id);
        if (found == table_.end() || found->second.held.empty()) {
            continue;
        }
        Entry& entry = found->second;
        const std::int64_t left_ms = entry.held_since_ms + held_max_ms - now;
        if (left_ms > 0) {
            come_in(left_ms);
            holding_.push_back(id);
            continue;
        }
        settle_held(entry, Redactor::Rest::waited);
    }
    std::vector<Ulid> lagging = std::exchange(lagging_, {});
    for (const Ulid& id : lagging) {
        const auto found = table_.find(id);
        if (found == table_.end()) {
            continue;
        }
        Entry& entry = found->second;
        if (!entry.gone && metas_due && entry.meta_lags_since_ms) {
            submit_own(entry, entry.session.catch_up_meta(clock_.now()));
        } else if (
            !entry.gone && entry.timeline_lags_since_ms
            && now - *entry.timeline_lags_since_ms >= timeline_lag_max_ms) {
            submit_own(entry, entry.session.catch_up_timeline(clock_.now()));
        }
        if (entry.gone) {
            entry.timeline_lags_since_ms.reset();
            entry.meta_lags_since_ms.reset();
            continue;
        }
        if (entry.timeline_lags_since_ms) {
            come_in(*entry.timeline_lags_since_ms + timeline_lag_max_ms - now);
        }
        if (entry.meta_lags_since_ms) {
            come_in(*entry.meta_lags_since_ms + meta_lag_max_ms - now);
        }
        if (entry.timeline_lags_since_ms || entry.meta_lags_since_ms) {
            lagging_.push_back(id);
        }
    }
    std::vector<Ulid> orphans = std::exchange(orphans_, {});
    for (const Ulid& id : orphans) {
        const auto found = table_.find(id);
        if (found == table_.end() || !found->second.orphaned_until_ms) {
            continue;
        }
        if (now >= *found->second.orphaned_until_ms) {
            abandon(found->second);
            continue;
        }
        come_in(*found->second.orphaned_until_ms - now);
        orphans_.push_back(id);
    }
    return again;
}

void Recorder::catch_up_all() {
    for (auto& [id, entry] : table_) {
        settle_held(entry, Redactor::Rest::waited);
        if (!entry.gone && (entry.session.timeline_lags() || entry.session.meta_lags())) {
            submit_own(entry, entry.session.catch_up_meta(clock_.now()));
        }
    }
}

const Session* Recorder::find(const Ulid& session) const {
    const auto found = table_.find(session);
    return found == table_.end() ? nullptr : &found->second.session;
}

bool Recorder::is_at_rest(const Ulid& session) const {
    const auto found = table_.find(session);
    return found != table_.end() && !found->second.session.active()
           && found->second.outstanding == 0 && !found->second.deferred;
}

Speaker Recorder::owner_of(const Ulid& session) const {
    const auto found = table_.find(session);
    return found == table_.end() ? Speaker{}
                                 : Speaker{found->second.owner, found->second.owner_pid};
}

std::size_t Recorder::active_sessions() const {
    return static_cast<std::size_t>(
        std::count_if(table_.begin(), table_.end(), [](const auto& item) {
            return item.second.session.active();
        }));
}

std::vector<Ulid> Recorder::ids() const {
    std::vector<Ulid> ids;
    ids.reserve(table_.size());
    for (const auto& [id, entry] : table_) {
        ids.push_back(id);
    }
    return ids;
}

std::optional<Refusal> Recorder::refusal_of(const Outcome& outcome) {
    switch (outcome.verdict) {
    case Verdict::visible:
    case Verdict::deferred:
        return std::nullopt;
    case Verdict::gone:
        return Refusal{
            WireError::session_gone, outcome.reason + "; start a new session", outcome.waiter.id};
    case Verdict::failed:
        return Refusal{WireError::internal, outcome.reason, outcome.waiter.id};
    case Verdict::no_space:
        return Refusal{WireError::no_space, outcome.reason, outcome.waiter.id};
    }
    return std::nullopt;
}

}  // namespace relay::recorder
