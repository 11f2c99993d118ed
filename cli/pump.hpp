// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/descriptor.hpp"
#include "layout/result.hpp"

#include <signal.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace relay::cli {

struct Pipe {
    Descriptor read;
    Descriptor write;
};
// Larger than usual, for an agent that writes a lot; close-on-exec.
[[nodiscard]] layout::Result<Pipe> make_pipe();

// Hands bytes on from an agent to the user, and then to whoever listens. Reads until the end, or until nothing is left
// of a writer that is gone while somebody else still holds its pipe. One thread.
class Pump {
public:
    using Listener = std::function<void(std::string_view bytes)>;

    // `source` is non-blocking; it, the descriptor `target`, the event `agent_gone`, which becomes readable when the
    // agent has ended, and the listener, which may be empty, outlive this object. When the user's reader goes away, `source` is closed.
    Pump(Descriptor& source, int target, int agent_gone, const Listener& listener)
        : source_(source), target_(target), agent_gone_(agent_gone), listener_(listener) {}
    Pump(const Pump&) = delete;
    Pump& operator=(const Pump&) = delete;
    ~Pump() = default;

    // The source is the master of a terminal: it stays open whatever becomes of the user's side.
    void set_terminal(bool is_terminal) { is_terminal_ = is_terminal; }
    // At the end of the source the target is closed, too, so that its reader sees the end; its number stays taken.
    void set_closing(bool closes_target) { closes_target_ = closes_target; }

    void run();
    // Why the user's side took no more, when it is no reader that went away: the errno of a full disk, for example.
    // After run(). 0: it took all.
    [[nodiscard]] int refusal() const { return refusal_; }

    // When run() has returned before the end: a process of its own goes on handing the bytes to the user, so that whoever
    // holds the pipe can go on writing. `mask` is what it has blocked.
    void leave_forwarder(const sigset_t& mask) const;

private:
    enum class Progress { more, none, end };
    [[nodiscard]] Progress step();
    [[nodiscard]] Progress copy();
    [[nodiscard]] Progress move();
    [[nodiscard]] Progress move_unseen();
    [[nodiscard]] bool pass_on(std::string_view bytes);
    [[nodiscard]] bool move_on(std::size_t bytes);
    [[nodiscard]] bool lose_reader();

    Descriptor& source_;
    int target_;  // -1 when its reader is gone
    int agent_gone_;
    const Listener& listener_;
    bool is_terminal_ = false;
    bool closes_target_ = false;
    bool at_end_ = false;
    int refusal_ = 0;
    std::string buffer_;
    // Between two pipes bytes need not be copied: they are moved to the reader, and a second look at them through
    // this pipe is what is listened to.
    std::optional<Pipe> look_;
};

}  // namespace relay::cli
