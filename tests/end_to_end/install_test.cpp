// SPDX-License-Identifier: Apache-2.0
#include "tests/end_to_end/recording.hpp"
#include "tests/support/daemon_process.hpp"
#include "tests/support/temporary_directory.hpp"

#include <doctest/doctest.h>
#include <relay_built_here.hpp>

#include <chrono>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace relay::tests {
namespace {

const std::string source = RELAY_SOURCE_DIR;
const std::string build = RELAY_BUILD_DIR;
const std::string generated_page = build + "/man/agent-relay.1";

std::string page(const std::string& path) {
    const std::string text = read_text(path);
    REQUIRE_MESSAGE(!text.empty(), path);
    return text;
}

std::set<std::string> found_in(const std::string& text, const std::string& pattern) {
    std::set<std::string> found;
    const std::regex flag(pattern);
    for (std::sregex_iterator at(text.begin(), text.end(), flag), end; at != end; ++at) {
        found.insert((*at)[1]);
    }
    return found;
}

TEST_CASE("an installation has programs and pages and completions and units in their places") {
    const TemporaryDirectory stage;
    const ProgramEnd end = run_program(
        {"/usr/bin/env", "cmake", "--install", build, "--prefix", "/opt/relay"},
        {{"DESTDIR", stage.path()}},
        std::chrono::seconds(120));
    REQUIRE_MESSAGE(end.status == 0, end.err);
    const std::string prefix = stage.path() + "/opt/relay/";
    for (const std::string file :
         {"bin/agent-relay",
          "bin/agent-relayd",
          "share/man/man1/agent-relay.1",
          "share/man/man5/agent-relay-format.5",
          "share/man/man7/agent-relay-protocol.7",
          "share/man/man8/agent-relayd.8",
          "share/bash-completion/completions/agent-relay",
          "share/zsh/site-functions/_agent-relay",
          "share/fish/vendor_completions.d/agent-relay.fish",
          "lib/systemd/user/agent-relayd.service",
          "lib/systemd/user/agent-relayd.socket",
          "lib/systemd/system/agent-relayd@.service",
          "lib/systemd/system/agent-relayd@.socket",
          "share/agent-relay/systemd/strict.conf",
          "share/agent-relay/systemd/no-userns.conf",
          "share/doc/agent-relay/config.toml",
          "include/agent_relay.hpp"}) {
        CHECK_MESSAGE(exists(prefix + file), file);
    }
    CHECK(end.out.find("schema/meta.schema.json") != std::string::npos);
    // The unit starts the program that came with it, wherever it was staged.
    for (const std::string name : {"user/agent-relayd.service", "system/agent-relayd@.service"}) {
        const std::string unit = read_text(prefix + "lib/systemd/" + name);
        CHECK(unit.find("\nExecStart=/opt/relay/bin/agent-relayd\n") != std::string::npos);
        CHECK(unit.find(stage.path()) == std::string::npos);
    }
    // The programs read /etc alone, so it is the business of an installation below /usr.
    CHECK_FALSE(exists(stage.path() + "/etc"));
    CHECK(run_program({prefix + "bin/agent-relay", "--version"}).status == 0);
}

// The units as `cmake --install` would leave them for a program that exists, in a directory of their own.
struct UnitDirectory {
    explicit UnitDirectory(const std::string& drop_in = "") {
        // An instance of each template, of a user that exists everywhere.
        for (const std::string name :
             {"agent-relayd.socket",
              "agent-relayd.service",
              "agent-relayd@.socket",
              "agent-relayd@.service"}) {
            std::string unit = read_text(source + "/systemd/" + name);
            const std::string program = "/usr/bin/agent-relayd";
            if (const std::size_t at = unit.find(program); at != std::string::npos) {
                unit.replace(at, program.size(), daemon_binary());
            }
            std::string instance = name;
            if (const std::size_t at = name.find('@'); at != std::string::npos) {
                instance.insert(at + 1, "root");
            }
            write_text(path(instance), unit);
            if (!drop_in.empty() && name.ends_with(".service")) {
                const std::string text = read_text(source + "/systemd/" + drop_in);
                REQUIRE(!text.empty());
                // Behind it in one file: systemd-analyze reads no drop-ins without a manager.
                write_text(path(instance), unit + text);
            }
        }
    }

