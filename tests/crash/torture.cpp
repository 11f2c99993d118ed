// SPDX-License-Identifier: Apache-2.0

// What takes too long for the tests of every build. scripts/torture builds and runs it.

#include "tests/crash/fault_drill.hpp"
#include "tests/crash/kills_under_load.hpp"
#include "tests/crash/live_soak.hpp"
#include "tests/crash/power_cuts.hpp"
#include "tests/crash/sick_disks.hpp"
#include "tests/support/random.hpp"

#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace relay::tests {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* usage =
    "usage: relay_torture [--seconds N] [--seed N] [--workers N] [SUITE...]\n"
    "       relay_torture --scene S --fault F [--part P] [--ever] --call N\n"
    "suites: kills   the daemon ends before, or in the middle of, each call it makes\n"
    "        errors  each call it makes to a file system fails\n"
    "        load    it is killed at random moments while 50 clients talk to it\n"
    "        power   the power fails on ext4, XFS and btrfs; needs root\n"
    "        disks   disks become full, read-only or unmounted under it; needs root\n"
    "        soak    1,000 sessions, bursts of connections, a full disk, kills: all at once\n";

struct Order {
    std::chrono::seconds seconds{60};  // for each suite
    std::uint64_t seed = 1;
    unsigned workers = 2;
    std::vector<std::string> suites;
    FaultPoint point;
};

void say(const std::string& line) {
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
}

// Points in an order that covers all of them evenly, however soon the time is up.
void shuffle(std::vector<FaultPoint>& points, std::uint64_t seed) {
    Random random(seed);
    for (std::size_t left = points.size(); left > 1; --left) {
        std::swap(points[left - 1], points[random.below(left)]);
    }
}

class FaultSuite {
public:
    explicit FaultSuite(const Order& order) : order_(order) {}

    // True when every point that was tried held.
    bool run(const std::string& name, std::vector<FaultPoint> points) {
        shuffle(points, order_.seed);
        const auto deadline = Clock::now() + order_.seconds;
        std::atomic<std::size_t> next = 0;
        std::vector<std::thread> workers;
        for (unsigned worker = 0; worker < order_.workers; ++worker) {
            workers.emplace_back([&] {
                for (std::size_t at = next++; at < points.size() && Clock::now() < deadline;
                     at = next++) {
                    try_point(points[at]);
                }
            });
        }
        for (std::thread& worker : workers) {
            worker.join();
        }
        say(name + ": " + std::to_string(tried_) + " of " + std::to_string(points.size())
            + " faults tried (seed " + std::to_string(order_.seed) + "), " + std::to_string(hits_)
            + " met a call, " + std::to_string(failures_) + " broke a promise");
        return failures_ == 0;
    }

private:
    void try_point(const FaultPoint& point) {
        const FaultOutcome outcome = play(point);
        const std::lock_guard lock(mutex_);
        ++tried_;
        hits_ += outcome.hit.empty() ? 0U : 1U;
        if (!outcome.complaints.empty()) {
            ++failures_;
            say("FAILED " + point.flags() + "\n  at " + outcome.hit + "\n" + outcome.complaints);
        }
    }

    const Order& order_;
    std::mutex mutex_;
    std::size_t tried_ = 0;
    std::size_t hits_ = 0;
    std::size_t failures_ = 0;
};

// How many calls a scene makes; the next time it may be a few more.
long calls_of(const std::string& scene, const std::string& part) {
    FaultPoint point;
    point.scene = scene;
    point.part = part;
    const FaultOutcome outcome = play(point);
    if (!outcome.complaints.empty()) {
        say("FAILED " + point.flags() + " without any fault\n" + outcome.complaints);
        std::exit(1);
    }
    say("scene " + scene + (part.empty() ? "" : ", " + part) + ": " + std::to_string(outcome.calls)
        + " calls");
    return outcome.calls;
}

bool kills(const Order& order) {
    std::vector<FaultPoint> points;
    for (const char* const scene : {"first", "recovery"}) {
        const long calls = calls_of(scene, "");
        for (long call = 1; call <= calls; ++call) {
            for (const char* const kind : {"kill", "tear"}) {
                points.push_back({scene, kind, "", call, false});
            }
        }
    }
    return FaultSuite(order).run("kills", std::move(points));
}

