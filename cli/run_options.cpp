// SPDX-License-Identifier: Apache-2.0
#include "cli/run_options.hpp"

#include "cli/session_choice.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <string_view>

namespace relay::cli {

namespace {

using layout::Done;
using layout::Errc;
using layout::Error;
using layout::Result;
using layout::Status;

Error refuse(const std::string& sentence) {
    return Error{Errc::invalid, 0, sentence};
}

Status parse_turns(const std::string& text, std::int64_t& into) {
    const char* const end = text.data() + text.size();
    const auto [rest, failed] = std::from_chars(text.data(), end, into);
    if (failed != std::errc{} || rest != end || into < 1) {
        return refuse("--max-turns needs a number from 1, got \"" + text + "\"");
    }
    return Done{};
}

bool take_switch(const std::string& flag, RunOptions& options) {
    if (flag == "--no-session") {
        options.record = false;
    } else if (flag == "--no-diff") {
        options.diff = false;
    } else if (flag == "--raw") {
        options.raw = true;
    } else if (flag == "--watch") {
        options.watch = true;
    } else if (flag == "--passthrough-exit") {
        options.passthrough_exit = true;
    } else if (flag == "--resume") {
        options.resume = true;
    } else {
        return false;
    }
    return true;
}

Status take_value(const std::string& flag, const std::string& value, RunOptions& options) {
    if (flag == "--max-turns") {
        return parse_turns(value, options.max_turns);
    }
    if (flag == "--label") {
        options.labels.push_back(value);
    } else if (flag == "--name") {
        options.name = value;
        if (!can_be_name(value)) {
            return refuse("\"" + value + "\" can be no name, for it means something else");
        }
    } else if (flag == "--store") {
        options.store = value;
        if (value != "auto" && value != "repo" && value != "user") {
            return refuse("--store is auto, repo or user, got \"" + value + "\"");
        }
    } else if (flag == "--config") {
        options.config_file = value;
    } else if (flag == "--prompts-file") {
        options.prompts_file = value;
    } else if (flag == "--from") {
        options.resume_from = value;
    }
    return Done{};
}

// The flag at `at`, which is moved to the last argument it used.
Status take_flag(const std::vector<std::string>& arguments, std::size_t& at, RunOptions& options) {
    constexpr std::array<std::string_view, 7> with_value{
        "--max-turns", "--label", "--name", "--store", "--config", "--prompts-file", "--from"};
    const std::string& argument = arguments[at];
    if (take_switch(argument, options)) {
        return Done{};
    }
    const std::size_t equals = std::min(argument.find('='), argument.size());
    const std::string flag = argument.substr(0, equals);
    if (std::find(with_value.begin(), with_value.end(), flag) == with_value.end()) {
        return refuse("unknown flag \"" + argument + "\" (the flags of a command stand behind --)");
    }
    std::string value;
    if (equals < argument.size()) {
        value = argument.substr(equals + 1);
    } else if (at + 1 < arguments.size() && arguments[at + 1] != "--") {
        value = arguments[++at];
    }
    return value.empty() ? refuse(flag + " needs a value") : take_value(flag, value, options);
}

// No flag has white space in its name: a prompt may be a list.
bool is_flag(const std::string& argument) {
    const std::string name = argument.substr(0, argument.find('='));
    return name.size() > 1 && name.starts_with('-')
           && name.find_first_of(" \t\n") == std::string::npos;
}

Status check(const RunOptions& options, bool has_command, std::size_t words) {
    if (has_command && options.command.empty()) {
        return refuse("run needs a command behind --");
    }
    if (has_command && words > 0) {
        return refuse("run takes an agent or a command behind --, got both");
    }
    if (words > 2) {
        return refuse("run takes one prompt; put it in quotes");
    }
    if (options.prompt && !options.prompts_file.empty()) {
        return refuse("run takes a prompt or --prompts-file, got both");
    }
    if (has_command && (!options.prompts_file.empty() || options.max_turns > 0)) {
        return refuse("--prompts-file and --max-turns are for agents; a command is one turn");
    }
    if (!options.resume_from.empty() && !options.resume) {
        return refuse("--from says which session --resume goes on with; it needs that flag");
    }
    return Done{};
}

}  // namespace

Result<RunOptions> parse_run_options(const std::vector<std::string>& arguments) {
    RunOptions options;
    bool has_command = false;
    std::size_t words = 0;
    for (std::size_t at = 0; at < arguments.size(); ++at) {
        const std::string& argument = arguments[at];
        if (argument == "--") {
            has_command = true;
            options.command.assign(
                arguments.begin() + static_cast<std::ptrdiff_t>(at) + 1, arguments.end());
            break;
        }
        if (is_flag(argument)) {
            if (Status taken = take_flag(arguments, at, options); !taken.ok()) {
                return taken.error();
            }
        } else if (++words == 1) {
            options.agent = argument;
        } else if (words == 2) {
            options.prompt = argument;
        }
    }
    const Status checked = check(options, has_command, words);
    return checked.ok() ? Result<RunOptions>(std::move(options)) : checked.error();
}

std::string as_typed(const std::vector<std::string>& words) {
    constexpr std::string_view harmless =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%_+=:,./-";
    std::string line;
    for (const std::string& word : words) {
        line += line.empty() ? "" : " ";
        if (!word.empty() && word.find_first_not_of(harmless) == std::string::npos) {
            line += word;
            continue;
        }
        line += '\'';
        for (const char character : word) {
            line += character == '\'' ? "'\\''" : std::string(1, character);
        }
        line += '\'';
    }
    return line;
}

}  // namespace relay::cli
