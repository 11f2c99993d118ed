// SPDX-License-Identifier: Apache-2.0
#include "daemon/config.hpp"

#include <array>
#include <string_view>
#include <utility>
#include <variant>

namespace relay::daemon {

namespace {

using layout::Result;
using layout::Setting;
using layout::Settings;
using std::chrono::milliseconds;

using Member = std::variant<std::string Config::*, std::int64_t Config::*, milliseconds Config::*>;

struct Place {
    std::string_view key;
    Member member;
};

const std::array places{
    Place{"daemon.socket", &Config::socket},
    Place{"daemon.max_event_bytes", &Config::max_event_bytes},
    Place{"daemon.max_inflight_bytes", &Config::max_inflight_bytes},
    Place{"daemon.orphan_grace", &Config::orphan_grace},
    Place{"daemon.idle_exit", &Config::idle_exit},
    Place{"daemon.max_connections", &Config::max_connections},
    Place{"journal.dir", &Config::journal_dir},
    Place{"journal.segment_bytes", &Config::segment_bytes},
    Place{"journal.segments_max", &Config::segments_max},
    Place{"journal.checkpoint_interval", &Config::checkpoint_interval},
    Place{"sessions.store", &Config::store},
};

void assign(const Place& place, const Setting& setting, Config& config) {
    if (const auto* const text = std::get_if<std::string>(&setting.value)) {
        config.*(*std::get_if<std::string Config::*>(&place.member)) = *text;
    } else if (const auto* const amount = std::get_if<std::int64_t>(&setting.value)) {
        if (const auto* const time = std::get_if<milliseconds Config::*>(&place.member)) {
            config.*(*time) = milliseconds(*amount);
        } else {
            config.*(*std::get_if<std::int64_t Config::*>(&place.member)) = *amount;
        }
    }
}

Result<std::shared_ptr<const layout::Redactor>> make_redactor(const Settings& settings) {
    const Setting enabled = settings.find("redact.enabled");
    if (const auto* const wanted = std::get_if<bool>(&enabled.value);
        wanted != nullptr && !*wanted) {
        return std::shared_ptr<const layout::Redactor>();
    }
    const Setting rules = settings.find("redact.rules");
    const auto* const given = std::get_if<std::vector<std::string>>(&rules.value);
    auto made = layout::Redactor::create(given == nullptr ? std::vector<std::string>() : *given);
    if (!made.ok()) {
        return layout::Error{
            made.error().code, 0, rules.origin + ": redact.rules: " + made.error().context};
    }
    return made;
}

}  // namespace

Result<Config> load_config(layout::ConfigSources sources) {
    sources.reader = layout::ConfigReader::daemon;
    sources.repository_file.clear();
    const Result<Settings> settings = layout::load_settings(sources);
    if (!settings.ok()) {
        return settings.error();
    }
    Config config;
    for (const Place& place : places) {
        const Setting setting = settings.value().find(place.key);
        assign(place, setting, config);
        if (setting.layer != layout::ConfigLayer::built_in) {
            config.origins.emplace_back(place.key, setting.origin);
        }
    }
    Result<std::shared_ptr<const layout::Redactor>> redactor = make_redactor(settings.value());
    if (!redactor.ok()) {
        return redactor.error();
    }
    config.redactor = std::move(redactor.value());
    return config;
}

}  // namespace relay::daemon
