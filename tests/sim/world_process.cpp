// SPDX-License-Identifier: Apache-2.0
// The beginnings and ends of the process.
#include "tests/sim/world.hpp"

#include <cerrno>

namespace relay::tests {

recorder::RecoveryOptions Simulation::World::recovery_options() {
    recorder::RecoveryOptions options;
    options.journal_directory = journal_mount;
    options.own_pid = 42;
    options.random = [this] {
        return random_.next();
    };
    return options;
}

void Simulation::World::start_process() {
    pipeline_ = std::make_unique<Pipeline>(door_, clock_, *this, limits_);
    pipeline_->set_checkpoint_interval(checkpoint_interval_ms_);
    process_must_end_ = false;
}

void Simulation::World::end_process() {
    for (Client& client : clients_) {
        client.session.reset();
        client.files.reset();
        client.deferred = false;
    }
    notices_.clear();
    // Two volumes on one disk, because it could not be reached for a moment: a failed sync of the one
    // drops pages of the other, which a file opened later never hears of.
    writeback_failed_ =
        writeback_failed_ || (pipeline_ && pipeline_->volumes().size() > session_mounts.size());
    counts.batches += pipeline_ ? static_cast<std::int64_t>(pipeline_->batches()) : 0;
    pipeline_.reset();
    disk_.set_faults({});
    if (disk_.open_handles() != 0) {
        fail(std::to_string(disk_.open_handles()) + " handles leaked");
    }
}

// True when it came to its end.
bool Simulation::World::try_recovery(bool may_fail) {
    start_process();
    look_at_journal_ = true;
    in_recovery_ = true;
    auto report = recorder::Recovery(*pipeline_).run(recovery_options());
    in_recovery_ = false;
    look_at_journal_ = false;
    if (report.ok() && disk_.has_power()) {
        if (options_.struck_call == nullptr) {
            disk_.set_faults({});
        }
        ++counts.recoveries;
        if (!report.value().damaged_copy.empty()) {
            fail("the journal was called damaged: " + std::string(report.value().tail));
        }
        if (options_.struck_call == nullptr && random_.chance(5) && all_volumes_well()) {
            report = layout::Error{};
            recover_once_more();
            return true;
        }
        meet_recovered(report.value());
        return true;
    }
    if (!may_fail) {
        fail("recovery failed: " + report.error().context);
    }
    ++counts.interrupted;
    say("recovery was interrupted");
    const bool lost_power = !disk_.has_power() && ends_with_power_loss_;
    report = layout::Error{};
    end_process();
    disk_.power_on();
    if (lost_power) {
        check_documents();
    }
    return false;
}

bool Simulation::World::all_volumes_well() const {
    const auto volumes = pipeline_->volumes();
    return std::none_of(
        volumes.begin(), volumes.end(), [](const auto& volume) { return volume->sick(); });
}

// Recovery of what was just recovered changes nothing.
void Simulation::World::recover_once_more() {
    std::array<std::map<std::string, std::string>, 2> before;
    for (std::size_t index = 0; index < before.size(); ++index) {
        before[index] = disk_.seen_tree(session_mounts[index]);
    }
    end_process();
    start_process();
    auto report = recorder::Recovery(*pipeline_).run(recovery_options());
    if (!report.ok()) {
        fail("the second recovery failed: " + report.error().context);
        return;
    }
    for (std::size_t index = 0; index < before.size(); ++index) {
        const std::map<std::string, std::string> after = disk_.seen_tree(session_mounts[index]);
        if (before[index] != after) {
            const SessionOracle::Files expected(before[index].begin(), before[index].end());
            const SessionOracle::Found found(after.begin(), after.end());
            fail("the second recovery changed " + SessionOracle::difference(expected, found, {}));
        }
    }
    meet_recovered(report.value());
}

void Simulation::World::recover() {
    const std::uint64_t interruptions = random_.chance(2) ? random_.below(4) : 0;
    for (std::uint64_t nested = 0; nested < interruptions && failure_.empty(); ++nested) {
        disturb_recovery();
        if (try_recovery(/*may_fail=*/true)) {
            return;
        }
        clock_.steady += 1'000;
    }
    // Sometimes one disk of sessions is still ill.
    if (random_.chance(6)) {
        const std::string& mount = session_mounts[random_.below(session_mounts.size())];
        if (random_.chance(2)) {
            disk_.set_read_only(mount, true);
        } else {
            disk_.set_capacity(mount, disk_.used(mount));
        }
        say("recovery with an ill disk at " + mount);
        ++counts.faults;
    }
    if (failure_.empty()) {
        static_cast<void>(try_recovery(/*may_fail=*/false));
    }
}

SessionOracle::Found Simulation::World::files_of(const Client& client) const {
    return disk_.peek_files(client.root.substr(0, client.root.size() - 1));
}

void Simulation::World::continue_from(Client& client, std::size_t count) {
    client.oracle.forget_after(count);
    client.oracle.acknowledge(count);
    client.exists = count > 0;
    if (!client.exists) {
        client.next = 0;
        client.session.reset();
        client.files.reset();
    } else if (client.numbered) {
        client.next = static_cast<std::size_t>(client.oracle.seq_after(count));
    } else {
        client.next = client.sent.size();
    }
    if (!client.numbered && !client.exists) {
        client.sent.clear();
    }
}

void Simulation::World::resume_client(Client& client, recorder::RecoveryReport& report) {
    const auto found = std::find_if(
        report.sessions.begin(), report.sessions.end(), [&client](const auto& recovered) {
            return recovered.files->id == client.id;
        });
    const bool known = found != report.sessions.end();
    const SessionOracle::Found files = files_of(client);
    if (files.empty() && !known) {
        if (client.oracle.acked() > 0) {
            fail("an acknowledged session is not there after recovery");
            return;
        }
        continue_from(client, 0);
        return;
    }
    const std::int64_t seq = known && client.numbered && client.meddled.empty()
                                 ? found->state.client_seq
                                 : SessionOracle::any_seq;
    const std::optional<std::size_t> count = client.oracle.match(files, client.meddled, seq);
    if (!count) {
        fail(
            "after recovery the files of " + client.root
            + " are no outcome of what was acknowledged and submitted"
            + (client.oracle.match(files, client.meddled, SessionOracle::any_seq)
                   ? "; but for the seq: " + std::to_string(seq)
                   : "")
            + "; acked " + std::to_string(client.oracle.acked()) + " of "
            + std::to_string(client.oracle.submitted()) + "; against so many of them:\n"
            + client.oracle.differences(files, client.meddled));
        return;
    }
    if (options_.verbose) {
        say(client.root + " goes on from change " + std::to_string(*count)
            + (known ? "" : ", not known to recovery"));
    }
    continue_from(client, *count);
    client.let_go = !known;
    if (known) {
        client.session = std::make_unique<Session>(std::move(found->state));
        client.files = found->files;
        if (!client.meddled.empty() && client.numbered) {
            client.next = static_cast<std::size_t>(client.session->last_client_seq());
        }
    }
}

void Simulation::World::meet_recovered(recorder::RecoveryReport& report) {
    for (Client& client : clients_) {
        if (client.deleted || !failure_.empty()) {
            continue;
        }
        client.waits_for_disk = false;
        for (const auto& volume : pipeline_->volumes()) {
            if (volume->sick() && volume->find(client.id)) {
                client.waits_for_disk = true;
            }
        }
        if (!client.waits_for_disk) {
            resume_client(client, report);
        }
    }
    check_journal_size();
}

// Those whose disk was ill when the process began, once it is well.
void Simulation::World::greet_waiting() {
    for (Client& client : clients_) {
        if (!client.waits_for_disk || client.deleted) {
            continue;
        }
        for (const auto& volume : pipeline_->volumes()) {
            const std::shared_ptr<SessionFiles> files = volume->find(client.id);
            if (!files || volume->sick()) {
                continue;
            }
            recorder::RecoveryReport report;
            auto directory = files->directory();
            auto state =
                directory.ok() ? recorder::load_session(
                    *directory.value(), files->claim(), files->client_seq, files->event_seq)
                               : recorder::Result<SessionState>(directory.error());
            if (!state.ok()
                && (state.error().code == recorder::Errc::io
                    || state.error().code == recorder::Errc::no_space)) {
                break;  // ill again
            }
            client.waits_for_disk = false;
            if (state.ok()) {
                report.sessions.push_back({files, std::move(state.value()), false});
            }
            if (disk_.has_power()) {
                resume_client(client, report);
                client.let_go = false;
            }
            break;
        }
    }
}

}  // namespace relay::tests
