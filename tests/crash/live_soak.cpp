// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/live_soak.hpp"

#include "tests/end_to_end/recording.hpp"
#include "tests/end_to_end/script.hpp"
#include "tests/end_to_end/stubborn_client.hpp"
#include "tests/support/daemon_process.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/loop_file_system.hpp"
#include "tests/support/random.hpp"
#include "tests/support/wire_client.hpp"

#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace relay::tests {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

// The promises of docs/durability.md.
constexpr std::int64_t resident_kib_base = 64 * 1024;
constexpr std::int64_t resident_kib_a_session = 16;
constexpr std::int64_t journal_bytes_most = std::int64_t{8} * 32 * 1024 * 1024;
constexpr milliseconds recovery_most = seconds(2);
constexpr std::int64_t idle_descriptors_most = 64;

constexpr int full_disk_mebibytes = 64;
constexpr std::int64_t turns_most = 8;  // of one session
constexpr milliseconds finish_limit = seconds(300);

void allow_many_descriptors() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));
    }
}

DaemonSetup setup() {
    DaemonSetup setup;
    setup.flags = {"--orphan-grace", "10min"};
    setup.relocated = false;  // the repository on the full disk has a store of its own
    return setup;
}

std::int64_t descriptors_of(pid_t pid) {
    std::error_code error;
    std::filesystem::directory_iterator names("/proc/" + std::to_string(pid) + "/fd", error);
    return error ? 0 : std::distance(begin(names), end(names));
}

std::int64_t segment_bytes_in(const std::string& journal) {
    std::int64_t bytes = 0;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(journal, error)) {
        if (entry.path().filename().string().starts_with("segment-")) {
            bytes += static_cast<std::int64_t>(entry.file_size(error));
        }
    }
    return bytes;
}

// What the threads share.
class Soak {
public:
    Soak(const SoakOrder& order, const std::function<void(const std::string&)>& say)
        : order_(order), say_(say), random_(order.seed), daemon_(setup()) {}

    SoakReport run() {
        allow_many_descriptors();
        prepare_full_disk();
        if (!daemon_.start()) {
            report_.complaints = "the daemon does not start:\n" + daemon_.log();
            return report_;
        }
        const std::int64_t descriptors_at_rest = descriptors_of(daemon_.pid());
        std::vector<std::thread> threads;
        for (int name = 0; name < order_.sessions; ++name) {
            threads.emplace_back([this, name, seed = random_.next()] {
                come_and_go(name, daemon_.work(), daemon_.state() + "/sessions/", seed);
            });
        }
        for (int name = 0; disk_ && name < order_.full_disk_sessions; ++name) {
            threads.emplace_back([this, name, seed = random_.next()] {
                const std::string repository = disk_->path() + "/repository";
                come_and_go(name, repository, repository + "/.agent-relay/sessions/", seed);
            });
        }
        threads.emplace_back([this] { follow_slowly(); });
        threads.emplace_back([this] { burst_again_and_again(); });
        kill_again_and_again();
        if (disk_) {
            disk_->free();
        }
        enough_ = true;
        if (!eventually([this] { return talking_ == 0; }, finish_limit)) {
            complain("not all sessions came to their end\n");
            gone_ = true;
        }
        over_ = true;
        for (std::thread& thread : threads) {
            thread.join();
        }
        check_rest(descriptors_at_rest);
        if (!report_.complaints.empty()) {
            const std::string log = daemon_.log();
            report_.complaints += log.substr(log.size() - std::min<std::size_t>(log.size(), 4000));
        }
        report_.events = events_;
        report_.sessions = sessions_;
        return report_;
    }

private:
    void complain(const std::string& what) {
        const std::lock_guard lock(mutex_);
        if (report_.complaints.size() < 10'000) {
            report_.complaints += what;
        }
    }

    void prepare_full_disk() {
        report_.full_disk = LoopFileSystem::hindrance("ext4");
        if (!report_.full_disk.empty()) {
            return;
        }
        disk_.emplace(
            "ext4", daemon_.root() + "/disk.img", daemon_.root() + "/full", full_disk_mebibytes);
        if (!disk_->mounted() || !make_repository(disk_->path() + "/repository")) {
            report_.full_disk = "the small disk cannot be made";
            disk_.reset();
        }
    }

