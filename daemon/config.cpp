// SPDX-License-Identifier: Apache-2.0
#include "daemon/config.hpp"

#include "layout/nearest_name.hpp"

#include <toml++/toml.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <variant>

namespace relay::daemon {

namespace {

using layout::Done;
using layout::Errc;
using layout::Error;
using layout::Result;
using layout::Status;
using std::chrono::milliseconds;

constexpr std::int64_t kib = 1024;
constexpr std::int64_t mib = 1024 * kib;
constexpr std::int64_t gib = 1024 * mib;
constexpr std::int64_t second_ms = 1000;
constexpr std::int64_t minute_ms = 60 * second_ms;
constexpr std::int64_t hour_ms = 60 * minute_ms;
constexpr std::int64_t day_ms = 24 * hour_ms;

constexpr std::size_t file_bytes_max = 1 << 20;     // a person wrote it
constexpr std::size_t socket_path_bytes_max = 107;  // sun_path without its closing zero
constexpr std::int64_t page_bytes = 4096;

enum class Kind { path, socket_path, store, size, segment_size, count, duration };

using Member = std::variant<std::string Config::*, std::int64_t Config::*, milliseconds Config::*>;

struct Key {
    std::string_view name;
    Kind kind = Kind::count;
    Member member;
    std::int64_t least = 0;  // bytes, milliseconds or a count
    std::int64_t most = 0;
};

const std::array keys{
    Key{"daemon.socket", Kind::socket_path, &Config::socket},
    Key{"daemon.max_event_bytes", Kind::size, &Config::max_event_bytes, kib, 64 * mib},
    Key{"daemon.max_inflight_bytes", Kind::size, &Config::max_inflight_bytes, kib, 16 * gib},
    Key{"daemon.orphan_grace", Kind::duration, &Config::orphan_grace, 0, day_ms},
    Key{"daemon.idle_exit", Kind::duration, &Config::idle_exit, 0, 365 * day_ms},
    Key{"daemon.max_connections", Kind::count, &Config::max_connections, 1, 1'000'000},
    Key{"journal.dir", Kind::path, &Config::journal_dir},
    Key{"journal.segment_bytes", Kind::segment_size, &Config::segment_bytes, 64 * kib, gib},
    Key{"journal.segments_max", Kind::count, &Config::segments_max, 2, 64},
    Key{"journal.checkpoint_interval", Kind::duration, &Config::checkpoint_interval, 10, hour_ms},
    Key{"sessions.store", Kind::store, &Config::store},
};

// Read by the command line only.
constexpr std::array<std::string_view, 5> foreign_sections{
    "default", "handoff", "metrics", "agents", "redact"};
constexpr std::array<std::string_view, 2> foreign_keys{
    "sessions.dir", "sessions.compress_after_days"};
constexpr std::array<std::string_view, 3> own_sections{"daemon", "journal", "sessions"};

bool contains(std::span<const std::string_view> names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

const Key* find_key(std::string_view name) {
    const auto found =
        std::find_if(keys.begin(), keys.end(), [name](const Key& key) { return key.name == name; });
    return found == keys.end() ? nullptr : &*found;
}

bool is_foreign(std::string_view name) {
    return contains(foreign_keys, name)
           || contains(foreign_sections, name.substr(0, name.find('.')));
}

// A value as it was given, before anyone asked what it should be.
struct Given {
    std::variant<std::string, std::int64_t> value;
    std::string shown;   // for "got …"
    std::string where;   // of the value: "/etc/…:3:17", a variable's name, or "command line"
    std::string origin;  // of the key
};

// One line whatever the text holds: a configuration error ends in a log and on terminals.
std::string quoted(std::string_view text) {
    constexpr std::size_t shown_bytes_max = 80;
    constexpr std::string_view digits = "0123456789abcdef";
    std::string shown = "\"";
    for (const char character : text.substr(0, shown_bytes_max)) {
        const auto byte = static_cast<unsigned char>(character);
        if (byte < 0x20 || byte == 0x7f) {
            shown += "\\x";
            shown += digits[byte >> 4];
            shown += digits[byte & 15];
        } else {
            shown += character;
        }
    }
    return shown + (text.size() > shown_bytes_max ? "…\"" : "\"");
}

Error refuse(std::string_view where, std::string_view sentence) {
    return Error{Errc::invalid, 0, std::string(where) + ": " + std::string(sentence)};
}

Error refuse_value(const Key& key, const Given& given, std::string_view rule) {
    return refuse(
        given.where,
        std::string(key.name) + " must be " + std::string(rule) + ", got " + given.shown);
}

Error refuse_key(std::string_view where, std::string_view name) {
    std::vector<std::string_view> candidates;
    if (name.find('.') == std::string_view::npos) {
        candidates.assign(own_sections.begin(), own_sections.end());
        candidates.insert(candidates.end(), foreign_sections.begin(), foreign_sections.end());
    } else {
        candidates.assign(foreign_keys.begin(), foreign_keys.end());
        std::transform(
            keys.begin(), keys.end(), std::back_inserter(candidates), [](const Key& key) {
                return key.name;
            });
    }
    std::string_view nearest = layout::nearest_name(name, candidates, 3);
    if (nearest.empty()) {
        // The right key in the wrong section.
        const std::string leaf = "." + std::string(name.substr(name.rfind('.') + 1));
        const auto same_leaf = std::find_if(
            keys.begin(), keys.end(), [&leaf](const Key& key) { return key.name.ends_with(leaf); });
        nearest = same_leaf == keys.end() ? std::string_view() : same_leaf->name;
    }
    std::string sentence = "unknown key " + quoted(name);
    if (!nearest.empty()) {
        sentence += "; did you mean " + quoted(nearest) + "?";
    }
    return refuse(where, sentence);
}

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
std::optional<std::int64_t> parse_quantity(std::string_view text, std::span<const Unit> units) {
    std::int64_t number = 0;
    const auto [rest, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (failure != std::errc{}) {
        return std::nullopt;
    }
    std::string_view unit = text.substr(static_cast<std::size_t>(rest - text.data()));
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

// With the largest unit that needs no fraction, as a person would write the bound.
std::string in_largest_unit(std::int64_t amount, std::span<const Unit> units) {
    Unit best{"", 1};
    for (const Unit& unit : units) {
        if (unit.name.size() > 0 && amount % unit.factor == 0 && unit.factor >= best.factor) {
            best = unit;
        }
    }
    return std::to_string(amount / best.factor) + std::string(best.name);
}

std::string bounds_of(const Key& key) {
    if (key.kind == Kind::count) {
        return "a whole number from " + std::to_string(key.least) + " to "
               + std::to_string(key.most);
    }
    const bool duration = key.kind == Kind::duration;
    const std::span<const Unit> units =
        duration ? std::span<const Unit>(duration_units) : std::span<const Unit>(size_units);
    const std::string least = key.least == 0 ? "0" : in_largest_unit(key.least, units);
    return (duration ? "a duration from " : "a size from ") + least + " to "
           + in_largest_unit(key.most, units);
}

// The amount in bytes, milliseconds or pieces; nothing when it is no such thing.
std::optional<std::int64_t> amount_of(const Key& key, const Given& given) {
    if (const auto* const number = std::get_if<std::int64_t>(&given.value)) {
        return key.kind == Kind::duration ? multiplied(*number, second_ms)
                                          : std::optional<std::int64_t>(*number);
    }
    const std::string& text = *std::get_if<std::string>(&given.value);
    switch (key.kind) {
    case Kind::duration:
        return parse_quantity(text, duration_units);
    case Kind::size:
    case Kind::segment_size:
        return parse_quantity(text, size_units);
    case Kind::count:
        return parse_quantity(text, std::span(size_units).first(1));  // no unit at all
    case Kind::path:
    case Kind::socket_path:
    case Kind::store:
        break;
    }
    return std::nullopt;
}

Status assign_amount(const Key& key, const Given& given, Config& config) {
    const std::optional<std::int64_t> amount = amount_of(key, given);
    if (key.kind == Kind::segment_size && amount.value_or(0) % page_bytes != 0) {
        return refuse_value(key, given, "a multiple of " + std::to_string(page_bytes));
    }
    if (!amount.has_value() || *amount < key.least || *amount > key.most) {
        return refuse_value(key, given, bounds_of(key));
    }
    if (const auto* const number = std::get_if<std::int64_t Config::*>(&key.member)) {
        config.*(*number) = *amount;
    } else if (const auto* const time = std::get_if<milliseconds Config::*>(&key.member)) {
        config.*(*time) = milliseconds(*amount);
    }
    return Done{};
}

Status assign_text(const Key& key, const Given& given, Config& config) {
    const auto* const text = std::get_if<std::string>(&given.value);
    if (key.kind == Kind::store) {
        if (text == nullptr || (*text != "auto" && *text != "repo" && *text != "user")) {
            return refuse_value(key, given, R"("auto", "repo" or "user")");
        }
    } else if (
        text == nullptr || !text->starts_with('/') || text->find('\0') != std::string::npos) {
        return refuse_value(key, given, "an absolute path");
    } else if (key.kind == Kind::socket_path && text->size() > socket_path_bytes_max) {
        return refuse_value(
            key,
            given,
            "at most " + std::to_string(socket_path_bytes_max) + " bytes long (it has "
                + std::to_string(text->size()) + ")");
    }
    config.*(*std::get_if<std::string Config::*>(&key.member)) = *text;
    return Done{};
}

// Collects the sources one after the other and remembers where each value stands.
class Loader {
public:
    Status add_file(const std::string& path, bool required);
    Status add_environment(const layout::Environment& environment);
    Status add_flags(const std::vector<std::pair<std::string, std::string>>& flags);
    Result<Config> finish();

private:
    Status add_table(const std::string& path, const toml::table& table);
    Status add_section(const std::string& path, std::string_view section, const toml::table& table);
    Status set(const Key& key, const Given& given);
    Status check_event_fits(std::string_view other, bool fits, const std::string& rule) const;

    Config config_;
    std::map<std::string, Given, std::less<>> given_;
};

Status Loader::set(const Key& key, const Given& given) {
    const bool text =
        key.kind == Kind::path || key.kind == Kind::socket_path || key.kind == Kind::store;
    Status assigned = text ? assign_text(key, given, config_) : assign_amount(key, given, config_);
    if (assigned.ok()) {
        given_.insert_or_assign(std::string(key.name), given);
    }
    return assigned;
}

std::string position(const std::string& path, const toml::source_region& region) {
    return path + ":" + std::to_string(region.begin.line) + ":"
           + std::to_string(region.begin.column);
}

std::string_view type_name(toml::node_type type) {
    constexpr std::array<std::string_view, 10> names{
        "nothing",
        "a table",
        "an array",
        "a string",
        "an integer",
        "a number with a fraction",
        "a boolean",
        "a date",
        "a time",
        "a date and time"};
    const auto index = static_cast<std::size_t>(type);
    return index < names.size() ? names[index] : "something else";
}

Status
Loader::add_section(const std::string& path, std::string_view section, const toml::table& table) {
    for (const auto& [toml_key, node] : table) {
        const std::string name = std::string(section) + "." + std::string(toml_key.str());
        if (is_foreign(name)) {
            continue;
        }
        const Key* const key = find_key(name);
        if (key == nullptr) {
            return refuse_key(position(path, toml_key.source()), name);
        }
        Given given;
        given.where = position(path, node.source());
        given.origin = position(path, toml_key.source());
        if (const auto* const text = node.as_string()) {
            given.value = text->get();
            given.shown = quoted(text->get());
        } else if (const auto* const number = node.as_integer()) {
            given.value = number->get();
            given.shown = std::to_string(number->get());
        } else {
            given.value =
                std::string();  // fits no key, so that set() refuses it with the key's rule
            given.shown = type_name(node.type());
        }
        Status added = set(*key, given);
        if (!added.ok()) {
            return added;
        }
    }
    return Done{};
}

Status Loader::add_table(const std::string& path, const toml::table& table) {
    for (const auto& [toml_key, node] : table) {
        const std::string_view name = toml_key.str();
        if (!contains(own_sections, name) && !contains(foreign_sections, name)) {
            return refuse_key(position(path, toml_key.source()), name);
        }
        const toml::table* const section = node.as_table();
        if (section == nullptr) {
            return refuse(
                position(path, node.source()),
                std::string(name) + " must be a section, written [" + std::string(name) + "], got "
                    + std::string(type_name(node.type())));
        }
        if (contains(foreign_sections, name)) {
            continue;
        }
        Status added = add_section(path, name, *section);
        if (!added.ok()) {
            return added;
        }
    }
    return Done{};
}

Error refuse_file(const std::string& path, Errc code, int number) {
    return Error{
        code, number, "read configuration " + path + ": " + std::system_category().message(number)};
}

// Not layout::read_file(): people link their config.toml into a repository of dot files.
Result<std::string> read_whole(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        const bool missing = errno == ENOENT || errno == ENOTDIR;
        return refuse_file(path, missing ? Errc::not_found : Errc::io, errno);
    }
    struct stat status {};
    if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        ::close(fd);
        return refuse(path, "the configuration must be a regular file");
    }
    std::string content;
    std::array<char, 16 * kib> buffer{};
    ssize_t got = 0;
    while ((got = ::read(fd, buffer.data(), buffer.size())) > 0
           && content.size() <= file_bytes_max) {
        content.append(buffer.data(), static_cast<std::size_t>(got));
    }
    const int failure = errno;
    ::close(fd);
    if (got < 0) {
        return refuse_file(path, Errc::io, failure);
    }
    if (content.size() > file_bytes_max) {
        return refuse(path, "the configuration must be at most 1MiB long");
    }
    return content;
}

Status Loader::add_file(const std::string& path, bool required) {
    const Result<std::string> content = read_whole(path);
    if (!content.ok()) {
        const bool skip = !required && content.error().code == Errc::not_found;
        return skip ? Status(Done{}) : Status(content.error());
    }
    try {
        return add_table(path, toml::parse(content.value(), path));
    } catch (const toml::parse_error& failure) {
        return refuse(position(path, failure.source()), failure.description());
    } catch (const std::exception& failure) {
        return refuse(path, failure.what());
    }
}

// "journal.segment_bytes" -> "AGENT_RELAY_JOURNAL__SEGMENT_BYTES".
std::string variable_of(std::string_view key) {
    std::string name = "AGENT_RELAY_";
    for (const char character : key) {
        if (character == '.') {
            name += "__";
        } else {
            name += static_cast<char>(std::toupper(static_cast<unsigned char>(character)));
        }
    }
    return name;
}

Status Loader::add_environment(const layout::Environment& environment) {
    if (!environment) {
        return Done{};
    }
    for (const Key& key : keys) {
        const std::string variable = variable_of(key.name);
        const std::optional<std::string> value = environment(variable.c_str());
        if (!value.has_value() || value->empty()) {
            continue;  // VARIABLE= is how a shell takes a value back
        }
        Status added = set(key, Given{*value, quoted(*value), variable, variable});
        if (!added.ok()) {
            return added;
        }
    }
    return Done{};
}

Status Loader::add_flags(const std::vector<std::pair<std::string, std::string>>& flags) {
    const std::string here = "command line";
    for (const auto& [name, value] : flags) {
        const Key* const key = find_key(name);
        if (key == nullptr) {
            if (is_foreign(name)) {
                continue;
            }
            return refuse_key(here, name);
        }
        Status added = set(*key, Given{value, quoted(value), here, here});
        if (!added.ok()) {
            return added;
        }
    }
    return Done{};
}

// Rules between two keys are blamed on the one that was given, on the event's bound when both were.
Status Loader::check_event_fits(std::string_view other, bool fits, const std::string& rule) const {
    if (fits) {
        return Done{};
    }
    auto blamed = given_.find("daemon.max_event_bytes");
    if (blamed == given_.end()) {
        blamed = given_.find(other);
    }
    const std::string where = blamed == given_.end() ? "built in" : blamed->second.where;
    return refuse(
        where,
        "daemon.max_event_bytes must be " + rule + ", got "
            + std::to_string(config_.max_event_bytes));
}

Result<Config> Loader::finish() {
    Status fits = check_event_fits(
        "journal.segment_bytes",
        config_.max_event_bytes <= config_.segment_bytes / 2,
        "at most half of journal.segment_bytes, which is " + std::to_string(config_.segment_bytes));
    if (fits.ok()) {
        fits = check_event_fits(
            "daemon.max_inflight_bytes",
            config_.max_event_bytes <= config_.max_inflight_bytes,
            "at most daemon.max_inflight_bytes, which is "
                + std::to_string(config_.max_inflight_bytes));
    }
    if (!fits.ok()) {
        return fits.error();
    }
    for (const Key& key : keys) {
        const auto found = given_.find(key.name);
        if (found != given_.end()) {
            config_.origins.emplace_back(key.name, found->second.origin);
        }
    }
    return std::move(config_);
}

}  // namespace

Result<Config> load_config(const ConfigSources& sources) {
    Loader loader;
    Status added = Done{};
    if (!sources.explicit_file.empty()) {
        added = loader.add_file(sources.explicit_file, /*required=*/true);
    } else {
        for (const std::string& file : {sources.system_file, sources.user_file}) {
            if (added.ok() && !file.empty()) {
                added = loader.add_file(file, /*required=*/false);
            }
        }
    }
    if (added.ok()) {
        added = loader.add_environment(sources.environment);
    }
    if (added.ok()) {
        added = loader.add_flags(sources.flags);
    }
    return added.ok() ? loader.finish() : Result<Config>(added.error());
}

Result<milliseconds> parse_duration(std::string_view text) {
    const std::optional<std::int64_t> amount = parse_quantity(text, duration_units);
    if (!amount.has_value()) {
        return Error{
            Errc::invalid,
            0,
            "a duration is written 500ms, 30s, 10min, 2h, 1d or as a number of seconds, got "
                + quoted(text)};
    }
    return milliseconds(*amount);
}

Result<std::int64_t> parse_size(std::string_view text) {
    const std::optional<std::int64_t> amount = parse_quantity(text, size_units);
    if (!amount.has_value()) {
        return Error{
            Errc::invalid,
            0,
            "a size is written 64KiB, 16MiB, 1GiB or as a number of bytes, got " + quoted(text)};
    }
    return *amount;
}

}  // namespace relay::daemon
