// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/sick_disks.hpp"

#include "tests/crash/client_crowd.hpp"
#include "tests/support/loop_file_system.hpp"

#include <poll.h>

namespace relay::tests {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int clients_count = 8;
// So that what is put off meanwhile fits on the disk afterwards.
constexpr std::chrono::milliseconds pause{250};
constexpr std::chrono::milliseconds resume_limit = std::chrono::seconds(90);

std::string mount_point(const DaemonProcess& daemon, const std::string& part) {
    return part == "both" ? daemon.root() + "/relay" : daemon.state() + "/" + part;
}

struct Patient {
    DaemonProcess daemon;
    LoopFileSystem disk;

    explicit Patient(const SickDiskOrder& order)
        : daemon(small_journal({"--checkpoint-interval", "100ms", "--orphan-grace", "10min"})),
          disk(
              order.kind,
              daemon.root() + "/disk.img",
              mount_point(daemon, order.part),
              LoopFileSystem::mebibytes_min(order.kind)) {}
    ~Patient() { daemon.kill(); }
    Patient(const Patient&) = delete;
    Patient& operator=(const Patient&) = delete;

    [[nodiscard]] bool fall_ill(const std::string& how) {
        if (how == "full") {
            disk.fill();
            return true;
        }
        if (how == "unmounted") {
            return disk.unmount_lazily();
        }
        // Refused while a file is open for writing; between turns none is.
        return eventually([this] { return disk.remount("ro"); }, std::chrono::seconds(3));
    }

    [[nodiscard]] bool get_well(const std::string& how) {
        if (how == "full") {
            disk.free();
            return true;
        }
        return how == "unmounted" ? disk.mount() : disk.remount("rw");
    }
};

// Documents in the store that are not whole.
std::string torn_documents(const std::string& sessions) {
    std::string all;
    for (const std::string& name : tree_of(sessions)) {
        const bool document = name.ends_with("/meta.json") || name.ends_with("-state.json")
                              || name.ends_with("/resume.json");
        if (!document || name.find("/.") != std::string::npos) {
            continue;
        }
        const std::string text = read_text(sessions + "/" + name);
        // Away between the listing and the look: unmounted, or removed by the daemon.
        if (!Json::parse(text, nullptr, false).is_object() && exists(sessions + "/" + name)) {
            all += name + " is no JSON object but " + std::to_string(text.size()) + " bytes\n";
        }
    }
    return all;
}

// Events are acked, and none of them is put off.
bool goes_on(const ClientCrowd& crowd) {
    const std::int64_t before = std::max(crowd.visible(), crowd.acked() - clients_count);
    constexpr int clearly = 100;
    return eventually([&] { return crowd.visible() > before + clearly; }, resume_limit);
}

void live_through(Patient& patient, const SickDiskOrder& order, SickDiskReport& report) {
    Random random(order.seed);
    ClientCrowd crowd(patient.daemon, clients_count, random, Patience::faults, pause);
    const std::string sessions = patient.daemon.state() + "/sessions";
    if (!goes_on(crowd)) {
        report.complaints += "the clients do not get on while the disk is well\n";
    }
    report.before = crowd.acked();
    const bool ill = report.complaints.empty() && patient.fall_ill(order.ill);
    if (ill) {
        const auto until = Clock::now() + order.ill_for;
        while (Clock::now() < until && report.complaints.empty()) {
            report.complaints += torn_documents(sessions);
            ::poll(nullptr, 0, 20);
        }
        report.during = crowd.acked() - report.before;
        if (!patient.get_well(order.ill)) {
            report.complaints += "the disk does not get well\n";
        }
        if (report.complaints.empty() && !goes_on(crowd)) {
            WireClient asker(patient.daemon.socket());
            report.complaints += "recording does not go on by itself; status: "
                                 + asker.request({{"type", "status"}}).dump() + "\n";
        }
    } else if (report.complaints.empty()) {
        report.skipped =
            "the kernel does not let the disk become " + order.ill + " while it is used";
    }
    if (!crowd.finish()) {
        patient.daemon.kill();
    }
    crowd.join();
    report.after = crowd.acked() - report.before - report.during;
    report.complaints += crowd.complaints();
    if (patient.daemon.running() && patient.daemon.terminate() != 0) {
        report.complaints += "the daemon does not stop in order\n";
    }
}

}  // namespace

SickDiskReport fall_ill(const SickDiskOrder& order) {
    SickDiskReport report;
    report.skipped = LoopFileSystem::hindrance(order.kind);
    if (!report.skipped.empty()) {
        return report;
    }
    Patient patient(order);
    if (!patient.disk.mounted() || !patient.daemon.start()) {
        report.complaints = "cannot begin on " + order.kind + "\n";
    } else {
        live_through(patient, order, report);
    }
    if (!report.complaints.empty()) {
        report.complaints += patient.daemon.log();
    }
    return report;
}

}  // namespace relay::tests
