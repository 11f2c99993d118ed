// SPDX-License-Identifier: Apache-2.0
#include "tests/end_to_end/recording.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/random.hpp"

#include <doctest/doctest.h>

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace relay::tests {
namespace {

constexpr int events_a_turn = 12;  // its start, ten pieces of output and its end

// What a client says is a function of its name and the seq alone, so that it can be said again after any
// crash and compared with the files in the end.
class Script {
public:
    Script(std::string session, std::string cwd, int name)
        : session_(std::move(session)), cwd_(std::move(cwd)), name_(name) {}

    // Seq 1 starts the session; then turn after turn.
    [[nodiscard]] Json line(std::int64_t seq) const {
        Json line = event("", session_, {{"seq", seq}, {"id", seq}});
        const std::int64_t place = (seq - 2) % events_a_turn;
        if (seq == 1) {
            line.update({{"type", "session.start"}, {"agent", "custom"}, {"cwd", cwd_}});
        } else if (place == 0) {
            line.update({{"type", "turn.start"}, {"prompt", text(seq)}});
        } else if (place == events_a_turn - 1) {
            line["type"] = "turn.end";
        } else {
            line.update({{"type", "turn.output"}, {"text", text(seq)}});
        }
        return line;
    }

    [[nodiscard]] std::string text(std::int64_t seq) const {
        Random random(static_cast<std::uint64_t>(seq * 1000 + name_));
        const std::size_t bytes = random.chance(20) ? random.below(60'000) : random.below(300);
        return "[" + std::to_string(name_) + ":" + std::to_string(seq) + ":"
               + std::string(bytes, static_cast<char>('a' + name_ % 26)) + "]\n";
    }

    [[nodiscard]] static bool is_turn_end(std::int64_t seq) {
        return seq > 1 && (seq - 2) % events_a_turn == events_a_turn - 1;
    }

    [[nodiscard]] const std::string& session() const { return session_; }

private:
    std::string session_;
    std::string cwd_;
    int name_;
};

// A client that never gives up: when its connection is lost it attaches again, compares what the daemon
// has with what was acked, and says the rest once more.
class StubbornClient {
public:
    StubbornClient(std::string socket, Script script, std::uint64_t seed)
        : socket_(std::move(socket)), script_(std::move(script)), random_(seed) {}

    void run(const std::atomic<bool>& enough) {
        while (failure_.empty() && !done_) {
            WireClient client(socket_);
            if (!client.connected()) {
                ::poll(nullptr, 0, 2);
                continue;
            }
            if (attach(client)) {
                talk(client, enough);
            }
        }
    }

    [[nodiscard]] const std::string& failure() const { return failure_; }
    [[nodiscard]] const Script& script() const { return script_; }
    [[nodiscard]] std::int64_t acked() const { return acked_; }
    [[nodiscard]] int attached() const { return attached_; }

private:
    bool fail(const std::string& what, const Json& answer) {
        failure_ = script_.session() + ": " + what + ": " + answer.dump();
        return false;
    }

    // True when this connection owns the session and next_ is right.
    bool attach(WireClient& client) {
        const Json answer = client.ask("session.attach", script_.session());
        if (answer.empty()) {
            return false;
        }
        if (code_of(answer) == "unknown_session") {
            next_ = 1;
            return acked_ == 0 || fail("an acked session is gone", answer);
        }
        if (code_of(answer) == "not_owner") {
            ::poll(nullptr, 0, 2);  // our old connection's end has not been seen yet
            return false;
        }
        if (!is_ack(answer)) {
            return fail("attach refused", answer);
        }
        const std::int64_t last = answer.value("last_seq", std::int64_t{-1});
        if (last < acked_ || last > sent_) {
            return fail(
                "acked " + std::to_string(acked_) + ", sent " + std::to_string(sent_), answer);
        }
        ++attached_;
        next_ = last + 1;
        return true;
    }

    void talk(WireClient& client, const std::atomic<bool>& enough) {
        while (true) {
            if (enough && Script::is_turn_end(next_ - 1)) {
                done_ = is_ack(client.ask("session.end", script_.session(), {{"seq", next_}}));
                return;
            }
            const auto wanted = static_cast<std::int64_t>(1 + random_.below(40));
            std::int64_t end = next_;
            while (end < next_ + wanted && !(enough && Script::is_turn_end(end - 1))) {
                if (!client.send(script_.line(end))) {
                    sent_ = std::max(sent_, end);
                    return;
                }
                sent_ = std::max(sent_, end++);
            }
            for (; next_ < end; ++next_) {
                const Json answer = client.read();
                if (answer.is_discarded()) {
                    return;
                }
                if (!is_ack(answer) || answer.value("seq", std::int64_t{-1}) != next_) {
                    fail("expected the ack of " + std::to_string(next_), answer);
                    return;
                }
                acked_ = std::max(acked_, next_);
            }
        }
    }

    std::string socket_;
    Script script_;
    Random random_;
    std::int64_t next_ = 1;
    std::int64_t sent_ = 0;  // at most; the last one may not have left
    std::int64_t acked_ = 0;
    int attached_ = 0;
    bool done_ = false;
    std::string failure_;
};

// Compares every file of every turn with the script.
std::string difference(const Recording& session, const StubbornClient& client) {
    std::string all;
    for (std::int64_t seq = 2, turn = 1; seq <= client.acked(); seq += events_a_turn, ++turn) {
        const std::string number = std::to_string(turn);
        const std::string stem =
            "turns/" + std::string(number.size() < 3 ? 3 - number.size() : 0, '0') + number;
        if (session.text(stem + "-prompt.md") != client.script().text(seq)) {
            all += stem + "-prompt.md differs\n";
        }
        std::string output;
        for (int piece = 1; piece < events_a_turn - 1; ++piece) {
            output += client.script().text(seq + piece);
        }
        if (session.text(stem + "-output.md") != output) {
            all += stem + "-output.md differs\n";
        }
        if (session.json(stem + "-state.json").value("status", "") != "completed") {
            all += stem + "-state.json is not completed\n";
        }
    }
    return all;
}

std::uint64_t chosen_seed() {
    const char* const given = ::getenv("RELAY_SEED");
    return given != nullptr ? std::strtoull(given, nullptr, 10)
                            : static_cast<std::uint64_t>(
                                std::chrono::steady_clock::now().time_since_epoch().count());
}

TEST_CASE("fifty kills of the daemon under load lose and double and mix nothing") {
    constexpr int kills = 50;
    constexpr int clients_count = 20;
    const std::uint64_t seed = chosen_seed();
    MESSAGE("RELAY_SEED=" << seed);
    Random random(seed);
    DaemonProcess daemon(small_journal({"--checkpoint-interval", "200ms"}));
    REQUIRE_MESSAGE(daemon.start(), daemon.log());

    std::atomic<bool> enough = false;
    std::vector<std::unique_ptr<StubbornClient>> clients;
    std::vector<std::thread> threads;
    for (int name = 0; name < clients_count; ++name) {
        clients.push_back(std::make_unique<StubbornClient>(
            daemon.socket(), Script(new_ulid(), daemon.work(), name), random.next()));
    }
    for (const auto& client : clients) {
        threads.emplace_back([&client, &enough] { client->run(enough); });
    }
    int started = 0;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    bool alive = true;
    for (int kill = 0; kill < kills && alive && std::chrono::steady_clock::now() < deadline;
         ++kill) {
        // Now and then before the socket answers: in the middle of recovery.
        ::poll(nullptr, 0, static_cast<int>(random.below(250)));
        daemon.kill();
        if (random.chance(4)) {
            daemon.spawn();
            ::poll(nullptr, 0, static_cast<int>(random.below(20)));
            daemon.kill();
        }
        alive = daemon.start();
        started += alive ? 1 : 0;
    }
    enough = true;
    // Threads that wait for a daemon that does not come back would wait for ever.
    if (!alive) {
        MESSAGE(daemon.log());
        static_cast<void>(daemon.restart());
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    CHECK(alive);
    CHECK(started >= 20);
    std::int64_t events = 0;
    int attached = 0;
    for (const auto& client : clients) {
        CHECK_MESSAGE(client->failure().empty(), client->failure());
        Recording session;
        session.path = daemon.state() + "/sessions/" + client->script().session();
        CHECK_MESSAGE(damage_of(session.path).empty(), damage_of(session.path));
        const std::string differs = difference(session, *client);
        CHECK_MESSAGE(differs.empty(), session.path << ":\n" << differs);
        CHECK(session.meta().value("status", "") == "completed");
        events += client->acked();
        attached += client->attached();
    }
    CHECK(events > 1000);
    CHECK(attached > clients_count);
    MESSAGE(started << " restarts, " << events << " events, " << attached << " attaches");
}

TEST_CASE("a daemon killed right after an ack still has the event") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "p"}}));
    std::string all;
    for (int round = 0; round < 10; ++round) {
        const std::string text = "round " + std::to_string(round) + "\n";
        CHECK_ACK(client.ask("turn.output", session.id, {{"text", text}}));
        all += text;
        REQUIRE_MESSAGE(daemon.restart(), daemon.log());
        CHECK(session.text("turns/001-output.md") == all);
        client = WireClient(daemon.socket());
        CHECK_ACK(client.ask("session.attach", session.id));
    }
    CHECK_ACK(client.ask("turn.end", session.id));
    CHECK(damage_of(session.path).empty());
}

}  // namespace
}  // namespace relay::tests
