// SPDX-License-Identifier: Apache-2.0
#include "layout/settings.hpp"
#include "tests/support/temporary_directory.hpp"

#include <doctest/doctest.h>

#include <unistd.h>

#include <fstream>
#include <map>
#include <optional>
#include <string>

using namespace relay::layout;
using relay::tests::TemporaryDirectory;

namespace {

struct Sources : ConfigSources {
    Sources() {
        system_file = directory.path() + "/system.toml";
        user_file = directory.path() + "/user.toml";
        repository_file = directory.path() + "/repository.toml";
        environment = [this](const char* name) -> std::optional<std::string> {
            const auto found = variables.find(name);
            return found == variables.end() ? std::nullopt : std::optional(found->second);
        };
    }
    static void write(const std::string& file, const std::string& text) {
        std::ofstream(file) << text;
    }

    TemporaryDirectory directory;
    std::map<std::string, std::string> variables;
};

std::string text_of(const Settings& settings, const char* name) {
    const Setting setting = settings.find(name);
    const auto* const text = std::get_if<std::string>(&setting.value);
    return text == nullptr ? "" : *text;
}

}  // namespace

TEST_CASE("each layer wins over those before it and is remembered") {
    Sources sources;
    const auto layer = [&sources] {
        return load_settings(sources).value().find("default.agent").layer;
    };
    CHECK(layer() == ConfigLayer::built_in);
    Sources::write(sources.system_file, "[default]\nagent = \"a\"\n");
    CHECK(layer() == ConfigLayer::system);
    Sources::write(sources.user_file, "[default]\nagent = \"b\"\n");
    CHECK(layer() == ConfigLayer::user);
    Sources::write(sources.repository_file, "[default]\nagent = \"c\"\n");
    CHECK(layer() == ConfigLayer::repository);
    sources.variables["AGENT_RELAY_DEFAULT__AGENT"] = "d";
    CHECK(layer() == ConfigLayer::environment);
    sources.flags = {{"default.agent", "e"}};
    CHECK(layer() == ConfigLayer::flag);
    CHECK(text_of(load_settings(sources).value(), "default.agent") == "e");
}

TEST_CASE("an untrusted repository names no programs and no directories") {
    Sources sources;
    const std::string text = "[default]\nagent = \"x\"\n[agents.x]\nbinary = \"./evil\"\n"
                             "[metrics]\nrate_table = \"/etc/passwd\"\n"
                             "[daemon]\nsocket = \"/evil\"\n[journal]\ndir = \"/evil\"\n";
    Sources::write(sources.repository_file, text);
    std::string judged;
    bool trusted = false;
    sources.trusts = [&judged, &trusted](std::string_view content) {
        judged = content;
        return trusted;
    };
    const auto wary = load_settings(sources);
    REQUIRE(wary.ok());
    CHECK(judged == text);
    CHECK(wary.value().given.size() == 1);
    CHECK(text_of(wary.value(), "default.agent") == "x");
    CHECK(wary.value().ignored.size() == 4);
    trusted = true;
    const auto open = load_settings(sources);
    REQUIRE(open.ok());
    CHECK(text_of(open.value(), "agents.x.binary") == "./evil");
    CHECK(text_of(open.value(), "metrics.rate_table") == "/etc/passwd");
    REQUIRE(open.value().ignored.size() == 2);  // no repository tells the daemon anything
    CHECK(open.value().ignored.front().why == IgnoredSetting::Why::daemons);
    CHECK(open.value().ignored.front().where == sources.repository_file + ":8:1");
    sources.trusts = nullptr;
    CHECK(load_settings(sources).value().ignored.size() == 4);
}

TEST_CASE("a repository's file is not followed elsewhere") {
    Sources sources;
    Sources::write(sources.directory.path() + "/elsewhere", "[default]\nagent = \"x\"\n");
    REQUIRE(
        ::symlink(
            (sources.directory.path() + "/elsewhere").c_str(), sources.repository_file.c_str())
        == 0);
    CHECK_FALSE(load_settings(sources).ok());
}

TEST_CASE("a reader is not kept from its keys by mistakes in those of others") {
    Sources sources;
    Sources::write(sources.user_file, "[daemon]\norphan_grace = \"soon\"\n[default]\nagent = 7\n");
    sources.reader = ConfigReader::daemon;
    CHECK(load_settings(sources).error().context.find("user.toml:2:16") != std::string::npos);
    sources.reader = ConfigReader::command_line;
    CHECK(load_settings(sources).error().context.find("user.toml:4:9") != std::string::npos);
    Sources::write(
        sources.user_file, "[daemon]\norphan_grace = \"soon\"\n[default]\nagent = \"a\"\n");
    CHECK(load_settings(sources).ok());
    sources.reader.reset();
    CHECK_FALSE(load_settings(sources).ok());
}

TEST_CASE("the socket that a recorded program finds goes before configured ones") {
    Sources sources;
    const auto socket = [&sources] {
        return configured_socket(load_settings(sources).value(), sources.environment).value();
    };
    sources.variables["HOME"] = "/home/x";
    CHECK(socket() == "/home/x/.local/state/agent-relay/relay.sock");
    Sources::write(sources.user_file, "[daemon]\nsocket = \"/file\"\n");
    CHECK(socket() == "/file");
    sources.variables["AGENT_RELAY_DAEMON__SOCKET"] = "/variable";
    CHECK(socket() == "/variable");
    sources.variables["AGENT_RELAY_SOCKET"] = "/given";
    CHECK(socket() == "/given");
    sources.flags = {{"daemon.socket", "/flag"}};
    CHECK(socket() == "/flag");
}
