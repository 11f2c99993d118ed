// SPDX-License-Identifier: Apache-2.0
#include "layout/settings.hpp"

#include <toml++/toml.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <exception>
#include <optional>
#include <system_error>

namespace relay::layout {

namespace {

constexpr std::size_t file_bytes_max = 1 << 20;  // a person wrote it

Error refuse(std::string_view where, std::string_view sentence) {
    return Error{Errc::invalid, 0, std::string(where) + ": " + std::string(sentence)};
}

Error refuse_name(std::string_view where, std::string_view name) {
    const std::string nearest = nearest_config_key(name);
    return refuse(
        where,
        "unknown key " + quoted(name)
            + (nearest.empty() ? "" : "; did you mean " + quoted(nearest) + "?"));
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

// A value as it was given, before anyone asked what it should be.
struct Given {
    ConfigValue value;
    std::string shown;   // for "got …"
    std::string where;   // of the value
    std::string origin;  // of the key
};

ConfigValue value_of(const toml::node& node) {
    if (const auto* const text = node.as_string()) {
        return text->get();
    }
    if (const auto* const number = node.as_integer()) {
        return number->get();
    }
    if (const auto* const flag = node.as_boolean()) {
        return flag->get();
    }
    if (const toml::array* const array = node.as_array()) {
        std::vector<std::string> words;
        for (const toml::node& element : *array) {
            const auto* const word = element.as_string();
            if (word == nullptr) {
                return std::monostate();
            }
            words.push_back(word->get());
        }
        return words;
    }
    return std::monostate();
}

Given given_in(const std::string& path, const toml::key& key, const toml::node& node) {
    Given given;
    given.where = position(path, node.source());
    given.origin = position(path, key.source());
    given.value = value_of(node);
    if (const auto* const text = std::get_if<std::string>(&given.value)) {
        given.shown = quoted(*text);
    } else if (const auto* const number = std::get_if<std::int64_t>(&given.value)) {
        given.shown = std::to_string(*number);
    } else {
        given.shown = type_name(node.type());
    }
    return given;
}

// Not layout::read_file(): people link their config.toml into a repository of dot files.
Result<std::string> read_whole(const std::string& path, int more_flags) {
    const auto refuse_file = [&path](Errc code, int number) {
        return Error{
            code,
            number,
            "read configuration " + path + ": " + std::system_category().message(number)};
    };
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | more_flags);
    if (fd < 0) {
        const bool missing = errno == ENOENT || errno == ENOTDIR;
        return refuse_file(missing ? Errc::not_found : Errc::io, errno);
    }
    struct stat status {};
    if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        ::close(fd);
        return refuse(path, "the configuration must be a regular file");
    }
    std::string content;
    std::array<char, 16 << 10> buffer{};
    ssize_t got = 0;
    while ((got = ::read(fd, buffer.data(), buffer.size())) > 0
           && content.size() <= file_bytes_max) {
        content.append(buffer.data(), static_cast<std::size_t>(got));
    }
    const int failure = errno;
    ::close(fd);
    if (got < 0) {
        return refuse_file(Errc::io, failure);
    }
    if (content.size() > file_bytes_max) {
        return refuse(path, "the configuration must be at most 1MiB long");
    }
    return content;
}

// Collects the sources one after the other.
class Loader {
public:
    explicit Loader(std::optional<ConfigReader> reader) : reader_(reader) {}

    Status add_file(const std::string& path, ConfigLayer layer, bool required);
    Status add_repository(
        const std::string& path, const std::function<bool(std::string_view content)>& trusts);
    Status add_environment(const Environment& environment);
    Status add_flags(const std::vector<std::pair<std::string, std::string>>& flags);
    Result<Settings> finish();

private:
    Status add_text(const std::string& path, const std::string& content, ConfigLayer layer);
    Status add_root(const std::string& path, const toml::table& table, ConfigLayer layer);
    Status add_table(
        const std::string& path,
        const std::string& prefix,
        const toml::table& table,
        ConfigLayer layer);
    Status add_agents(const std::string& path, const toml::table& table, ConfigLayer layer);
    Status set(const std::string& name, const ConfigKey& key, ConfigLayer layer, Given given);
    [[nodiscard]] bool passes_over(std::string_view section) const;
    [[nodiscard]] bool passes_over(const ConfigKey& key) const {
        return reader_ && key.reader != *reader_ && key.reader != ConfigReader::both;
    }
    [[nodiscard]] std::int64_t amount(std::string_view name) const;
    [[nodiscard]] Error refuse_event_bytes(std::string_view other, const std::string& rule) const;

