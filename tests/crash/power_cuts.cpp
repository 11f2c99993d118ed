// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/power_cuts.hpp"

#include "layout/documents.hpp"
#include "layout/sha256.hpp"
#include "tests/crash/client_crowd.hpp"
#include "tests/support/loop_file_system.hpp"

#include <relay_built_here.hpp>

#include <poll.h>
#include <signal.h>
#include <unistd.h>

namespace relay::tests {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int clients_count = 8;
constexpr int copies_a_round = 16;
constexpr int host_mebibytes = 16 * 1024;  // sparse

// A daemon whose whole home lies on a disk of its own, whose image lies on a host that can copy it.
struct Machine {
    DaemonProcess daemon;
    LoopFileSystem host;
    LoopFileSystem disk;

    explicit Machine(const PowerCutOrder& order)
        : daemon(small_journal({"--checkpoint-interval", "200ms", "--orphan-grace", "10min"})),
          host("xfs", daemon.root() + "/host.img", daemon.root() + "/host", host_mebibytes),
          disk(order.kind, host.path() + "/disk.img", daemon.root() + "/relay", 512) {
        if (order.syncs_lie) {
            daemon.launcher() = {
                RELAY_FAULT_LAUNCHER, "--lie", "--report", daemon.root() + "/fault", "--"};
        }
    }
    ~Machine() { daemon.kill(); }
    Machine(const Machine&) = delete;
    Machine& operator=(const Machine&) = delete;

    // SIGKILL, also through a launcher, which outlives the daemon.
    void kill_daemon() {
        if (daemon.launcher().empty()) {
            daemon.kill();
        } else {
            daemon.signal(SIGINT);
            static_cast<void>(daemon.wait());
        }
    }

