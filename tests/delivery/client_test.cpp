// SPDX-License-Identifier: Apache-2.0
#include "delivery/client.hpp"
#include "tests/support/temporary_directory.hpp"

#include <doctest/doctest.h>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <thread>

using relay::delivery::Client;
using relay::layout::Errc;
using relay::tests::TemporaryDirectory;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds ample{10'000};

// Listens, and lets `serve` have the one connection it accepts, in a thread.
class OneShotServer {
public:
    explicit OneShotServer(std::function<void(int fd)> serve)
        : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        const std::string where = path();
        std::copy(where.begin(), where.end(), address.sun_path);
        REQUIRE(::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
        REQUIRE(::listen(fd_, 1) == 0);
        thread_ = std::thread([this, serve = std::move(serve)] {
            const int connection = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
            serve(connection);
            ::close(connection);
        });
    }
    OneShotServer(const OneShotServer&) = delete;
    OneShotServer& operator=(const OneShotServer&) = delete;
    ~OneShotServer() {
        thread_.join();
        ::close(fd_);
    }

    [[nodiscard]] std::string path() const { return directory_.path() + "/s"; }

private:
    TemporaryDirectory directory_;
    int fd_;
    std::thread thread_;
};

// Everything up to and with the next newline, or up to the end.
std::string receive_line(int fd) {
    std::string line;
    char byte = 0;
    while (line.find('\n') == std::string::npos && ::recv(fd, &byte, 1, 0) == 1) {
        line += byte;
    }
    return line;
}

void send_all(int fd, std::string_view text) {
    while (!text.empty()) {
        const ssize_t sent = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
        if (sent < 0) {
            return;
        }
        text.remove_prefix(static_cast<std::size_t>(sent));
    }
}

}  // namespace

TEST_CASE("the client passes over every line but the answer with its id") {
    std::string request;
    {
        const OneShotServer server([&request](int fd) {
            request = receive_line(fd);
            send_all(
                fd, "{\"type\":\"ack\",\"id\":6}\nnonsense\n{\"type\":\"turn.note\",\"id\":7}\n");
            send_all(fd, "{\"type\":\"ack\"}\n{\"type\":\"ack\",  \"id\":7,\"x\":");
            send_all(fd, "1}\n");
            receive_line(fd);  // until the client goes
        });
        auto client = Client::connect(server.path(), ample);
        REQUIRE(client.ok());
        const auto answer = client.value().ask("{\"id\":7}", "7", ample);
        REQUIRE(answer.ok());
        CHECK(answer.value() == "{\"type\":\"ack\",  \"id\":7,\"x\":1}");
    }
    CHECK(request == "{\"id\":7}\n");
}

TEST_CASE("an error without an id answers whatever was asked") {
    const OneShotServer server([](int fd) {
        receive_line(fd);
        send_all(fd, "{\"type\":\"error\",\"code\":\"bad_json\"}\n");
    });
    auto client = Client::connect(server.path(), ample);
    REQUIRE(client.ok());
    const auto answer = client.value().ask("{", "7", ample);
    REQUIRE(answer.ok());
    CHECK(answer.value() == "{\"type\":\"error\",\"code\":\"bad_json\"}");
}

TEST_CASE("a refusal is heard although the daemon hangs up while the line is still being sent") {
    const OneShotServer server([](int fd) {
        std::array<char, 1'000> some{};
        static_cast<void>(::recv(fd, some.data(), some.size(), 0));
        send_all(fd, "{\"type\":\"error\",\"code\":\"too_large\"}\n");
    });
    auto client = Client::connect(server.path(), ample);
    REQUIRE(client.ok());
    const auto answer = client.value().ask(std::string(8 << 20, 'x'), "7", ample);
    REQUIRE(answer.ok());
    CHECK(answer.value() == "{\"type\":\"error\",\"code\":\"too_large\"}");
}

TEST_CASE("a connection that ends or stays silent is told apart") {
    {
        const OneShotServer server([](int fd) { receive_line(fd); });
        auto client = Client::connect(server.path(), ample);
        REQUIRE(client.ok());
        CHECK(client.value().ask("{}", "7", ample).error().code == Errc::closed);
    }
    const OneShotServer server([](int fd) {
        receive_line(fd);
        receive_line(fd);  // until the client goes
    });
    auto client = Client::connect(server.path(), ample);
    REQUIRE(client.ok());
    CHECK(client.value().ask("{}", "7", milliseconds(1)).error().code == Errc::busy);
}

TEST_CASE("connecting where nobody listens says so and never waits") {
    const TemporaryDirectory directory;
    const auto missing = Client::connect(directory.path() + "/s", ample);
    REQUIRE_FALSE(missing.ok());
    CHECK(missing.error().code == Errc::not_found);
    const auto long_path = Client::connect("/" + std::string(107, 'x'), ample);
    REQUIRE_FALSE(long_path.ok());
    CHECK(long_path.error().code == Errc::invalid);
}

TEST_CASE("a full backlog ends the connecting by its timeout") {
    const TemporaryDirectory directory;
    const std::string path = directory.path() + "/s";
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::copy(path.begin(), path.end(), address.sun_path);
    REQUIRE(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(fd, 0) == 0);
    const auto first = Client::connect(path, ample);
    CHECK(first.ok());
    const auto second = Client::connect(path, milliseconds(1));
    REQUIRE_FALSE(second.ok());
    CHECK(second.error().code == Errc::busy);
    ::close(fd);
}
