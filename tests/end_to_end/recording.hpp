// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/daemon_process.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/wire_client.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// What the end-to-end tests share: looking at a session from both ends.

// Shows the whole answer when it is no ack. For those who include doctest.
#define CHECK_ACK(answer)                                                                          \
    do {                                                                                           \
        const relay::tests::Json seen_answer = (answer);                                           \
        CHECK_MESSAGE(relay::tests::is_ack(seen_answer), seen_answer.dump());                      \
    } while (false)

namespace relay::tests {

// Small segments: a test daemon starts in no time and runs through several of them.
[[nodiscard]] DaemonSetup small_journal(std::vector<std::string> more_flags = {});

// A session as its start was answered. `id` is empty when it was refused.
struct Recording {
    std::string id;
    std::string slug;
    std::string path;
    Json answer;

    [[nodiscard]] std::string file(std::string_view name) const;
    [[nodiscard]] std::string text(std::string_view name) const;  // "" when there is none
    [[nodiscard]] bool has(std::string_view name) const;
    [[nodiscard]] Json json(std::string_view name) const;  // discarded when there is none
    [[nodiscard]] Json meta() const { return json("meta.json"); }
    [[nodiscard]] std::vector<Json> timeline() const;
};

[[nodiscard]] Recording
start_session(WireClient& client, const std::string& cwd, const Json& fields = Json::object());

[[nodiscard]] std::string new_ulid();

[[nodiscard]] bool is_ack(const Json& answer);
[[nodiscard]] std::string code_of(const Json& answer);  // "" unless it is an error
[[nodiscard]] std::string message_of(const Json& answer);

[[nodiscard]] std::string read_text(const std::string& path);
void write_text(const std::string& path, std::string_view text);
[[nodiscard]] bool exists(const std::string& path);
[[nodiscard]] int
mode_of(const std::string& path);  // permission bits; -1 when there is no such file
// Every file and directory below, relative, sorted; directories end in "/".
[[nodiscard]] std::vector<std::string> tree_of(const std::string& directory);

// What `verify` says against the session, one finding a line; "" when it is sound.
[[nodiscard]] std::string damage_of(const std::string& session_directory);

// A git repository with one commit. False when git is missing.
[[nodiscard]] bool make_repository(const std::string& directory);

}  // namespace relay::tests