bool errors(const Order& order) {
    std::vector<FaultPoint> points;
    for (const char* const scene : {"first", "recovery"}) {
        for (const char* const part : {"journal", "sessions"}) {
            const long calls = calls_of(scene, part);
            for (long call = 1; call <= calls; ++call) {
                for (const std::string kind :
                     {"EIO", "ENOSPC", "EDQUOT", "EROFS", "EMFILE", "ENOMEM", "EACCES", "EINTR"}) {
                    // A session that may not be read at the start is left to its user, who forbade it.
                    if (kind == "EACCES" && std::string_view(scene) == "recovery") {
                        continue;
                    }
                    points.push_back({scene, kind, part, call, false});
                    points.push_back({scene, kind, part, call, true});
                }
                points.push_back({scene, "short", part, call, false});
            }
        }
    }
    return FaultSuite(order).run("errors", std::move(points));
}

bool load(const Order& order) {
    constexpr int kills_a_round = 100;
    constexpr int clients = 50;
    const auto deadline = Clock::now() + order.seconds;
    Random random(order.seed);
    KillReport all;
    bool well = true;
    do {
        KillOrder round;
        round.kills = kills_a_round;
        round.clients = clients;
        round.limit = std::chrono::duration_cast<std::chrono::seconds>(deadline - Clock::now());
        round.seed = random.next();
        const KillReport report = kill_under_load(round);
        if (!report.complaints.empty()) {
            say("FAILED load, round with seed " + std::to_string(round.seed) + "\n"
                + report.complaints);
            well = false;
        }
        all.kills += report.kills;
        all.nested += report.nested;
        all.events += report.events;
        all.attached += report.attached;
    } while (well && Clock::now() < deadline);
    say("load: " + std::to_string(all.kills) + " kills and " + std::to_string(all.nested)
        + " more in recovery (seed " + std::to_string(order.seed) + "), "
        + std::to_string(all.events) + " events of " + std::to_string(clients)
        + " clients at a time, " + std::to_string(all.attached) + " attaches, "
        + (well ? "all bytes in their places" : "NOT as promised"));
    return well;
}

bool told(const std::string& name, const PowerCutReport& report, std::uint64_t seed) {
    if (!report.skipped.empty()) {
        say(name + ": SKIPPED: " + report.skipped);
        return true;
    }
    say(name + ": " + std::to_string(report.cuts) + " power cuts (seed " + std::to_string(seed)
        + "), " + std::to_string(report.interrupted) + " recoveries killed on the way, "
        + std::to_string(report.events) + " events acked, "
        + (report.complaints.empty() ? "none lost" : "FAILED:\n" + report.complaints));
    return report.complaints.empty();
}

// A daemon whose syncs are not made must be found out, or the suite proves nothing.
bool power_canary(const Order& order) {
    PowerCutOrder lying;
    lying.kind = "ext4";
    lying.limit = std::chrono::seconds(20);
    lying.seed = order.seed;
    lying.syncs_lie = true;
    const PowerCutReport report = cut_power_in_copies(lying);
    if (!report.skipped.empty()) {
        say("power, canary: SKIPPED: " + report.skipped);
        return true;
    }
    const bool caught = !report.complaints.empty();
    say("power, canary: a daemon without syncs was "
        + (caught ? "found out: " + report.complaints.substr(0, report.complaints.find('\n', 10))
                  : "NOT FOUND OUT in " + std::to_string(report.cuts) + " power cuts"));
    return caught;
}

bool power(const Order& order) {
    constexpr int parts = 5;
    bool well = power_canary(order);
    for (const char* const kind : {"ext4", "xfs", "btrfs"}) {
        PowerCutOrder cuts;
        cuts.kind = kind;
        cuts.limit = std::chrono::milliseconds(order.seconds) / parts;
        cuts.seed = order.seed;
        const std::string name = std::string("power, ") + kind;
        well = told(name + ", copies of the disk", cut_power_in_copies(cuts), cuts.seed) && well;
        if (cuts.kind != "btrfs") {
            well = told(name + ", shut down in place", cut_power_in_place(cuts), cuts.seed) && well;
        }
    }
    return well;
}

