// SPDX-License-Identifier: Apache-2.0
#include "cli/client.hpp"

#include "cli/current_directory.hpp"
#include "layout/settings.hpp"

namespace relay::cli {

using layout::Errc;
using layout::Error;
using layout::Result;

Result<std::string> find_socket(const CommandLine& line, const Surroundings& surroundings) {
    if (line.socket.empty()) {
        layout::ConfigSources sources = layout::usual_sources(surroundings.environment);
        // What the daemon itself reads, and no more: a mistake elsewhere does not keep clients from it.
        sources.reader = layout::ConfigReader::daemon;
        const Result<layout::Settings> settings = layout::load_settings(sources);
        return settings.ok() ? layout::configured_socket(settings.value(), surroundings.environment)
                             : settings.error();
    }
    if (line.socket.front() == '/') {
        return line.socket;
    }
    const Result<std::string> here = current_directory();
    return here.ok() ? here.value() + "/" + line.socket : here;
}

std::string not_running(const std::string& socket) {
    return "agent-relayd is not running (no answer at " + socket
           + "); start it with: agent-relay daemon start";
}

std::string unreachable(const std::string& socket, const Error& error) {
    return error.code == Errc::not_found ? not_running(socket)
                                         : "agent-relayd cannot be reached: " + error.context;
}

}  // namespace relay::cli