    // One session after the other, each compared and deleted when it has ended.
    void
    come_and_go(int name, const std::string& cwd, const std::string& store, std::uint64_t seed) {
        ++talking_;
        Random random(seed);
        const bool suffers = cwd != daemon_.work();
        while (!enough_ && !gone_) {
            StubbornClient client(
                daemon_.socket(),
                Script(new_ulid(), cwd, name),
                random.next(),
                1 + static_cast<std::int64_t>(random.below(turns_most)),
                suffers ? Patience::faults : Patience::crashes);
            client.set_pause(
                milliseconds(random.below(static_cast<std::uint64_t>(order_.pause.count()) * 2)));
            while (!gone_ && client.well() && !client.done()) {
                client.run_once(enough_, gone_);
            }
            events_ += client.acked();
            compare(client, store, suffers);
        }
        --talking_;
    }

    void compare(const StubbornClient& client, const std::string& store, bool suffers) {
        const std::string session = store + client.script().session();
        if (!client.well() || !client.done()) {
            complain("not finished: " + client.failure() + "\n");
            return;
        }
        const auto found = [&] {
            return differences(
                session,
                client.script(),
                client.recorded(),
                client.recorded(),
                Look::after_recovery);
        };
        // A full disk has it when there is room again: looked at in the end, not deleted before.
        if (suffers) {
            if (!eventually(
                    [&] { return enough_ && found().empty(); }, order_.duration + finish_limit)) {
                complain(session + ":\n" + found());
            }
            return;
        }
        if (const std::string different = found(); !different.empty()) {
            complain(session + ":\n" + different);
            return;
        }
        ++sessions_;
        std::error_code error;
        std::filesystem::remove_all(session, error);
    }

    // Takes a line a second of all that happens, until it is sent away.
    void follow_slowly() {
        while (!over_) {
            WireClient follower(daemon_.socket());
            if (!follower.connected() || !follower.send({{"type", "follow"}})) {
                ::poll(nullptr, 0, 100);
                continue;
            }
            while (!over_ && !follower.at_end()) {
                static_cast<void>(follower.read_line(milliseconds(100)));
                ::poll(nullptr, 0, 1000);
            }
            const std::lock_guard lock(mutex_);
            report_.follower_cuts += over_ ? 0 : 1;
        }
    }

