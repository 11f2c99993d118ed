// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/kills_under_load.hpp"
#include "tests/end_to_end/recording.hpp"

#include <doctest/doctest.h>

#include <stdlib.h>

#include <chrono>

namespace relay::tests {
namespace {

std::uint64_t chosen_seed() {
    const char* const given = ::getenv("RELAY_SEED");
    return given != nullptr ? std::strtoull(given, nullptr, 10)
                            : static_cast<std::uint64_t>(
                                std::chrono::steady_clock::now().time_since_epoch().count());
}

TEST_CASE("fifty kills of the daemon under load lose and double and mix nothing") {
    KillOrder order;
    order.seed = chosen_seed();
    MESSAGE("RELAY_SEED=" << order.seed);
    const KillReport report = kill_under_load(order);
    CHECK_MESSAGE(report.complaints.empty(), report.complaints);
    CHECK(report.kills >= 20);
    CHECK(report.events > 1000);
    CHECK(report.attached > order.clients);
    MESSAGE(
        report.kills << " restarts, " << report.events << " events, " << report.attached
                     << " attaches");
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
