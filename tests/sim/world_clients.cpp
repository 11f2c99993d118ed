// SPDX-License-Identifier: Apache-2.0
// The clients, and what they are told.
#include "tests/sim/world.hpp"

#include <variant>

namespace relay::tests {

namespace {

constexpr std::size_t text_bytes_max = 9'000;

}  // namespace

std::string Simulation::World::text_for(const Client& client, std::size_t size_max) {
    const auto index = static_cast<std::size_t>(&client - clients_.data());
    std::string text = "<s" + std::to_string(index) + ":" + std::to_string(++counter_) + ">";
    std::size_t size = chunk_bytes_;
    if (size == 0) {
        size = random_.below(random_.chance(8) ? size_max : 200);
    }
    // The alphabet over and over, from a letter on that the number decides.
    static const std::string letters = [] {
        std::string made;
        while (made.size() < text_bytes_max + 26) {
            made += "abcdefghijklmnopqrstuvwxyz";
        }
        return made;
    }();
    if (text.size() < size) {
        text.append(letters, (counter_ + text.size()) % 26, size - text.size());
    }
    return text;
}

Sent Simulation::World::invent(const Client& client) {
    using Kind = Sent::Kind;
    Sent sent;
    sent.flag = random_.chance(3);
    const bool open = client.session->open_turn() != 0;
    const std::uint64_t draw = random_.below(100);
    if (!client.session->active()) {
        sent.kind = draw < 40 ? Kind::update : draw < 55 ? Kind::checkpoint : Kind::turn;
        if (client.session->meta().status == layout::SessionStatus::completed
            && sent.kind == Kind::checkpoint) {
            sent.kind = Kind::update;
        }
    } else if (!open) {
        sent.kind = draw < 70   ? Kind::turn
                    : draw < 78 ? Kind::note
                    : draw < 82 ? Kind::update
                    : draw < 86 ? Kind::attachment
                    : draw < 91 ? Kind::checkpoint
                                : Kind::end;
    } else {
        sent.kind = draw < 50   ? Kind::output
                    : draw < 60 ? Kind::stderr_log
                    : draw < 68 ? Kind::note
                    : draw < 75 ? Kind::tool
                    : draw < 90 ? Kind::end_turn
                    : draw < 93 ? Kind::turn
                    : draw < 95 ? Kind::update
                    : draw < 97 ? Kind::checkpoint
                                : Kind::end;
    }
    sent.text = text_for(client, sent.kind == Kind::output ? text_bytes_max : 1'500);
    return sent;
}

void Simulation::World::take(Client& client, Step step) {
    if (step.change.empty()) {
        return;
    }
    recorder::WorkItem item;
    item.files = client.files;
    item.finishes = !client.session->active();
    item.waiter.connection = static_cast<std::uint64_t>(&client - clients_.data()) + 1;
    item.waiter.seq = static_cast<std::int64_t>(client.oracle.submit(step.change));
    item.change = std::move(step.change);
    pipeline_->submit(std::move(item));
}

// False when the daemon would refuse it.
bool Simulation::World::send_start(Client& client) {
    const auto volume = Pipeline::volume_name(disk_, client.claim);
    if (!volume.ok()) {
        return false;
    }
    SessionState state;
    state.meta.id = client.id;
    state.meta.slug = "270115-quiet-harbor";
    state.meta.agent = "codex";
    state.meta.cwd = client.claim.anchor;
    state.claim = client.claim;
    Step first;
    const std::optional<std::int64_t> seq =
        client.numbered ? std::optional<std::int64_t>(1) : std::nullopt;
    client.session =
        std::make_unique<Session>(Session::begin(std::move(state), seq, clock_.now(), first));
    client.files = pipeline_->files_for(client.id, client.session->claim(), volume.value());
    client.exists = true;
    take(client, std::move(first));
    return true;
}

void Simulation::World::attach(Client& client) {
    layout::SessionAttach wish;
    wish.reopen = true;
    auto result = client.session->attach(wish, "4 5 6", std::nullopt, clock_.now());
    if (auto* step = std::get_if<Step>(&result)) {
        take(client, std::move(*step));
    } else {
        fail("session.attach was refused: " + std::get<layout::Refusal>(result).message);
    }
}

void Simulation::World::send(Client& client) {
    if (client.next == client.sent.size()) {
        client.sent.push_back(client.sent.empty() ? Sent{} : invent(client));
    }
    const Sent& sent = client.sent[client.next++];
    ++counts.events;
    if (sent.kind == Sent::Kind::start) {
        if (!send_start(client)) {
            --client.next;
        }
        return;
    }
    layout::Event event;
    event.session = client.id;
    event.body = body_of(sent);
    if (client.numbered) {
        event.seq = static_cast<std::int64_t>(client.next);
    }
    auto result = client.session->handle(event, clock_.now());
    const auto* refusal = std::get_if<layout::Refusal>(&result);
    if (refusal != nullptr && refusal->code == layout::WireError::ended) {
        attach(client);
        result = client.session->handle(event, clock_.now());
        refusal = std::get_if<layout::Refusal>(&result);
    }
    if (refusal != nullptr) {
        fail("an event was refused: " + refusal->message);
        return;
    }
    Step& step = std::get<Step>(result);
    if (step.duplicate) {
        fail("an event that was not recorded was taken for a duplicate");
        return;
    }
    if (options_.verbose) {
        say("client " + std::to_string(&client - clients_.data()) + " sends "
            + std::to_string(static_cast<int>(sent.kind)) + " as " + std::to_string(client.next));
    }
    take(client, std::move(step));
}

// As the daemon does with a session that has ended: it is read from disk when somebody asks for it.
void Simulation::World::let_go(Client& client) {
    const bool settled = client.oracle.acked() == client.oracle.submitted();
    if (client.session && !client.session->active() && settled && !client.deferred) {
        say("let go of " + client.root);
        client.session.reset();
        client.files.reset();
        client.let_go = true;
    }
}

bool Simulation::World::adopt(Client& client) {
    if (!pipeline_->is_readable(client.id)) {
        return false;
    }
    auto anchor = disk_.open_directory(client.claim.anchor);
    if (!anchor.ok()) {
        return false;
    }
    auto directory = anchor.value()->open_directory(client.root.substr(
        client.claim.anchor.size() + 1, client.root.size() - client.claim.anchor.size() - 2));
    if (!directory.ok()) {
        return false;
    }
    auto state = recorder::load_session(*directory.value(), client.claim, 0, 0);
    const auto volume = Pipeline::volume_name(disk_, client.claim);
    if (!state.ok() || !volume.ok()) {
        return false;
    }
    say("adopts " + client.root);
    client.files = pipeline_->files_for(client.id, client.claim, volume.value());
    if (!std::exchange(client.let_go, false)) {
        // Somebody else's disk was away: the journal knows more than the files.
        state.value().client_seq =
            std::max(state.value().client_seq, client.files->client_seq.load());
        state.value().event_seq = std::max(state.value().event_seq, client.files->event_seq.load());
    }
    const std::int64_t expected = client.oracle.seq_after(client.oracle.submitted());
    if (client.meddled.empty() && state.value().client_seq != expected) {
        fail(
            "a session read back has last_seq " + std::to_string(state.value().client_seq)
            + ", its files should say " + std::to_string(expected));
    }
    client.session = std::make_unique<Session>(std::move(state.value()));
    return true;
}

void Simulation::World::catch_up(Client& client) {
    if (client.session && !client.deleted) {
        take(
            client,
            random_.chance(2) ? client.session->catch_up_meta(clock_.now())
                              : client.session->catch_up_timeline(clock_.now()));
    }
}

void Simulation::World::send_something() {
    Client& client = clients_[random_.below(clients_.size())];
    if (client.deleted || client.waits_for_disk) {
        return;
    }
    // What begins while its disk is not mounted would rightly begin on the other one.
    if (!client.session && unmounted_.contains(client.root.substr(0, client.root.find('/', 1)))) {
        return;
    }
    if (!client.session && client.exists && !adopt(client)) {
        return;
    }
    const std::uint64_t burst = random_.chance(6) ? 1 + random_.below(6) : 1;
    for (std::uint64_t count = 0; count < burst && failure_.empty(); ++count) {
        send(client);
    }
    if (random_.chance(10)) {
        catch_up(client);
    }
    for (Client& other : clients_) {
        if (random_.chance(3)) {
            let_go(other);
        }
    }
}

void Simulation::World::settled(std::vector<recorder::Outcome> outcomes) {
    if (!disk_.has_power()) {
        return;  // nobody hears a dead process
    }
    for (const recorder::Outcome& outcome : outcomes) {
        Client& client = clients_[outcome.waiter.connection - 1];
        const auto number = static_cast<std::size_t>(*outcome.waiter.seq);
        if (options_.verbose) {
            say("change " + std::to_string(number) + " of " + client.root + ": verdict "
                + std::to_string(static_cast<int>(outcome.verdict)) + " " + outcome.reason);
        }
        switch (outcome.verdict) {
        case Verdict::visible:
        case Verdict::deferred:
            if (number != client.oracle.acked() + 1 && !client.deleted) {
                fail(
                    "acknowledged out of order: change " + std::to_string(number) + " after "
                    + std::to_string(client.oracle.acked()) + " of " + client.root);
            }
            client.oracle.acknowledge(number);
            ++counts.acks;
            counts.deferred += outcome.verdict == Verdict::deferred ? 1 : 0;
            client.deferred = client.deferred || outcome.verdict == Verdict::deferred;
            if (outcome.verdict == Verdict::visible) {
                check_visible(client, number);
            }
            break;
        case Verdict::gone:
            if (!client.deleted) {
                fail("a session was called gone that nobody deleted: " + outcome.reason);
            }
            break;
        case Verdict::failed:
        case Verdict::no_space:
            if (!journal_disturbed_) {
                fail("the journal failed on a sound disk: " + outcome.reason);
            }
            process_must_end_ = true;
            break;
        }
    }
}

void Simulation::World::noticed(recorder::Notice notice) {
    if (disk_.has_power()) {
        notices_.push_back(std::move(notice));
    }
}

void Simulation::World::handle_notices() {
    for (const recorder::Notice& notice : std::exchange(notices_, {})) {
        for (Client& client : clients_) {
            if (client.id != notice.session) {
                continue;
            }
            if (notice.gone && !client.deleted) {
                fail("a session was reported gone that nobody deleted");
            }
            if (notice.conflict && client.meddled.empty() && !client.deleted) {
                fail("a conflict over " + notice.conflict->file + " that no user made");
            }
            if (client.deleted || !client.session) {
                continue;
            }
            if (notice.conflict) {
                take(
                    client,
                    client.session->note_conflict(
                        notice.conflict->file, notice.conflict->kept, clock_.now()));
            }
            if (notice.deferral) {
                client.deferred = false;
                take(client, client.session->note_deferral(*notice.deferral, clock_.now()));
            }
        }
    }
}

}  // namespace relay::tests