    std::optional<ConfigReader> reader_;
    bool trusted_ = true;
    Settings settings_;
};

bool Loader::passes_over(std::string_view section) const {
    return std::none_of(
        config_keys().begin(), config_keys().end(), [this, section](const ConfigKey& key) {
            return !passes_over(key) && key.name.substr(0, key.name.find('.')) == section;
        });
}

// A repository chooses among what the user has; programs and directories it may not name by itself.
bool needs_trust(const ConfigKey& key) {
    return key.name.starts_with("agents.") || key.kind == ConfigKind::path;
}

Status Loader::set(const std::string& name, const ConfigKey& key, ConfigLayer layer, Given given) {
    const Result<ConfigValue> value = read_config_value(key, given.value);
    if (!value.ok()) {
        return refuse(
            given.where, name + " must be " + value.error().context + ", got " + given.shown);
    }
    if (layer == ConfigLayer::repository) {
        const bool daemons = key.name.starts_with("daemon.") || key.name.starts_with("journal.");
        if (daemons || (needs_trust(key) && !trusted_)) {
            using Why = IgnoredSetting::Why;
            settings_.ignored.push_back(
                {name, std::move(given.origin), daemons ? Why::daemons : Why::untrusted});
            return Done{};
        }
    }
    settings_.given.insert_or_assign(
        name, Setting{&key, value.value(), layer, std::move(given.origin), std::move(given.where)});
    return Done{};
}

Status Loader::add_table(
    const std::string& path,
    const std::string& prefix,
    const toml::table& table,
    ConfigLayer layer) {
    for (const auto& [toml_key, node] : table) {
        const std::string name = prefix + std::string(toml_key.str());
        const ConfigKey* const key = find_config_key(name);
        if (key == nullptr) {
            return refuse_name(position(path, toml_key.source()), name);
        }
        if (passes_over(*key)) {
            continue;
        }
        if (Status added = set(name, *key, layer, given_in(path, toml_key, node)); !added.ok()) {
            return added;
        }
    }
    return Done{};
}

Status Loader::add_agents(const std::string& path, const toml::table& table, ConfigLayer layer) {
    for (const auto& [toml_key, node] : table) {
        const std::string name = "agents." + std::string(toml_key.str());
        const toml::table* const agent = node.as_table();
        if (agent == nullptr || toml_key.str().empty()) {
            return refuse(
                position(path, node.source()),
                name + " must be a section, written [agents.<name>], got "
                    + std::string(type_name(node.type())));
        }
        if (Status added = add_table(path, name + ".", *agent, layer); !added.ok()) {
            return added;
        }
    }
    return Done{};
}

Status Loader::add_root(const std::string& path, const toml::table& table, ConfigLayer layer) {
    const std::span<const std::string_view> sections = config_sections();
    for (const auto& [toml_key, node] : table) {
        const std::string name(toml_key.str());
        if (std::find(sections.begin(), sections.end(), name) == sections.end()) {
            return refuse_name(position(path, toml_key.source()), name);
        }
        const toml::table* const section = node.as_table();
        if (section == nullptr) {
            return refuse(
                position(path, node.source()),
                name + " must be a section, written [" + name + "], got "
                    + std::string(type_name(node.type())));
        }
        if (passes_over(name)) {
            continue;
        }
        Status added = name == "agents" ? add_agents(path, *section, layer)
                                        : add_table(path, name + ".", *section, layer);
        if (!added.ok()) {
            return added;
        }
    }
    return Done{};
}

Status Loader::add_text(const std::string& path, const std::string& content, ConfigLayer layer) {
    try {
        return add_root(path, toml::parse(content, path), layer);
    } catch (const toml::parse_error& failure) {
        return refuse(position(path, failure.source()), failure.description());
    } catch (const std::exception& failure) {
        return refuse(path, failure.what());
    }
}

Status Loader::add_file(const std::string& path, ConfigLayer layer, bool required) {
    const Result<std::string> content = read_whole(path, 0);
    if (!content.ok()) {
        const bool skip = !required && content.error().code == Errc::not_found;
        return skip ? Status(Done{}) : Status(content.error());
    }
    return add_text(path, content.value(), layer);
}

Status Loader::add_repository(
    const std::string& path, const std::function<bool(std::string_view content)>& trusts) {
    const Result<std::string> content = read_whole(path, O_NOFOLLOW);
    if (!content.ok()) {
        return content.error().code == Errc::not_found ? Status(Done{}) : content.error();
    }
    trusted_ = trusts && trusts(content.value());
    return add_text(path, content.value(), ConfigLayer::repository);
}

Status Loader::add_environment(const Environment& environment) {
    if (!environment) {
        return Done{};
    }
    for (const ConfigKey& key : config_keys()) {
        if (key.name.find('*') != std::string_view::npos || passes_over(key)) {
            continue;
        }
        std::vector<std::string> variables{config_variable(key.name)};
        if (key.name == "daemon.socket") {
            variables.emplace_back("AGENT_RELAY_SOCKET");
        }
        for (const std::string& variable : variables) {
            const std::optional<std::string> value = environment(variable.c_str());
            if (!value || value->empty()) {
                continue;  // VARIABLE= is how a shell takes a value back
            }
            Given given{*value, quoted(*value), variable, variable};
            Status added =
                set(std::string(key.name), key, ConfigLayer::environment, std::move(given));
            if (!added.ok()) {
                return added;
            }
        }
    }
    return Done{};
}

Status Loader::add_flags(const std::vector<std::pair<std::string, std::string>>& flags) {
    const std::string here = "command line";
    for (const auto& [name, value] : flags) {
        const ConfigKey* const key = find_config_key(name);
        if (key == nullptr ? passes_over(name.substr(0, name.find('.'))) : passes_over(*key)) {
            continue;
        }
        if (key == nullptr) {
            return refuse_name(here, name);
        }
        Status added = set(name, *key, ConfigLayer::flag, {value, quoted(value), here, here});
        if (!added.ok()) {
            return added;
        }
    }
    return Done{};
}

std::int64_t Loader::amount(std::string_view name) const {
    return std::get<std::int64_t>(settings_.find(name).value);
}

// Rules between two keys are blamed on the one that was given, on the event's bound when both were.
Error Loader::refuse_event_bytes(std::string_view other, const std::string& rule) const {
    constexpr std::string_view bound = "daemon.max_event_bytes";
    Setting blamed = settings_.find(bound);
    if (blamed.layer == ConfigLayer::built_in) {
        blamed = settings_.find(other);
    }
    return refuse(
        blamed.where,
        std::string(bound) + " must be " + rule + " " + std::string(other) + ", which is "
            + std::to_string(amount(other)) + ", got " + std::to_string(amount(bound)));
}

Result<Settings> Loader::finish() {
    if (amount("daemon.max_event_bytes") > amount("journal.segment_bytes") / 2) {
        return refuse_event_bytes("journal.segment_bytes", "at most half of");
    }
    if (amount("daemon.max_event_bytes") > amount("daemon.max_inflight_bytes")) {
        return refuse_event_bytes("daemon.max_inflight_bytes", "at most");
    }
    return std::move(settings_);
}

}  // namespace

