// SPDX-License-Identifier: Apache-2.0
#include "layout/config_key.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

using namespace relay::layout;
using std::chrono::milliseconds;

TEST_CASE("every key has a section and a name of its own and a default that it accepts") {
    std::set<std::string> names;
    for (const ConfigKey& key : config_keys()) {
        CAPTURE(key.name);
        CHECK(names.emplace(key.name).second);
        CHECK(find_config_key(key.name) == &key);
        bool has_section = false;
        for (const std::string_view section : config_sections()) {
            has_section = has_section || key.name.starts_with(std::string(section) + ".");
        }
        CHECK(has_section);
        CHECK(key.meaning.empty() == (key.reader == ConfigReader::nobody));
        if (!key.built_in.empty()) {
            const auto value = read_config_value(key, std::string(key.built_in));
            REQUIRE(value.ok());
            std::string shown = shown_config_value(key, value.value());
            CHECK((shown == key.built_in || shown == quoted(key.built_in)));
        }
    }
}

TEST_CASE("keys of agents are found under every name of an agent") {
    REQUIRE(find_config_key("agents.mine.binary") != nullptr);
    CHECK(find_config_key("agents.mine.binary")->name == "agents.*.binary");
    CHECK(find_config_key("agents.my.own.binary") != nullptr);
    CHECK(find_config_key("agents..binary") == nullptr);
    CHECK(find_config_key("agents.binary") == nullptr);
    CHECK(find_config_key("agents") == nullptr);
    CHECK(nearest_config_key("agents.mine.binray") == "agents.mine.binary");
    CHECK(nearest_config_key("agents.mine.frobnicate").empty());
    CHECK(nearest_config_key("daemon.sokcet") == "daemon.socket");
    CHECK(nearest_config_key("deamon") == "daemon");
}

TEST_CASE("values are shown as they would be written") {
    const auto shown = [](const char* name, const ConfigValue& given) {
        const ConfigKey& key = *find_config_key(name);
        const auto value = read_config_value(key, given);
        return value.ok() ? shown_config_value(key, value.value()) : value.error().context;
    };
    CHECK(shown("daemon.orphan_grace", std::int64_t{90}) == "90s");
    CHECK(shown("daemon.orphan_grace", std::string("1500ms")) == "1500ms");
    CHECK(shown("journal.segment_bytes", std::string("64 MiB")) == "64MiB");
    CHECK(shown("default.max_turns", std::string("7")) == "7");
    CHECK(shown("default.watch", std::string("true")) == "true");
    CHECK(shown("default.watch", false) == "false");
    CHECK(shown("default.watch", std::int64_t{1}) == "true or false");
    CHECK(shown("default.agent", std::string("co\ndex")) == "\"co\\x0adex\"");
    CHECK(shown("agents.a.extra_args", std::vector<std::string>{"-m", "o9"}) == "[\"-m\", \"o9\"]");
    CHECK(shown("agents.a.extra_args", std::string("-m")) == "an array of strings");
    CHECK(shown("agents.a.prompt", std::string("shout")).starts_with("\"argument\", \"stdin\""));
    const std::string path = "/" + std::string(200, 'x');
    CHECK(shown("journal.dir", path) == "\"" + path + "\"");
}

TEST_CASE("durations are whole numbers with a unit or seconds") {
    CHECK(parse_duration("30s").value() == milliseconds(30'000));
    CHECK(parse_duration("500ms").value() == milliseconds(500));
    CHECK(parse_duration("10min").value() == milliseconds(600'000));
    CHECK(parse_duration("2h").value() == milliseconds(7'200'000));
    CHECK(parse_duration("1d").value() == milliseconds(86'400'000));
    CHECK(parse_duration("0").value() == milliseconds(0));
    CHECK(parse_duration("7").value() == milliseconds(7'000));
    for (const char* const text :
         {"",
          " ",
          "s",
          "-1s",
          "1.5s",
          "1 ",
          " 1",
          "1s ",
          "1m",
          "1S",
          "1  s",
          "99999999999999999999",
          "9223372036854775807d",
          "0x10"}) {
        CAPTURE(text);
        CHECK_FALSE(parse_duration(text).ok());
    }
    CHECK(parse_duration("5 parsecs").error().context.ends_with("got \"5 parsecs\""));
}

TEST_CASE("sizes are whole numbers with a power of 1024 or bytes") {
    CHECK(parse_size("1000000").value() == 1'000'000);
    CHECK(parse_size("16 KiB").value() == 16 << 10);
    CHECK(parse_size("64MiB").value() == 64 << 20);
    CHECK(parse_size("1K").value() == 1 << 10);
    CHECK(parse_size("1M").value() == 1 << 20);
    CHECK(parse_size("1G").value() == 1 << 30);
    CHECK(parse_size("1GiB").value() == 1 << 30);
    CHECK(parse_size("5B").value() == 5);
    for (const char* const text :
         {"", "KiB", "-1", "1.5K", "1KB", "1kib", "9223372036854775807K"}) {
        CAPTURE(text);
        CHECK_FALSE(parse_size(text).ok());
    }
    CHECK(parse_size("x\n").error().context.ends_with("got \"x\\x0a\""));
}
