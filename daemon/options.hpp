// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/result.hpp"

#include <span>
#include <string>
#include <utility>
#include <vector>

// The flags of agent-relayd. Pure: reads no file and no environment.

namespace relay::daemon {

struct Options {
    enum class Mode { run, version, help };

    Mode mode = Mode::run;
    std::string config_file;  // --config; empty: the usual files
    // Every flag that sets a key, in the order given, for ConfigSources::flags. Not checked here.
    std::vector<std::pair<std::string, std::string>> settings;
    bool unsafe_journal =
        false;  // run although the journal's file system cannot promise durability
};

// `arguments` without the program's name. --help and --version end the parsing where they stand.
// Errc::invalid with one sentence that names the flag and points at --help.
[[nodiscard]] layout::Result<Options> parse_options(std::span<const char* const> arguments);

// Both end in a newline.
[[nodiscard]] std::string help_text();
[[nodiscard]] std::string version_text();

}  // namespace relay::daemon
