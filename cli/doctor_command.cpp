// SPDX-License-Identifier: Apache-2.0
#include "cli/checkup.hpp"
#include "cli/client.hpp"
#include "cli/command_line.hpp"
#include "cli/current_directory.hpp"
#include "cli/flag_table.hpp"
#include "cli/human_text.hpp"
#include "cli/local_settings.hpp"
#include "cli/screen.hpp"
#include "cli/terminal_text.hpp"
#include "layout/json_writer.hpp"
#include "layout/version.hpp"

#include <algorithm>
#include <iterator>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace relay::cli {

const std::string_view doctor_help =
    R"(agent-relay doctor: is everything in order, and if not, what mends it?

usage: agent-relay doctor

examples:
  agent-relay doctor
  agent-relay doctor --json | jq -r 'select(.ok | not) | .mend'       the commands that mend what was found

Looks at the configuration, the daemon and its version, the socket, the units of systemd where there are any, who may
read what was recorded, what the disks below journal and stores promise, the journal, disks that refuse to take events, sessions that are active though nobody
records them, events that wait to be delivered, leftover files, and stores that are no longer there. Needs no
daemon, starts none, and changes nothing.

--json prints a line a finding: {"v":1,"check":"daemon","ok":true,"what":"…","mend":null}; mend is a command, or null
when all is well.

exit status: 0 all is well, 1 something is not, 2 wrong usage
)";

namespace {

using layout::Result;

void add(std::vector<CheckupFinding>& all, std::vector<CheckupFinding> more) {
    all.insert(
        all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

std::string text_of(const layout::Settings& settings, std::string_view name) {
    const layout::Setting setting = settings.find(name);
    const auto* const text = std::get_if<std::string>(&setting.value);
    return text == nullptr ? "" : *text;
}

// With the built in values when the configuration cannot be read, which is a finding of its own.
CheckupPlaces find_places(
    const layout::UserDirectories& user,
    const layout::Settings& settings,
    const CommandLine& line,
    const Surroundings& surroundings) {
    CheckupPlaces places;
    places.user = user;
    places.config_file = user.config + "/config.toml";
    places.journal = text_of(settings, "journal.dir");
    if (places.journal.empty()) {
        places.journal = user.state + "/journal";
    }
    const layout::Setting grace = settings.find("daemon.orphan_grace");
    places.orphan_grace = std::chrono::milliseconds(std::get<std::int64_t>(grace.value));
    const Result<std::string> socket =
        line.socket.empty() ? layout::configured_socket(settings, surroundings.environment)
                            : find_socket(line, surroundings);
    places.socket = socket.ok() ? socket.value() : user.state + "/relay.sock";
    return places;
}

void print_finding(const CheckupFinding& finding, const Screen& screen, std::ostream& out) {
    constexpr std::size_t column = 15;
    const bool well = finding.mend.empty();
    std::string check = finding.check;
    check.append(column - std::min(column, check.size()), ' ');
    out << (well ? screen.paint(Tone::green, "well  ") : screen.paint(Tone::red, "ill   ")) << check
        << harmless(finding.what) << '\n';
    if (!well) {
        out << std::string(6 + column, ' ') << screen.paint(Tone::bold, harmless(finding.mend))
            << '\n';
    }
}

std::string finding_json(const CheckupFinding& finding) {
    std::string out;
    layout::JsonObject object(out, layout::JsonObject::Form::compact);
    object.integer("v", 1);
    object.string("check", finding.check);
    object.boolean("ok", finding.mend.empty());
    object.string("what", finding.what);
    if (finding.mend.empty()) {
        object.null("mend");
    } else {
        object.string("mend", finding.mend);
    }
    object.finish();
    return out;
}

std::vector<CheckupFinding> examine(
    const layout::UserDirectories& user,
    const CommandLine& line,
    const Surroundings& surroundings) {
    std::vector<CheckupFinding> findings;
    const Result<std::string> here = current_directory();
    const Result<LocalSettings> local = load_local_settings(
        surroundings.environment, here.ok() ? here.value() : "", "", /*reader=*/std::nullopt);
    findings.push_back(
        {"configuration",
         local.ok() ? "every key is known and every value is right" : local.error().context,
         local.ok() ? ""
                    : "agent-relay config  # tells the next mistake, once this one is mended"});
    const CheckupPlaces places = find_places(
        user, local.ok() ? local.value().settings : layout::Settings(), line, surroundings);
    DaemonCheckup daemon = check_daemon(places, layout::program_version());
    add(findings, std::move(daemon.findings));
    add(findings, check_systemd(places, surroundings.environment, daemon.pid));
    add(findings, check_state(places));
    add(findings, check_stores(places, daemon.answers));
    return findings;
}

}  // namespace

ExitCode doctor_command(const CommandLine& line, const Surroundings& surroundings) {
    const Result<std::vector<std::string>> words = take_flags(line.arguments, {});
    if (!words.ok() || !words.value().empty()) {
        return complain_usage(
            surroundings,
            "doctor",
            words.ok() ? "doctor does not know \"" + words.value().front() + "\""
                       : words.error().context);
    }
    const Result<layout::UserDirectories> user = layout::user_directories(surroundings.environment);
    if (!user.ok()) {
        return complain(surroundings, ExitCode::failed, user.error().context);
    }
    const std::vector<CheckupFinding> findings = examine(user.value(), line, surroundings);
    const Screen screen = look_at_screen(surroundings);
    for (const CheckupFinding& finding : findings) {
        if (line.json) {
            const std::string json = finding_json(finding);
            surroundings.out << (surroundings.out_is_terminal ? harmless_json(json) : json) << '\n';
        } else {
            print_finding(finding, screen, surroundings.out);
        }
    }
    const bool well = std::all_of(
        findings.begin(), findings.end(), [](const auto& finding) { return finding.mend.empty(); });
    return well ? ExitCode::ok : ExitCode::failed;
}

}  // namespace relay::cli
