// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.hpp"
#include "cli/current_directory.hpp"
#include "cli/flag_table.hpp"
#include "cli/local_settings.hpp"
#include "cli/run_options.hpp"
#include "cli/terminal_text.hpp"
#include "cli/trust_list.hpp"
#include "layout/json_writer.hpp"
#include "layout/session_reader.hpp"
#include "layout/settings.hpp"
#include "layout/sha256.hpp"

#include <stdlib.h>

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

namespace relay::cli {

const std::string_view trust_help = R"(agent-relay trust: let a repository's configuration count

usage: agent-relay trust [path] [flags]        a repository, a directory in one, or its config.toml;
                                               without a path: the one around here
examples:
  cat .agent-relay/config.toml                  look at it first
  agent-relay trust                             as it is now, it may name programs and directories
  agent-relay trust --list
  agent-relay trust --revoke ~/src/project

A repository's .agent-relay/config.toml comes from whoever wrote the repository. Until you trust it, what it says of
[agents.*] and of directories is ignored, and run says so. Trust is in the file's content: after any change of it,
by you or by git pull, it is to be trusted again. It is kept in trust.json in the state directory.

flags:
  --list      what is trusted, and whether it is still as it was
  --revoke    trust it no longer

--json prints a line a file: {"v":1,"file":"/src/project/.agent-relay/config.toml","sha256":"…","at":"…","state":"trusted"};
state is "trusted", "changed", "gone" or, after --revoke, "revoked".

exit status: 0 done, 1 failed, or nothing to trust or to revoke, 2 wrong usage
)";