    [[nodiscard]] std::string path(const std::string& name) const {
        return directory.path() + "/" + name;
    }
    [[nodiscard]] ProgramEnd analyze(const std::string& arguments) const {
        return run_shell(
            "cd '" + directory.path() + "' && XDG_RUNTIME_DIR=$PWD systemd-analyze " + arguments);
    }

    TemporaryDirectory directory;
};

TEST_CASE("an installation below /usr has a configuration and keeps one that is there") {
    const TemporaryDirectory stage;
    const auto install = [&stage] {
        return run_program(
                   {"/usr/bin/env", "cmake", "--install", build, "--prefix", "/usr"},
                   {{"DESTDIR", stage.path()}},
                   std::chrono::seconds(120))
            .status;
    };
    REQUIRE(install() == 0);
    const std::string config = stage.path() + "/etc/agent-relay/config.toml";
    CHECK(read_text(config) == read_text(source + "/docs/config.toml"));
    const std::string unit = read_text(stage.path() + "/usr/lib/systemd/user/agent-relayd.service");
    CHECK(unit == read_text(source + "/systemd/agent-relayd.service"));
    write_text(config, "# mine\n");
    REQUIRE(install() == 0);
    CHECK(read_text(config) == "# mine\n");
}

TEST_CASE("systemd understands every line of the units and of the drop-ins") {
    for (const std::string drop_in : {"", "strict.conf", "no-userns.conf"}) {
        CAPTURE(drop_in);
        const UnitDirectory units(drop_in);
        ProgramEnd end = units.analyze("--user verify --man=no --recursive-errors=yes "
                                       "./agent-relayd.service ./agent-relayd.socket");
        CHECK_MESSAGE(end.status == 0, end.err);
        CHECK_MESSAGE(end.err.find("agent-relayd") == std::string::npos, end.err);
        end = units.analyze("verify --man=no --recursive-errors=yes ./agent-relayd@root.service "
                            "./agent-relayd@root.socket");
        CHECK_MESSAGE(end.status == 0, end.err);
        CHECK_MESSAGE(end.err.find("agent-relayd") == std::string::npos, end.err);
    }
    // That it would be told.
    const UnitDirectory wrong;
    write_text(
        wrong.path("agent-relayd.service"),
        read_text(wrong.path("agent-relayd.service")) + "[Service]\nWatchdogSecs=1\n");
    CHECK(
        wrong.analyze("--user verify --man=no --recursive-errors=yes ./agent-relayd.service").status
        != 0);
}

TEST_CASE("the exposure of the units that systemd computes is at most 1.5") {
    for (const std::string drop_in : {"", "strict.conf"}) {
        CAPTURE(drop_in);
        const UnitDirectory units(drop_in);
        for (const std::string name : {"agent-relayd.service", "agent-relayd@root.service"}) {
            const ProgramEnd end = units.analyze(
                "security --offline=yes --no-pager --threshold=15 '" + units.path(name) + "'");
            CHECK_MESSAGE(end.status == 0, end.out);
            CHECK(end.out.find("Overall exposure level") != std::string::npos);
        }
    }
}

TEST_CASE("every sandbox option that the units leave out has its reason in them") {
    for (const std::string name : {"agent-relayd.service", "agent-relayd@.service"}) {
        CAPTURE(name);
        const UnitDirectory units;
        const std::string unit = read_text(source + "/systemd/" + name);
        const std::string instance =
            name == "agent-relayd.service" ? name : "agent-relayd@root.service";
        const ProgramEnd end =
            units.analyze("security --offline=yes --no-pager '" + units.path(instance) + "'");
        // "✗ PrivateTmp=   Service has …"; what is set, if not to the strictest, is explained where it is set.
        const std::set<std::string> open = found_in(end.out, "\xe2\x9c\x97 ([A-Za-z]+)=");
        CHECK(open.size() > 3);
        for (const std::string& directive : open) {
            const bool told = unit.find("# No " + directive) != std::string::npos
                              || unit.find("\n" + directive + "=") != std::string::npos
                              || directive == "DeviceAllow";  // PrivateDevices= with ProtectClock=
            CHECK_MESSAGE(told, directive);
        }
    }
}

TEST_CASE("the configuration that is installed says what is built in") {
    std::string text = read_text(source + "/docs/config.toml");
    REQUIRE(!text.empty());
    const TemporaryDirectory home;
    const auto values = [&home](const std::string& file) {
        const ProgramEnd end = run_program(
            {RELAY_CLI_BINARY, "config", "--json"},
            {{"HOME", home.path()},
             {"AGENT_RELAY_HOME", home.path()},
             {"XDG_RUNTIME_DIR", home.path()}});
        CHECK_MESSAGE(end.status == 0, file, end.err);
        std::map<std::string, Json> found;
        std::istringstream lines(end.out);
        for (std::string line; std::getline(lines, line);) {
            const Json value = Json::parse(line);
            found[value["key"]] = value;
        }
        return found;
    };
    const auto built_in = values("");
    // As it is, and with every setting uncommented.
    const std::string place = home.path() + "/config/config.toml";
    std::filesystem::create_directories(home.path() + "/config");
    write_text(place, text);
    CHECK(values(place) == built_in);
    text = std::regex_replace(text, std::regex("\n# ([a-z_]+ = )"), "\n$1");
    write_text(place, text);
    int known = 0;
    for (const auto& [key, value] : values(place)) {
        const bool ours =
            key.starts_with("daemon.") || key.starts_with("journal.") || key == "sessions.store";
        if (!ours || key == "daemon.socket" || key == "journal.dir") {
            continue;  // examples: what is built in depends on the user
        }
        CAPTURE(key);
        CHECK(value["layer"] == "user");
        CHECK(value["value"] == built_in.at(key)["value"]);
        ++known;
    }
    CHECK(known >= 9);
}

TEST_CASE("a program finds the installed library by CMake and by pkg-config") {
    const TemporaryDirectory place;
    const std::string prefix = place.path() + "/prefix";
    ProgramEnd end = run_program(
        {"/usr/bin/env", "cmake", "--install", build, "--prefix", prefix},
        {},
        std::chrono::seconds(120));
    REQUIRE_MESSAGE(end.status == 0, end.err);
    write_text(
        place.path() + "/CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.25)\nproject(shout LANGUAGES CXX)\n"
        "find_package(agent_relay 0.1 REQUIRED)\nadd_executable(shout example.cpp)\n"
        "target_link_libraries(shout PRIVATE agent_relay::agent_relay)\n");
    const std::string sanitizer = RELAY_SANITIZE_FLAG;
    const std::string go =
        "cd '" + place.path() + "' && cp '" + source + "/clients/example.cpp' . && ";
    end = run_shell(
        go + "cmake -S . -B b -DCMAKE_PREFIX_PATH='" + prefix + "' -DCMAKE_CXX_FLAGS='" + sanitizer
        + "' && cmake --build b && echo hi | AGENT_RELAY_HOME=$PWD/home b/shout");
    CHECK_MESSAGE(end.status == 0, end.out, end.err);
    CHECK(end.out.find("\nHI\n") != std::string::npos);
    end = run_shell(
        go
        + "PKG_CONFIG_PATH=$(dirname $(find prefix -name agent_relay.pc)) && export "
          "PKG_CONFIG_PATH && "
        + "c++ -std=c++20 " + sanitizer
        + " example.cpp $(pkg-config --cflags --libs agent_relay) -o by-pc && "
        + "echo hi | LD_LIBRARY_PATH=$(dirname $PKG_CONFIG_PATH) AGENT_RELAY_HOME=$PWD/home "
          "./by-pc");
    CHECK_MESSAGE(end.status == 0, end.out, end.err);
    CHECK(end.out.starts_with("HI\n"));
    // It shows its own names and needs nothing of its users.
    end = run_shell("nm -DC --defined-only '" + build + "/lib/libagent_relay.so' | grep ' [TW] '");
    CHECK(end.out.find("agent_relay::Session::end(") != std::string::npos);
    CHECK(end.out.find("relay::delivery::") == std::string::npos);
    CHECK(end.out.find("relay::layout::") == std::string::npos);
}

TEST_CASE("the manual of the command line lists every command and flag that the help does") {
    const std::string text = page(generated_page);
    const ProgramEnd help = run_program({RELAY_CLI_BINARY, "--help"});
    const std::size_t begin = help.out.find("\ncommands:\n");
    const std::string listed = help.out.substr(begin, help.out.find("\n\n", begin + 1) - begin);
    const std::set<std::string> commands = found_in(listed, R"(\n  ([a-z]+) )");
    CHECK(commands.size() > 15);
    for (const std::string& command : commands) {
        CAPTURE(command);
        const std::size_t section = text.find("\n.Ss " + command + "\n");
        REQUIRE(section != std::string::npos);
        const std::string body = text.substr(section, text.find("\n.S", section + 1) - section);
        const ProgramEnd offered = run_program(
            {RELAY_CLI_BINARY, "__complete", command, "--"},
            {{"AGENT_RELAY_HOME", "/nonexistent/relay"}, {"HOME", "/nonexistent"}});
        std::set<std::string> flags = found_in(offered.out, R"(--([a-z-]+)\t)");
        for (const char* const global : {"json", "no-color", "socket", "help", "version"}) {
            CHECK(flags.erase(global) == 1);
            CHECK(text.find(std::string(".It Fl Fl ") + global) != std::string::npos);
        }
        CHECK(found_in(body, R"(\.It Fl Fl ([a-z-]+))") == flags);
    }
}

TEST_CASE("the manual of the daemon lists the flags of its help and no others") {
    const std::string text = page(source + "/docs/man/agent-relayd.8");
    const std::string help = run_program({daemon_binary(), "--help"}).out;
    const std::set<std::string> flags =
        found_in(help.substr(help.find("\nflags:\n")), R"(\n  --([a-z-]+))");
    CHECK(flags.size() == 10);
    CHECK(found_in(text, R"(\.It Fl Fl ([a-z-]+))") == flags);
}

TEST_CASE("the manual of the protocol names every request of the schema") {
    const Json schema = Json::parse(page(source + "/docs/schema/request.schema.json"));
    const std::string text = page(source + "/docs/man/agent-relay-protocol.7");
    for (const Json& type : schema["properties"]["type"]["enum"]) {
        const std::string named = ".Cm " + type.get<std::string>();
        const bool there = text.find(named + "\n") != std::string::npos
                           || text.find(named + " ") != std::string::npos;
        CHECK_MESSAGE(there, named);
    }
}

TEST_CASE("the manual pages are shown without complaint") {
    const std::vector<std::string> pages{
        generated_page,
        source + "/docs/man/agent-relayd.8",
        source + "/docs/man/agent-relay-format.5",
        source + "/docs/man/agent-relay-protocol.7"};
    const bool lints = run_shell("command -v mandoc").status == 0;
    const bool shows = run_shell("command -v man && command -v groff").status == 0;
    if (!lints && !shows) {
        MESSAGE("NOT TESTED: neither man with groff nor mandoc is installed");
        return;
    }
    for (const std::string& file : pages) {
        CAPTURE(file);
        if (shows) {
            const ProgramEnd end =
                run_shell("LC_ALL=C.UTF-8 MANWIDTH=100 man --warnings -Tutf8 -l '" + file + "'");
            CHECK(end.status == 0);
            CHECK_MESSAGE(end.err.empty(), end.err);
            CHECK(end.out.size() > 1000);
        }
        if (lints) {
            const ProgramEnd end = run_shell("mandoc -Tlint -Werror '" + file + "'");
            CHECK_MESSAGE(end.status == 0, end.out);
        }
    }
}

}  // namespace
}  // namespace relay::tests
