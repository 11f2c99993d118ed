// SPDX-License-Identifier: Apache-2.0
#include "daemon/desk.hpp"

#include "layout/json_writer.hpp"
#include "layout/session_paths.hpp"
#include "layout/version.hpp"

#include <boost/asio/io_context.hpp>

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace relay::daemon {

using layout::Event;
using layout::Refusal;
using layout::Result;
using layout::WireError;
using recorder::Outcome;
using recorder::Reply;
using recorder::Speaker;
using recorder::Verdict;

namespace {

constexpr std::int64_t protocol_version = 1;
constexpr std::int64_t bad_lines_max = 100;

// Only these change or read a session that is not in the table; everything else needs an owner, and a
// session without one is first attached to.
bool works_on_any_session(const Event& event) {
    if (const auto* checkpoint = std::get_if<layout::SessionCheckpoint>(&event.body)) {
        return checkpoint->force;
    }
    return std::holds_alternative<layout::SessionAttach>(event.body)
           || std::holds_alternative<layout::SessionUpdate>(event.body);
}

WireError wire_error(const layout::Error& error) {
    switch (error.code) {
    case layout::Errc::not_found:
        return WireError::unknown_session;
    case layout::Errc::invalid:
    case layout::Errc::unsafe:
        return WireError::bad_field;
    case layout::Errc::no_space:
        return WireError::no_space;
    case layout::Errc::gone:
        return WireError::session_gone;
    case layout::Errc::busy:
        return WireError::overloaded;
    case layout::Errc::io:
    case layout::Errc::exists:
    case layout::Errc::corrupt:
    case layout::Errc::closed:
        break;
    }
    return WireError::internal;
}

}  // namespace

Desk::Desk(Parts parts, const Config& config)
    : parts_(std::move(parts)),
      sockets_(parts_.io),
      followers_(parts_.background),
      owners_(parts_.io, [this](std::int64_t pid, const std::vector<layout::Ulid>& sessions) {
          owner_died(pid, sessions);
      }) {
    configure(config);
}

void Desk::configure(const Config& config) {
    budget_.set_bound(config.max_inflight_bytes);
    event_bytes_max_ = config.max_event_bytes;
    connections_max_ = static_cast<std::size_t>(config.max_connections);
}

void Desk::accepted(int fd, std::int64_t peer_pid) {
    auto connection = std::make_shared<Connection>(
        parts_.io,
        sockets_,
        budget_,
        fd,
        next_connection_++,
        peer_pid,
        static_cast<std::size_t>(event_bytes_max_),
        *this);
    connections_.emplace(connection->number(), connection);
    if (connections_.size() > connections_max_) {
        ++refused_connections_;
        refuse(
            *connection,
            {WireError::overloaded,
             "there are " + std::to_string(connections_max_)
                 + " connections already (daemon.max_connections); try again later",
             {}});
        connection->close_after_flush();
        return;
    }
    connection->start();
}

std::shared_ptr<Connection> Desk::find(std::uint64_t number) const {
    const auto found = connections_.find(number);
    return found == connections_.end() ? nullptr : found->second;
}

void Desk::line_arrived(Connection& connection, std::string_view line) {
    if (!line.empty() && line.back() == '\r') {
        line.remove_suffix(1);
    }
    if (!line.empty()) {
        take_line(connection, line);
        connection.flush();
        decoder_.trim();  // the next line may be long in coming
    }
}

void Desk::take_line(Connection& connection, std::string_view line) {
    auto decoded = decoder_.decode(line);
    if (const auto* refusal = std::get_if<Refusal>(&decoded)) {
        refuse(connection, *refusal);
        if (++connection.bad_lines >= bad_lines_max) {
            parts_.log.warn(
                "connection closed",
                {{"reason", "100 bad lines in a row"},
                 {"pid", std::to_string(connection.peer_pid())}});
            connection.close_after_flush();
        }
        return;
    }
    connection.bad_lines = 0;
    route(connection, std::get<Event>(decoded), MemoryBudget::cost_of_event(line.size()));
}

void Desk::route(Connection& connection, const Event& event, std::int64_t event_bytes) {
    if (stopping_) {
        refuse(
            connection,
            {WireError::shutting_down, "agent-relayd is stopping; connect again later", event.id});
        return;
    }
    if (std::holds_alternative<layout::SessionStart>(event.body)) {
        start_session(connection, event, event_bytes);
    } else if (std::holds_alternative<layout::Hello>(event.body)) {
        hello(connection, event);
    } else if (std::holds_alternative<layout::StatusQuery>(event.body)) {
        status(connection, event);
    } else if (std::holds_alternative<layout::Flush>(event.body)) {
        flush(connection, event);
    } else if (std::holds_alternative<layout::Follow>(event.body)) {
        follow(connection, event);
    } else if (const auto* list = std::get_if<layout::SessionList>(&event.body)) {
        answer_from_disk(
            connection, event, [this, query = *list] { return parts_.catalog.list(query); });
    } else if (std::holds_alternative<layout::SessionGet>(event.body)) {
        answer_from_disk(connection, event, [this, session = *event.session] {
            return parts_.catalog.get(session);
        });
    } else {
        record(connection, event, event_bytes);
    }
}

void Desk::record(Connection& connection, const Event& event, std::int64_t event_bytes) {
    // A session that has ended may have been deleted or moved to the trash since; the directory that we hold open
    // would not tell, and take what is lost then.
    if (works_on_any_session(event) && parts_.recorder.is_at_rest(*event.session)) {
        look_up(connection, event, event_bytes);
        return;
    }
    hand_over(connection, event, event_bytes);
}

void Desk::hand_over(Connection& connection, const Event& event, std::int64_t event_bytes) {
    const Speaker speaker{connection.number(), connection.peer_pid()};
    Reply answer = parts_.recorder.handle(event, speaker, event_bytes);
    if (answer.kind == Reply::Kind::absent) {
        look_up(connection, event, event_bytes);
        return;
    }
    reply(connection, event, answer, event_bytes);
}

void Desk::reply(
    Connection& connection, const Event& event, const Reply& answer, std::int64_t event_bytes) {
    switch (answer.kind) {
    case Reply::Kind::pending:
        charge(connection, event_bytes);
        if (std::holds_alternative<layout::SessionStart>(event.body)
            || std::holds_alternative<layout::SessionAttach>(event.body)) {
            parts_.volumes_changed();
            watch_owner(
                answer.waiter.session.is_zero() && event.session ? *event.session
                                                                 : answer.waiter.session);
        }
        parts_.work_pending();
        break;
    case Reply::Kind::ack:
        if (!answer.waiter.id.empty()) {
            ++acks_;
            layout::append_ack(
                connection.outgoing(),
                {.id = answer.waiter.id,
                 .session = answer.waiter.session,
                 .turn = answer.waiter.turn,
                 .seq = answer.waiter.seq,
                 .duplicate = answer.waiter.duplicate,
                 .deferred = false,
                 .fields = answer.waiter.fields});
        }
        break;
    case Reply::Kind::refused:
        refuse(connection, answer.refusal);
        break;
    case Reply::Kind::absent:
        refuse(
            connection,
            {WireError::unknown_session, "no session " + event.session->text(), event.id});
        break;
    }
}

void Desk::watch_owner(const layout::Ulid& session) {
    owners_.watch(session, parts_.recorder.owner_of(session).pid);
}

void Desk::forget_owner_if_dropped(const layout::Ulid& session) {
    if (!parts_.recorder.knows(session)) {
        owners_.forget(session);
    }
}

// The place of a new session is on disk, so the connection waits while somebody else looks; its later
// lines keep their order.
void Desk::start_session(Connection& connection, Event event, std::int64_t event_bytes) {
    connection.pause();
    auto shared = connection.shared_from_this();
    auto plan = std::make_shared<Result<recorder::SessionPlan>>(
        layout::Error{layout::Errc::io, 0, "not looked yet"});
    auto held = std::make_shared<Event>(std::move(event));
    parts_.background(
        [this, held, plan] {
            *plan = parts_.catalog.plan(std::get<layout::SessionStart>(held->body), held->session);
        },
        [this, shared, held, plan, event_bytes] {
            planned(shared, *held, std::move(*plan), event_bytes);
        });
}

void Desk::planned(
    const std::shared_ptr<Connection>& connection,
    const Event& event,
    Result<recorder::SessionPlan> plan,
    std::int64_t event_bytes) {
    const Speaker speaker{connection->number(), connection->peer_pid()};
    if (!connection->is_open()) {
        return;
    }
    if (plan.ok() || (event.session && parts_.recorder.knows(*event.session))) {
        recorder::SessionPlan chosen;
        if (plan.ok()) {
            chosen = std::move(plan.value());
        } else {
            chosen.id = *event.session;  // a retry: the session in the table is the answer
        }
        const layout::Ulid id = chosen.id;
        Reply answer = parts_.recorder.start(event, std::move(chosen), speaker, event_bytes);
        answer.waiter.session = id;
        reply(*connection, event, answer, event_bytes);
    } else if (plan.error().code == layout::Errc::exists) {
        refuse(
            *connection,
            {WireError::ended,
             plan.error().context
                 + " and is not active; continue it with session.attach and reopen",
             event.id});
    } else {
        refuse(*connection, {wire_error(plan.error()), plan.error().context, event.id});
    }
    connection->flush();
    connection->resume();
}

// A session that is not in the table may be on disk.
void Desk::look_up(Connection& connection, Event event, std::int64_t event_bytes) {
    connection.pause();
    auto shared = connection.shared_from_this();
    // The views of a hot event end with this line, and only its kind matters here: nobody owns the
    // session, so it will be refused.
    auto held = std::make_shared<Event>(std::move(event));
    auto state = std::make_shared<Result<recorder::FoundSession>>(
        layout::Error{layout::Errc::io, 0, "not looked yet"});
    parts_.background(
        [this, held, state] { *state = parts_.catalog.find(*held->session); },
        [this, shared, held, state, event_bytes] {
            found(shared, *held, std::move(*state), event_bytes);
        });
}

void Desk::found(
    const std::shared_ptr<Connection>& connection,
    const Event& event,
    Result<recorder::FoundSession> found,
    std::int64_t event_bytes) {
    if (!connection->is_open()) {
        return;
    }
    const std::string id = event.session->text();
    const bool gone = !found.ok() && found.error().code == layout::Errc::not_found
                      && parts_.recorder.is_at_rest(*event.session);
    if (gone && works_on_any_session(event)) {
        refuse(
            *connection,
            {WireError::session_gone,
             "session " + id
                 + " has ended and was deleted or moved away since; start a new session",
             event.id});
    } else if (parts_.recorder.knows(*event.session) && works_on_any_session(event)) {
        if (found.ok()) {
            parts_.recorder.refresh(std::move(found.value().state));
        }
        hand_over(*connection, event, event_bytes);
    } else if (!found.ok()) {
        const bool unknown = found.error().code == layout::Errc::not_found;
        refuse(
            *connection,
            {unknown ? WireError::unknown_session : wire_error(found.error()),
             unknown ? "no session " + id + " in any store this daemon knows"
                     : found.error().context,
             event.id});
    } else if (works_on_any_session(event) && !parts_.pipeline.is_readable(*event.session)) {
        refuse(
            *connection,
            {WireError::overloaded,
             "the disk of session " + id + " refuses writes now; try again once it is well",
             event.id});
    } else if (works_on_any_session(event)) {
        parts_.recorder.adopt(std::move(found.value().state), found.value().volume);
        parts_.volumes_changed();
        hand_over(*connection, event, event_bytes);
    } else {
        const layout::Meta& meta = found.value().state.meta;
        const bool active = meta.status == layout::SessionStatus::active;
        refuse(
            *connection,
            {active ? WireError::not_owner : WireError::ended,
             "session " + id + " is " + std::string(layout::name_of(meta.status))
                 + (active ? " and has no owner; send session.attach first"
                           : "; session.attach with reopen continues it"),
             event.id});
    }
    connection->flush();
    connection->resume();
}

void Desk::answer_from_disk(
    Connection& connection, const Event& event, std::function<Result<std::string>()> work) {
    connection.pause();
    auto shared = connection.shared_from_this();
    auto result =
        std::make_shared<Result<std::string>>(layout::Error{layout::Errc::io, 0, "not looked yet"});
    parts_.background(
        [work = std::move(work), result] { *result = work(); },
        [this, shared, result, id = event.id] {
            if (!shared->is_open()) {
                return;
            }
            if (result->ok()) {
                ack(*shared, id, result->value());
            } else {
                refuse(*shared, {wire_error(result->error()), result->error().context, id});
            }
            shared->flush();
            shared->resume();
        });
}

void Desk::follow(Connection& connection, const Event& event) {
    const auto& wish = std::get<layout::Follow>(event.body);
    auto shared = connection.shared_from_this();
    if (!event.session) {
        ack(connection, event.id, {});
        connection.flush();
        followers_.follow_all(shared);
        parts_.work_pending();
        return;
    }
    recorder::TimelineCursor cursor;
    cursor.session = *event.session;
    cursor.from_seq = wish.from_seq.value_or(0);
    cursor.next_seq = cursor.from_seq;
    if (const recorder::Session* session = parts_.recorder.find(*event.session)) {
        cursor.directory = session->directory();
        if (wish.from_seq) {
            begin_following(shared, event.id, std::move(cursor));
            return;
        }
    }
    connection.pause();
    auto place = std::make_shared<Result<recorder::TimelineCursor>>(std::move(cursor));
    parts_.background(
        [this, place, from_now = !wish.from_seq] {
            *place = place_to_follow(std::move(place->value()), from_now);
        },
        [this, shared, place, id = event.id] {
            if (!shared->is_open()) {
                return;
            }
            if (place->ok()) {
                begin_following(shared, id, std::move(place->value()));
            } else {
                refuse(*shared, {WireError::unknown_session, place->error().context, id});
            }
            shared->flush();
            shared->resume();
        });
}

// What the disk alone knows of it. Known before the ack: what comes after that is heard.
Result<recorder::TimelineCursor>
Desk::place_to_follow(recorder::TimelineCursor cursor, bool from_now) const {
    if (cursor.directory.empty()) {
        Result<std::string> directory = parts_.catalog.directory_of(cursor.session);
        if (!directory.ok()) {
            return directory.error();
        }
        cursor.directory = std::move(directory.value());
    }
    if (from_now) {
        // A timeline that cannot be looked at now is followed from its beginning: more, never less.
        static_cast<void>(recorder::skip_to_end(cursor));
    }
    return cursor;
}

void Desk::begin_following(
    const std::shared_ptr<Connection>& connection,
    std::string_view id,
    recorder::TimelineCursor cursor) {
    std::string fields = R"("session":)";
    layout::append_json_string(fields, cursor.session.text());
    ack(*connection, id, fields);
    connection->flush();
    followers_.follow(connection, std::move(cursor));
    parts_.work_pending();
}

void Desk::flush(Connection& connection, const Event& event) {
    parts_.recorder.catch_up_all();
    flushes_.push_back({connection.number(), event.id, parts_.recorder.submitted(), 0});
    answer_flushes();
}

// A flush waits until everything accepted before it is committed, and then for a checkpoint that began
// after that.
void Desk::answer_flushes() {
    const std::uint64_t committed = parts_.pipeline.changes();
    const std::uint64_t done = parts_.pipeline.checkpoints_done();
    for (FlushWaiter& waiter : std::exchange(flushes_, {})) {
        if (waiter.ticket == 0 && committed >= waiter.after_changes) {
            waiter.ticket = parts_.pipeline.request_checkpoint();
        }
        if (waiter.ticket == 0 || waiter.ticket > done) {
            flushes_.push_back(std::move(waiter));
            continue;
        }
        if (const auto connection = find(waiter.connection)) {
            const bool deferred = parts_.pipeline.checkpoint_deferred();
            ack(*connection, waiter.id, deferred ? R"("deferred":true)" : "");
            connection->flush();
        }
    }
}

void Desk::settled(const std::vector<Outcome>& outcomes) {
    std::vector<std::shared_ptr<Connection>> touched;
    bool deferred = false;
    for (const Outcome& outcome : outcomes) {
        deferred = deferred || outcome.verdict == Verdict::deferred;
        const recorder::Waiter& waiter = outcome.waiter;
        if (!followers_.empty() && outcome.verdict == Verdict::visible) {
            if (const recorder::Session* session = parts_.recorder.find(waiter.session)) {
                followers_.touch(waiter.session, session->directory(), session->last_event_seq());
            }
        }
        parts_.recorder.settled(outcome);
        forget_owner_if_dropped(waiter.session);
        const auto connection = find(waiter.connection);
        if (!connection) {
            continue;
        }
        discharge(*connection, waiter.inflight_bytes);
        if (auto refusal = recorder::Recorder::refusal_of(outcome)) {
            refuse(*connection, *refusal);
        } else if (!waiter.id.empty()) {
            ++acks_;
            layout::append_ack(
                connection->outgoing(),
                {.id = waiter.id,
                 .session = waiter.session,
                 .turn = waiter.turn,
                 .seq = waiter.seq,
                 .duplicate = waiter.duplicate,
                 .deferred = outcome.verdict == Verdict::deferred,
                 .fields = waiter.fields});
        }
        touched.push_back(connection);
    }
    if (deferred) {
        report_volumes();
    }
    for (const auto& connection : touched) {
        connection->flush();  // the second time of one connection has nothing left to send
    }
    relieve();
    answer_flushes();
}

// Says once when a disk begins to refuse, and once when it is well again.
void Desk::report_volumes() {
    for (const auto& volume : parts_.pipeline.volumes()) {
        const recorder::VolumeHealth health = volume->health();
        if (health.sick && sick_volumes_.insert(health.name).second) {
            parts_.log.error(
                "disk refuses writes",
                {{"at", volume->anchor()},
                 {"reason", health.reason},
                 {"sessions", std::to_string(health.sessions)},
                 {"events", "kept in the journal until it is well"}});
        } else if (!health.sick && sick_volumes_.erase(health.name) > 0) {
            parts_.log.info("disk is well again", {{"at", volume->anchor()}});
        }
    }
}

void Desk::noticed(const recorder::Notice& notice) {
    if (notice.deferral) {
        report_volumes();
    }
    const std::string session = notice.session.text();
    if (notice.gone) {
        parts_.log.warn("session gone", {{"session", session}});
    } else if (notice.conflict) {
        parts_.log.warn(
            "file changed by user",
            {{"session", session},
             {"file", notice.conflict->file},
             {"kept", notice.conflict->kept}});
    } else if (notice.deferral) {
        parts_.log.info(
            "session caught up", {{"session", session}, {"reason", notice.deferral->reason}});
        if (parts_.recorder.awaits_disk(notice.session)) {
            read_back(notice);
        }
    }
    parts_.recorder.noticed(notice);
    parts_.work_pending();
}

// A session whose disk was away when the daemon started; now it can be read.
void Desk::read_back(const recorder::Notice& notice) {
    auto state = std::make_shared<Result<recorder::FoundSession>>(
        layout::Error{layout::Errc::io, 0, "not looked yet"});
    parts_.background(
        [this, state, id = notice.session] { *state = parts_.catalog.find(id); },
        [this, state, notice] {
            // Ill again already: the next time it is well, we hear of it again.
            const bool stale = !parts_.pipeline.is_readable(notice.session);
            if (!state->ok() || stale || parts_.recorder.knows(notice.session)) {
                return;
            }
            parts_.recorder.adopt_returned(std::move(state->value().state), state->value().volume);
            parts_.volumes_changed();
            watch_owner(notice.session);
            parts_.recorder.noticed(notice);
            parts_.work_pending();
        });
}

bool Desk::check_followers() {
    return followers_.check_patience(std::chrono::steady_clock::now());
}

void Desk::line_too_long(Connection& connection) {
    refuse(
        connection,
        {WireError::too_large,
         "a line has more than " + std::to_string(event_bytes_max_)
             + " bytes (daemon.max_event_bytes); send the text in several events."
               " The connection is closed",
         {}});
    parts_.log.warn(
        "connection closed",
        {{"reason", "line too long"}, {"pid", std::to_string(connection.peer_pid())}});
    connection.close_after_flush();
}

void Desk::closed(Connection& connection) {
    const std::uint64_t number = connection.number();
    budget_.answered(connection.inflight_bytes);
    connection.inflight_bytes = 0;
    over_budget_.erase(number);
    followers_.forget(number);
    dying_.erase(number);
    // The owners' processes stay watched: the end of a connection is often only the first sign of a death.
    const std::vector<layout::Ulid> owned = parts_.recorder.owned_by(number);
    parts_.recorder.connection_closed(number);
    for (const layout::Ulid& session : owned) {
        forget_owner_if_dropped(session);
    }
    connections_.erase(number);
    relieve();
    parts_.work_pending();
}

void Desk::owner_died(std::int64_t pid, const std::vector<layout::Ulid>& sessions) {
    for (const layout::Ulid& session : sessions) {
        const Speaker owner = parts_.recorder.owner_of(session);
        if (owner.pid != pid) {
            continue;
        }
        const auto connection = find(owner.connection);
        if (!connection) {
            parts_.recorder.owner_died(session, pid);
            continue;
        }
        // What it said last may still be in the socket.
        dying_[owner.connection].emplace_back(session, pid);
    }
    std::vector<std::shared_ptr<Connection>> draining;
    for (const auto& [number, waiting] : dying_) {
        if (auto connection = find(number)) {
            draining.push_back(std::move(connection));
        }
    }
    for (const auto& connection : draining) {
        connection->drain();
    }
    parts_.work_pending();
}

void Desk::flushed(Connection& connection) {
    followers_.feed_more(connection.number());
}

void Desk::drained(Connection& connection) {
    const auto waiting = dying_.find(connection.number());
    if (waiting == dying_.end()) {
        return;
    }
    const auto sessions = std::move(waiting->second);
    dying_.erase(waiting);
    for (const auto& [session, pid] : sessions) {
        parts_.recorder.owner_died(session, pid);
    }
    parts_.work_pending();
}

void Desk::charge(Connection& connection, std::int64_t bytes) {
    connection.inflight_bytes += bytes;
    budget_.taken_in(bytes);
    if (budget_.exceeded() && !connection.over_budget) {
        connection.over_budget = true;
        over_budget_.insert(connection.number());
        connection.pause();
    }
}

void Desk::discharge(Connection& connection, std::int64_t bytes) {
    connection.inflight_bytes -= bytes;
    budget_.answered(bytes);
}

// Lets those read again who were stopped, once half of what was in flight is answered.
void Desk::relieve() {
    if (over_budget_.empty() || !budget_.relieved()) {
        return;
    }
    for (const std::uint64_t number : std::exchange(over_budget_, {})) {
        if (const auto connection = find(number)) {
            connection->over_budget = false;
            connection->resume();
        }
    }
}

void Desk::stop_reading() {
    stopping_ = true;
    for (const auto& [number, connection] : connections_) {
        connection->pause();
    }
}

void Desk::close_all() {
    const auto connections = connections_;
    for (const auto& [number, connection] : connections) {
        connection->close();
    }
}

void Desk::ack(Connection& connection, std::string_view id, std::string_view fields) {
    if (id.empty()) {
        return;
    }
    layout::Ack answer;
    answer.id = id;
    answer.fields = fields;
    layout::append_ack(connection.outgoing(), answer);
}

void Desk::refuse(Connection& connection, const Refusal& refusal) {
    ++refused_;
    layout::append_error(connection.outgoing(), refusal);
}

void Desk::hello(Connection& connection, const Event& event) {
    const auto& hello = std::get<layout::Hello>(event.body);
    if (hello.protocol && *hello.protocol > protocol_version) {
        refuse(
            connection,
            {WireError::bad_field,
             "field \"protocol\" is " + std::to_string(*hello.protocol)
                 + ", this agent-relayd speaks " + std::to_string(protocol_version),
             event.id});
        return;
    }
    std::string fields = R"("version":)";
    layout::append_json_string(fields, layout::program_version());
    fields += R"(,"protocol":)" + std::to_string(protocol_version) + R"(,"format":)"
              + std::to_string(layout::format_version) + R"(,"max_event_bytes":)"
              + std::to_string(event_bytes_max_) + R"(,"max_inflight_bytes":)"
              + std::to_string(budget_.bound()) + R"(,"pid":)" + std::to_string(::getpid());
    ack(connection, event.id, fields);
}

void Desk::status(Connection& connection, const Event& event) {
    ack(connection, event.id, status_fields());
}

std::string Desk::status_fields() const {
    const recorder::Pipeline& pipeline = parts_.pipeline;
    std::string json;
    layout::JsonObject status(json, layout::JsonObject::Form::compact);
    status.string("version", layout::program_version());
    status.integer("protocol", protocol_version);
    status.integer("pid", ::getpid());
    const auto uptime = std::chrono::steady_clock::now() - started_;
    status.integer(
        "uptime_ms", std::chrono::duration_cast<std::chrono::milliseconds>(uptime).count());
    status.integer("sessions", static_cast<std::int64_t>(parts_.recorder.active_sessions()));
    status.integer("connections", static_cast<std::int64_t>(connections_.size()));
    status.integer("followers", static_cast<std::int64_t>(followers_.size()));
    status.integer("events", static_cast<std::int64_t>(parts_.recorder.events()));
    status.integer("acks", static_cast<std::int64_t>(acks_));
    status.integer("redactions", static_cast<std::int64_t>(parts_.recorder.redactions()));
    status.integer("queue_depth", parts_.recorder.outstanding());
    status.integer("inflight_bytes", budget_.unanswered());
    status.integer("journal_bytes", pipeline.journal_bytes());
    status.integer("journal_lsn", static_cast<std::int64_t>(pipeline.durable_lsn()));
    status.integer("checkpoint_age_ms", pipeline.checkpoint_age_ms());
    status.integer("commits", static_cast<std::int64_t>(pipeline.batches()));
    status.integer("changes", static_cast<std::int64_t>(pipeline.changes()));
    status.key("fsync_us");
    json += '[';
    bool first = true;
    for (std::size_t bucket = 0; bucket < recorder::SyncLatency::bucket_count; ++bucket) {
        if (const std::uint64_t count = pipeline.sync_latency().bucket(bucket); count > 0) {
            json += first ? "" : ",";
            first = false;
            json += R"({"below":)" + std::to_string(std::uint64_t{1} << bucket) + R"(,"count":)"
                    + std::to_string(count) + '}';
        }
    }
    json += ']';
    status.integer("fsync_us_sum", static_cast<std::int64_t>(pipeline.sync_latency().sum_us()));
    status.key("volumes");
    json += '[';
    for (const auto& volume : pipeline.volumes()) {
        const recorder::VolumeHealth health = volume->health();
        if (json.back() != '[') {
            json += ',';
        }
        layout::JsonObject entry(json, layout::JsonObject::Form::compact);
        entry.string("name", health.name);
        entry.string("anchor", volume->anchor());
        entry.string("state", health.sick ? "deferred" : "well");
        if (health.sick) {
            entry.string("reason", health.reason);
            entry.timestamp("since", health.since);
        }
        entry.integer("sessions", static_cast<std::int64_t>(health.sessions));
        entry.integer("queued", static_cast<std::int64_t>(health.queued));
        entry.finish();
    }
    json += ']';
    status.key("errors");
    layout::JsonObject errors(json, layout::JsonObject::Form::compact);
    errors.integer("refused", static_cast<std::int64_t>(refused_));
    errors.integer("refused_connections", static_cast<std::int64_t>(refused_connections_));
    errors.string_or_null("journal", pipeline.failure());
    errors.string_or_null("checkpoint", pipeline.checkpoint_trouble());
    errors.finish();
    status.finish();
    return json.substr(1, json.size() - 2);  // the members alone: they stand in the ack
}

}  // namespace relay::daemon
