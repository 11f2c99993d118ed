// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/fault_drill.hpp"

#include "tests/end_to_end/recording.hpp"
#include "tests/end_to_end/stubborn_client.hpp"
#include "tests/support/eventually.hpp"

#include <relay_built_here.hpp>

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <sstream>
#include <thread>

namespace relay::tests {

namespace {

constexpr int clients_count = 2;
constexpr std::int64_t turns = 2;
constexpr std::int64_t acked_before_recovery = 7;  // in the middle of the first turn
constexpr std::chrono::milliseconds sick_for{300};
constexpr std::chrono::milliseconds resume_limit = std::chrono::seconds(90);

DaemonSetup drill_setup() {
    DaemonSetup setup;
    // Segments so small that the scene runs through several; nobody is given up while a machine is slow.
    setup.flags = {
        "--set",
        "journal.segment_bytes=256KiB",
        "--set",
        "daemon.max_event_bytes=128KiB",
        "--checkpoint-interval",
        "20ms",
        "--orphan-grace",
        "10min"};
    return setup;
}

class Drill {
public:
    explicit Drill(const FaultPoint& point)
        : point_(point),
          ends_(point.kind == "kill" || point.kind == "tear"),
          daemon_(drill_setup()) {
        for (int name = 0; name < clients_count; ++name) {
            clients_.push_back(std::make_unique<StubbornClient>(
                daemon_.socket(),
                Script(new_ulid(), daemon_.work(), name),
                /*seed=*/static_cast<std::uint64_t>(name),
                turns,
                ends_ || point.kind == "count" ? Patience::crashes : Patience::faults));
        }
    }

    FaultOutcome run() {
        if (point_.scene == "recovery") {
            leave_a_journal();
        }
        if (outcome_.complaints.empty()) {
            live_through_the_fault();
        }
        read_report();
        if (outcome_.complaints.empty()) {
            recover_and_finish();
        }
        if (!outcome_.complaints.empty()) {
            outcome_.complaints += daemon_.log();
        }
        return outcome_;
    }

private:
    void complain(const std::string& what) {
        outcome_.complaints += what;
        outcome_.complaints += what.ends_with('\n') ? "" : "\n";
    }

    void start_clients() {
        gone_ = false;
        for (const auto& client : clients_) {
            threads_.emplace_back([this, &client] {
                do {
                    client->run_once(enough_, gone_);
                } while (!gone_ && client->well() && !client->done());
            });
        }
    }

    // After the daemon's end, or when all is said.
    void join_clients() {
        gone_ = true;
        for (std::thread& thread : threads_) {
            thread.join();
        }
        threads_.clear();
        for (const auto& client : clients_) {
            if (!client->well()) {
                complain(client->failure());
            }
        }
    }

    [[nodiscard]] bool all_done() const {
        return std::all_of(clients_.begin(), clients_.end(), [](const auto& client) {
            return client->done() || !client->well();
        });
    }

    void leave_a_journal() {
        // Checkpoints would leave nothing to recover.
        daemon_.flags().insert(daemon_.flags().end(), {"--checkpoint-interval", "1h"});
        if (!daemon_.start()) {
            complain("the daemon does not start");
            return;
        }
        start_clients();
        const bool far_enough = eventually([this] {
            return std::all_of(clients_.begin(), clients_.end(), [](const auto& client) {
                return client->acked() >= acked_before_recovery;
            });
        });
        daemon_.kill();
        join_clients();
        daemon_.flags().resize(daemon_.flags().size() - 2);
        if (!far_enough) {
            complain("the clients do not get on before the fault");
        }
    }

    [[nodiscard]] std::vector<std::string> launcher() const {
        std::vector<std::string> words{RELAY_FAULT_LAUNCHER, "--report", report()};
        words.insert(
            words.end(),
            {"--under",
             point_.part.empty() ? daemon_.root() : daemon_.state() + "/" + point_.part});
        if (point_.kind != "count") {
            const bool error = point_.kind.starts_with('E');
            words.push_back(error ? "--error" : "--" + point_.kind);
            if (error) {
                words.push_back(point_.kind);
            }
            words.push_back(std::to_string(point_.call));
            if (point_.ever) {
                words.emplace_back("--ever");
            }
        }
        words.emplace_back("--");
        return words;
    }

