// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daemon/memory_budget.hpp"
#include "daemon/socket_watch.hpp"
#include "recorder/unique_fd.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace boost::asio {
class io_context;
}  // namespace boost::asio

namespace relay::daemon {

// One client's socket: cuts what it sends into lines and sends it ours. Belongs to the io thread. Kept
// alive by the operations it has under way and by whoever holds a pointer; close() ends the former.
//
// Memory: between two reads it holds at most one unfinished line (line_bytes_max) and what was read
// behind a line that asked for a pause; what the client does not read of our answers pauses the reading.
// All of it is counted in the budget, and a client that is done with it costs none.
class Connection : public SocketWatch::Listener, public std::enable_shared_from_this<Connection> {
public:
    // What the connection's owner hears. All of it may be called from start() and resume() on.
    class Events {
    public:
        Events() = default;
        virtual ~Events() = default;
        Events(const Events&) = delete;
        Events& operator=(const Events&) = delete;

        virtual void line_arrived(Connection& connection, std::string_view line) = 0;
        virtual void line_too_long(Connection& connection) = 0;
        // What was queued has been taken by the client; there is room for more.
        virtual void flushed(Connection& connection) = 0;
        // Everything that the kernel held of a peer that will send no more has been delivered.
        virtual void drained(Connection& connection) = 0;
        // The last call. Every line that had arrived was delivered before.
        virtual void closed(Connection& connection) = 0;
    };

    // Takes over `fd`, a connected stream socket. `watch`, `budget` and `events` outlive the connection while
    // it is open.
    Connection(
        boost::asio::io_context& io,
        SocketWatch& watch,
        MemoryBudget& budget,
        int fd,
        std::uint64_t number,
        std::int64_t peer_pid,
        std::size_t line_bytes_max,
        Events& events);
    ~Connection() override;
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    void start();
    void socket_ready(std::uint32_t events) override;

    // Queues text for the client; flush() sends what is queued. Several lines, one system call.
    [[nodiscard]] std::string& outgoing() { return outgoing_; }
    void flush();
    [[nodiscard]] std::size_t unsent_bytes() const { return outgoing_.size() - sent_; }
    // Since when the client has taken nothing although there was something.
    [[nodiscard]] std::chrono::steady_clock::time_point blocked_since() const {
        return blocked_since_;
    }

    // Stops delivering lines until resume() was called as often. Lines already read wait.
    void pause();
    void resume();

    // The peer is dead: deliver what it left behind, then tell `drained`.
    void drain();

    void close();
    // Sends what is queued, then closes; reads nothing more. A client that does not take it in a while is
    // closed all the same.
    void close_after_flush();
    [[nodiscard]] bool is_open() const { return open_; }

    [[nodiscard]] std::uint64_t number() const { return number_; }
    [[nodiscard]] std::int64_t peer_pid() const { return peer_pid_; }

    // The account of unanswered bytes, kept by the owner of the connection.
    std::int64_t inflight_bytes = 0;
    bool over_budget = false;    // paused because of it
    std::int64_t bad_lines = 0;  // in a row

private:
    struct LastCall;

    [[nodiscard]] bool may_read() const;
    void watch_for(std::uint32_t events);
    void wait_readable();
    void wait_writable();
    void read_some();
    void take(std::string_view bytes);
    [[nodiscard]] std::size_t deliver_lines(std::string_view bytes);
    void deliver_held();
    void check_drained();
    void finish();
    void watch_outgoing();
    void account();

    boost::asio::io_context& io_;
    SocketWatch& watch_;
    MemoryBudget& budget_;
    recorder::UniqueFd fd_;
    std::uint32_t watched_ = 0;  // for these events of epoll(7)
    std::unique_ptr<LastCall> last_call_;
    const std::uint64_t number_;
    const std::int64_t peer_pid_;
    const std::size_t line_bytes_max_;
    Events& events_;
    std::string held_;         // the beginning of a line, or lines that wait for resume()
    std::size_t scanned_ = 0;  // of held_: no newline before here
    std::string outgoing_;
    std::size_t sent_ = 0;
    std::size_t accounted_ = 0;  // of held_ and outgoing_, in the budget
    std::chrono::steady_clock::time_point blocked_since_;
    int pauses_ = 0;
    bool open_ = true;
    bool writing_ = false;  // until the client takes more
    bool delivering_ = false;
    bool resuming_ = false;  // soon; what is held comes first
    bool ended_ = false;     // the peer will send no more
    bool draining_ = false;
    bool closing_ = false;  // after the flush
    bool output_paused_ = false;
};

}  // namespace relay::daemon