namespace {

using layout::Errc;
using layout::Error;
using layout::Result;

constexpr std::int64_t file_bytes_max = 1 << 20;

std::string real_path(const std::string& path) {
    struct Release {
        void operator()(char* memory) const { ::free(memory); }
    };
    const std::unique_ptr<char, Release> real{::realpath(path.c_str(), nullptr)};
    return real ? std::string(real.get()) : std::string();
}

// The configuration file that a path means; it need not exist.
Result<std::string> file_meant(const std::string& path, const layout::Environment& environment) {
    constexpr std::string_view name = "/.agent-relay/config.toml";
    std::string wanted = path;
    if (wanted.ends_with("/config.toml") || wanted == "config.toml") {
        const std::size_t slash = wanted.rfind('/');
        wanted = slash == std::string::npos ? "." : wanted.substr(0, slash);
    }
    const std::string directory = real_path(wanted.empty() ? "/" : wanted);
    if (directory.empty()) {
        return Error{Errc::not_found, 0, "no directory \"" + wanted + "\""};
    }
    const std::string root = repository_root(directory, environment);
    if (root.empty()) {
        return Error{
            Errc::not_found,
            0,
            directory + " lies in no repository: neither it nor a directory above it has .git or a"
                + " .agent-relay of yours"};
    }
    return root + std::string(name);
}

std::string state_of(const TrustedFile& file) {
    const Result<std::string> content = layout::read_file(file.file, file_bytes_max);
    if (!content.ok()) {
        return "gone";
    }
    return layout::sha256_hex(content.value()) == file.sha256 ? "trusted" : "changed";
}

void print_file(
    const TrustedFile& file,
    const std::string& state,
    const CommandLine& line,
    const Surroundings& surroundings) {
    if (!line.json) {
        surroundings.out << state << std::string(9 - state.size(), ' ') << harmless(file.file)
                         << '\n';
        return;
    }
    std::string out;
    layout::JsonObject object(out, layout::JsonObject::Form::compact);
    object.integer("v", 1);
    object.string("file", file.file);
    object.string("sha256", file.sha256);
    object.string("at", file.at);
    object.string("state", state);
    object.finish();
    surroundings.out << (surroundings.out_is_terminal ? harmless_json(out) : out) << '\n';
}

ExitCode list(const CommandLine& line, const std::string& state, const Surroundings& surroundings) {
    const Result<TrustList> trusted = TrustList::read(state);
    if (!trusted.ok()) {
        return complain(surroundings, ExitCode::failed, trusted.error().context);
    }
    for (const TrustedFile& file : trusted.value().files()) {
        print_file(file, state_of(file), line, surroundings);
    }
    return trusted.value().files().empty()
               ? complain(surroundings, ExitCode::ok, "no repository's configuration is trusted")
               : ExitCode::ok;
}

TrustedFile find_file(const std::string& state, const std::string& file) {
    const Result<TrustList> trusted = TrustList::read(state);
    if (trusted.ok()) {
        for (const TrustedFile& each : trusted.value().files()) {
            if (each.file == file) {
                return each;
            }
        }
    }
    return {file, "", ""};
}

// What the file says that counts from now on, so that a person sees what they agreed to.
void print_allowed(
    const std::string& file, const std::string& content, const Surroundings& surroundings) {
    layout::ConfigSources sources;
    sources.system_file.clear();
    sources.repository_file = file;
    sources.trusts = [&content](std::string_view found) {
        return found == content;
    };
    const Result<layout::Settings> settings = layout::load_settings(sources);
    if (!settings.ok()) {
        // Trusted or not, run refuses it until it is mended, and then it is another file.
        static_cast<void>(complain(surroundings, ExitCode::ok, settings.error().context));
        return;
    }
    for (const auto& [name, setting] : settings.value().given) {
        surroundings.out << "  " << harmless(name) << " = "
                         << harmless(layout::shown_config_value(*setting.key, setting.value))
                         << '\n';
    }
}

ExitCode allow(
    const std::string& file,
    const std::string& state,
    const CommandLine& line,
    const Surroundings& surroundings) {
    const Result<std::string> content = layout::read_file(file, file_bytes_max);
    if (!content.ok()) {
        return complain(
            surroundings,
            ExitCode::failed,
            content.error().code == Errc::not_found ? file + " does not exist; nothing to trust"
                                                    : content.error().context);
    }
    if (const layout::Status done = trust(state, file, content.value()); !done.ok()) {
        return complain(surroundings, ExitCode::failed, done.error().context);
    }
    print_file(find_file(state, file), "trusted", line, surroundings);
    if (!line.json) {
        print_allowed(file, content.value(), surroundings);
    }
    return ExitCode::ok;
}

ExitCode revoke(
    const std::string& file,
    const std::string& state,
    const CommandLine& line,
    const Surroundings& surroundings) {
    const TrustedFile before = find_file(state, file);
    const Result<bool> known = revoke_trust(state, file);
    if (!known.ok()) {
        return complain(surroundings, ExitCode::failed, known.error().context);
    }
    if (!known.value()) {
        return complain(surroundings, ExitCode::failed, file + " was not trusted");
    }
    print_file(before, "revoked", line, surroundings);
    return ExitCode::ok;
}

}  // namespace

ExitCode trust_command(const CommandLine& line, const Surroundings& surroundings) {
    bool lists = false;
    bool revokes = false;
    const std::vector<Flag> flags{switch_flag("--list", lists), switch_flag("--revoke", revokes)};
    const Result<std::vector<std::string>> words = take_flags(line.arguments, flags);
    if (!words.ok()) {
        return complain_usage(surroundings, "trust", words.error().context);
    }
    if (words.value().size() > 1 || (lists && (revokes || !words.value().empty()))) {
        return complain_usage(
            surroundings, "trust", "trust takes one path, or --list alone, or --revoke and a path");
    }
    const Result<layout::UserDirectories> user = layout::user_directories(surroundings.environment);
    if (!user.ok()) {
        return complain(surroundings, ExitCode::failed, user.error().context);
    }
    if (lists) {
        return list(line, user.value().state, surroundings);
    }
    const std::string path = words.value().empty() ? "." : words.value().front();
    // As it stands in the list: the repository may be gone by now.
    if (revokes && !find_file(user.value().state, path).sha256.empty()) {
        return revoke(path, user.value().state, line, surroundings);
    }
    const Result<std::string> file = file_meant(path, surroundings.environment);
    if (!file.ok()) {
        return complain(surroundings, ExitCode::failed, file.error().context);
    }
    return revokes ? revoke(file.value(), user.value().state, line, surroundings)
                   : allow(file.value(), user.value().state, line, surroundings);
}

}  // namespace relay::cli
