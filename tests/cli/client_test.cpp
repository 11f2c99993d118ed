// SPDX-License-Identifier: Apache-2.0
#include "cli/client.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <sstream>
#include <string>
#include <string_view>

using relay::cli::CommandLine;
using relay::cli::find_socket;
using relay::cli::Surroundings;

TEST_CASE("the socket of the flag wins and is made absolute") {
    std::ostringstream ignored;
    const Surroundings surroundings{
        [](const char* name) {
            return std::string_view(name) == "AGENT_RELAY_SOCKET"
                       ? std::optional<std::string>("/from/environment")
                       : std::nullopt;
        },
        ignored,
        ignored,
        false};
    CommandLine line;
    CHECK(find_socket(line, surroundings).value() == "/from/environment");
    line.socket = "/from/flag";
    CHECK(find_socket(line, surroundings).value() == "/from/flag");
    line.socket = "here.sock";
    const std::string found = find_socket(line, surroundings).value();
    CHECK(found.front() == '/');
    CHECK(found.ends_with("/here.sock"));
}
