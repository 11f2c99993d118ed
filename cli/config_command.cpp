// SPDX-License-Identifier: Apache-2.0
#include "cli/agent_table.hpp"
#include "cli/client.hpp"
#include "cli/command_line.hpp"
#include "cli/current_directory.hpp"
#include "cli/flag_table.hpp"
#include "cli/local_settings.hpp"
#include "cli/screen.hpp"
#include "cli/terminal_text.hpp"
#include "layout/json_writer.hpp"

#include <algorithm>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace relay::cli {

const std::string_view config_help = R"(agent-relay config: what is configured, and where

usage: agent-relay config [key] [flags]          without a key: all of them

examples:
  agent-relay config                              every value that counts here
  agent-relay config --show-origin                and the file, line and column, variable or flag it comes from
  agent-relay config daemon.socket                one value alone, for scripts
  agent-relay config --config new.toml            is this file right?

Later ones win: built in, /etc/agent-relay/config.toml, ~/.config/agent-relay/config.toml, the repository's
.agent-relay/config.toml as far as it is trusted (see agent-relay trust --help), AGENT_RELAY_<SECTION>__<KEY> in
the environment (AGENT_RELAY_DAEMON__ORPHAN_GRACE=5s), flags. A running daemon has read them when it was
started or got SIGHUP.

flags:
  --show-origin    where each value comes from
  --config FILE    instead of the system's and the user's file

--json prints a line a key: {"v":1,"key":"daemon.orphan_grace","value":30000,"unit":"ms","layer":"built in","origin":
"built in","used":true}; unit is "ms", "bytes" or null; value null when there is none; a key that this version does not
use has "used":false.

exit status: 0 printed, 1 the configuration is wrong, 2 wrong usage or no such key
)";

