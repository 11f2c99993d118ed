// SPDX-License-Identifier: Apache-2.0
#include "cli/local_settings.hpp"

#include "cli/run_options.hpp"
#include "cli/trust_list.hpp"

#include <string_view>

namespace relay::cli {

namespace {

using layout::IgnoredSetting;
using layout::Result;

// "agents.a.binary, agents.b.binary and 3 more"
std::string names_of(const LocalSettings& local, IgnoredSetting::Why why) {
    constexpr std::size_t names_max = 4;
    std::string names;
    std::size_t count = 0;
    for (const IgnoredSetting& ignored : local.settings.ignored) {
        if (ignored.why == why && ++count <= names_max) {
            names += (names.empty() ? "" : ", ") + ignored.name;
        }
    }
    return count > names_max ? names + " and " + std::to_string(count - names_max) + " more"
                             : names;
}

}  // namespace

std::string repository_config(const std::string& root) {
    return root + "/.agent-relay/config.toml";
}

std::string repository_root(const std::string& cwd, const layout::Environment& environment) {
    Result<layout::UserDirectories> user = layout::user_directories(environment);
    if (cwd.empty() || !user.ok()) {
        return "";
    }
    user.value().relocated = false;  // its sessions may lie elsewhere; the repository stays one
    const Result<layout::Placement> placement =
        layout::place_session(cwd, layout::StorePreference::automatic, user.value());
    return placement.ok() && placement.value().store.is_repo ? placement.value().store.anchor : "";
}

Result<LocalSettings> load_local_settings(
    const layout::Environment& environment,
    const std::string& cwd,
    const std::string& explicit_file,
    std::optional<layout::ConfigReader> reader) {
    layout::ConfigSources sources = layout::usual_sources(environment);
    LocalSettings local;
    local.repository_root = repository_root(cwd, environment);
    sources.explicit_file = explicit_file;
    sources.reader = reader;
    if (!local.repository_root.empty()) {
        const std::string file = repository_config(local.repository_root);
        const Result<layout::UserDirectories> user = layout::user_directories(environment);
        sources.repository_file = file;
        sources.trusts = [file,
                          state = user.ok() ? user.value().state : ""](std::string_view content) {
            // A list that cannot be read trusts nothing; `trust` says what is wrong with it.
            const Result<TrustList> list = TrustList::read(state);
            return list.ok() && list.value().trusts(file, content);
        };
    }
    Result<layout::Settings> settings = layout::load_settings(sources);
    if (!settings.ok()) {
        return settings.error();
    }
    local.settings = std::move(settings.value());
    return local;
}

void name_ignored(const LocalSettings& local, const Surroundings& surroundings) {
    const std::string file = repository_config(local.repository_root);
    const std::string untrusted = names_of(local, IgnoredSetting::Why::untrusted);
    if (!untrusted.empty()) {
        static_cast<void>(complain(
            surroundings,
            ExitCode::ok,
            file + " is not trusted as it is, so this is ignored: " + untrusted
                + "; read it, then: agent-relay trust " + as_typed({local.repository_root})));
    }
    const std::string daemons = names_of(local, IgnoredSetting::Why::daemons);
    if (!daemons.empty()) {
        static_cast<void>(complain(
            surroundings,
            ExitCode::ok,
            file + ": ignored, because the daemon serves all repositories: " + daemons
                + "; say it in your own config.toml"));
    }
}

}  // namespace relay::cli
