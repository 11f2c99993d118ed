// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/line_talker.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

namespace relay::tests {

namespace {

bool is_ack(std::string_view line, std::int64_t id) {
    const std::string begin = R"({"type":"ack","id":)" + std::to_string(id);
    return line.starts_with(begin) && line.size() > begin.size()
           && (line[begin.size()] == ',' || line[begin.size()] == '}')
           && line.find(R"("deferred":true)") == std::string_view::npos;
}

}  // namespace

LineTalker::LineTalker(const std::string& socket_path) : fd_(connect_to(socket_path)) {
    if (fd_ < 0) {
        fail("no connection is accepted at " + socket_path);
    }
}

LineTalker::~LineTalker() {
    ::close(fd_);
}

void LineTalker::begin_line(bool awaited) {
    outgoing_ += '{';
    if (awaited) {
        outgoing_ += R"("id":)" + std::to_string(++id_) + ",";
    }
}

void LineTalker::use_session(std::string_view session) {
    for (const Step step : {Step::prompt, Step::chunk, Step::standard_error, Step::end}) {
        lines_[static_cast<std::size_t>(step)] = R"("type":")" + std::string(type_of(step))
                                                 + R"(","session":")" + std::string(session)
                                                 + R"(",)" + members_of(step) + "\n";
    }
}

void LineTalker::prepare(Step step, bool awaited) {
    begin_line(awaited);
    outgoing_ += lines_[static_cast<std::size_t>(step)];
    if (awaited) {
        awaited_.push_back({id_, step == Step::end});
    }
}

void LineTalker::flush() {
    // The socket's buffer holds many such lines and is drained meanwhile: a short count waits.
    for (std::string_view rest = outgoing_; !rest.empty();) {
        const ssize_t count = ::send(fd_, rest.data(), rest.size(), MSG_NOSIGNAL);
        if (count <= 0) {
            fail("an event is not taken");
        }
        rest.remove_prefix(static_cast<std::size_t>(count));
    }
    outgoing_.clear();
}

void LineTalker::receive_more() {
    std::array<char, 4096> buffer{};
    const ssize_t count = ::recv(fd_, buffer.data(), buffer.size(), 0);
    if (count <= 0) {
        fail("a connection was closed");
    }
    incoming_.append(buffer.data(), static_cast<std::size_t>(count));
}

std::size_t LineTalker::receive() {
    receive_more();
    std::size_t answers = 0;
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = incoming_.find('\n', begin)) != std::string::npos;) {
        const std::string_view line = std::string_view(incoming_).substr(begin, end - begin);
        if (awaited_.empty() || !is_ack(line, awaited_.front().id)) {
            fail("wrong answer: " + std::string(line));
        }
        ended_turns_ += awaited_.front().ends_turn ? 1 : 0;
        awaited_.pop_front();
        ++answers;
        begin = end + 1;
    }
    incoming_.erase(0, begin);
    return answers;
}

std::string LineTalker::ask(std::string_view rest) {
    begin_line(true);
    outgoing_.append(rest).append("\n");
    flush();
    std::size_t end = 0;
    while ((end = incoming_.find('\n')) == std::string::npos) {
        receive_more();
    }
    const std::string line = incoming_.substr(0, end);
    incoming_.erase(0, end + 1);
    if (!is_ack(line, id_)) {
        fail("wrong answer: " + line);
    }
    return line;
}

}  // namespace relay::tests