    void live_through_the_fault() {
        daemon_.launcher() = launcher();
        const std::size_t said = daemon_.log().size();
        daemon_.spawn();
        start_clients();
        // The clients may have come to their end before the fault: a launcher that has not begun knows no signal yet.
        const auto is_ready = [this, said] {
            return daemon_.log().find(" ready ", said) != std::string::npos;
        };
        const auto over = [this, &is_ready] {
            return !daemon_.running() || (all_done() && is_ready());
        };
        bool ended = eventually(over, sick_for);
        if (!ended) {
            daemon_.signal(SIGUSR1);
            ended = eventually(over, resume_limit);
        }
        if (!ended) {
            complain("recording does not go on by itself");
            daemon_.signal(SIGINT);
        } else if (daemon_.running()) {
            daemon_.signal(SIGTERM);
            // A call that is interrupted for ever would be made again for ever: it heals in the stop, too.
            if (!eventually([this] { return !daemon_.running(); }, sick_for)) {
                daemon_.signal(SIGUSR1);
            }
        }
        const int status = daemon_.wait();
        join_clients();
        daemon_.launcher().clear();
        if (!ended) {
            for (const auto& client : clients_) {
                complain("acked " + std::to_string(client->acked()) + "; " + client->failure());
            }
        }
        // An error may keep a daemon from starting or from an orderly stop, but it ends with a sentence.
        const bool expected =
            ends_ ? status == 128 + SIGKILL || status == 0 : status >= 0 && status < 128;
        if (ended && !expected) {
            complain("the daemon ended with status " + std::to_string(status));
        }
        for (const auto& client : clients_) {
            compare(*client, client->visible(), client->sent(), Look::as_they_lie);
        }
    }

    void recover_and_finish() {
        if (!daemon_.start()) {
            complain("the daemon does not start after the fault");
            return;
        }
        start_clients();
        if (!eventually([this] { return all_done(); }, resume_limit)) {
            complain("the clients do not get to their end after the fault");
            daemon_.kill();
            join_clients();
            return;
        }
        join_clients();
        if (const int status = daemon_.terminate(); status != 0) {
            complain("the daemon stops with status " + std::to_string(status));
        }
        for (const auto& client : clients_) {
            compare(*client, client->recorded(), client->recorded(), Look::after_recovery);
        }
        for (const std::string& name : tree_of(daemon_.state() + "/journal")) {
            if (name.find("damaged") != std::string::npos) {
                complain("the journal was taken for damaged: " + name);
            }
        }
    }

    void compare(const StubbornClient& client, std::int64_t acked, std::int64_t sent, Look look) {
        const std::string directory = daemon_.state() + "/sessions/" + client.script().session();
        const std::string found = differences(directory, client.script(), acked, sent, look);
        if (!found.empty()) {
            complain(
                directory + (look == Look::as_they_lie ? ", as it lies" : ", at the end")
                + " (acked " + std::to_string(client.acked()) + ", sent "
                + std::to_string(client.sent()) + "):\n" + found);
        }
    }

    [[nodiscard]] std::string report() const { return daemon_.root() + "/fault"; }

    void read_report() {
        std::istringstream words(read_text(report()));
        for (std::string word; words >> word;) {
            if (word == "calls") {
                words >> outcome_.calls;
            } else if (word == "hit") {
                words >> word;
                std::getline(words >> std::ws, outcome_.hit);
            }
        }
        if (outcome_.complaints.empty() && outcome_.calls == 0) {
            complain("the launcher left no report");
        }
    }

    FaultPoint point_;
    bool ends_;  // the fault ends the daemon
    DaemonProcess daemon_;
    std::vector<std::unique_ptr<StubbornClient>> clients_;
    std::vector<std::thread> threads_;
    std::atomic<bool> enough_ = false;
    std::atomic<bool> gone_ = false;
    FaultOutcome outcome_;
};

}  // namespace

std::string FaultPoint::flags() const {
    return "--scene " + scene + " --fault " + kind + (part.empty() ? "" : " --part " + part)
           + (ever ? " --ever" : "") + " --call " + std::to_string(call);
}

FaultOutcome play(const FaultPoint& point) {
    return Drill(point).run();
}

}  // namespace relay::tests
