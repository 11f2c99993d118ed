// SPDX-License-Identifier: Apache-2.0
#include "cli/run_commentary.hpp"

#include "cli/human_text.hpp"
#include "cli/moment_printer.hpp"
#include "cli/session_follower.hpp"

#include <sstream>

namespace relay::cli {

RunCommentary::RunCommentary(const Surroundings& surroundings)
    : surroundings_{
        surroundings.environment,
        surroundings.err,
        surroundings.err,
        surroundings.err_is_terminal,
        surroundings.err_is_terminal} {
}

void RunCommentary::tell(const std::string& members) {
    Moment moment = moment_of_event(members);
    const std::scoped_lock lock(mutex_);
    turn_ += moment.type == "turn.start" ? 1 : 0;
    moment.at = now();
    moment.turn = turn_;
    std::ostringstream text;
    MomentPrinter printer(text, {{look_at_screen(surroundings_), "", ""}, "", false, false});
    printer.show(moment);
    printer.finish();
    // The terminal may be the agent's at present, and then nobody returns the carriage for us.
    for (const char character : text.str()) {
        surroundings_.err << (character == '\n' && surroundings_.err_is_terminal ? "\r" : "")
                          << character;
    }
    surroundings_.err.flush();
}

}  // namespace relay::cli
