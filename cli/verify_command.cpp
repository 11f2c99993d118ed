// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.hpp"
#include "cli/terminal_text.hpp"
#include "layout/json_writer.hpp"
#include "layout/session_reader.hpp"

#include <stdlib.h>

#include <algorithm>
#include <iterator>
#include <ostream>
#include <string>
#include <vector>

namespace relay::cli {

const std::string_view verify_help =
    R"(agent-relay verify: recompute the hashes and the chain of sessions

usage: agent-relay verify <session directory>... [--json]

examples:
  agent-relay verify .agent-relay/latest
  agent-relay verify .agent-relay/sessions/*
  agent-relay verify --json ~/backup/01J9X3M7K5VBHQEN6T2F4D8RPZ | jq '.damage[]'

Needs no daemon and changes nothing. Names every file that differs from what its turn's seal says.

exit status: 0 all as sealed, 1 unreadable, 2 wrong usage, 3 no such session, 5 damaged
)";

namespace {

using layout::Errc;
using layout::Finding;
using layout::JsonObject;
using layout::Result;
using layout::Verification;

std::string findings_json(const std::vector<Finding>& findings) {
    std::string out = "[";
    for (const Finding& finding : findings) {
        if (out.size() > 1) {
            out += ',';
        }
        JsonObject object(out, JsonObject::Form::compact);
        object.string("file", finding.file);
        object.string("what", finding.what);
        object.finish();
    }
    return out + "]";
}

std::string report_json(const std::string& directory, const Result<Verification>& result) {
    std::string out;
    JsonObject object(out, JsonObject::Form::compact);
    object.integer("v", 1);
    object.string("session", directory);
    object.boolean("ok", result.ok() && result.value().damage.empty());
    if (result.ok()) {
        object.integer("turns", result.value().turns);
        object.integer("open_turns", result.value().open_turns);
        object.raw("damage", findings_json(result.value().damage));
        object.raw("remarks", findings_json(result.value().remarks));
    } else {
        object.string("error", result.error().context);
    }
    object.finish();
    return out;
}

std::string counted(std::int64_t count, const std::string& noun) {
    return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

void print_report(const std::string& directory, const Verification& found, std::ostream& out) {
    out << harmless(directory) << ": "
        << (found.damage.empty() ? std::string("ok")
                                 : "damaged in " + counted(std::ssize(found.damage), "place"))
        << ", " << counted(found.turns, "sealed turn");
    if (found.open_turns > 0) {
        out << ", " << counted(found.open_turns, "open turn");
    }
    out << '\n';
    for (const Finding& finding : found.damage) {
        out << "  damage  " << harmless(finding.file) << ": " << harmless(finding.what) << '\n';
    }
    for (const Finding& finding : found.remarks) {
        out << "  remark  " << harmless(finding.file) << ": " << harmless(finding.what) << '\n';
    }
}

ExitCode code_of(const Result<Verification>& result) {
    if (result.ok()) {
        return result.value().damage.empty() ? ExitCode::ok : ExitCode::damaged;
    }
    if (result.error().code == Errc::not_found) {
        return ExitCode::no_such_session;
    }
    return result.error().code == Errc::corrupt ? ExitCode::damaged : ExitCode::failed;
}

// The directory under its own name, which is the session's id, however the user got there: through
// "latest", "." or a slash at the end. As given when there is none.
std::string resolved(const std::string& directory) {
    char* const found = ::realpath(directory.c_str(), nullptr);
    if (found == nullptr) {
        return directory;
    }
    std::string path = found;
    ::free(found);
    return path;
}

}  // namespace

ExitCode verify_command(const CommandLine& line, const Surroundings& surroundings) {
    std::vector<std::string> directories;
    bool only_words = false;
    for (const std::string& argument : line.arguments) {
        if (!only_words && argument == "--") {
            only_words = true;
        } else if (!only_words && argument.starts_with('-')) {
            return complain_usage(surroundings, "verify", "unknown flag \"" + argument + "\"");
        } else {
            directories.push_back(argument);
        }
    }
    if (directories.empty()) {
        return complain_usage(surroundings, "verify", "verify needs a session's directory");
    }
    // Damage is worse than a missing session, which is worse than any other failure: the numbers agree.
    ExitCode worst = ExitCode::ok;
    for (const std::string& directory : directories) {
        const Result<Verification> result = layout::verify_session(resolved(directory));
        worst = std::max(worst, code_of(result));
        if (line.json) {
            const std::string report = report_json(directory, result);
            surroundings.out << (surroundings.out_is_terminal ? harmless_json(report) : report)
                             << '\n';
        } else if (result.ok()) {
            print_report(directory, result.value(), surroundings.out);
        } else {
            static_cast<void>(complain(surroundings, worst, result.error().context));
        }
    }
    return worst;
}

}  // namespace relay::cli
