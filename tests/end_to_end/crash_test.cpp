// SPDX-License-Identifier: Apache-2.0
#include "layout/journal_batch.hpp"
#include "tests/crash/kills_under_load.hpp"
#include "tests/end_to_end/recording.hpp"
#include "tests/support/eventually.hpp"

#include <boost/filesystem.hpp>
#include <doctest/doctest.h>

#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

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

// Where the batches of a journal lie, the newest last.
struct FoundBatch {
    std::string path;
    std::size_t offset = 0;
    layout::BatchHeader header;
};

std::vector<FoundBatch> batches_of(const std::string& journal) {
    std::vector<FoundBatch> found;
    for (const auto& entry : boost::filesystem::directory_iterator(journal)) {
        const std::string path = entry.path().string();
        if (path.find("/segment-") == std::string::npos) {
            continue;
        }
        const std::string bytes = read_text(path);
        for (std::size_t at = 0; at < bytes.size(); at += layout::journal_block_bytes) {
            const auto batch = layout::decode_batch(std::string_view(bytes).substr(at));
            if (batch.ok()) {
                found.push_back({path, at, batch.value()});
            }
        }
    }
    std::sort(found.begin(), found.end(), [](const FoundBatch& left, const FoundBatch& right) {
        return left.header.lsn < right.header.lsn;
    });
    return found;
}

TEST_CASE("after a silence even damage to the last acked batch is told") {
    DaemonProcess daemon(small_journal({"--checkpoint-interval", "10min"}));
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "p"}}));
    CHECK_ACK(client.ask("turn.output", session.id, {{"text", "the last words"}}));
    const std::string journal = daemon.state() + "/journal";
    std::vector<FoundBatch> batches;
    REQUIRE(eventually([&] {
        batches = batches_of(journal);
        return batches.size() > 1 && batches.back().header.payload_bytes == 0;
    }));
    daemon.kill();
    const FoundBatch& last = *(batches.end() - 2);
    REQUIRE(last.header.payload_bytes > 0);
    std::string bytes = read_text(last.path);
    char& hit = bytes[last.offset + layout::batch_header_bytes];
    hit = static_cast<char>(hit ^ 1);
    write_text(last.path, bytes);
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    CHECK(daemon.log().find("journal damaged") != std::string::npos);
    CHECK(daemon.log().find("acknowledged batch unreadable") != std::string::npos);
}

}  // namespace
}  // namespace relay::tests
