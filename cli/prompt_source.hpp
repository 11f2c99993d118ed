// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/run_options.hpp"
#include "cli/signal_mail.hpp"
#include "layout/result.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>

namespace relay::cli {

// What one turn is begun with.
struct TurnPrompt {
    std::optional<std::string> text;  // none: the agent as a person would start it
};

// The prompts of a `run`, one a turn. Lines of standard input are read when their turn comes, so that whoever writes
// them may look at one turn before the next. One thread.
class PromptSource {
public:
    PromptSource() = default;
    // These alone.
    explicit PromptSource(std::deque<TurnPrompt> known) : known_(std::move(known)) {}

    // Those that the arguments and standard input give; with `first`, that one and the prompts file. Errc::invalid when
    // there is none, or one is too long.
    [[nodiscard]] static layout::Result<PromptSource>
    open(const RunOptions& options, const std::optional<std::string>& first);

    // No more than so many altogether.
    void limit(std::int64_t turns) { left_ = turns; }

    // The next one, which is not taken. Null when there is none.
    [[nodiscard]] const TurnPrompt* front() const {
        return known_.empty() || left_ == 0 ? nullptr : &known_.front();
    }
    // True when nothing follows front(), as far as one can know.
    [[nodiscard]] bool is_last() const { return left_ <= 1 || (known_.size() == 1 && !reads_on_); }
    // The one behind front(); none when one had to wait to know.
    [[nodiscard]] std::optional<std::string> known_next() const {
        return known_.size() > 1 ? known_[1].text : std::nullopt;
    }
    // Goes on to the next one, and waits for it if need be; with every letter asks whether it should still.
    using KeepsWaiting = std::function<bool(const SignalMail::Letter& letter)>;
    // False when it should not. Errc::io, Errc::invalid: nothing more can be read.
    [[nodiscard]] layout::Result<bool>
    advance(const SignalMail& mail, const KeepsWaiting& keeps_waiting);
    // The prompt that only the limit keeps from its turn. Null when there is none, as far as one can know without
    // waiting.
    [[nodiscard]] const TurnPrompt* beyond_limit();

private:
    using AwaitInput = std::function<bool()>;
    // Until a line with something in it is known, or the input has ended. False when it was not waited for.
    [[nodiscard]] layout::Result<bool> read_line(const AwaitInput& await_input);

    std::deque<TurnPrompt> known_;
    std::int64_t left_ = std::numeric_limits<std::int64_t>::max();
    bool reads_on_ = false;  // lines of standard input follow
    std::string rest_;       // read of them, and not a whole line yet
};

}  // namespace relay::cli
