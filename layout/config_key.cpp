// SPDX-License-Identifier: Apache-2.0
#include "layout/config_key.hpp"

#include "layout/nearest_name.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <limits>
#include <optional>
#include <system_error>

namespace relay::layout {

namespace {

constexpr std::int64_t kib = 1024;
constexpr std::int64_t mib = 1024 * kib;
constexpr std::int64_t gib = 1024 * mib;
constexpr std::int64_t second_ms = 1000;
constexpr std::int64_t minute_ms = 60 * second_ms;
constexpr std::int64_t hour_ms = 60 * minute_ms;
constexpr std::int64_t day_ms = 24 * hour_ms;

constexpr std::size_t socket_path_bytes_max = 107;  // sun_path without its closing zero
constexpr std::int64_t page_bytes = 4096;

using enum ConfigKind;
using enum ConfigReader;

constexpr std::array keys{
    ConfigKey{"default.agent", text, command_line, "", "the agent of a run that names none", 0, 0},
    ConfigKey{
        "default.max_turns",
        count,
        command_line,
        "0",
        "most turns of a run; 0: no bound",
        0,
        1'000'000'000},
    ConfigKey{"default.watch", boolean, command_line, "false", "run tells what it records", 0, 0},
    ConfigKey{
        "default.no_color", boolean, command_line, "false", "no colours, agents included", 0, 0},
    ConfigKey{"agents.*.binary", text, command_line, "", "its program: in PATH, or a path", 0, 0},
    ConfigKey{"agents.*.extra_args", words, command_line, "", "arguments of every run", 0, 0},
    ConfigKey{"agents.*.aliases", words, command_line, "", "shorter names", 0, 0},
    ConfigKey{"agents.*.format", text, command_line, "", "how its output is to be read", 0, 0},
    ConfigKey{
        "agents.*.prompt",
        prompt_way,
        command_line,
        "",
        R"("argument", "stdin", or the flag before it)",
        0,
        0},
    ConfigKey{"sessions.store", store, both, "auto", "where sessions go that do not say", 0, 0},
    ConfigKey{"sessions.dir", path, nobody, "", "", 0, 0},
    ConfigKey{"sessions.compress_after_days", count, nobody, "", "", 0, 1'000'000},
    ConfigKey{"handoff.recommend", boolean, nobody, "", "", 0, 0},
    ConfigKey{"handoff.order", words, nobody, "", "", 0, 0},
    ConfigKey{"handoff.max_decisions", count, nobody, "", "", 1, 1'000},
    ConfigKey{"metrics.currency", text, nobody, "", "", 0, 0},
    ConfigKey{"metrics.rate_table", path, nobody, "", "", 0, 0},
    ConfigKey{"redact.enabled", boolean, daemon, "true", "whether secrets are hidden", 0, 0},
    ConfigKey{
        "redact.rules",
        words,
        daemon,
        "",
        R"(rules of your own, "name=pattern"; "!name" leaves out a built-in one)",
        0,
        0},
    ConfigKey{"daemon.socket", socket_path, daemon, "", "where the daemon listens", 0, 0},
    ConfigKey{
        "daemon.max_event_bytes", size, daemon, "16MiB", "longest line of a client", kib, 64 * mib},
    ConfigKey{
        "daemon.max_inflight_bytes",
        size,
        daemon,
        "64MiB",
        "unanswered bytes of all clients; beyond it they wait",
        kib,
        16 * gib},
    ConfigKey{
        "daemon.orphan_grace",
        duration,
        daemon,
        "30s",
        "how long a session waits for a lost client",
        0,
        day_ms},
    ConfigKey{
        "daemon.idle_exit",
        duration,
        daemon,
        "0",
        "exit after so long without clients and active sessions; 0: never",
        0,
        365 * day_ms},
    ConfigKey{
        "daemon.max_connections", count, daemon, "12000", "most clients at once", 1, 1'000'000},
    ConfigKey{"journal.dir", path, daemon, "", "on a disk, not in memory", 0, 0},
    ConfigKey{
        "journal.segment_bytes",
        segment_size,
        daemon,
        "32MiB",
        "size of a journal file",
        64 * kib,
        gib},
    ConfigKey{
        "journal.segments_max",
        count,
        daemon,
        "8",
        "beyond it clients wait for a checkpoint",
        2,
        64},
    ConfigKey{
        "journal.checkpoint_interval",
        duration,
        daemon,
        "5s",
        "how often the journal is cut short",
        10,
        hour_ms},
};

constexpr std::array<std::string_view, 8> sections{
    "default", "agents", "sessions", "handoff", "metrics", "redact", "daemon", "journal"};

struct Unit {
    std::string_view name;
    std::int64_t factor = 1;
};

constexpr std::array duration_units{
    Unit{"", second_ms},
    Unit{"ms", 1},
    Unit{"s", second_ms},
    Unit{"min", minute_ms},
    Unit{"h", hour_ms},
    Unit{"d", day_ms},
};

constexpr std::array size_units{
    Unit{"", 1},
    Unit{"B", 1},
    Unit{"K", kib},
    Unit{"KiB", kib},
    Unit{"M", mib},
    Unit{"MiB", mib},
    Unit{"G", gib},
    Unit{"GiB", gib},
};

std::optional<std::int64_t> multiplied(std::int64_t number, std::int64_t factor) {
    if (number < 0 || number > std::numeric_limits<std::int64_t>::max() / factor) {
        return std::nullopt;
    }
    return number * factor;
}

// A whole number, an optional space, a unit.
std::optional<std::int64_t> parse_quantity(std::string_view given, std::span<const Unit> units) {
    std::int64_t number = 0;
    const auto [rest, failure] = std::from_chars(given.data(), given.data() + given.size(), number);
    if (failure != std::errc{}) {
        return std::nullopt;
    }
    std::string_view unit = given.substr(static_cast<std::size_t>(rest - given.data()));
    if (unit.size() > 1 && unit.front() == ' ') {
        unit.remove_prefix(1);
    }
    const auto known = std::find_if(
        units.begin(), units.end(), [unit](const Unit& each) { return each.name == unit; });
    if (known == units.end()) {
        return std::nullopt;
    }
    return multiplied(number, known->factor);
}

// With the largest unit that needs no fraction, as a person would write it.
std::string in_largest_unit(std::int64_t amount, std::span<const Unit> units) {
    if (amount == 0) {
        return "0";
    }
    Unit best{"", 1};
    for (const Unit& unit : units) {
        if (!unit.name.empty() && amount % unit.factor == 0 && unit.factor >= best.factor) {
            best = unit;
        }
    }
    return std::to_string(amount / best.factor) + std::string(best.name);
}

std::span<const Unit> units_of(ConfigKind kind) {
    if (kind == count) {
        return std::span(size_units).first(1);  // no unit at all
    }
    return kind == duration ? std::span<const Unit>(duration_units)
                            : std::span<const Unit>(size_units);
}

std::string bounds_of(const ConfigKey& key) {
    if (key.kind == count) {
        return "a whole number from " + std::to_string(key.least) + " to "
               + std::to_string(key.most);
    }
    const std::span<const Unit> units = units_of(key.kind);
    return (key.kind == duration ? "a duration from " : "a size from ")
           + in_largest_unit(key.least, units) + " to " + in_largest_unit(key.most, units);
}

Error rule(std::string sentence) {
    return Error{Errc::invalid, 0, std::move(sentence)};
}

Result<ConfigValue> read_amount(const ConfigKey& key, const ConfigValue& given) {
    std::optional<std::int64_t> amount;
    if (const auto* const number = std::get_if<std::int64_t>(&given)) {
        amount = key.kind == duration ? multiplied(*number, second_ms) : *number;
    } else if (const auto* const written = std::get_if<std::string>(&given)) {
        amount = parse_quantity(*written, units_of(key.kind));
    }
    if (key.kind == segment_size && amount.value_or(0) % page_bytes != 0) {
        return rule("a multiple of " + std::to_string(page_bytes));
    }
    if (!amount || *amount < key.least || *amount > key.most) {
        return rule(bounds_of(key));
    }
    const ConfigValue value(*amount);
    return value;
}

Result<ConfigValue> read_path(const ConfigKey& key, const ConfigValue& given) {
    const auto* const written = std::get_if<std::string>(&given);
    if (written == nullptr || !written->starts_with('/')
        || written->find('\0') != std::string::npos) {
        return rule("an absolute path");
    }
    if (key.kind == socket_path && written->size() > socket_path_bytes_max) {
        return rule(
            "at most " + std::to_string(socket_path_bytes_max) + " bytes long (it has "
            + std::to_string(written->size()) + ")");
    }
    return given;
}

Result<ConfigValue> read_text(const ConfigKey& key, const ConfigValue& given) {
    const auto* const written = std::get_if<std::string>(&given);
    if (key.kind == store) {
        const bool known =
            written != nullptr && (*written == "auto" || *written == "repo" || *written == "user");
        return known ? Result<ConfigValue>(given) : rule(R"("auto", "repo" or "user")");
    }
    if (written == nullptr || written->empty() || written->find('\0') != std::string::npos) {
        return rule("a string that is not empty");
    }
    const bool way = *written == "stdin" || *written == "argument" || (written->starts_with('-'));
    if (key.kind == prompt_way && !way) {
        return rule(R"("argument", "stdin" or a flag such as "--message")");
    }
    return given;
}

Result<ConfigValue> read_boolean(const ConfigValue& given) {
    if (const auto* const written = std::get_if<std::string>(&given)) {
        if (*written == "true" || *written == "false") {
            const ConfigValue value(*written == "true");
            return value;
        }
    }
    return std::holds_alternative<bool>(given) ? Result<ConfigValue>(given) : rule("true or false");
}

Result<ConfigValue> read_words(const ConfigValue& given) {
    const auto* const list = std::get_if<std::vector<std::string>>(&given);
    const bool whole =
        list != nullptr && std::all_of(list->begin(), list->end(), [](const std::string& word) {
            return word.find('\0') == std::string::npos;
        });
    return whole ? Result<ConfigValue>(given) : rule("an array of strings");
}

}  // namespace

std::span<const ConfigKey> config_keys() {
    return keys;
}

std::span<const std::string_view> config_sections() {
    return sections;
}

const ConfigKey* find_config_key(std::string_view name) {
    std::string wanted(name);
    if (wanted.starts_with("agents.")) {
        const std::size_t leaf = wanted.rfind('.');
        constexpr std::size_t section_bytes = 6;
        if (leaf <= section_bytes + 1) {
            return nullptr;
        }
        wanted = "agents.*" + wanted.substr(leaf);
    }
    const auto* const found = std::find_if(
        keys.begin(), keys.end(), [&wanted](const ConfigKey& key) { return key.name == wanted; });
    return found == keys.end() ? nullptr : found;
}

std::string nearest_config_key(std::string_view wrong) {
    std::vector<std::string_view> names;
    if (wrong.find('.') == std::string_view::npos) {
        names.assign(sections.begin(), sections.end());
    } else {
        for (const ConfigKey& key : keys) {
            names.push_back(key.name);
        }
    }
    const std::string_view leaf = wrong.substr(wrong.rfind('.') + 1);
    if (wrong.starts_with("agents.") && wrong.rfind('.') > wrong.find('.')) {
        const std::string agent(wrong.substr(0, wrong.rfind('.') + 1));
        const std::string general = "agents.*." + std::string(leaf);
        const std::string nearest(nearest_name(general, names, 3));
        return nearest.starts_with("agents.*.") ? agent + nearest.substr(nearest.rfind('.') + 1)
                                                : "";
    }
    const std::string_view nearest = nearest_name(wrong, names, 3);
    if (!nearest.empty()) {
        return std::string(nearest);
    }
    // The right key in the wrong section.
    const std::string end = "." + std::string(leaf);
    const auto* const same_leaf = std::find_if(keys.begin(), keys.end(), [&end](const auto& key) {
        return key.reader != nobody && key.name.ends_with(end);
    });
    return same_leaf == keys.end() ? "" : std::string(same_leaf->name);
}

std::string config_variable(std::string_view name) {
    std::string variable = "AGENT_RELAY_";
    for (const char character : name) {
        if (character == '.') {
            variable += "__";
        } else {
            variable += static_cast<char>(std::toupper(static_cast<unsigned char>(character)));
        }
    }
    return variable;
}

Result<ConfigValue> read_config_value(const ConfigKey& key, const ConfigValue& given) {
    switch (key.kind) {
    case path:
    case socket_path:
        return read_path(key, given);
    case size:
    case segment_size:
    case count:
    case duration:
        return read_amount(key, given);
    case boolean:
        return read_boolean(given);
    case words:
        return read_words(given);
    case store:
    case text:
    case prompt_way:
        break;
    }
    return read_text(key, given);
}

std::string shown_config_value(const ConfigKey& key, const ConfigValue& value) {
    if (const auto* const amount = std::get_if<std::int64_t>(&value)) {
        return key.kind == count ? std::to_string(*amount)
                                 : in_largest_unit(*amount, units_of(key.kind));
    }
    if (const auto* const flag = std::get_if<bool>(&value)) {
        return *flag ? "true" : "false";
    }
    if (const auto* const list = std::get_if<std::vector<std::string>>(&value)) {
        std::string shown = "[";
        for (const std::string& word : *list) {
            shown += (shown.size() > 1 ? ", " : "") + quoted(word, word.size());
        }
        return shown + "]";
    }
    const auto* const written = std::get_if<std::string>(&value);
    return written == nullptr ? "" : quoted(*written, written->size());
}

std::string quoted(std::string_view given, std::size_t bytes_max) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string shown = "\"";
    for (const char character : given.substr(0, bytes_max)) {
        const auto byte = static_cast<unsigned char>(character);
        if (byte < 0x20 || byte == 0x7f) {
            shown += "\\x";
            shown += digits[byte >> 4];
            shown += digits[byte & 15];
        } else {
            shown += character;
        }
    }
    return shown + (given.size() > bytes_max ? "…\"" : "\"");
}

Result<std::chrono::milliseconds> parse_duration(std::string_view given) {
    const std::optional<std::int64_t> amount = parse_quantity(given, duration_units);
    if (!amount) {
        return rule(
            "a duration is written 500ms, 30s, 10min, 2h, 1d or as a number of seconds, got "
            + quoted(given));
    }
    return std::chrono::milliseconds(*amount);
}

Result<std::int64_t> parse_size(std::string_view given) {
    const std::optional<std::int64_t> amount = parse_quantity(given, size_units);
    if (!amount) {
        return rule(
            "a size is written 64KiB, 16MiB, 1GiB or as a number of bytes, got " + quoted(given));
    }
    return *amount;
}

}  // namespace relay::layout
