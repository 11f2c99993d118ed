// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/wire_client.hpp"

#include <cstdint>
#include <map>
#include <string>

namespace relay::tests {

// What a client says, as a function of its name and the seq alone, so that it can be said again after any
// crash and compared with the files in the end. Seq 1 starts the session; then come turns of twelve
// events, and at last the session ends or, when the name is odd, is checkpointed.
class Script {
public:
    static constexpr std::int64_t events_a_turn = 12;

    Script(std::string session, std::string cwd, int name)
        : session_(std::move(session)), cwd_(std::move(cwd)), name_(name) {}

    [[nodiscard]] Json line(std::int64_t seq) const;
    [[nodiscard]] Json last_line(std::int64_t seq) const;  // in the place of a turn's start
    [[nodiscard]] std::string text(std::int64_t seq) const;

    [[nodiscard]] static bool is_turn_end(std::int64_t seq) {
        return seq > 1 && (seq - 2) % events_a_turn == events_a_turn - 1;
    }

    // Every file that bytes of the events up to `seq` go to: its name below the session's directory, and
    // those bytes. Seals are there with no content: they are the daemon's words.
    [[nodiscard]] std::map<std::string, std::string> files(std::int64_t seq) const;

    [[nodiscard]] const std::string& session() const { return session_; }

private:
    std::string session_;
    std::string cwd_;
    int name_;
};

enum class Look {
    after_recovery,  // a daemon has made the files good
    as_they_lie,  // nobody has: temporary files and a torn last line of the timeline are in order
};

// Whether the session's files hold everything up to `acked` and nothing beyond `sent`, whole documents,
// no other file and, when its turns are all sealed, the right hashes. One finding a line; "" when all is well.
[[nodiscard]] std::string differences(
    const std::string& directory,
    const Script& script,
    std::int64_t acked,
    std::int64_t sent,
    Look look);

}  // namespace relay::tests
