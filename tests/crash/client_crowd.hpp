// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/end_to_end/recording.hpp"
#include "tests/end_to_end/stubborn_client.hpp"
#include "tests/support/daemon_process.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace relay::tests {

// Stubborn clients of one daemon, each with a thread of its own. They talk from the beginning until
// finish(), through whatever happens to the daemon.
class ClientCrowd {
public:
    ClientCrowd(
        const DaemonProcess& daemon,
        int count,
        Random& random,
        Patience patience,
        std::chrono::milliseconds pause = {})
        : sessions_(daemon.state() + "/sessions/") {
        for (int name = 0; name < count; ++name) {
            clients_.push_back(std::make_unique<StubbornClient>(
                daemon.socket(),
                Script(new_ulid(), daemon.work(), name),
                random.next(),
                std::numeric_limits<std::int32_t>::max(),
                patience));
        }
        for (const auto& client : clients_) {
            client->set_pause(pause);
            threads_.emplace_back([this, &client] {
                while (!gone_ && client->well() && !client->done()) {
                    client->run_once(enough_, gone_);
                }
            });
        }
    }
    ClientCrowd(const ClientCrowd&) = delete;
    ClientCrowd& operator=(const ClientCrowd&) = delete;
    ~ClientCrowd() { join(); }

    // Lets each end its turn and its session; false when not all do in time. Then they are told to go:
    // kill the daemon before join() in that case.
    [[nodiscard]] bool finish(std::chrono::milliseconds limit = std::chrono::seconds(90)) {
        enough_ = true;
        const bool done = eventually(
            [this] {
                return std::all_of(clients_.begin(), clients_.end(), [](const auto& client) {
                    return client->done() || !client->well();
                });
            },
            limit);
        gone_ = true;
        return done;
    }

    void join() {
        gone_ = true;
        for (std::thread& thread : threads_) {
            thread.join();
        }
        threads_.clear();
    }

    [[nodiscard]] std::int64_t acked() const { return sum(&StubbornClient::acked); }
    [[nodiscard]] std::int64_t visible() const { return sum(&StubbornClient::visible); }

    [[nodiscard]] const std::vector<std::unique_ptr<StubbornClient>>& clients() const {
        return clients_;
    }
    [[nodiscard]] std::string session(const StubbornClient& client) const {
        return sessions_ + client.script().session();
    }

    // After finish() and join(): what was refused for good, and every file compared with what was said.
    [[nodiscard]] std::string complaints() const {
        std::string all;
        for (const auto& client : clients_) {
            if (!client->well() || !client->done()) {
                all += "not finished, acked " + std::to_string(client->acked()) + ": "
                       + client->failure() + "\n";
            }
            const std::string found = differences(
                session(*client),
                client->script(),
                client->done() ? client->recorded() : client->acked(),
                client->done() ? client->recorded() : client->sent(),
                Look::after_recovery);
            all += found.empty() ? "" : session(*client) + ":\n" + found;
        }
        return all;
    }

private:
    [[nodiscard]] std::int64_t sum(std::int64_t (StubbornClient::*count)() const) const {
        std::int64_t all = 0;
        for (const auto& client : clients_) {
            all += (client.get()->*count)();
        }
        return all;
    }

    std::string sessions_;
    std::vector<std::unique_ptr<StubbornClient>> clients_;
    std::vector<std::thread> threads_;
    std::atomic<bool> enough_ = false;
    std::atomic<bool> gone_ = false;
};

}  // namespace relay::tests