namespace {

using layout::ConfigKey;
using layout::ConfigKind;
using layout::ConfigLayer;
using layout::ConfigReader;
using layout::ConfigValue;
using layout::Result;
using layout::Setting;
using layout::Settings;

struct Row {
    std::string name;
    Setting setting;
};

// What is made from other things when nobody says otherwise.
void fill_places(std::vector<Row>& rows, const layout::Environment& environment) {
    const Result<std::string> socket = layout::socket_path(environment);
    const Result<layout::UserDirectories> user = layout::user_directories(environment);
    for (Row& row : rows) {
        if (!std::holds_alternative<std::monostate>(row.setting.value)) {
            continue;
        }
        if (row.name == "daemon.socket" && socket.ok()) {
            row.setting.value = socket.value();
        } else if (row.name == "journal.dir" && user.ok()) {
            row.setting.value = user.value().state + "/journal";
        }
    }
}

void add_agents(std::vector<Row>& rows, const RunConfig& config, const Settings& settings) {
    for (const AgentEntry& agent : config.agents) {
        const std::vector<std::pair<std::string, ConfigValue>> members{
            {"binary", agent.binary},
            {"extra_args", agent.extra_arguments},
            {"aliases", agent.aliases},
            {"format", agent.format},
        };
        for (const auto& [leaf, value] : members) {
            const std::string name = "agents." + agent.name + "." + leaf;
            Setting setting = settings.find(name);
            setting.value = value;
            rows.push_back({name, std::move(setting)});
        }
        const std::string prompt = "agents." + agent.name + ".prompt";
        if (settings.given.contains(prompt)) {
            rows.push_back({prompt, settings.find(prompt)});
        }
    }
}

std::vector<Row> rows_of(const Settings& settings, const RunConfig& config) {
    std::vector<Row> rows;
    bool agents_added = false;
    for (const ConfigKey& key : layout::config_keys()) {
        const std::string name(key.name);
        if (name.starts_with("agents.")) {
            if (!std::exchange(agents_added, true)) {
                add_agents(rows, config, settings);
            }
        } else if (key.reader != ConfigReader::nobody || settings.given.contains(name)) {
            rows.push_back({name, settings.find(name)});
        }
    }
    return rows;
}

std::string_view unit_of(ConfigKind kind) {
    if (kind == ConfigKind::duration) {
        return "ms";
    }
    return kind == ConfigKind::size || kind == ConfigKind::segment_size ? "bytes" : "";
}

std::string value_json(const ConfigValue& value) {
    std::string json;
    if (const auto* const text = std::get_if<std::string>(&value)) {
        layout::append_json_string(json, *text);
        return json;
    }
    if (const auto* const number = std::get_if<std::int64_t>(&value)) {
        return std::to_string(*number);
    }
    if (const auto* const flag = std::get_if<bool>(&value)) {
        return *flag ? "true" : "false";
    }
    const auto* const words = std::get_if<std::vector<std::string>>(&value);
    if (words == nullptr) {
        return "null";
    }
    for (const std::string& word : *words) {
        json += json.empty() ? "" : ",";
        layout::append_json_string(json, word);
    }
    return "[" + json + "]";
}

std::string row_json(const Row& row) {
    std::string out;
    const std::string_view unit = unit_of(row.setting.key->kind);
    layout::JsonObject object(out, layout::JsonObject::Form::compact);
    object.integer("v", 1);
    object.string("key", row.name);
    object.raw("value", value_json(row.setting.value));
    object.raw("unit", unit.empty() ? "null" : "\"" + std::string(unit) + "\"");
    object.string("layer", layout::name_of(row.setting.layer));
    object.string("origin", row.setting.origin);
    object.boolean("used", row.setting.key->reader != ConfigReader::nobody);
    object.finish();
    return out;
}

std::string shown(const Row& row) {
    std::string value = layout::shown_config_value(*row.setting.key, row.setting.value);
    return value.empty() ? "(nothing)" : harmless(value);
}

void print_rows(const std::vector<Row>& rows, bool origins, const Surroundings& surroundings) {
    if (!origins) {
        for (const Row& row : rows) {
            const bool nothing = std::holds_alternative<std::monostate>(row.setting.value);
            surroundings.out << (nothing ? "# " : "") << harmless(row.name) << " = " << shown(row)
                             << '\n';
        }
        return;
    }
    std::vector<std::vector<Cell>> cells;
    for (const Row& row : rows) {
        const bool used = row.setting.key->reader != ConfigReader::nobody;
        const bool ours = row.setting.layer == ConfigLayer::built_in;
        cells.push_back(
            {{harmless(row.name), Tone::bold},
             {shown(row)},
             {harmless(row.setting.origin) + (used ? "" : " (not used by this version)"),
              ours ? Tone::dim : Tone::plain}});
    }
    surroundings.out << print_table(
        {{"KEY"}, {"VALUE", Column::Side::left, 20}, {"ORIGIN"}},
        cells,
        look_at_screen(surroundings));
}

// For scripts: a text without its quotes, a list with a word a line.
void print_value(const Row& row, bool origin, const Surroundings& surroundings) {
    if (origin) {
        surroundings.out << harmless(row.setting.origin) << '\t';
    }
    const auto say = [&surroundings](const std::string& text) {
        surroundings.out << (surroundings.out_is_terminal ? harmless(text) : text) << '\n';
    };
    if (const auto* const text = std::get_if<std::string>(&row.setting.value)) {
        say(*text);
    } else if (
        const auto* const words = std::get_if<std::vector<std::string>>(&row.setting.value)) {
        std::for_each(words->begin(), words->end(), say);
    } else {
        say(layout::shown_config_value(*row.setting.key, row.setting.value));
    }
}

Result<std::vector<Row>> load_rows(
    const CommandLine& line, const std::string& explicit_file, const Surroundings& surroundings) {
    const Result<std::string> here = current_directory();
    const Result<LocalSettings> local = load_local_settings(
        surroundings.environment,
        here.ok() ? here.value() : "",
        explicit_file,
        /*reader=*/std::nullopt);
    if (!local.ok()) {
        return local.error();
    }
    const Settings& settings = local.value().settings;
    const Result<RunConfig> config = make_run_config(settings, local.value().repository_root);
    if (!config.ok()) {
        return config.error();
    }
    name_ignored(local.value(), surroundings);
    std::vector<Row> rows = rows_of(settings, config.value());
    fill_places(rows, surroundings.environment);
    if (!line.socket.empty()) {
        const Result<std::string> socket = find_socket(line, surroundings);
        const auto row = std::find_if(
            rows.begin(), rows.end(), [](const Row& each) { return each.name == "daemon.socket"; });
        if (socket.ok() && row != rows.end()) {
            row->setting = {row->setting.key, socket.value(), ConfigLayer::flag, "--socket", ""};
        }
    }
    return rows;
}

}  // namespace

ExitCode config_command(const CommandLine& line, const Surroundings& surroundings) {
    bool origins = false;
    std::string explicit_file;
    const std::vector<Flag> flags{
        switch_flag("--show-origin", origins),
        text_flag("--config", "a file", explicit_file),
    };
    const Result<std::vector<std::string>> words = take_flags(line.arguments, flags);
    if (!words.ok()) {
        return complain_usage(surroundings, "config", words.error().context);
    }
    if (words.value().size() > 1) {
        return complain_usage(surroundings, "config", "config takes one key");
    }
    Result<std::vector<Row>> rows = load_rows(line, explicit_file, surroundings);
    if (!rows.ok()) {
        return complain(surroundings, ExitCode::failed, rows.error().context);
    }
    if (!words.value().empty()) {
        const std::string& name = words.value().front();
        std::erase_if(rows.value(), [&name](const Row& row) { return row.name != name; });
        if (rows.value().empty()) {
            const std::string nearest = layout::nearest_config_key(name);
            return complain_usage(
                surroundings,
                "config",
                "no key \"" + name + "\""
                    + (nearest.empty() || nearest == name ? ""
                                                          : "; did you mean \"" + nearest + "\"?"));
        }
    }
    if (line.json) {
        for (const Row& row : rows.value()) {
            const std::string json = row_json(row);
            surroundings.out << (surroundings.out_is_terminal ? harmless_json(json) : json) << '\n';
        }
    } else if (!words.value().empty()) {
        print_value(rows.value().front(), origins, surroundings);
    } else {
        print_rows(rows.value(), origins, surroundings);
    }
    return ExitCode::ok;
}

}  // namespace relay::cli
