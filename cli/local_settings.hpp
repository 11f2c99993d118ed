// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command_line.hpp"
#include "layout/result.hpp"
#include "layout/settings.hpp"

#include <optional>
#include <string>

namespace relay::cli {

// The settings that count in one directory, with what its repository says as far as the user trusts it.
struct LocalSettings {
    layout::Settings settings;
    std::string repository_root;  // empty: none
};

// What the command line reads; without a `reader` every key is. `cwd` may be empty: no repository.
// `explicit_file` replaces the system's and the user's file and must exist.
[[nodiscard]] layout::Result<LocalSettings> load_local_settings(
    const layout::Environment& environment,
    const std::string& cwd,
    const std::string& explicit_file,
    std::optional<layout::ConfigReader> reader = layout::ConfigReader::command_line);

// Says on `err` what was ignored of the repository's file, and which command trusts it. Nothing when that is
// nothing.
void name_ignored(const LocalSettings& local, const Surroundings& surroundings);

// The repository around `cwd`, wherever its sessions are kept; empty when there is none, or when its
// .agent-relay is not to be trusted with anything.
[[nodiscard]] std::string
repository_root(const std::string& cwd, const layout::Environment& environment);

// Of a repository.
[[nodiscard]] std::string repository_config(const std::string& root);

}  // namespace relay::cli
