// SPDX-License-Identifier: Apache-2.0
#include "tests/end_to_end/stubborn_client.hpp"

#include "tests/end_to_end/recording.hpp"

#include <poll.h>

#include <algorithm>

namespace relay::tests {

namespace {

void pause_briefly() {
    ::poll(nullptr, 0, 2);
}

}  // namespace

void StubbornClient::run(const std::atomic<bool>& enough) {
    const std::atomic<bool> never = false;
    while (well_ && !done_) {
        run_once(enough, never);
    }
}

void StubbornClient::run_once(const std::atomic<bool>& enough, const std::atomic<bool>& gone) {
    while (well_ && !done_) {
        WireClient client(socket_);
        if (!client.connected()) {
            if (gone) {
                return;
            }
            pause_briefly();
            continue;
        }
        if (attach(client)) {
            talk(client, enough);
            return;
        }
        if (gone) {
            return;
        }
    }
}

bool StubbornClient::fail(const std::string& what, const Json& answer) {
    failure_ = script_.session() + ": " + what + ": " + answer.dump();
    well_ = false;
    return false;
}

bool StubbornClient::refused(const std::string& what, const Json& answer) {
    if (patience_ == Patience::crashes) {
        return fail(what, answer);
    }
    failure_ = script_.session() + ": " + what + ": " + answer.dump();
    pause_briefly();
    return false;
}

// True when this connection owns the session and next_ is right.
bool StubbornClient::attach(WireClient& client) {
    const Json answer = client.ask("session.attach", script_.session());
    if (answer.empty()) {
        return false;
    }
    const std::string code = code_of(answer);
    if (code == "ended" && last_said_) {
        done_ = true;
        return false;
    }
    if (code == "unknown_session" && acked_ == 0) {
        next_ = 1;
        return true;
    }
    if (code == "not_owner") {
        pause_briefly();  // our old connection's end has not been seen yet
        return false;
    }
    if (!is_ack(answer)) {
        return refused("attach refused", answer);
    }
    const std::int64_t last = answer.value("last_seq", std::int64_t{-1});
    if (last < acked_ || last > sent_) {
        return fail("acked " + std::to_string(acked_) + ", sent " + std::to_string(sent_), answer);
    }
    ++attached_;
    next_ = last + 1;
    return true;
}

bool StubbornClient::is_last(std::int64_t seq, const std::atomic<bool>& enough) const {
    return Script::is_turn_end(seq - 1)
           && (enough || last_said_ || seq > 1 + turns_max_ * Script::events_a_turn);
}

void StubbornClient::say_last(WireClient& client) {
    last_said_ = true;
    const Json answer = client.request(script_.last_line(next_));
    if (is_ack(answer)) {
        done_ = true;
    } else if (!answer.empty()) {
        static_cast<void>(refused("the last event was refused", answer));
    }
}

void StubbornClient::talk(WireClient& client, const std::atomic<bool>& enough) {
    while (true) {
        if (is_last(next_, enough)) {
            say_last(client);
            return;
        }
        const auto wanted = static_cast<std::int64_t>(1 + random_.below(40));
        std::int64_t end = next_;
        while (end < next_ + wanted && (end == next_ || !is_last(end, enough))) {
            sent_ = std::max(sent_.load(), end);
            if (!client.send(script_.line(end))) {
                static_cast<void>(
                    await_acks(client, end));  // those that came before the loss count
                return;
            }
            ++end;
        }
        if (!await_acks(client, end)) {
            return;
        }
        ::poll(nullptr, 0, static_cast<int>(pause_.count()));
    }
}

bool StubbornClient::await_acks(WireClient& client, std::int64_t end) {
    for (; next_ < end; ++next_) {
        const Json answer = client.read();
        if (answer.is_discarded()) {
            return false;
        }
        if (!is_ack(answer) || answer.value("seq", std::int64_t{-1}) != next_) {
            return refused("expected the ack of " + std::to_string(next_), answer);
        }
        acked_ = std::max(acked_.load(), next_);
        if (!answer.value("deferred", false)) {
            visible_ = std::max(visible_.load(), next_);
        }
    }
    return true;
}

}  // namespace relay::tests
