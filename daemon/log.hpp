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
// Under systemd each event is also a set of journal fields: MESSAGE has the line, AGENT_RELAY_EVENT the event, and
// AGENT_RELAY_<KEY> each field (`journalctl AGENT_RELAY_EVENT=ready`).
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

    // `fd` stays the caller's and must outlive the log. So does `journal`, a socket of open_journal() or -1: while that takes what is
    // said, nothing goes to `fd`, because journald keeps no order between the two.
    Log(int fd, Style style, int journal = -1) : fd_(fd), style_(style), journal_(journal) {}

    // Where journald takes fields one by one; -1 when it does not.
    [[nodiscard]] static int open_journal();

    // A terminal, the stream that $JOURNAL_STREAM ("device:inode") names, or anything else.
    [[nodiscard]] static Style style_of(int fd, const layout::Environment& environment);

    void info(std::string_view event, Fields fields = {}) const;
    void warn(std::string_view event, Fields fields = {}) const;
    void error(std::string_view event, Fields fields = {}) const;

private:
    void write_line(char priority, std::string_view event, Fields fields) const;
    [[nodiscard]] bool send_fields(
        char priority, std::string_view message, std::string_view event, Fields fields) const;

    int fd_;
    Style style_;
    int journal_;
};

}  // namespace relay::daemon
