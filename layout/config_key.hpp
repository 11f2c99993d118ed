// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/result.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

// What can stand in config.toml: the one table of keys that the daemon, the command line and the documents
// share, and the grammar of their values. Pure: no file, no environment.

namespace relay::layout {

enum class ConfigKind {
    path,          // absolute
    socket_path,   // likewise, and short enough for the kernel
    store,         // "auto", "repo" or "user"
    size,          // bytes
    segment_size,  // likewise, in whole pages
    count,
    duration,  // milliseconds
    text,
    boolean,
    words,       // an array of strings
    prompt_way,  // how an agent gets its prompt
};

// Who acts on a key. Nobody: Agent Relay documents it, and a file that has it is right, but this version does
// not use it.
enum class ConfigReader { daemon, command_line, both, nobody };

struct ConfigKey {
    std::string_view name;  // "agents.*.binary": one for each agent
    ConfigKind kind = ConfigKind::text;
    ConfigReader reader = ConfigReader::nobody;
    std::string_view
        built_in;  // as a person would write it; empty: nothing, or made from other things
    std::string_view meaning;
    std::int64_t least = 0;  // of what is counted
    std::int64_t most = 0;
};

// In the order in which they are shown; keys of a section stand together.
[[nodiscard]] std::span<const ConfigKey> config_keys();

// "agents.mine.binary" finds "agents.*.binary". Null when there is none.
[[nodiscard]] const ConfigKey* find_config_key(std::string_view name);
// "journal" and the like, each once.
[[nodiscard]] std::span<const std::string_view> config_sections();

// The known name nearest to a wrong one; empty when none is near.
[[nodiscard]] std::string nearest_config_key(std::string_view wrong);

// "journal.segment_bytes" -> "AGENT_RELAY_JOURNAL__SEGMENT_BYTES".
[[nodiscard]] std::string config_variable(std::string_view name);

// Amounts are bytes, milliseconds or pieces. monostate: of a type that fits no key.
using ConfigValue =
    std::variant<std::monostate, std::string, std::int64_t, bool, std::vector<std::string>>;

// `given` as the key means it: "30s" of a duration is 30000. Errc::invalid with the rule alone ("a duration from
// 0 to 1d"): the caller knows the place and what was seen.
[[nodiscard]] Result<ConfigValue> read_config_value(const ConfigKey& key, const ConfigValue& given);

// A value that was read, as one would write it: 30s, 16MiB, 7, true, "text", ["a", "b"].
[[nodiscard]] std::string shown_config_value(const ConfigKey& key, const ConfigValue& value);

// One line whatever the text holds: a configuration error ends in a log and on terminals.
[[nodiscard]] std::string quoted(std::string_view given, std::size_t bytes_max = 80);

// "30s", "500ms", "10min", "2h", "1d", or a plain number of seconds.
[[nodiscard]] Result<std::chrono::milliseconds> parse_duration(std::string_view given);

// "64MiB", "16 KiB", "1000000"; K, M, G as powers of 1024.
[[nodiscard]] Result<std::int64_t> parse_size(std::string_view given);

}  // namespace relay::layout
