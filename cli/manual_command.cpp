// SPDX-License-Identifier: Apache-2.0

// agent-relay __manual: the commands and their flags as mdoc, for docs/man/agent-relay.1.in. The build calls it, so
// that the manual page cannot say anything else than the help.

#include "cli/command_line.hpp"
#include "cli/help_flags.hpp"

#include <algorithm>
#include <cstddef>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace relay::cli {

namespace {

// Text that mdoc takes as it is.
std::string escaped(std::string_view text) {
    std::string out;
    for (const char character : text) {
        if (out.empty() && (character == '.' || character == '\'')) {
            out += "\\&";
        }
        out += character == '\\' ? std::string("\\e") : std::string(1, character);
    }
    return out;
}

std::string usage_of(std::string_view help) {
    std::string usage;
    bool within = false;
    while (!help.empty()) {
        const std::size_t end = std::min(help.find('\n'), help.size());
        std::string_view line = help.substr(0, end);
        help.remove_prefix(std::min(end + 1, help.size()));
        within = line.starts_with("usage: ") || (within && line.starts_with("       "));
        if (within) {
            line.remove_prefix(std::string_view("usage: ").size());
            usage += escaped(line) + "\n";
        } else if (!usage.empty()) {
            break;
        }
    }
    return usage;
}

void write_flags(std::string_view command, std::ostream& out) {
    const std::vector<HelpFlag> flags = flags_in_help(command);
    if (flags.empty()) {
        return;
    }
    out << ".Bl -tag -width Ds\n";
    for (const HelpFlag& flag : flags) {
        const bool is_long = flag.name.starts_with("--");
        out << ".It Fl " << (is_long ? "Fl " : "") << flag.name.substr(is_long ? 2 : 1);
        if (!flag.value.empty()) {
            out << " Ar " << flag.value;
        }
        out << '\n'
            << (flag.meaning.empty() ? "See the usage above." : escaped(flag.meaning)) << '\n';
    }
    out << ".El\n";
}

}  // namespace

ExitCode manual_command(const CommandLine& /*line*/, const Surroundings& surroundings) {
    for (const Command& command : commands()) {
        surroundings.out << ".Ss " << command.name << "\n"
                         << escaped(command.summary) << ".\n.Bd -literal -offset indent\n"
                         << usage_of(command.help) << ".Ed\n";
        write_flags(command.name, surroundings.out);
    }
    return ExitCode::ok;
}

}  // namespace relay::cli
