// SPDX-License-Identifier: Apache-2.0
#include "cli/prompt_source.hpp"

#include "layout/session_reader.hpp"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <system_error>
#include <utility>

namespace relay::cli {

namespace {

using layout::Errc;
using layout::Error;
using layout::Result;

constexpr std::int64_t prompt_bytes_max = 8 << 20;

Error too_long(const std::string& what) {
    return Error{Errc::invalid, 0, what + " is longer than 8 MiB"};
}

// At most a buffer of standard input, behind `text`. False at its end.
Result<bool> read_some(std::string& text) {
    std::array<char, 65536> buffer{};
    ssize_t got = -1;
    do {
        got = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
        return Error{
            Errc::io, errno, "read standard input: " + std::system_category().message(errno)};
    }
    text.append(buffer.data(), static_cast<std::size_t>(got));
    return got > 0;
}

Result<std::string> read_all() {
    std::string text;
    while (static_cast<std::int64_t>(text.size()) <= prompt_bytes_max) {
        const Result<bool> more = read_some(text);
        if (!more.ok()) {
            return more.error();
        }
        if (!more.value()) {
            return text;
        }
    }
    return too_long("the prompt from standard input");
}

std::deque<TurnPrompt> lines_of(std::string_view text) {
    std::deque<TurnPrompt> lines;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        if (end > 0) {
            lines.push_back({std::string(text.substr(0, end))});
        }
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return lines;
}

// True when there is something to read, or an end.
bool await_input(const SignalMail& mail, const PromptSource::KeepsWaiting& keeps_waiting) {
    while (true) {
        std::array<pollfd, 2> wait{
            pollfd{STDIN_FILENO, POLLIN, 0}, pollfd{mail.descriptor(), POLLIN, 0}};
        ::poll(wait.data(), wait.size(), -1);
        while (const std::optional<SignalMail::Letter> letter = mail.read()) {
            if (!keeps_waiting(*letter)) {
                return false;
            }
        }
        if (wait[0].revents != 0) {
            return true;
        }
    }
}

}  // namespace

Result<PromptSource>
PromptSource::open(const RunOptions& options, const std::optional<std::string>& first) {
    PromptSource source;
    const std::string& file = options.prompts_file;
    if (first) {
        source.known_.push_back({first});
    } else if (file.empty()) {
        source.known_.push_back({options.prompt});
        if (!options.prompt && ::isatty(STDIN_FILENO) != 1) {
            Result<std::string> text = read_all();
            if (!text.ok()) {
                return text.error();
            }
            if (!text.value().empty()) {
                source.known_.back().text = std::move(text.value());
            }
        }
    }
    source.reads_on_ = file == "-";
    if (source.reads_on_) {
        const Result<bool> read = source.read_line([] { return true; });
        if (!read.ok()) {
            return read.error();
        }
    } else if (!file.empty()) {
        const Result<std::string> text = layout::read_file(file, prompt_bytes_max);
        if (!text.ok()) {
            return text.error();
        }
        for (TurnPrompt& line : lines_of(text.value())) {
            source.known_.push_back(std::move(line));
        }
    }
    if (source.known_.empty()) {
        return Error{Errc::invalid, 0, "\"" + file + "\" holds no prompt"};
    }
    return source;
}

Result<bool> PromptSource::read_line(const AwaitInput& await_input) {
    while (reads_on_ && known_.empty()) {
        if (!await_input()) {
            return false;
        }
        const Result<bool> more = read_some(rest_);
        reads_on_ = more.ok() && more.value();
        if (!more.ok()) {
            return more.error();
        }
        const std::size_t whole = reads_on_ ? rest_.rfind('\n') + 1 : rest_.size();
        known_ = lines_of(std::string_view(rest_).substr(0, whole));
        rest_.erase(0, whole);
        if (static_cast<std::int64_t>(rest_.size()) > prompt_bytes_max) {
            reads_on_ = false;
            return too_long("a prompt from standard input");
        }
    }
    return true;
}

Result<bool> PromptSource::advance(const SignalMail& mail, const KeepsWaiting& keeps_waiting) {
    known_.pop_front();
    --left_;
    return left_ == 0
               ? Result<bool>(true)
               : read_line([&mail, &keeps_waiting] { return await_input(mail, keeps_waiting); });
}

const TurnPrompt* PromptSource::beyond_limit() {
    if (left_ > 0) {
        return nullptr;
    }
    // What cannot be read is not there.
    static_cast<void>(read_line([] {
        pollfd wait{STDIN_FILENO, POLLIN, 0};
        return ::poll(&wait, 1, 0) > 0;
    }));
    return known_.empty() ? nullptr : &known_.front();
}

}  // namespace relay::cli
