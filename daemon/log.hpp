// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/store.hpp"

#include <initializer_list>
#include <string>
#include <string_view>

namespace relay::daemon {

// What the daemon says about itself: one line an event, each handed to the kernel in a single write(2),
// so that lines of several threads or processes never mix.
//
//     <6>2026-11-16T11:38:00.123Z ready socket=/run/user/1000/agent-relay/relay.sock sessions=3
//
// Safe to use from every thread. Never blocks on a lock and never fails: a line that cannot be written
// is lost, because there is nobody left to tell. Never hand it what a user or an agent wrote: system logs
// are read by more people than sessions are.
class Log {
public:
    enum class Style {
        file,      // "<6>" and the time
        terminal,  // the time only
        journal,   // "<6>" only: journald keeps the time itself
    };

    // Values may hold anything; what a line cannot carry is escaped, what is long is cut.
    struct Field {
        std::string_view key;
        std::string_view value;
    };
    using Fields = std::initializer_list<Field>;

    // `fd` stays the caller's and must outlive the log.
    Log(int fd, Style style) : fd_(fd), style_(style) {}

    // A terminal, the stream that $JOURNAL_STREAM ("device:inode") names, or anything else.
    [[nodiscard]] static Style style_of(int fd, const layout::Environment& environment);

    void info(std::string_view event, Fields fields = {}) const;
    void warn(std::string_view event, Fields fields = {}) const;
    void error(std::string_view event, Fields fields = {}) const;

private:
    void write_line(char priority, std::string_view event, Fields fields) const;

    int fd_;
    Style style_;
};

}  // namespace relay::daemon
