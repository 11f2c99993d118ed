// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/config_key.hpp"
#include "layout/result.hpp"
#include "layout/store.hpp"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// What was configured, and where. Later ones win: built in, /etc, the user's file, the repository's, the
// environment, flags. Reads files, writes nothing.

namespace relay::layout {

enum class ConfigLayer { built_in, system, user, repository, environment, flag };
[[nodiscard]] std::string_view name_of(ConfigLayer layer);

struct Setting {
    const ConfigKey* key = nullptr;
    ConfigValue value;
    ConfigLayer layer = ConfigLayer::built_in;
    std::string origin;  // of its name: "/etc/…:3:1", a variable's name, or "command line"
    std::string where;   // of its value, likewise
};

// Something that a repository's file says and may not.
struct IgnoredSetting {
    std::string name;
    std::string where;
    enum class Why {
        untrusted,  // it counts once the user trusts the file
        daemons,    // the daemon serves all repositories: one of them cannot tell it what to do
    } why = Why::untrusted;
};

struct Settings {
    std::map<std::string, Setting, std::less<>> given;  // by name; what is built in is not there
    std::vector<IgnoredSetting> ignored;

    // What was given, else what is built in as a setting of that layer. The value is std::monostate when
    // there is nothing. `name` must be one that find_config_key() knows.
    [[nodiscard]] Setting find(std::string_view name) const;
};

struct ConfigSources {
    std::string system_file = "/etc/agent-relay/config.toml";
    std::string user_file;        // empty: none
    std::string explicit_file;    // from --config: replaces these two and must exist
    std::string repository_file;  // empty: none. Never followed through a symbolic link.
    // Whether the user trusts these bytes of the repository's file. None: no.
    std::function<bool(std::string_view content)> trusts;
    Environment environment;
    // {"daemon.orphan_grace", "5s"}; checked like everything else, origin "command line".
    std::vector<std::pair<std::string, std::string>> flags;
    // Keys of others are passed over unread: a mistake there is not this program's business. None: all are read.
    std::optional<ConfigReader> reader;
};

// Reads and checks what the reader reads, and the rules between its keys. An unknown key, a wrong type or a value
// out of bounds is one sentence with file:line:column (or the variable's or flag's name), what was seen and what
// would be right. AGENT_RELAY_SOCKET, which a recorded program finds in its environment,
// goes before AGENT_RELAY_DAEMON__SOCKET.
[[nodiscard]] Result<Settings> load_settings(const ConfigSources& sources);

// The usual files of this user; only the system's when the environment names no place for others.
[[nodiscard]] ConfigSources usual_sources(const Environment& environment);

// Where the daemon listens: as it was configured, else socket_path().
[[nodiscard]] Result<std::string>
configured_socket(const Settings& settings, const Environment& environment);

}  // namespace relay::layout
