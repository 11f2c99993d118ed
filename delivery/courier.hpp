// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "delivery/client.hpp"
#include "delivery/outbox.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace relay::delivery {

// Carries the events of an outbox to the daemon: many on their way at a time, each acknowledged, none lost and
// none twice, whatever happens to the daemon. After a lost connection it attaches again, asks which
// event was the last one recorded, and goes on behind it. A turn that the daemon sealed meanwhile, because it
// took the agent for dead, is continued as a new turn with a note of kind `continued`. So is one that somebody else has
// cut by a checkpoint; the session is then checkpointed again, for the same reason, instead of ended.
class Courier {
public:
    // A session that begins now, or what another process left behind.
    enum class Origin { own, left_behind };

    // A connection to a daemon that is started when nobody listens. Gives up when `cancelled` says so.
    using Starter = std::function<layout::Result<Client>(const std::function<bool()>& cancelled)>;

    // `outbox` outlives this object. `pid` owns the session: when it dies without a word, the daemon seals
    // the session. Without a `starter` it is waited for, as long as the caller wants.
    Courier(
        Outbox& outbox, std::string socket, std::int64_t pid, Origin origin, Starter starter = {});
    Courier(const Courier&) = delete;
    Courier& operator=(const Courier&) = delete;
    ~Courier();

    // Carries on a thread of its own, which takes no signals, until it is told to stop.
    void start();
    // After the last event: waits until all is acknowledged, as long as some progress is made within
    // `patience`, and then ends the thread. True when all was.
    [[nodiscard]] bool finish(std::chrono::milliseconds patience, std::chrono::milliseconds most);

    // Carries what is there on this thread, without start(), likewise. True when all was acknowledged.
    [[nodiscard]] bool deliver(std::chrono::milliseconds patience, std::chrono::milliseconds most);
    // After deliver(): somebody listened.
    [[nodiscard]] bool reached() const { return reached_; }

    // The last reason why the daemon could not be reached or refused the session; empty when all is well.
    // After finish() or deliver().
    [[nodiscard]] const std::string& trouble() const { return trouble_; }
    // The daemon will never take the session: it was deleted, or its start was refused.
    [[nodiscard]] bool hopeless() const { return hopeless_; }

private:
    using Time = std::chrono::steady_clock::time_point;
    struct Refused {
        std::int64_t seq = 0;
        std::string code;
        std::string message;
    };

    void work();
    [[nodiscard]] bool step();
    [[nodiscard]] bool connect();
    [[nodiscard]] bool synchronise();
    [[nodiscard]] bool go_on_behind(std::int64_t last_seq, bool turn_is_open);
    void react(const Refused& refused);
    [[nodiscard]] bool makes_way();
    void be_owner(PendingEvent& start) const;
    void fill();
    [[nodiscard]] bool exchange();
    [[nodiscard]] bool receive();
    void read_answer(std::string_view line);
    void disconnect();
    void back_off();
    void give_up(const std::string& why);
    void note_cut(const std::string& reason);
    void stop();
    [[nodiscard]] layout::Result<std::string> ask(const std::string& type, const std::string& more);

    Outbox& outbox_;
    const std::string socket_;
    const std::int64_t pid_;
    const Origin origin_;
    const Starter starter_;
    std::thread thread_;
    std::atomic<bool> stop_{false};
    std::mutex mutex_;
    std::condition_variable end_;
    bool ended_ = false;  // the thread has nothing left to do, or was stopped; under mutex_
    int asked_ = -1;      // descriptor of an ask() on its way, which stop() ends; under mutex_
    std::atomic<bool> last_event_is_in_{false};
    std::optional<Client> client_;
    std::string outgoing_;
    std::size_t sent_bytes_ = 0;  // of outgoing_
    std::string incoming_;
    std::size_t in_flight_bytes_ = 0;
    std::deque<std::size_t> in_flight_;  // bytes of each event on its way
    std::optional<Refused> refused_;
    // Why somebody else has checkpointed our session while its agent ran; empty: nobody did.
    std::string cut_reason_;
    bool careful_ = false;          // one event at a time, because one of them is too large
    bool was_sent_;                 // something of the session may have reached a daemon before
    bool reached_ = false;          // at the last attempt to connect somebody listened
    std::optional<Time> deadline_;  // of deliver()
    int failed_starts_ = 0;
    std::chrono::milliseconds pause_{0};
    std::optional<Time> away_since_;
    std::optional<Time> pours_since_;  // the agent fills the spool file without a pause
    std::int64_t spooled_before_ = 0;
    std::string trouble_;
    bool hopeless_ = false;
};

}  // namespace relay::delivery
