// SPDX-License-Identifier: Apache-2.0

// Bytes of a client, in pieces of any size: the lines that reach the decoder do not depend on where the
// pieces end, and whatever a line holds is decoded or refused with a sentence.

#include "daemon/connection.hpp"
#include "layout/event.hpp"
#include "tests/fuzz/fuzz_input.hpp"

#include <boost/asio/io_context.hpp>

#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <variant>
#include <vector>

namespace relay::tests {
namespace {

constexpr std::size_t line_bytes_max = 2048;

struct Heard {
    std::vector<std::string> lines;
    bool too_long = false;
    bool operator==(const Heard&) const = default;
};

class Listener final : public daemon::Connection::Events {
public:
    explicit Listener(Heard& heard) : heard_(heard) {}

    void line_arrived(daemon::Connection&, std::string_view line) override {
        heard_.lines.emplace_back(line);
    }
    void line_too_long(daemon::Connection& connection) override {
        heard_.too_long = true;
        connection.close();
    }
    void flushed(daemon::Connection&) override {}
    void drained(daemon::Connection&) override {}
    void closed(daemon::Connection&) override {}

private:
    Heard& heard_;
};

Heard hear(FuzzInput cuts, std::string_view stream, bool in_pieces) {
    Heard heard;
    int ends[2];
    HOLDS(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    boost::asio::io_context io;
    daemon::SocketWatch watch(io);
    daemon::MemoryBudget budget;
    budget.set_bound(std::int64_t{1} << 20);
    Listener listener(heard);
    auto connection = std::make_shared<daemon::Connection>(
        io, watch, budget, ends[0], /*number=*/1, /*peer_pid=*/1, line_bytes_max, listener);
    connection->start();
    while (!stream.empty()) {
        const std::size_t wanted = in_pieces ? 1 + cuts.byte() : std::size_t{16 * 1024};
        const std::string_view piece = stream.substr(0, wanted);
        const ssize_t sent = ::send(ends[1], piece.data(), piece.size(), MSG_NOSIGNAL);
        io.poll();
        if (sent <= 0) {
            break;  // it was closed for a line too long
        }
        stream.remove_prefix(static_cast<std::size_t>(sent));
    }
    ::close(ends[1]);
    io.poll();
    connection->close();
    io.restart();
    io.poll();
    HOLDS(!budget.exceeded());
    return heard;
}

void decode(const std::vector<std::string>& lines) {
    layout::EventDecoder decoder;
    for (const std::string& line : lines) {
        HOLDS(line.size() <= line_bytes_max);
        HOLDS(line.find('\n') == std::string::npos);
        const auto decoded = decoder.decode(line);
        if (const auto* const refusal = std::get_if<layout::Refusal>(&decoded)) {
            HOLDS(!refusal->message.empty());
        }
    }
}

}  // namespace
}  // namespace relay::tests

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace relay::tests;
    FuzzInput input(data, size);
    const std::string_view cuts = input.bytes(input.byte() % 32);
    const FuzzInput pieces(reinterpret_cast<const std::uint8_t*>(cuts.data()), cuts.size());
    const Heard whole = hear(pieces, input.rest(), /*in_pieces=*/false);
    HOLDS(hear(pieces, input.rest(), /*in_pieces=*/true) == whole);
    decode(whole.lines);
    return 0;
}
