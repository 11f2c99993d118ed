// SPDX-License-Identifier: Apache-2.0
// What goes wrong around the process.
#include "tests/sim/world.hpp"

#include <cerrno>

namespace relay::tests {

void Simulation::World::heal() {
    for (const std::string& mount : session_mounts) {
        disk_.set_read_only(mount, false);
        disk_.set_capacity(mount, ModelDisk::unlimited);
        // A number changes only while nobody has anything open there. And a disk with another number,
        // from which all sessions were deleted, looks like another disk.
        const bool deleted = std::any_of(
            clients_.begin(), clients_.end(), [](const Client& client) { return client.deleted; });
        const bool may_change = !pipeline_ && unmounted_.contains(mount) && !deleted;
        disk_.user_mount(mount, may_change && random_.chance(2));
    }
    disk_.set_capacity(journal_mount, ModelDisk::unlimited);
    unmounted_.clear();
}

void Simulation::World::strike(const ModelDisk::Fault& fault) {
    std::vector<ModelDisk::Fault> faults{fault};
    if (planned_end_) {
        faults.push_back(*planned_end_);
    }
    disk_.set_faults(std::move(faults));
}

void Simulation::World::disturb() {
    ++counts.faults;
    const std::string& mount = session_mounts[random_.below(session_mounts.size())];
    ModelDisk::Fault fault;
    fault.at_operation = disk_.operations();
    fault.os_errno = EIO;
    switch (random_.below(9)) {
    case 0:
        fault.at_operation += static_cast<std::int64_t>(random_.below(100));
        fault.os_errno = random_.chance(3) ? ENOSPC : EIO;
        fault.mount_point = mount;
        strike(fault);
        say("something soon fails on " + mount);
        return;
    case 1:
        fault.only = random_.chance(2) ? Op::sync : Op::sync_file_system;
        fault.mount_point = mount;
        strike(fault);
        say("the next sync on " + mount + " fails");
        return;
    case 2:
        disk_.set_capacity(
            mount, disk_.used(mount) + static_cast<std::int64_t>(random_.below(2'000)));
        say(mount + " is full");
        return;
    case 3:
        disk_.set_read_only(mount, true);
        say(mount + " is read-only");
        return;
    case 4:
        disk_.set_capacity(
            journal_mount,
            disk_.used(journal_mount) + static_cast<std::int64_t>(random_.below(2'000)));
        say("the journal's disk is full");
        return;
    case 5: {
        const Client& client = clients_[random_.below(clients_.size())];
        const std::string path =
            client.root + (random_.chance(2) ? "events.jsonl" : "turns/001-output.md");
        if (disk_.peek(path)) {
            disk_.fail_writeback(path);
            writeback_failed_ = true;
            say("write-back of " + path + " fails");
        }
        return;
    }
    case 6:
        disk_.user_unmount(mount, {"repo", "home/state"});
        unmounted_.insert(mount);
        say(mount + " is unmounted");
        return;
    default:
        if (random_.chance(3)) {
            disturb_journal();
        }
        return;
    }
}

// Somewhere in the next recovery something fails, or everything ends.
void Simulation::World::disturb_recovery() {
    ModelDisk::Fault fault;
    fault.at_operation = disk_.operations() + static_cast<std::int64_t>(random_.below(400));
    const std::uint64_t draw = random_.below(10);
    fault.lose_power_instead = draw < 5;
    fault.end_process_instead = draw >= 5 && draw < 8;
    if (draw >= 8) {
        fault.os_errno = EIO;
        if (random_.chance(2)) {
            fault.only = random_.chance(2) ? Op::sync : Op::sync_file_system;
        }
    }
    ends_with_power_loss_ = fault.lose_power_instead;
    disk_.set_faults({fault});
}

// Left to chance it is mostly a batch that is struck.
void Simulation::World::strike_checkpoint() {
    if (options_.struck_call != nullptr || crowded_steps_ > 0) {
        return;
    }
    if (random_.chance(100)) {
        // A checkpoint that failed is missed once the segments before it are used again.
        if (random_.chance(2)) {
            planned_end_.reset();
            crowded_steps_ = crowded_commits + 12;
        }
        disturb_journal();
    } else if (!planned_end_ && random_.chance(60)) {
        plan_end_at(disk_.operations() + static_cast<std::int64_t>(random_.below(5)));
    }
}

void Simulation::World::disturb_journal() {
    journal_disturbed_ = true;
    ModelDisk::Fault fault;
    fault.at_operation = disk_.operations();
    fault.os_errno = EIO;
    fault.only = random_.chance(3) ? Op::write : Op::sync;
    fault.short_write_bytes =
        random_.chance(2) ? static_cast<std::int64_t>(random_.below(5'000)) : -1;
    fault.mount_point = journal_mount;
    strike(fault);
    say("the next write or sync of the journal fails");
}

void Simulation::World::meddle() {
    Client& client = clients_[random_.below(clients_.size())];
    if (client.deleted || !disk_.peek(client.root + "meta.json")) {
        return;
    }
    ++counts.faults;
    if (random_.chance(2)) {
        say("the user deletes " + client.root);
        client.deleted = true;
        disk_.user_remove_tree(client.root.substr(0, client.root.size() - 1));
        return;
    }
    const char* const names[] = {"turns/001-output.md", "meta.json", "events.jsonl"};
    const std::string name = names[random_.below(3)];
    if (!disk_.peek(client.root + name)) {
        return;
    }
    say("the user edits " + client.root + name);
    client.meddled.insert(name);
    client.meddled.insert(layout::recovered_file(name));
    if (random_.chance(2)) {
        disk_.user_write(client.root + name, "mine now");
    } else {
        disk_.user_edit_in_place(client.root + name, "mine now");
    }
}

}  // namespace relay::tests
