// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

// The flags of a command, read from its help: what people are told is what shells complete and manual pages list.

namespace relay::cli {

struct HelpFlag {
    std::string name;     // "--since", "-n"
    std::string value;    // "TIME", "auto|repo|user"; empty: it takes none
    std::string meaning;  // as the help says it; may be empty
};

// Those that the help of a command describes, names in its usage, or takes over from another command ("the flags of
// agent-relay list: --status, …", "those of run"); each once, in the order of the help. Examples are passed over, and
// so are the flags of every command.
[[nodiscard]] std::vector<HelpFlag> flags_in_help(std::string_view command);

// Those of every command.
[[nodiscard]] std::vector<HelpFlag> global_flags();

// Whether the usage of a command names `word` ("session", "agent") as something to be said without a flag.
[[nodiscard]] bool usage_names(std::string_view command, std::string_view word);

}  // namespace relay::cli