    [[nodiscard]] std::string image(int number) const {
        return host.path() + "/copy-" + std::to_string(number) + ".img";
    }
};

std::string hindrance(const std::string& kind) {
    const std::string of_host = LoopFileSystem::hindrance("xfs");
    return of_host.empty() ? LoopFileSystem::hindrance(kind) : of_host;
}

// How far each client was when a copy was taken.
struct Moment {
    std::vector<std::int64_t> acked;  // before it
    std::vector<std::int64_t> sent;   // after it
};

Moment take_copy(const Machine& machine, const ClientCrowd& crowd, int number) {
    Moment moment;
    for (const auto& client : crowd.clients()) {
        moment.acked.push_back(client->acked());
    }
    if (!machine.disk.copy_image_to(machine.image(number))) {
        return {};
    }
    for (const auto& client : crowd.clients()) {
        moment.sent.push_back(client->sent());
    }
    return moment;
}

// The files of a sealed turn that are not what their seal says.
std::string unsound_turn(const std::string& path) {
    const auto state = layout::decode_turn_state(read_text(path));
    if (!state.ok()) {
        return path + ": " + state.error().context + "\n";
    }
    const std::string stem = path.substr(0, path.size() - std::string("state.json").size());
    const auto unsound = [&stem](const char* name, const layout::FileSeal& seal) -> std::string {
        const std::string text = read_text(stem + name);
        const bool same = static_cast<std::int64_t>(text.size()) == seal.bytes
                          && layout::sha256_hex(text) == seal.sha256;
        return same ? "" : stem + name + " is not what its seal says\n";
    };
    std::string all = unsound("prompt.md", state.value().prompt);
    all += unsound("output.md", state.value().output);
    all += state.value().stderr_log ? unsound("stderr.log", *state.value().stderr_log) : "";
    return all;
}

// What must hold before any recovery: documents are whole, sealed turns are what their seals say. A seal of
// the last seconds may not have its name yet.
std::string unsound_without_recovery(const std::string& sessions) {
    std::string all;
    for (const std::string& name : tree_of(sessions)) {
        const std::string path = sessions + "/" + name;
        const std::string base = name.substr(name.rfind('/') + 1);
        const bool seal = base.ends_with("-state.json") && !base.starts_with('.');
        const bool document = base == "meta.json" || base == "resume.json" || seal;
        if (document && !Json::parse(read_text(path), nullptr, false).is_object()) {
            all += name + " is no JSON object without recovery\n";
        } else if (seal) {
            all += unsound_turn(path);
        }
    }
    return all;
}

std::string lost_or_invented(Machine& machine, const ClientCrowd& crowd, const Moment& moment) {
    std::string all;
    WireClient asker(machine.daemon.socket());
    for (std::size_t index = 0; index < moment.acked.size(); ++index) {
        const StubbornClient& client = *crowd.clients()[index];
        const std::int64_t acked = moment.acked[index];
        const std::int64_t sent = moment.sent[index];
        const Json answer = asker.ask("session.attach", client.script().session());
        const std::int64_t last = answer.value("last_seq", std::int64_t{0});
        if (last < acked || last > sent) {
            all += "acked " + std::to_string(acked) + ", sent " + std::to_string(sent) + ", answer "
                   + answer.dump() + "\n";
        }
        const std::string found = differences(
            crowd.session(client),
            client.script(),
            std::max(acked, last),
            sent,
            Look::after_recovery);
        all += found.empty() ? "" : crowd.session(client) + ":\n" + found;
    }
    for (const std::string& name : tree_of(machine.daemon.state() + "/journal")) {
        if (name.find("damaged") != std::string::npos) {
            all += "the journal was taken for damaged: " + name + "\n";
        }
    }
    return all;
}

// Recovers the machine from a copy and looks.
std::string wrong_with_copy(
    Machine& machine,
    const ClientCrowd& crowd,
    const Moment& moment,
    int number,
    Random& random,
    PowerCutReport& report) {
    if (!machine.disk.mount(machine.image(number))) {
        return "the copy cannot be mounted\n";
    }
    std::string all = unsound_without_recovery(machine.daemon.state() + "/sessions");
    while (random.chance(3)) {
        machine.daemon.spawn();
        ::poll(nullptr, 0, static_cast<int>(random.below(30)));
        machine.kill_daemon();
        ++report.interrupted;
    }
    if (machine.daemon.start()) {
        all += lost_or_invented(machine, crowd, moment);
    } else {
        all += "the daemon does not start\n" + machine.daemon.log();
    }
    machine.kill_daemon();
    if (!machine.disk.unmount()) {
        all += "the copy cannot be unmounted\n";
    }
    ::unlink(machine.image(number).c_str());
    return all;
}

void cut_in_copies_once(const PowerCutOrder& order, Random& random, PowerCutReport& report) {
    Machine machine(order);
    if (!machine.disk.mounted() || !machine.daemon.start()) {
        report.complaints += "cannot begin on " + order.kind + "\n" + machine.daemon.log();
        return;
    }
    ClientCrowd crowd(machine.daemon, clients_count, random, Patience::crashes);
    std::vector<Moment> moments;
    for (int number = 0; number < copies_a_round; ++number) {
        ::poll(nullptr, 0, static_cast<int>(random.below(150)));
        moments.push_back(take_copy(machine, crowd, number));
    }
    if (!crowd.finish()) {
        machine.kill_daemon();
    }
    crowd.join();
    report.events += crowd.acked();
    report.complaints += crowd.complaints();
    machine.kill_daemon();
    if (!machine.disk.unmount()) {
        report.complaints += "the disk cannot be unmounted\n";
        return;
    }
    for (int number = 0; number < copies_a_round && report.complaints.empty(); ++number) {
        const Moment& moment = moments[static_cast<std::size_t>(number)];
        const std::string wrong =
            moment.sent.empty() ? "the image cannot be copied\n"
                                : wrong_with_copy(machine, crowd, moment, number, random, report);
        report.complaints += wrong.empty() ? "" : "copy " + std::to_string(number) + ":\n" + wrong;
        ++report.cuts;
    }
}

bool cut_once(Machine& machine, Random& random, PowerCutReport& report) {
    ::poll(nullptr, 0, static_cast<int>(random.below(200)));
    const bool cut = machine.disk.cut_power();
    machine.kill_daemon();
    const bool back = machine.disk.unmount() && machine.disk.mount();
    if (!cut || !back) {
        report.complaints += cut ? "the disk does not come back\n" : "the power cannot be cut\n";
        return false;
    }
    report.complaints += unsound_without_recovery(machine.daemon.state() + "/sessions");
    if (random.chance(3)) {
        machine.daemon.spawn();
        ::poll(nullptr, 0, static_cast<int>(random.below(30)));
        machine.kill_daemon();
        ++report.interrupted;
    }
    if (!machine.daemon.start()) {
        report.complaints += "the daemon does not start\n" + machine.daemon.log();
        return false;
    }
    ++report.cuts;
    return report.complaints.empty();
}

}  // namespace

PowerCutReport cut_power_in_copies(const PowerCutOrder& order) {
    PowerCutReport report;
    report.skipped = hindrance(order.kind);
    Random random(order.seed);
    const auto deadline = Clock::now() + order.limit;
    if (!report.skipped.empty()) {
        return report;
    }
    do {
        cut_in_copies_once(order, random, report);
    } while (report.complaints.empty() && Clock::now() < deadline);
    return report;
}

PowerCutReport cut_power_in_place(const PowerCutOrder& order) {
    PowerCutReport report;
    report.skipped =
        order.kind == "btrfs" ? "btrfs cannot be shut down in place" : hindrance(order.kind);
    if (!report.skipped.empty()) {
        return report;
    }
    Random random(order.seed);
    const auto deadline = Clock::now() + order.limit;
    Machine machine(order);
    if (!machine.disk.mounted() || !machine.daemon.start()) {
        report.complaints = "cannot begin on " + order.kind + "\n" + machine.daemon.log();
        return report;
    }
    // A dying disk is answered in many ways before the daemon is killed.
    ClientCrowd crowd(machine.daemon, clients_count, random, Patience::faults);
    while (cut_once(machine, random, report) && Clock::now() < deadline) {
    }
    if (!crowd.finish()) {
        machine.kill_daemon();
    }
    crowd.join();
    report.events = crowd.acked();
    report.complaints += crowd.complaints();
    return report;
}

}  // namespace relay::tests
