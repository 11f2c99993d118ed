// SPDX-License-Identifier: Apache-2.0
// The scenario: lives of a process, and what its threads do in them.
#include "tests/sim/world.hpp"

#include <cstdio>

namespace relay::tests {

void SimulationCounts::add(const SimulationCounts& other) {
    seeds += other.seeds;
    events += other.events;
    acks += other.acks;
    deferred += other.deferred;
    batches += other.batches;
    crashes += other.crashes;
    power_losses += other.power_losses;
    recoveries += other.recoveries;
    interrupted += other.interrupted;
    faults += other.faults;
    calls += other.calls;
}

std::string SimulationCounts::text() const {
    return std::to_string(seeds) + " seeds, " + std::to_string(events) + " events, "
           + std::to_string(acks) + " acks (" + std::to_string(deferred) + " deferred), "
           + std::to_string(batches) + " batches, " + std::to_string(crashes) + " crashes, "
           + std::to_string(power_losses) + " power losses, " + std::to_string(recoveries)
           + " recoveries (" + std::to_string(interrupted) + " more interrupted), "
           + std::to_string(faults) + " faults";
}

Simulation::World::World(std::uint64_t seed, SimulationOptions options)
    : seed_(seed),
      options_(options),
      random_(Random::mixed(seed + 1)),
      small_(seed % 64 != 63),
      disk_({session_mounts[0], session_mounts[1], journal_mount}, Random::mixed(seed + 77)),
      door_(open_door()) {
    limits_.journal.segment_bytes = small_ ? segment_bytes_small : segment_bytes;
    limits_.journal.segments_max = 3 + static_cast<std::int64_t>(random_.below(2));
    // A full journal disk is waited for: the refusal has a test of its own.
    limits_.no_space_patience_ms = std::int64_t{1} << 50;
    limits_.batch_bytes_max = random_.chance(3) ? 700 : 16'384;
    limits_.open_sessions_max = random_.chance(3) ? 2 : 1'000;
    checkpoint_interval_ms_ = 200 + static_cast<std::int64_t>(random_.below(3'000));
    chunk_bytes_ = random_.below(5) < 2 ? 32 : 0;
    meanwhile_one_in_ =
        random_.chance(3) ? 10'000 : 8 + static_cast<std::uint32_t>(random_.below(60));
    disk_.set_observer([this](Op op, const std::string& mount_point) { watch(op, mount_point); });
    for (const std::string& mount : session_mounts) {
        disk_.user_write(mount + "/repo/README", "a repository");
        disk_.user_write(mount + "/home/notes", "a home");
    }
    disk_.user_write(journal_mount + "/.keep", "");
    if (random_.chance(2)) {
        disk_.share_device(session_mounts[0], journal_mount);
    }
    make_clients();
}

recorder::Disk& Simulation::World::open_door() {
    if (options_.planted_bug == nullptr) {
        return disk_;
    }
    return buggy_disk_.emplace(disk_, *options_.planted_bug, in_recovery_);
}

Simulation::World::~World() {
    disk_.set_observer(nullptr);
    clients_.clear();
    pipeline_.reset();
}

void Simulation::World::say(const std::string& what) const {
    if (options_.verbose) {
        static_cast<void>(std::fprintf(
            stderr, "[%lld] %s\n", static_cast<long long>(disk_.operations()), what.c_str()));
    }
}

void Simulation::World::fail(const std::string& what) {
    if (failure_.empty()) {
        failure_ = "seed " + std::to_string(seed_) + ": " + what;
        say("BROKEN: " + what);
    }
}

void Simulation::World::make_clients() {
    const std::size_t count = small_ ? 1 + random_.below(3) : 2 + random_.below(5);
    layout::UlidSource ulids([this](std::uint8_t* into, std::size_t size) {
        for (std::size_t index = 0; index < size; ++index) {
            into[index] = static_cast<std::uint8_t>(random_.next());
        }
    });
    clients_.resize(count);
    for (Client& client : clients_) {
        const std::string& mount = session_mounts[random_.below(session_mounts.size())];
        client.id = ulids.next(clock_.now());
        client.claim.is_repo = !random_.chance(3);
        client.claim.anchor = mount + (client.claim.is_repo ? "/repo" : "/home");
        client.claim.below = client.claim.is_repo ? ".agent-relay" : "state/agent-relay";
        client.claim.owner = "1 2 3";
        client.root = client.claim.session_directory(client.id) + "/";
        client.numbered = !random_.chance(8);
    }
}

void Simulation::World::act() {
    if (crowded_steps_ > crowded_commits) {
        step_some(Work::apply);
        step_some(Work::seal);
        step_some(Work::sync);
        step(Work::checkpoint);
        --crowded_steps_;
        return;
    }
    if (crowded_steps_ > 0) {
        send_something();
        step(Work::commit);
        if (--crowded_steps_ == 0 && !planned_end_) {
            plan_end_at(disk_.operations());
        }
        return;
    }
    const std::uint64_t draw = random_.below(100);
    if (draw < 34) {
        send_something();
    } else if (draw < 56) {
        step(random_.chance(2) ? Work::commit_here : Work::commit);
    } else if (draw < 69) {
        step_some(Work::apply);
    } else if (draw < 76) {
        step_some(Work::seal);
    } else if (draw < 80) {
        step_some(Work::sync);
    } else if (draw < 88) {
        step(Work::checkpoint);
    } else if (draw < 93) {
        const auto by = static_cast<std::int64_t>(random_.below(random_.chance(10) ? 25'000 : 800));
        clock_.steady += by;
        clock_.wall_ms += random_.chance(6) ? -by : by;
    } else if (draw < 96) {
        handle_notices();
        greet_waiting();
    } else if (draw < 97) {
        if (random_.chance(2)) {
            pipeline_->vouch();
        } else {
            static_cast<void>(pipeline_->request_checkpoint());
        }
    } else if (options_.struck_call != nullptr) {
        return;
    } else if (draw < 98) {
        heal();
    } else if (random_.chance(2)) {
        disturb();
    } else if (random_.chance(12)) {
        meddle();
    }
}

bool Simulation::World::may_begin(Work work, const recorder::Volume* volume) const {
    const auto is_commit = [](Work one) {
        return one == Work::commit || one == Work::commit_here;
    };
    return std::none_of(under_way_.begin(), under_way_.end(), [&](const auto& other) {
        return (other.first == work && other.second == volume)
               || (is_commit(other.first) && is_commit(work));
    });
}

void Simulation::World::step(Work work, const std::shared_ptr<recorder::Volume>& volume) {
    if (!may_begin(work, volume.get())) {
        return;
    }
    under_way_.emplace_back(work, volume.get());
    switch (work) {
    case Work::commit:
    case Work::commit_here:
        if ((work == Work::commit ? pipeline_->commit_step() : pipeline_->commit_here())
            == Pipeline::Commit::failed) {
            process_must_end_ = true;
        }
        break;
    case Work::apply:
        look_at_journal_ = true;
        static_cast<void>(volume->apply_step());
        look_at_journal_ = false;
        break;
    case Work::seal:
        static_cast<void>(volume->seal_step());
        break;
    case Work::sync:
        static_cast<void>(volume->sync_step());
        break;
    case Work::checkpoint:
        strike_checkpoint();
        static_cast<void>(pipeline_->checkpoint_step());
        break;
    }
    under_way_.pop_back();
}

void Simulation::World::step_some(Work work) {
    const auto volumes = pipeline_->volumes();
    if (!volumes.empty()) {
        step(work, volumes[random_.below(volumes.size())]);
    }
}

// Another thread comes in between two system calls of those that are under way. Nobody goes to the journal
// while another thread is in the middle of something there: one may have to wait for the other.
void Simulation::World::act_meanwhile(const std::string& mount_point) {
    const Work innermost = under_way_.back().first;
    const bool at_journal = mount_point == journal_mount
                            && (innermost == Work::commit || innermost == Work::commit_here
                                || innermost == Work::checkpoint);
    const bool was_held = std::exchange(journal_is_held_, journal_is_held_ || at_journal);
    const bool io_is_busy =
        std::any_of(under_way_.begin(), under_way_.end(), [](const auto& other) {
            return other.first == Work::commit_here;
        });
    const std::uint64_t draw = random_.below(100);
    if (draw < 25) {
        if (!io_is_busy) {
            sending_ = true;
            send_something();
            sending_ = false;
        }
    } else if (draw < 50) {
        const bool here = random_.chance(2) && !io_is_busy;
        if (!journal_is_held_) {
            step(here ? Work::commit_here : Work::commit);
        }
    } else if (draw < 62) {
        step_some(Work::apply);
    } else if (draw < 76) {
        step_some(Work::seal);
    } else if (draw < 88) {
        step_some(Work::sync);
    } else if (!journal_is_held_) {
        step(Work::checkpoint);
    }
    journal_is_held_ = was_held;
}

// Draws where in the middle of its work the process will end.
void Simulation::World::plan_end() {
    planned_end_.reset();
    if (random_.chance(2)) {
        return;  // between two steps
    }
    plan_end_at(disk_.operations() + static_cast<std::int64_t>(random_.below(small_ ? 150 : 600)));
}

void Simulation::World::plan_end_at(std::int64_t operation) {
    ModelDisk::Fault fault;
    fault.at_operation = operation;
    fault.lose_power_instead = random_.chance(2);
    fault.end_process_instead = !fault.lose_power_instead;
    ends_with_power_loss_ = fault.lose_power_instead;
    planned_end_ = fault;
    disk_.set_faults({fault});
}

void Simulation::World::live() {
    plan_end();
    const std::uint64_t steps = small_ ? 8 + random_.below(40) : 40 + random_.below(140);
    crowded_steps_ = 0;
    for (std::uint64_t step = 0; (step < steps || crowded_steps_ > 0) && running(); ++step) {
        act();
        if (process_must_end_ && random_.chance(4)) {
            return;
        }
    }
}

void Simulation::World::stop_orderly() {
    say("an orderly stop");
    disk_.set_faults({});
    drain();
    if (!running() || process_must_end_) {
        return;
    }
    for (const auto& volume : pipeline_->volumes()) {
        while (volume->apply_step() || volume->seal_step()) {
        }
    }
    const auto finished = pipeline_->finish();
    if (!finished.ok() && running() && disk_.used(journal_mount) == 0) {
        fail("an orderly stop failed: " + finished.error().context);
    }
}

// Commits everything that was submitted, as far as it goes.
void Simulation::World::drain() {
    for (int round = 0; round < 20 && running() && pipeline_->queued() > 0; ++round) {
        if (pipeline_->commit_step() == Pipeline::Commit::failed) {
            process_must_end_ = true;
            return;
        }
        for (const auto& volume : pipeline_->volumes()) {
            static_cast<void>(volume->apply_step());
            static_cast<void>(volume->seal_step());
            static_cast<void>(volume->sync_step());
        }
        static_cast<void>(pipeline_->checkpoint_step());
        clock_.steady += 600;
    }
}

void Simulation::World::die() {
    const std::uint64_t draw = random_.below(20);
    if (disk_.has_power() && draw < 3) {
        stop_orderly();
    }
    bool lost_power = false;
    if (disk_.has_power() && draw % 2 == 0) {
        disk_.lose_power(random_);
        lost_power = true;
    } else if (!disk_.has_power()) {
        lost_power = ends_with_power_loss_;
    }
    say(lost_power ? "power lost" : "the process ends");
    counts.power_losses += lost_power ? 1 : 0;
    counts.crashes += lost_power ? 0 : 1;
    end_process();
    disk_.power_on();
    journal_disturbed_ = false;
    heal();
    if (lost_power) {
        check_documents();
    }
}

void Simulation::World::settle_everything() {
    say("everything settles");
    disk_.set_faults({});
    heal();
    for (int round = 0; round < 300 && running(); ++round) {
        if (process_must_end_ || pipeline_->failure()) {
            end_process();
            static_cast<void>(try_recovery(/*may_fail=*/false));
            continue;
        }
        handle_notices();
        greet_waiting();
        static_cast<void>(pipeline_->commit_step());
        bool well = true;
        for (const auto& volume : pipeline_->volumes()) {
            static_cast<void>(volume->apply_step());
            static_cast<void>(volume->seal_step());
            static_cast<void>(volume->sync_step());
            well = well && !volume->sick();
        }
        static_cast<void>(pipeline_->checkpoint_step());
        clock_.steady += 700;
        bool done = well && pipeline_->queued() == 0 && notices_.empty();
        for (Client& client : clients_) {
            if (client.deleted || !done) {
                continue;
            }
            if (!client.session && client.exists && client.next < client.sent.size()) {
                static_cast<void>(adopt(client));
            }
            if (client.session && client.next < client.sent.size()) {
                send(client);
                done = false;
            }
            done = done && !client.waits_for_disk
                   && client.oracle.acked() == client.oracle.submitted();
        }
        if (done) {
            return;
        }
    }
    fail("something submitted is not settled long after the last fault");
}

void Simulation::World::final_checks() {
    const std::uint64_t ticket = pipeline_->request_checkpoint();
    for (int round = 0; round < 50 && pipeline_->checkpoints_done() < ticket; ++round) {
        static_cast<void>(pipeline_->checkpoint_step());
        for (const auto& volume : pipeline_->volumes()) {
            static_cast<void>(volume->apply_step());
            static_cast<void>(volume->seal_step());
            static_cast<void>(volume->sync_step());
        }
        clock_.steady += 700;
    }
    if (pipeline_->checkpoints_done() < ticket) {
        fail("no checkpoint comes to its end on sound disks");
    }
    for (const std::string& spill : disk_.seen_names(journal_mount + "/spill")) {
        fail("a spill stays although everything is in its place: " + spill);
    }
    check_journal_size();
    for (Client& client : clients_) {
        if (client.deleted || !client.exists || !failure_.empty()) {
            continue;
        }
        const SessionOracle::Found files = files_of(client);
        if (client.oracle.match(files, client.meddled, SessionOracle::any_seq)
            != client.oracle.submitted()) {
            fail(
                "in the end the files of " + client.root + " differ: "
                + SessionOracle::difference(client.oracle.outcome(), files, client.meddled));
        }
        check_streams(client);
    }
}

// One life with nothing wrong but the call, or calls, that were asked for.
std::string Simulation::World::run_struck() {
    journal_disturbed_ = true;
    ModelDisk::Fault fault;
    fault.at_operation = options_.struck_call->number;
    fault.os_errno = options_.struck_call->os_errno;
    fault.for_ever = options_.struck_call->for_ever;
    fault.short_write_bytes = options_.struck_call->short_write_bytes;
    if (options_.struck_call->only_renames) {
        fault.only = Op::rename;
    }
    disk_.set_faults({fault});
    if (!try_recovery(/*may_fail=*/true)) {
        disk_.set_faults({});
        static_cast<void>(try_recovery(/*may_fail=*/false));
    }
    const std::uint64_t steps = 30 + random_.below(30);
    for (std::uint64_t step = 0; step < steps && running() && !process_must_end_; ++step) {
        act();
    }
    counts.calls = disk_.operations();
    disk_.set_faults({});
    disk_.lose_power(random_);
    end_process();
    disk_.power_on();
    journal_disturbed_ = false;
    check_documents();
    if (failure_.empty()) {
        static_cast<void>(try_recovery(/*may_fail=*/false));
    }
    if (failure_.empty()) {
        settle_everything();
    }
    if (failure_.empty()) {
        final_checks();
    }
    end_process();
    ++counts.seeds;
    return failure_;
}

std::string Simulation::World::run() {
    if (options_.struck_call != nullptr) {
        return run_struck();
    }
    const std::uint64_t lives = small_ ? 1 + random_.below(2) : 2 + random_.below(3);
    static_cast<void>(try_recovery(/*may_fail=*/false));
    for (std::uint64_t life = 0; life < lives && failure_.empty(); ++life) {
        live();
        if (failure_.empty()) {
            die();
        }
        if (failure_.empty()) {
            recover();
        }
    }
    if (failure_.empty()) {
        settle_everything();
    }
    if (failure_.empty()) {
        final_checks();
    }
    end_process();
    ++counts.seeds;
    return failure_;
}

Simulation::Simulation(std::uint64_t seed, SimulationOptions options)
    : world_(std::make_unique<World>(seed, options)) {
}

Simulation::~Simulation() = default;

std::string Simulation::run() {
    return world_->run();
}

const SimulationCounts& Simulation::counts() const {
    return world_->counts;
}

}  // namespace relay::tests
