// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/load.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <array>

namespace relay::tests {

namespace {

constexpr std::chrono::seconds patience{120};
constexpr std::chrono::milliseconds open_period{50};  // of one client

}  // namespace

Load::Load(Contender& contender, int clients, Mode mode)
    : mode_(mode), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    for (int number = 0; number < clients; ++number) {
        auto client = std::make_unique<Client>();
        client->talker = contender.connect(number);
        client->cursor = TurnCursor(mode == Mode::turn ? 0 : number);
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.ptr = client.get();
        ::epoll_ctl(epoll_, EPOLL_CTL_ADD, client->talker->descriptor(), &event);
        clients_.push_back(std::move(client));
    }
}

Load::~Load() {
    ::close(epoll_);
}

void Load::send(Client& client, Clock::time_point due) {
    Step step = client.cursor.next();
    if (mode_ == Mode::turn) {
        for (; step != Step::end; step = client.cursor.next()) {
            client.talker->prepare(step, /*awaited=*/false);
        }
    }
    client.talker->prepare(step, /*awaited=*/true);
    client.unanswered.push_back({due, step});
    ++unanswered_;
    client.talker->flush();
}

// An open load goes round: the clients' events are spread evenly over the period. What comes late counts
// from the moment at which it was due.
void Load::send_due(Clock::time_point now) {
    while (clients_[turn_of_]->next <= now) {
        Client& client = *clients_[turn_of_];
        send(client, client.next);
        client.next += open_period;
        turn_of_ = (turn_of_ + 1) % clients_.size();
    }
}

int Load::wait_ms() const {
    if (mode_ != Mode::open) {
        return static_cast<int>(std::chrono::milliseconds(patience).count());
    }
    return clients_[turn_of_]->next <= Clock::now() + std::chrono::milliseconds(1) ? 0 : 1;
}

void Load::receive(Client& client, bool timed, LoadFigures& figures) {
    const std::size_t answers = client.talker->receive();
    const auto now = Clock::now();
    for (std::size_t answer = 0; answer < answers; ++answer) {
        const Sent sent = client.unanswered.front();
        client.unanswered.pop_front();
        --unanswered_;
        const int events = mode_ == Mode::turn ? events_a_turn : 1;
        figures.events += events;
        figures.timed_events += timed ? events : 0;
        if (mode_ == Mode::turn || sent.step == Step::chunk) {
            figures.acks.add(now - sent.at);
        }
        if (sent.step == Step::end) {
            figures.ends.add(now - sent.at);
        }
        if (timed && mode_ != Mode::open) {
            send(client, Clock::now());
        }
    }
}

void Load::run_for(Clock::duration duration, LoadFigures& figures) {
    const auto begin = Clock::now();
    for (std::size_t index = 0; index < clients_.size(); ++index) {
        if (mode_ == Mode::open) {
            clients_[index]->next = begin
                                    + open_period * static_cast<std::int64_t>(index)
                                          / static_cast<std::int64_t>(clients_.size());
        } else {
            send(*clients_[index], Clock::now());
        }
    }
    turn_of_ = 0;
    std::array<epoll_event, 256> ready{};
    bool going_on = true;
    while (going_on || unanswered_ > 0) {
        const int count = ::epoll_wait(
            epoll_, ready.data(), static_cast<int>(ready.size()), going_on ? wait_ms() : 1000);
        going_on = Clock::now() - begin < duration;
        if (Clock::now() - begin > duration + patience) {
            fail("no answer comes");
        }
        for (int index = 0; index < count; ++index) {
            receive(
                *static_cast<Client*>(ready[static_cast<std::size_t>(index)].data.ptr),
                going_on,
                figures);
        }
        if (going_on && mode_ == Mode::open) {
            send_due(Clock::now());
        }
    }
    figures.busy += duration;
}

}  // namespace relay::tests
