// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/kills_under_load.hpp"

#include "tests/end_to_end/recording.hpp"
#include "tests/end_to_end/stubborn_client.hpp"
#include "tests/support/random.hpp"

#include <poll.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace relay::tests {

namespace {

void wait_at_most(Random& random, std::uint64_t milliseconds) {
    ::poll(nullptr, 0, static_cast<int>(random.below(milliseconds)));
}

// True when the daemon runs in the end.
bool kill_again_and_again(
    DaemonProcess& daemon, const KillOrder& order, Random& random, KillReport& report) {
    const auto deadline = std::chrono::steady_clock::now() + order.limit;
    for (int kill = 0; kill < order.kills && std::chrono::steady_clock::now() < deadline; ++kill) {
        // Now and then before the socket answers: in the middle of recovery.
        wait_at_most(random, 250);
        daemon.kill();
        while (random.chance(4)) {
            daemon.spawn();
            wait_at_most(random, 20);
            daemon.kill();
            ++report.nested;
        }
        if (!daemon.start()) {
            return false;
        }
        ++report.kills;
    }
    return true;
}

}  // namespace

KillReport kill_under_load(const KillOrder& order) {
    KillReport report;
    Random random(order.seed);
    DaemonProcess daemon(
        small_journal({"--checkpoint-interval", "200ms", "--orphan-grace", "10min"}));
    if (!daemon.start()) {
        report.complaints = "the daemon does not start:\n" + daemon.log();
        return report;
    }
    std::atomic<bool> enough = false;
    std::vector<std::unique_ptr<StubbornClient>> clients;
    std::vector<std::thread> threads;
    for (int name = 0; name < order.clients; ++name) {
        clients.push_back(std::make_unique<StubbornClient>(
            daemon.socket(), Script(new_ulid(), daemon.work(), name), random.next()));
    }
    for (const auto& client : clients) {
        threads.emplace_back([&client, &enough] { client->run(enough); });
    }
    const bool alive = kill_again_and_again(daemon, order, random, report);
    enough = true;
    // Threads that wait for a daemon that does not come back would wait for ever.
    if (!alive) {
        report.complaints += "the daemon does not start again:\n" + daemon.log();
        static_cast<void>(daemon.restart());
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    for (const auto& client : clients) {
        const std::string session = daemon.state() + "/sessions/" + client->script().session();
        if (!client->well()) {
            report.complaints += client->failure() + "\n";
        }
        report.complaints += differences(
            session,
            client->script(),
            client->recorded(),
            client->recorded(),
            Look::after_recovery);
        report.events += client->acked();
        report.attached += client->attached();
    }
    return report;
}

}  // namespace relay::tests