    void burst_again_and_again() {
        Random random(order_.seed + 1);
        while (!enough_) {
            std::vector<WireClient> crowd;
            for (int number = 0; number < order_.burst_connections && !enough_; ++number) {
                crowd.emplace_back(daemon_.socket());
                if (crowd.back().connected() && random.chance(2)) {
                    static_cast<void>(crowd.back().send_bytes(R"({"type":"sta)"));
                }
            }
            {
                const std::lock_guard lock(mutex_);
                ++report_.bursts;
            }
            wait_for(seconds(2));
            crowd.clear();
            wait_for(seconds(20));
        }
    }

    void wait_for(milliseconds duration) {
        static_cast<void>(eventually([this] { return enough_.load(); }, duration));
    }

    void look() {
        const std::int64_t resident = daemon_.resident_kib();
        const std::int64_t descriptors = descriptors_of(daemon_.pid());
        const std::int64_t journal = segment_bytes_in(daemon_.state() + "/journal");
        const std::lock_guard lock(mutex_);
        report_.resident_kib_max = std::max(report_.resident_kib_max, resident);
        report_.descriptors_max = std::max(report_.descriptors_max, descriptors);
        report_.journal_bytes_max = std::max(report_.journal_bytes_max, journal);
    }

    void tell(Clock::time_point begin) {
        const auto passed = std::chrono::duration_cast<seconds>(Clock::now() - begin).count();
        const std::lock_guard lock(mutex_);
        char row[200];
        std::snprintf(
            row,
            sizeof row,
            "| %5lld s | %9lld | %8lld | %5d | %6d | %7.1f MiB | %6lld | %6.1f MiB | %5lld ms |",
            static_cast<long long>(passed),
            static_cast<long long>(events_),
            static_cast<long long>(sessions_),
            report_.kills,
            report_.bursts,
            static_cast<double>(report_.resident_kib_max) / 1024,
            static_cast<long long>(report_.descriptors_max),
            static_cast<double>(report_.journal_bytes_max) / 1024 / 1024,
            static_cast<long long>(report_.recovery_max.count()));
        say_(row);
    }

    // The daemon is ours alone: the kernel ends it with the thread that began it.
    void kill_again_and_again() {
        say_("| passed  | events    | sessions | kills | bursts | RSS at most | descr. | journal   "
             " | recovery |");
        say_("|---------|-----------|----------|-------|--------|-------------|--------|-----------"
             "-|----------|");
        const auto begin = Clock::now();
        auto next_kill = begin + order_.kill_every;
        auto next_row = begin + order_.row_every;
        bool filled = false;
        while (Clock::now() < begin + order_.duration) {
            ::poll(nullptr, 0, 1000);
            look();
            // Once they have begun: a session cannot start where nothing can be written.
            if (disk_ && !filled && Clock::now() > begin + order_.pause * 2) {
                disk_->fill();
                filled = true;
            }
            if (Clock::now() >= next_kill) {
                next_kill += order_.kill_every;
                daemon_.kill();
                const std::size_t said = daemon_.log().size();
                const auto spawned = Clock::now();
                const bool started = daemon_.start();
                const auto took = std::chrono::duration_cast<milliseconds>(Clock::now() - spawned);
                if (!started || took > recovery_most) {
                    complain(
                        "a recovery took " + std::to_string(took.count())
                        + " ms. The daemon said:\n" + daemon_.log().substr(said, 2000) + "\n");
                }
                if (!started) {
                    complain("the daemon does not start again\n");
                    gone_ = true;
                    return;
                }
                const std::lock_guard lock(mutex_);
                ++report_.kills;
                report_.recovery_max = std::max(report_.recovery_max, took);
            }
            if (Clock::now() >= next_row) {
                next_row += order_.row_every;
                tell(begin);
            }
        }
        tell(begin);
    }

    void check_rest(std::int64_t descriptors_at_rest) {
        const std::int64_t resident_most =
            resident_kib_base
            + resident_kib_a_session * (order_.sessions + order_.full_disk_sessions);
        if (report_.resident_kib_max > resident_most) {
            complain("memory: " + std::to_string(report_.resident_kib_max) + " KiB\n");
        }
        if (report_.journal_bytes_max > journal_bytes_most) {
            complain("journal: " + std::to_string(report_.journal_bytes_max) + " bytes\n");
        }
        const std::int64_t most = descriptors_at_rest + idle_descriptors_most;
        if (!eventually([&] { return descriptors_of(daemon_.pid()) <= most; }, seconds(60))) {
            complain(
                "at rest it holds " + std::to_string(descriptors_of(daemon_.pid()))
                + " descriptors, " + std::to_string(descriptors_at_rest) + " in the beginning\n");
        }
        if (daemon_.terminate() != 0) {
            complain("the daemon does not stop in order\n");
        }
    }

    const SoakOrder order_;
    const std::function<void(const std::string&)>& say_;
    Random random_;
    DaemonProcess daemon_;
    std::optional<LoopFileSystem> disk_;
    std::atomic<int> talking_ = 0;
    std::atomic<std::int64_t> events_ = 0;
    std::atomic<std::int64_t> sessions_ = 0;
    std::atomic<bool> enough_ = false;  // end your sessions
    std::atomic<bool> gone_ = false;    // give up
    std::atomic<bool> over_ = false;    // nobody talks any more
    std::mutex mutex_;
    SoakReport report_;
};

}  // namespace

SoakReport soak(const SoakOrder& order, const std::function<void(const std::string&)>& say) {
    return Soak(order, say).run();
}

}  // namespace relay::tests
