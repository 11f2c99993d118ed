// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command_line.hpp"

#include <string>

namespace relay::cli {

enum class Consent { given, refused, nobody_to_ask };

// Asks on the terminal, with "[y/N]" behind the question, and waits for a line. Only a yes is one.
[[nodiscard]] Consent ask_consent(const std::string& question, const Surroundings& surroundings);

}  // namespace relay::cli
