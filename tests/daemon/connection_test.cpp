// SPDX-License-Identifier: Apache-2.0
#include "daemon/connection.hpp"

#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>

#include <sys/socket.h>

#include <array>
#include <string>
#include <vector>

using relay::daemon::Connection;
using relay::daemon::MemoryBudget;
using relay::daemon::SocketWatch;

namespace {

// A connection and its client, driven by hand. After the line "wait" it pauses.
class Pair : public Connection::Events {
public:
    Pair() {
        budget.set_bound(bound);
        std::array<int, 2> ends{};
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
        client = relay::recorder::UniqueFd(ends[1]);
        connection =
            std::make_shared<Connection>(io, watch, budget, ends[0], 1, 1, line_max, *this);
        connection->start();
    }
    ~Pair() override {
        connection->close();
        turn();
    }
    Pair(const Pair&) = delete;
    Pair& operator=(const Pair&) = delete;

    void send(const std::string& bytes) {
        REQUIRE(
            ::send(client.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL)
            == static_cast<ssize_t>(bytes.size()));
        turn();
    }
    void turn() {
        io.restart();
        while (io.poll() > 0) {
        }
    }
    // How much of the budget the connection takes.
    [[nodiscard]] std::int64_t held() const {
        return bound - static_cast<std::int64_t>(budget.read_bytes(bound));
    }

    void line_arrived(Connection& from, std::string_view line) override {
        lines.emplace_back(line);
        if (line == "wait") {
            from.pause();
        }
    }
    void line_too_long(Connection& from) override { from.close(); }
    void flushed(Connection&) override {}
    void drained(Connection&) override { lines.emplace_back("(drained)"); }
    void closed(Connection&) override {}

    static constexpr std::int64_t bound = 1 << 20;
    static constexpr std::size_t line_max = 64 << 10;
    static constexpr std::int64_t next_to_nothing = 100;

    boost::asio::io_context io;
    SocketWatch watch{io};
    MemoryBudget budget;
    relay::recorder::UniqueFd client;
    std::shared_ptr<Connection> connection;
    std::vector<std::string> lines;
};

TEST_CASE("what waits behind a pause is counted and delivered in order and then costs nothing") {
    Pair pair;
    const std::string word(9'999, 'x');
    std::string rest;
    for (int line = 0; line < 10; ++line) {
        rest += word + "\n";
    }
    pair.send("wait\n" + rest);
    CHECK(pair.lines.size() == 1);
    CHECK(pair.held() >= 100'000);
    pair.connection->resume();
    pair.turn();
    REQUIRE(pair.lines.size() == 11);
    CHECK(pair.lines.back() == word);
    CHECK(pair.held() < pair.next_to_nothing);
}

TEST_CASE(
    "a line that comes in pieces is counted while it grows and costs nothing once it is whole") {
    Pair pair;
    pair.send(std::string(30'000, 'a'));
    CHECK(pair.held() >= 30'000);
    pair.send(std::string(30'000, 'b') + "\nshort");
    REQUIRE(pair.lines.size() == 1);
    CHECK(pair.lines[0] == std::string(30'000, 'a') + std::string(30'000, 'b'));
    CHECK(pair.held() < pair.next_to_nothing);
}

TEST_CASE("answers that the client does not read are counted until it has read them") {
    Pair pair;
    pair.connection->outgoing().append(500'000, 'o');
    pair.connection->flush();
    CHECK(pair.held() >= 200'000);
    std::vector<char> buffer(500'000);
    std::size_t got = 0;
    while (got < buffer.size()) {
        const ssize_t count =
            ::recv(pair.client.get(), buffer.data(), buffer.size() - got, MSG_DONTWAIT);
        REQUIRE(count > 0);
        got += static_cast<std::size_t>(count);
        pair.turn();
    }
    CHECK(pair.held() < pair.next_to_nothing);
}

TEST_CASE("a dead client is drained when what waits behind a pause is delivered and not before") {
    Pair pair;
    pair.send("wait\nlast\n");
    pair.connection->resume();
    pair.connection->drain();
    pair.turn();
    CHECK(pair.lines == std::vector<std::string>{"wait", "last", "(drained)"});
}

TEST_CASE("a closed connection holds nothing whatever closed it") {
    Pair pair;
    pair.send("wait\n" + std::string(50'000, 'x'));
    CHECK(pair.held() >= 50'000);
    SUBCASE("by the other side's hand") {
        pair.connection->close();
    }
    SUBCASE("for a line that is too long") {
        pair.connection->resume();
        pair.turn();
        pair.send(std::string(50'000, 'x'));
    }
    CHECK_FALSE(pair.connection->is_open());
    CHECK(pair.held() == 0);
}

}  // namespace
