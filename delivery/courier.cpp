// SPDX-License-Identifier: Apache-2.0
#include "delivery/courier.hpp"

#include "layout/json_writer.hpp"

#include <nlohmann/json.hpp>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace relay::delivery {

namespace {

using layout::Errc;
using layout::Error;
using layout::Result;
using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// As much on its way as keeps the daemon's commits full; the rest waits here, not in its memory.
constexpr std::size_t in_flight_bytes_max = 2 << 20;
constexpr std::size_t outgoing_bytes_max = 256 << 10;
constexpr milliseconds answer_timeout{20'000};
constexpr milliseconds connect_timeout{500};
constexpr milliseconds pause_least{20};
constexpr milliseconds pause_most{1'000};
constexpr milliseconds pause_last{100};  // while finish() waits
// From then on what waits is on disk, so that it outlives this process too.
constexpr milliseconds spill_after{1'000};
constexpr int failed_starts_max = 3;
constexpr milliseconds pour_patience{3'000};
constexpr const char* silence = "it does not answer";

std::string string_in(const json& answer, const char* key) {
    const auto found = answer.find(key);
    return found != answer.end() && found->is_string() ? found->get<std::string>() : "";
}

std::int64_t number_in(const json& answer, const char* key) {
    const auto found = answer.find(key);
    return found != answer.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

json parsed(std::string_view line) {
    json answer = json::parse(line, nullptr, /*allow_exceptions=*/false);
    return answer.is_object() ? answer : json::object();
}

PendingEvent plain_event(std::string members) {
    return {std::move(members), {}, false};
}

}  // namespace

Courier::Courier(
    Outbox& outbox, std::string socket, std::int64_t pid, Origin origin, Starter starter)
    : outbox_(outbox),
      socket_(std::move(socket)),
      pid_(pid),
      origin_(origin),
      starter_(std::move(starter)),
      was_sent_(origin == Origin::left_behind) {
}

void Courier::stop() {
    stop_ = true;
    outbox_.wake();
    const std::scoped_lock lock(mutex_);
    if (asked_ >= 0) {
        ::shutdown(asked_, SHUT_RDWR);
    }
}

Courier::~Courier() {
    stop();
    if (thread_.joinable()) {
        thread_.join();
    }
}

void Courier::start() {
    // Signals are the host's: none is handled here that would have ended one of its own system calls.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { work(); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

bool Courier::finish(milliseconds patience, milliseconds most) {
    last_event_is_in_ = true;
    outbox_.wake();
    const Time end = steady_clock::now() + most;
    std::int64_t acknowledged = outbox_.acknowledged();
    while (true) {
        std::unique_lock lock(mutex_);
        const Time until = std::min(steady_clock::now() + patience, end);
        const bool over = end_.wait_until(lock, until, [this] { return ended_; });
        const std::int64_t now = outbox_.acknowledged();
        if (over || steady_clock::now() >= end || now == acknowledged) {
            break;
        }
        acknowledged = now;
    }
    stop();
    thread_.join();
    const bool all = outbox_.is_empty();
    if (!all && trouble_.empty()) {
        trouble_ = silence;
    }
    return all;
}

bool Courier::deliver(milliseconds patience, milliseconds most) {
    last_event_is_in_ = true;
    const Time end = steady_clock::now() + most;
    deadline_ = std::min(steady_clock::now() + patience, end);
    std::int64_t acknowledged = outbox_.acknowledged();
    while (!hopeless_ && !outbox_.is_empty() && steady_clock::now() < *deadline_) {
        if (client_ || connect()) {
            if (!step()) {
                disconnect();
            }
            if (const std::int64_t now = outbox_.acknowledged(); now > acknowledged) {
                acknowledged = now;
                deadline_ = std::min(steady_clock::now() + patience, end);
            }
        } else if (reached_) {
            ::poll(nullptr, 0, static_cast<int>(pause_least.count()));
        } else {
            break;
        }
    }
    disconnect();
    return outbox_.is_empty();
}

void Courier::work() {
    while (!stop_ && !hopeless_ && !(last_event_is_in_ && outbox_.is_empty())) {
        if (!client_ && !connect()) {
            if (last_event_is_in_ && failed_starts_ >= failed_starts_max) {
                break;  // nobody is there, nobody can be started: why keep the user waiting?
            }
            back_off();
        } else if (!step()) {
            disconnect();
            if (refused_) {
                back_off();
            }
        }
    }
    disconnect();
    const std::scoped_lock lock(mutex_);
    ended_ = true;
    end_.notify_all();
}

void Courier::back_off() {
    const steady_clock::time_point now = steady_clock::now();
    away_since_ = away_since_.value_or(now);
    if (now - *away_since_ >= spill_after) {
        outbox_.spill();
    }
    pause_ = std::clamp(pause_ * 2, pause_least, last_event_is_in_ ? pause_last : pause_most);
    // Events that come in meanwhile wait, too; finish() ends the pause through the same descriptor.
    const Time until = now + pause_;
    while (!stop_ && !last_event_is_in_ && steady_clock::now() < until) {
        pollfd wake{outbox_.wake_descriptor(), POLLIN, 0};
        const auto left = std::chrono::ceil<milliseconds>(until - steady_clock::now());
        ::poll(&wake, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
        outbox_.clear_wake();
    }
    if (last_event_is_in_ && !stop_) {
        ::poll(nullptr, 0, static_cast<int>(std::min(pause_, pause_last).count()));
    }
}

void Courier::give_up(const std::string& why) {
    trouble_ = why;
    hopeless_ = true;
    outbox_.abandon();
}

// The daemon's own reasons say that it lost sight of us, which is over.
void Courier::note_cut(const std::string& reason) {
    const bool by_daemon = reason == "disconnect" || reason == "crash" || reason == "shutdown";
    if (!by_daemon && origin_ == Origin::own) {
        cut_reason_ = reason;
    }
}

bool Courier::connect() {
    const bool may_start = starter_ && failed_starts_ < failed_starts_max;
    Result<Client> client = may_start ? starter_([this] { return stop_.load(); })
                                      : Client::connect(socket_, connect_timeout);
    reached_ = client.ok();
    if (!reached_) {
        failed_starts_ += may_start ? 1 : 0;
        trouble_ = client.error().context;
        return false;
    }
    client_.emplace(std::move(client.value()));
    if (!synchronise()) {
        disconnect();
        return false;
    }
    trouble_.clear();
    away_since_.reset();
    failed_starts_ = 0;
    return true;
}

Result<std::string> Courier::ask(const std::string& type, const std::string& more) {
    const std::string line =
        R"({"type":")" + type + R"(","id":0,"session":")" + outbox_.session() + "\"" + more + "}";
    const auto now = steady_clock::now();
    const Time until =
        deadline_ ? std::min(*deadline_, now + answer_timeout) : now + answer_timeout;
    {
        const std::scoped_lock lock(mutex_);
        asked_ = client_->descriptor();
    }
    Result<std::string> answer = Error{Errc::busy, 0, silence};
    if (!stop_) {
        answer = client_->ask(line, "0", std::chrono::ceil<milliseconds>(until - now));
    }
    const std::scoped_lock lock(mutex_);
    asked_ = -1;
    return stop_ && !answer.ok() ? Error{Errc::busy, 0, silence} : answer;
}

// After a connection was made: where does the daemon stand? False when that cannot be told now.
bool Courier::synchronise() {
    if (!was_sent_) {
        was_sent_ = true;
        return go_on_behind(0, /*turn_is_open=*/true);
    }
    const std::string owner = R"(,"pid":)" + std::to_string(pid_);
    Result<std::string> answer = ask("session.attach", owner);
    if (!answer.ok()) {
        trouble_ = answer.error().context;
        return false;
    }
    json attached = parsed(answer.value());
    if (string_in(attached, "code") == "ended") {
        // Perhaps because our own last event has ended it, and only the answer was lost. It may be on its way to
        // the files still, which are what the daemon answers from.
        Result<std::string> found = ask("flush", "");
        if (found.ok()) {
            found = ask("session.get", "");
        }
        const json got = parsed(found.ok() ? found.value() : "");
        const auto meta = got.find("meta");
        if (meta == got.end() || !meta->is_object()) {
            trouble_ = found.ok() ? string_in(got, "message") : found.error().context;
            return false;
        }
        const auto capture = meta->find("capture");
        const std::int64_t last_seq = capture != meta->end() ? number_in(*capture, "last_seq") : 0;
        if (outbox_.rewind(last_seq) && outbox_.is_empty()) {
            return true;
        }
        note_cut(string_in(*meta, "checkpoint_reason"));
        answer = ask("session.attach", owner + R"(,"reopen":true)");
        attached = parsed(answer.ok() ? answer.value() : "");
    }
    const std::string code = string_in(attached, "code");
    if (code == "unknown_session" && outbox_.acknowledged() == 0) {
        return go_on_behind(0, /*turn_is_open=*/true);
    }
    if (code == "unknown_session" || code == "session_gone") {
        give_up(string_in(attached, "message"));
        return false;
    }
    if (string_in(attached, "type") != "ack") {
        trouble_ = string_in(attached, "message");
        return false;
    }
    const auto turn = attached.find("turn");
    return go_on_behind(
        number_in(attached, "last_seq"), turn != attached.end() && turn->is_number());
}

bool Courier::go_on_behind(std::int64_t last_seq, bool turn_is_open) {
    if (!outbox_.rewind(last_seq)) {
        give_up(
            "the daemon has " + std::to_string(last_seq) + " events of session " + outbox_.session()
            + " and its client goes on behind " + std::to_string(outbox_.acknowledged())
            + "; the rest of it was not recorded");
        return false;
    }
    const std::optional<Refused> refused = std::exchange(refused_, std::nullopt);
    if (refused && refused->seq == last_seq + 1) {
        react(*refused);
        if (hopeless_) {
            return false;
        }
    }
    const std::optional<PendingEvent> next = outbox_.peek();
    if (next && !turn_is_open && needs_open_turn(*next)) {
        std::vector<PendingEvent> inserted;
        inserted.push_back(plain_event(R"({"type":"turn.start","prompt":""})"));
        inserted.push_back(plain_event(
            R"({"type":"turn.note","kind":"continued","payload":)"
            R"({"why":"the turn before was sealed while its agent could not be heard"}})"));
        outbox_.put_before(std::move(inserted));
    }
    return true;
}

// The event behind the last recorded one was refused before. Refusals that pass need nothing but this second
// attempt; a line that is wrong in itself would be refused for ever.
void Courier::react(const Refused& refused) {
    constexpr std::array<std::string_view, 4> wrong{
        "bad_json", "bad_field", "unknown_type", "too_large"};
    const std::optional<PendingEvent> event = outbox_.peek();
    if (refused.code == "session_gone") {
        give_up(refused.message);
        return;
    }
    if (!event || std::find(wrong.begin(), wrong.end(), refused.code) == wrong.end()) {
        return;
    }
    if (event_type(*event) == "session.start") {
        give_up(refused.message);
        return;
    }
    careful_ = false;
    // The end of a turn matters more than its patch.
    json shorter = parsed(event->members);
    if (refused.code == "too_large" && shorter.erase("diff") > 0) {
        outbox_.replace_next(plain_event(shorter.dump()));
        return;
    }
    std::string members = R"({"type":"turn.note","kind":"refused","payload":{"code":)";
    layout::append_json_string(members, refused.code);
    members += R"(,"message":)";
    layout::append_json_string(members, std::string_view(refused.message).substr(0, 4096));
    outbox_.replace_next(plain_event(members + "}}"));
}

void Courier::disconnect() {
    client_.reset();
    outgoing_.clear();
    sent_bytes_ = 0;
    incoming_.clear();
    in_flight_.clear();
    in_flight_bytes_ = 0;
}

// A session.start that was left behind names a process that is gone; the daemon would take the session for crashed in the middle
// of its delivery.
void Courier::be_owner(PendingEvent& start) const {
    auto members =
        nlohmann::ordered_json::parse(start.members, nullptr, /*allow_exceptions=*/false);
    if (members.is_object()) {
        members["pid"] = pid_;
        start.members = members.dump();
    }
}

void Courier::fill() {
    while (outgoing_.size() - sent_bytes_ < outgoing_bytes_max
           && in_flight_bytes_ < in_flight_bytes_max && !(careful_ && !in_flight_.empty())) {
        std::optional<Outbox::Numbered> next = outbox_.take();
        if (!next) {
            return;
        }
        if (next->seq == 1 && origin_ == Origin::left_behind) {
            be_owner(next->event);
        }
        if (!cut_reason_.empty() && event_type(next->event) == "session.end") {
            next->event.members = R"({"type":"session.checkpoint","reason":)";
            layout::append_json_string(next->event.members, cut_reason_);
            next->event.members += "}";
        }
        const std::string line = wire_line(next->event, outbox_.session(), next->seq);
        in_flight_.push_back(line.size());
        in_flight_bytes_ += line.size();
        outgoing_ += line;
    }
}

// An agent that pours out more than can be sent needs the processors itself: what it writes is on disk already,
// and is sent when it pauses, or when it does not for too long.
bool Courier::makes_way() {
    const std::int64_t spooled = last_event_is_in_ ? 0 : outbox_.spooled_events();
    const bool pours = spooled > std::exchange(spooled_before_, spooled) && spooled > 0;
    if (!pours) {
        pours_since_.reset();
        return false;
    }
    const Time now = steady_clock::now();
    pours_since_ = pours_since_.value_or(now);
    return now - *pours_since_ < pour_patience;
}

// One round: what there is to send, what has come in. False when the connection is over.
bool Courier::step() {
    outbox_.clear_wake();
    if (makes_way()) {
        ::poll(nullptr, 0, static_cast<int>(pause_least.count()));
        return true;
    }
    fill();
    return exchange();
}

bool Courier::exchange() {
    if (sent_bytes_ < outgoing_.size()) {
        const ssize_t sent = ::send(
            client_->descriptor(),
            outgoing_.data() + sent_bytes_,
            outgoing_.size() - sent_bytes_,
            MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN && errno != EINTR) {
            // What was answered before is still to be read.
            return receive();
        }
        sent_bytes_ += static_cast<std::size_t>(std::max<ssize_t>(sent, 0));
        if (sent_bytes_ == outgoing_.size()) {
            outgoing_.clear();
            sent_bytes_ = 0;
        }
    }
    const bool more_to_send = sent_bytes_ < outgoing_.size();
    const short wish = more_to_send ? POLLIN | POLLOUT : POLLIN;
    std::array<pollfd, 2> wait{
        pollfd{client_->descriptor(), wish, 0}, pollfd{outbox_.wake_descriptor(), POLLIN, 0}};
    if (stop_ || (last_event_is_in_ && outbox_.is_empty())) {
        return true;
    }
    // A daemon that owes an answer for so long is as good as dead; one that owes none may be silent.
    Time until = steady_clock::now() + answer_timeout;
    until = deadline_ ? std::min(until, *deadline_) : until;
    const auto left = std::chrono::ceil<milliseconds>(until - steady_clock::now()).count();
    const int limit = in_flight_.empty() ? -1 : static_cast<int>(std::max<std::int64_t>(left, 0));
    if (::poll(wait.data(), wait.size(), limit) == 0) {
        trouble_ = "agent-relayd has not answered for 20 s";
        return false;
    }
    return (wait[0].revents & (POLLIN | POLLHUP | POLLERR)) == 0 || receive();
}

bool Courier::receive() {
    std::array<char, 65536> buffer{};
    const ssize_t got = ::recv(client_->descriptor(), buffer.data(), buffer.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return true;
    }
    if (got <= 0) {
        trouble_ = "the daemon closed the connection";
        return false;
    }
    incoming_.append(buffer.data(), static_cast<std::size_t>(got));
    std::size_t begin = 0;
    for (std::size_t end = incoming_.find('\n'); end != std::string::npos;
         end = incoming_.find('\n', begin)) {
        read_answer(std::string_view(incoming_).substr(begin, end - begin));
        begin = end + 1;
    }
    incoming_.erase(0, begin);
    // A refusal leaves a gap before everything behind it: begin anew from where the daemon stands.
    return !refused_;
}

void Courier::read_answer(std::string_view line) {
    const json answer = parsed(line);
    const std::int64_t seq = number_in(answer, "id");
    if (string_in(answer, "type") == "ack") {
        while (!in_flight_.empty() && outbox_.acknowledged() < seq) {
            in_flight_bytes_ -= in_flight_.front();
            in_flight_.pop_front();
            outbox_.acknowledge(outbox_.acknowledged() + 1);
        }
        pause_ = milliseconds(0);
        return;
    }
    const std::string code = string_in(answer, "code");
    trouble_ = string_in(answer, "message");
    std::int64_t about = seq;
    if (!answer.contains("id")) {
        // Too long or no JSON: nobody has read its id. One at a time tells which it was.
        about = in_flight_.size() == 1 ? outbox_.acknowledged() + 1 : 0;
        careful_ = true;
    }
    if (!refused_ || about < refused_->seq) {
        refused_ = Refused{about, code, trouble_};
    }
}

}  // namespace relay::delivery
