// SPDX-License-Identifier: Apache-2.0

// Redis Streams: one stream a session, XADD an event.

#include "tests/bench/contender.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <deque>
#include <string_view>

namespace relay::tests {

namespace {

void add_word(std::string& out, std::string_view word) {
    out += '$' + std::to_string(word.size()) + "\r\n";
    out.append(word).append("\r\n");
}

class RedisTalker final : public Talker {
public:
    RedisTalker(const std::string& socket, int number) : fd_(connect_to(socket)) {
        if (fd_ < 0) {
            fail("redis-server takes no connection");
        }
        const std::string stream = "relay:client-" + std::to_string(number);
        for (const Step step : {Step::prompt, Step::chunk, Step::standard_error, Step::end}) {
            std::string& command = commands_[static_cast<std::size_t>(step)];
            command = "*7\r\n";
            const std::string members = members_of(step);
            for (const std::string_view word :
                 {std::string_view("XADD"),
                  std::string_view(stream),
                  std::string_view("*"),
                  std::string_view("type"),
                  type_of(step),
                  std::string_view("data"),
                  std::string_view(members)}) {
                add_word(command, word);
            }
        }
    }
    ~RedisTalker() override { ::close(fd_); }

    void prepare(Step step, bool awaited) override {
        outgoing_ += commands_[static_cast<std::size_t>(step)];
        awaited_.push_back(awaited);
    }

    void flush() override {
        for (std::string_view rest = outgoing_; !rest.empty();) {
            const ssize_t count = ::send(fd_, rest.data(), rest.size(), MSG_NOSIGNAL);
            if (count <= 0) {
                fail("redis-server does not take an event");
            }
            rest.remove_prefix(static_cast<std::size_t>(count));
        }
        outgoing_.clear();
    }

    // Each answer is `$<length>\r\n<stream id>\r\n`: two lines.
    std::size_t receive() override {
        std::array<char, 4096> buffer{};
        const ssize_t count = ::recv(fd_, buffer.data(), buffer.size(), 0);
        if (count <= 0) {
            fail("redis-server closed a connection");
        }
        std::size_t answers = 0;
        for (const char byte : std::string_view(buffer.data(), static_cast<std::size_t>(count))) {
            if (at_begin_ && !second_line_ && byte != '$') {
                fail("redis-server refuses an event");
            }
            at_begin_ = byte == '\n';
            if (byte != '\n') {
                continue;
            }
            if (second_line_) {
                answers += awaited_.front() ? 1U : 0U;
                awaited_.pop_front();
            }
            second_line_ = !second_line_;
        }
        return answers;
    }

    int descriptor() const override { return fd_; }

private:
    int fd_;
    std::array<std::string, 4> commands_;  // by Step
    std::string outgoing_;
    std::deque<bool> awaited_;
    bool at_begin_ = true;
    bool second_line_ = false;
};

ServerStart redis_start(const ContenderSetup& setup, const std::string& program) {
    ServerStart start;
    start.socket = setup.directory + "/s";
    start.log = setup.directory + "/log";
    start.command = {
        program,
        "--port",
        "0",
        "--unixsocket",
        start.socket,
        "--dir",
        setup.directory,
        "--save",
        "",
        "--appendonly",
        "yes",
        "--appendfsync",
        setup.name == "redis-always" ? "always" : "everysec",
        "--loglevel",
        "warning"};
    start.environment = counted_environment(setup);
    return start;
}

class Redis final : public Contender {
public:
    Redis(const ContenderSetup& setup, const std::string& program)
        : socket_(setup.directory + "/s"), server_(redis_start(setup, program)) {}
    std::unique_ptr<Talker> connect(int number) override {
        return std::make_unique<RedisTalker>(socket_, number);
    }
    ServerProcess& server() override { return server_; }

private:
    std::string socket_;
    ServerProcess server_;
};

}  // namespace

std::unique_ptr<Contender> make_redis(const ContenderSetup& setup) {
    const std::string program =
        find_program({"/usr/bin/redis-server", "/usr/local/bin/redis-server"});
    return program.empty() ? nullptr : std::make_unique<Redis>(setup, program);
}

}  // namespace relay::tests