std::string_view name_of(ConfigLayer layer) {
    constexpr std::array<std::string_view, 6> names{
        "built in", "system", "user", "repository", "environment", "flag"};
    return names[static_cast<std::size_t>(layer)];
}

Setting Settings::find(std::string_view name) const {
    if (const auto found = given.find(name); found != given.end()) {
        return found->second;
    }
    const std::string built_in = "built in";
    Setting setting{find_config_key(name), {}, ConfigLayer::built_in, built_in, built_in};
    if (setting.key != nullptr && !setting.key->built_in.empty()) {
        const Result<ConfigValue> value =
            read_config_value(*setting.key, std::string(setting.key->built_in));
        setting.value = value.ok() ? value.value() : ConfigValue();
    }
    return setting;
}

Result<Settings> load_settings(const ConfigSources& sources) {
    Loader loader(sources.reader);
    Status added = Done{};
    if (!sources.explicit_file.empty()) {
        added = loader.add_file(sources.explicit_file, ConfigLayer::user, /*required=*/true);
    } else {
        if (!sources.system_file.empty()) {
            added = loader.add_file(sources.system_file, ConfigLayer::system, /*required=*/false);
        }
        if (added.ok() && !sources.user_file.empty()) {
            added = loader.add_file(sources.user_file, ConfigLayer::user, /*required=*/false);
        }
    }
    if (added.ok() && !sources.repository_file.empty()) {
        added = loader.add_repository(sources.repository_file, sources.trusts);
    }
    if (added.ok()) {
        added = loader.add_environment(sources.environment);
    }
    if (added.ok()) {
        added = loader.add_flags(sources.flags);
    }
    return added.ok() ? loader.finish() : Result<Settings>(added.error());
}

ConfigSources usual_sources(const Environment& environment) {
    ConfigSources sources;
    sources.environment = environment;
    if (const Result<UserDirectories> user = user_directories(environment); user.ok()) {
        sources.user_file = user.value().config + "/config.toml";
    }
    return sources;
}

Result<std::string> configured_socket(const Settings& settings, const Environment& environment) {
    const Setting socket = settings.find("daemon.socket");
    if (const auto* const path = std::get_if<std::string>(&socket.value)) {
        return *path;
    }
    return socket_path(environment);
}

}  // namespace relay::layout
