// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/client.hpp"
#include "cli/command_line.hpp"
#include "layout/result.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace relay::cli {

// A few requests to the daemon and their answers, for commands that change what it keeps. The daemon is started
// when nobody listens. One thread at a time.
class DaemonTalk {
public:
    // Errc::closed, with a sentence, when it can neither be reached nor started.
    [[nodiscard]] static layout::Result<DaemonTalk>
    begin(const CommandLine& line, const Surroundings& surroundings);

    // The members of the ack; `request` needs no id. Errc::not_found when the daemon knows no such session,
    // Errc::closed when there is no answer, Errc::invalid when the daemon refuses, with its own words.
    [[nodiscard]] layout::Result<nlohmann::json> ask(nlohmann::ordered_json request);

private:
    explicit DaemonTalk(Client client) : client_(std::move(client)) {}

    Client client_;
    int requests_ = 0;
};

// What a command ends with: daemon_unreachable, no_such_session or failed.
[[nodiscard]] ExitCode talk_code(const layout::Error& error);

}  // namespace relay::cli
