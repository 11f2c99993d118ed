// SPDX-License-Identifier: Apache-2.0
#include "cli/consent.hpp"

#include "cli/terminal_text.hpp"

#include <unistd.h>

#include <iostream>
#include <ostream>

namespace relay::cli {

Consent ask_consent(const std::string& question, const Surroundings& surroundings) {
    if (::isatty(STDIN_FILENO) != 1 || !surroundings.err_is_terminal) {
        return Consent::nobody_to_ask;
    }
    surroundings.err << harmless(question) << " [y/N] " << std::flush;
    std::string answer;
    std::getline(std::cin, answer);
    return answer == "y" || answer == "Y" || answer == "yes" || answer == "Yes" ? Consent::given
                                                                                : Consent::refused;
}

}  // namespace relay::cli
