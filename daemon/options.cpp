// SPDX-License-Identifier: Apache-2.0
#include "daemon/options.hpp"

#include "layout/nearest_name.hpp"
#include "layout/version.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace relay::daemon {

namespace {

using layout::Errc;
using layout::Error;
using layout::Result;

struct Flag {
    std::string_view name;
    bool takes_value = true;
    std::string_view key;  // the configuration key that the value goes to; empty: a flag of its own
};

constexpr std::array flags{
    Flag{"--config", true, {}},
    Flag{"--socket", true, "daemon.socket"},
    Flag{"--journal-dir", true, "journal.dir"},
    Flag{"--unsafe-journal", false, {}},
    Flag{"--idle-exit", true, "daemon.idle_exit"},
    Flag{"--orphan-grace", true, "daemon.orphan_grace"},
    Flag{"--checkpoint-interval", true, "journal.checkpoint_interval"},
    Flag{"--set", true, {}},
    Flag{"--version", false, {}},
    Flag{"--help", false, {}},
};

Error usage(std::string sentence) {
    return Error{Errc::invalid, 0, std::move(sentence) + "; see agent-relayd --help"};
}

Error unknown_flag(std::string_view name) {
    std::array<std::string_view, flags.size()> names{};
    std::transform(
        flags.begin(), flags.end(), names.begin(), [](const Flag& flag) { return flag.name; });
    std::string sentence = "unknown flag \"" + std::string(name) + "\"";
    const std::string_view nearest = layout::nearest_name(name, names, 3);
    if (!nearest.empty()) {
        sentence += " (did you mean \"" + std::string(nearest) + "\"?)";
    }
    return usage(std::move(sentence));
}

// "section.key=value" from --set.
Result<std::pair<std::string, std::string>> split_setting(std::string_view setting) {
    const std::size_t equals = setting.find('=');
    const std::string_view key = setting.substr(0, equals);
    const std::size_t dot = key.find('.');
    if (equals == std::string_view::npos || dot == std::string_view::npos || dot == 0
        || dot + 1 == key.size()) {
        return usage("--set needs section.key=value, got \"" + std::string(setting) + "\"");
    }
    return std::pair{std::string(key), std::string(setting.substr(equals + 1))};
}

// What one flag does to the options. `value` is empty for flags that take none.
layout::Status apply(const Flag& flag, std::string_view value, Options& options) {
    if (!flag.key.empty()) {
        options.settings.emplace_back(flag.key, value);
    } else if (flag.name == "--config") {
        options.config_file = value;
    } else if (flag.name == "--set") {
        auto setting = split_setting(value);
        if (!setting.ok()) {
            return setting.error();
        }
        options.settings.push_back(std::move(setting.value()));
    } else if (flag.name == "--unsafe-journal") {
        options.unsafe_journal = true;
    } else if (flag.name == "--version") {
        options.mode = Options::Mode::version;
    } else {
        options.mode = Options::Mode::help;
    }
    return layout::Done{};
}

std::string_view long_form(std::string_view name) {
    if (name == "-h") {
        return "--help";
    }
    return name == "-V" ? std::string_view("--version") : name;
}

}  // namespace

Result<Options> parse_options(std::span<const char* const> arguments) {
    Options options;
    for (std::size_t at = 0; at < arguments.size(); ++at) {
        const std::string_view argument = arguments[at];
        if (argument.size() < 2 || argument.front() != '-' || argument == "--") {
            return usage("unexpected argument \"" + std::string(argument) + "\"");
        }
        const std::size_t equals = argument.find('=');
        const std::string_view name = long_form(argument.substr(0, equals));
        const auto* const flag = std::find_if(
            flags.begin(), flags.end(), [name](const Flag& known) { return known.name == name; });
        if (flag == flags.end()) {
            return unknown_flag(name);
        }
        std::optional<std::string_view> value;
        if (equals != std::string_view::npos) {
            value = argument.substr(equals + 1);
        } else if (flag->takes_value && at + 1 < arguments.size()) {
            value = arguments[++at];
        }
        if (value.has_value() && !flag->takes_value) {
            return usage(
                std::string(name) + " takes no value, got \"" + std::string(*value) + "\"");
        }
        if (flag->takes_value && value.value_or("").empty()) {
            return usage(std::string(name) + " needs a value");
        }
        layout::Status applied = apply(*flag, value.value_or(""), options);
        if (!applied.ok()) {
            return applied.error();
        }
        if (options.mode != Options::Mode::run) {
            return options;
        }
    }
    return options;
}

std::string help_text() {
    return R"(agent-relayd: records the sessions of coding agents so that nothing is lost in a crash

usage: agent-relayd [flags]

examples:
  agent-relayd                                  listen at the usual socket, in the foreground
  agent-relayd --idle-exit 10min                exit after ten minutes without clients and sessions
  agent-relayd --socket /tmp/r.sock --journal-dir /tmp/r.journal --set sessions.store=user
                                                a second daemon for trying things out
  agent-relayd --set journal.segment_bytes=64MiB --orphan-grace=5s

flags:
  --config FILE               read only this file instead of the system's and the user's config.toml
  --socket PATH               listen here; absolute, at most 107 bytes   (daemon.socket)
  --journal-dir DIR           keep the journal here; absolute            (journal.dir)
  --unsafe-journal            run even if the journal's file system cannot keep what it has synced
  --idle-exit DURATION        exit after idling this long; 0: never      (daemon.idle_exit)
  --orphan-grace DURATION     wait this long for a lost client           (daemon.orphan_grace)
  --checkpoint-interval DURATION
                              how often the journal is cut short         (journal.checkpoint_interval)
  --set SECTION.KEY=VALUE     set any key of config.toml; may be repeated
  --version, -V               print the version and exit
  --help, -h                  print this and exit

Durations are 500ms, 30s, 10min, 2h, 1d, or a plain number of seconds; sizes 64KiB, 16MiB, 1GiB, or bytes.
Values come from, later ones winning: built in, /etc/agent-relay/config.toml, the user's config.toml,
AGENT_RELAY_<SECTION>__<KEY> in the environment (AGENT_RELAY_DAEMON__ORPHAN_GRACE=5s), flags.
)";
}

std::string version_text() {
    return layout::version_text("agent-relayd");
}

}  // namespace relay::daemon
