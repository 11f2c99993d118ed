// SPDX-License-Identifier: Apache-2.0
#include "cli/flag_table.hpp"

#include "cli/help_flags.hpp"
#include "layout/nearest_name.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <system_error>

namespace relay::cli {

namespace {

using layout::Done;
using layout::Errc;
using layout::Error;
using layout::Result;
using layout::Status;

Error invalid(std::string sentence) {
    return {Errc::invalid, 0, std::move(sentence)};
}

Error lacks_value(const Flag& flag) {
    return invalid(std::string(flag.name) + " needs " + std::string(flag.needs));
}

Error unknown(const std::string& argument, std::span<const Flag> flags) {
    const std::string name = argument.substr(0, argument.find('='));
    std::vector<std::string_view> names;
    names.reserve(flags.size());
    for (const Flag& flag : flags) {
        names.push_back(flag.name);
    }
    const std::vector<HelpFlag> globals = global_flags();
    for (const HelpFlag& flag : globals) {
        names.push_back(flag.name);
    }
    const std::string_view nearest = layout::nearest_name(name, names, 2);
    return invalid(
        "unknown flag \"" + name + "\""
        + (nearest.empty() ? "" : " (did you mean \"" + std::string(nearest) + "\"?)"));
}

// The flag at `at`, which is moved to the last argument it used.
Status
take_flag(const std::vector<std::string>& arguments, std::size_t& at, std::span<const Flag> flags) {
    const std::string& argument = arguments[at];
    const std::size_t equals = argument.find('=');
    const std::string_view name = std::string_view(argument).substr(0, equals);
    const auto find = [&flags](std::string_view wanted) {
        return std::find_if(flags.begin(), flags.end(), [wanted](const Flag& known) {
            return known.name == wanted;
        });
    };
    const auto flag = find(name);
    if (flag == flags.end()) {
        const auto letter = find(name.substr(0, 2));  // "-n5"
        return letter == flags.end() || letter->needs.empty() ? Status(unknown(argument, flags))
                                                              : letter->take(argument.substr(2));
    }
    if (flag->needs.empty()) {
        if (equals != std::string::npos) {
            return invalid(std::string(name) + " takes no value");
        }
        return flag->take({});
    }
    std::string value;
    if (equals != std::string::npos) {
        value = argument.substr(equals + 1);
    } else if (at + 1 < arguments.size()) {
        value = arguments[++at];
    }
    return value.empty() ? Status(lacks_value(*flag)) : flag->take(value);
}

}  // namespace

Flag switch_flag(std::string_view name, bool& on) {
    return {name, {}, [&on](const std::string&) -> Status {
                on = true;
                return Done{};
            }};
}

Flag text_flag(std::string_view name, std::string_view needs, std::string& into) {
    return {name, needs, [&into](const std::string& value) -> Status {
                into = value;
                return Done{};
            }};
}

Flag text_flag(std::string_view name, std::string_view needs, std::optional<std::string>& into) {
    return {name, needs, [&into](const std::string& value) -> Status {
                into = value;
                return Done{};
            }};
}

Flag number_flag(
    std::string_view name,
    std::string_view needs,
    std::int64_t least,
    std::optional<std::int64_t>& into) {
    return {name, needs, [name, needs, least, &into](const std::string& value) -> Status {
                std::int64_t number = 0;
                const char* const end = value.data() + value.size();
                const auto [rest, failure] = std::from_chars(value.data(), end, number);
                if (failure != std::errc{} || rest != end || number < least) {
                    return invalid(
                        std::string(name) + " needs " + std::string(needs) + ", got \"" + value
                        + "\"");
                }
                into = number;
                return Done{};
            }};
}

Result<std::vector<std::string>>
take_flags(const std::vector<std::string>& arguments, std::span<const Flag> flags) {
    std::vector<std::string> words;
    for (std::size_t at = 0; at < arguments.size(); ++at) {
        const std::string& argument = arguments[at];
        if (argument == "--") {
            words.insert(
                words.end(),
                arguments.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                arguments.end());
            break;
        }
        if (argument.size() < 2 || argument.front() != '-') {
            words.push_back(argument);
            continue;
        }
        if (const Status taken = take_flag(arguments, at, flags); !taken.ok()) {
            return taken.error();
        }
    }
    return words;
}

}  // namespace relay::cli