// Each once, in the order of the list, until the time is up; the seed says where to begin.
bool disks(const Order& order) {
    std::vector<SickDiskOrder> all;
    for (const char* const ill : {"full", "unmounted", "read-only"}) {
        for (const char* const part : {"sessions", "journal", "both"}) {
            for (const char* const kind : {"ext4", "xfs", "btrfs"}) {
                SickDiskOrder one;
                one.kind = kind;
                one.part = part;
                one.ill = ill;
                one.seed = order.seed;
                all.push_back(one);
            }
        }
    }
    const auto deadline = Clock::now() + order.seconds;
    bool well = true;
    for (std::size_t count = 0; count < all.size() && Clock::now() < deadline; ++count) {
        const SickDiskOrder& one = all[(order.seed - 1 + count) % all.size()];
        const std::string name = "disks, " + one.kind + " with " + one.part + ", " + one.ill;
        const SickDiskReport report = fall_ill(one);
        if (!report.skipped.empty()) {
            say(name + ": SKIPPED: " + report.skipped);
        }
        if (!report.complaints.empty() || report.skipped.empty()) {
            say(name + ": " + std::to_string(report.before) + " events acked before, "
                + std::to_string(report.during) + " meanwhile, " + std::to_string(report.after)
                + " after, "
                + (report.complaints.empty() ? "none lost" : "FAILED:\n" + report.complaints));
        }
        well = well && report.complaints.empty();
    }
    return well;
}

bool soak_live(const Order& order) {
    SoakOrder all;
    all.duration = order.seconds;
    all.seed = order.seed;
    const SoakReport report = soak(all, say);
    if (!report.full_disk.empty()) {
        say("soak: without a full disk: " + report.full_disk);
    }
    say("soak: " + std::to_string(report.events) + " events acked (seed "
        + std::to_string(order.seed) + "), " + std::to_string(report.sessions)
        + " sessions came, went and were compared, " + std::to_string(report.kills) + " kills, "
        + std::to_string(report.bursts) + " bursts, a slow follower sent away "
        + std::to_string(report.follower_cuts) + " times; "
        + (report.complaints.empty() ? "all within bounds, none lost"
                                     : "FAILED:\n" + report.complaints));
    return report.complaints.empty();
}

struct Suite {
    std::string_view name;
    bool (*run)(const Order&);
};
constexpr Suite suites[] = {
    {"kills", kills},
    {"errors", errors},
    {"load", load},
    {"power", power},
    {"disks", disks},
    {"soak", soak_live}};

Order parse(int count, char** words) {
    Order order;
    for (int at = 1; at < count; ++at) {
        const std::string word = words[at];
        const bool last = at + 1 == count;
        const std::string value = last ? "" : words[at + 1];
        if (word == "--ever") {
            order.point.ever = true;
            continue;
        }
        if (!word.starts_with("--")) {
            order.suites.push_back(word);
            continue;
        }
        if (last) {
            order.suites.emplace_back("?");
            break;
        }
        ++at;
        if (word == "--seconds") {
            order.seconds = std::chrono::seconds(std::atoll(value.c_str()));
        } else if (word == "--seed") {
            order.seed = std::strtoull(value.c_str(), nullptr, 10);
        } else if (word == "--workers") {
            order.workers = static_cast<unsigned>(std::max(1, std::atoi(value.c_str())));
        } else if (word == "--scene") {
            order.point.scene = value;
        } else if (word == "--fault") {
            order.point.kind = value;
        } else if (word == "--part") {
            order.point.part = value;
        } else if (word == "--call") {
            order.point.call = std::atol(value.c_str());
        } else {
            order.suites.emplace_back("?");
        }
    }
    return order;
}

int replay(const FaultPoint& point) {
    const FaultOutcome outcome = play(point);
    say(point.flags() + ": " + (outcome.hit.empty() ? "met no call" : "met " + outcome.hit));
    say(outcome.complaints.empty() ? "all was as promised" : outcome.complaints);
    return outcome.complaints.empty() ? 0 : 1;
}

// What is mounted from here on is seen by this process and its children alone, and goes with them, however
// they end. Without root nothing is mounted anyway.
void keep_mounts_to_ourselves() {
    if (::geteuid() == 0 && ::unshare(CLONE_NEWNS) == 0) {
        static_cast<void>(::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr));
    }
}

int run(const Order& order) {
    if (order.point.call > 0) {
        return replay(order.point);
    }
    keep_mounts_to_ourselves();
    bool well = true;
    for (const std::string& wanted : order.suites) {
        const auto* const found =
            std::find_if(std::begin(suites), std::end(suites), [&wanted](const Suite& suite) {
                return suite.name == wanted;
            });
        if (found == std::end(suites)) {
            std::fputs(usage, stderr);
            return 2;
        }
        well = found->run(order) && well;
    }
    return well ? 0 : 1;
}

}  // namespace
}  // namespace relay::tests

int main(int argument_count, char** arguments) {
    using namespace relay::tests;
    Order order = parse(argument_count, arguments);
    if (order.suites.empty()) {
        for (const Suite& suite : suites) {
            order.suites.emplace_back(suite.name);
        }
    }
    return run(order);
}
