// SPDX-License-Identifier: Apache-2.0
#include "tests/end_to_end/recording.hpp"

#include <doctest/doctest.h>

#include <sys/resource.h>

namespace relay::tests {
namespace {

constexpr int sessions_count = 1000;
constexpr int turns_count = 3;

// True when this process and its children may hold so many files.
bool allow_descriptors(rlim_t wanted) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max < wanted) {
        return false;
    }
    limit.rlim_cur = limit.rlim_max;
    return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

std::string words(int session, int turn, int piece) {
    return "session " + std::to_string(session) + " turn " + std::to_string(turn) + " piece "
           + std::to_string(piece) + "\n";
}

struct Talker {
    WireClient client;
    Recording session;
};

// Every talker says its lines at once; then every answer is read.
void everyone(std::vector<Talker>& talkers, const std::function<std::vector<Json>(int)>& lines) {
    std::size_t count = 0;
    for (std::size_t index = 0; index < talkers.size(); ++index) {
        std::string bytes;
        const std::vector<Json> said = lines(static_cast<int>(index));
        count = said.size();
        for (Json line : said) {
            line["id"] = 1;
            bytes += line.dump() + "\n";
        }
        REQUIRE(talkers[index].client.send_bytes(bytes));
    }
    for (Talker& talker : talkers) {
        for (std::size_t answer = 0; answer < count; ++answer) {
            const Json seen = talker.client.read(std::chrono::seconds(60));
            REQUIRE_MESSAGE(is_ack(seen), seen.dump());
            // The disk is slow under this load, but it is not sick.
            REQUIRE_MESSAGE(!seen.value("deferred", false), seen.dump());
            if (talker.session.id.empty()) {
                talker.session.id = seen.value("session", "");
                talker.session.path = seen.value("path", "");
            }
        }
    }
}

TEST_CASE("a thousand sessions at once are each recorded whole in little memory") {
    if (!allow_descriptors(4096)) {
        MESSAGE("skipped: fewer than 4096 files may be open");
        return;
    }
    DaemonProcess daemon;
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    std::vector<Talker> talkers;
    for (int index = 0; index < sessions_count; ++index) {
        talkers.push_back({WireClient(daemon.socket()), {}});
        REQUIRE(talkers.back().client.connected());
    }
    everyone(talkers, [&](int) {
        return std::vector<Json>{
            {{"type", "session.start"}, {"agent", "custom"}, {"cwd", daemon.work()}}};
    });
    for (int turn = 1; turn <= turns_count; ++turn) {
        everyone(talkers, [&](int index) {
            const std::string& id = talkers[static_cast<std::size_t>(index)].session.id;
            std::vector<Json> lines{event("turn.start", id, {{"prompt", words(index, turn, 0)}})};
            for (int piece = 1; piece <= 3; ++piece) {
                lines.push_back(event("turn.output", id, {{"text", words(index, turn, piece)}}));
            }
            // The last turn stays open while the memory is looked at.
            if (turn < turns_count) {
                lines.push_back(event("turn.end", id));
            }
            return lines;
        });
    }
    const long resident_kib = daemon.resident_kib();
    MESSAGE("daemon with " << sessions_count << " live sessions: " << resident_kib << " KiB");
    if (!sanitized) {
        CHECK(resident_kib < 80 * 1024);
    }
    WireClient visitor(daemon.socket());
    CHECK_ACK(visitor.request({{"type", "status"}}));
    everyone(talkers, [&](int index) {
        const std::string& id = talkers[static_cast<std::size_t>(index)].session.id;
        return std::vector<Json>{event("turn.end", id), event("session.end", id)};
    });
    int wrong = 0;
    for (int index = 0; index < sessions_count; ++index) {
        const Recording& session = talkers[static_cast<std::size_t>(index)].session;
        bool right = damage_of(session.path).empty()
                     && session.meta().value("status", "") == "completed"
                     && session.meta().value("turn_count", 0) == turns_count;
        for (int turn = 1; turn <= turns_count; ++turn) {
            const std::string stem = "turns/00" + std::to_string(turn);
            right = right && session.text(stem + "-prompt.md") == words(index, turn, 0)
                    && session.text(stem + "-output.md")
                           == words(index, turn, 1) + words(index, turn, 2) + words(index, turn, 3);
        }
        wrong += right ? 0 : 1;
    }
    CHECK(wrong == 0);
    CHECK(daemon.terminate() == 0);
}

}  // namespace
}  // namespace relay::tests
