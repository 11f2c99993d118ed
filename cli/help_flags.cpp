// SPDX-License-Identifier: Apache-2.0
#include "cli/help_flags.hpp"

#include "cli/command_line.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <utility>

namespace relay::cli {

namespace {

std::string_view help_of(std::string_view name) {
    for (const Command& command : commands()) {
        if (command.name == name) {
            return command.help;
        }
    }
    return {};
}

std::vector<std::string_view> lines_of(std::string_view text) {
    std::vector<std::string_view> lines;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        lines.push_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return lines;
}

bool is_name(char character) {
    return std::islower(static_cast<unsigned char>(character)) != 0 || character == '-';
}

// The flag that begins at `at`: "--since", or "-n" and the like before a value.
std::string_view flag_at(std::string_view line, std::size_t at) {
    const bool begins =
        at == 0 || line[at - 1] == ' ' || line[at - 1] == '[' || line[at - 1] == '(';
    if (!begins || line[at] != '-') {
        return {};
    }
    std::size_t end = at;
    while (end < line.size() && is_name(line[end])) {
        ++end;
    }
    const std::string_view flag = line.substr(at, end - at);
    const bool whole = flag.starts_with("--") ? flag.size() > 2 : flag.size() == 2;
    return whole ? flag : std::string_view();
}

// "TIME" or "auto|repo|user", when that is what stands at `at`.
std::string_view value_at(std::string_view line, std::size_t at) {
    if (at >= line.size() || line[at] != ' ') {
        return {};
    }
    const std::string_view rest = line.substr(at + 1);
    const std::string_view word = rest.substr(0, rest.find_first_of(" ,]"));
    const bool capitals = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
        return std::isupper(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '=';
    });
    const bool choice = word.find('|') != std::string_view::npos && is_name(word.front());
    return capitals || choice ? word : std::string_view();
}

std::string meaning_of(std::string_view line) {
    // After the flags comes a gap, and after that what they mean.
    const std::size_t gap = line.find("  ", 2);
    const std::size_t begin =
        gap == std::string_view::npos ? gap : line.find_first_not_of(' ', gap);
    return begin == std::string_view::npos ? "" : std::string(line.substr(begin));
}

class Collection {
public:
    void add(HelpFlag flag) {
        const auto known = std::find_if(flags_.begin(), flags_.end(), [&flag](const auto& each) {
            return each.name == flag.name;
        });
        if (known == flags_.end()) {
            flags_.push_back(std::move(flag));
        } else {
            known->value = known->value.empty() ? flag.value : known->value;
            known->meaning = known->meaning.empty() ? flag.meaning : known->meaning;
        }
    }
    void add_line(std::string_view line) {
        const bool describes = line.starts_with("  -");
        for (std::size_t at = line.find('-'); at < line.size(); ++at) {
            const std::string_view name = flag_at(line, at);
            if (!name.empty()) {
                const std::string_view value = value_at(line, at + name.size());
                add({std::string(name), std::string(value), describes ? meaning_of(line) : ""});
                at += name.size();
            }
        }
    }
    [[nodiscard]] std::vector<HelpFlag> take() { return std::move(flags_); }

private:
    std::vector<HelpFlag> flags_;
};

// The command whose flags this line takes over; empty when it takes none.
std::string_view taken_over(std::string_view line) {
    for (const std::string_view words :
         {"flags of agent-relay ",
          "flags and agents are those of ",
          "Flags are those of ",
          "flags: those of "}) {
        if (const std::size_t found = line.find(words); found != std::string_view::npos) {
            const std::string_view rest = line.substr(found + words.size());
            return rest.substr(0, rest.find_first_of(":., "));
        }
    }
    return {};
}

// Adds what the help of `command` tells by itself. The command whose flags it takes over besides; empty: none.
std::string_view read_help(std::string_view command, Collection& collection) {
    bool in_examples = false;
    std::string_view other;
    for (std::string_view line : lines_of(help_of(command))) {
        in_examples = line == "examples:" || (in_examples && !line.empty());
        if (in_examples || line.starts_with("--json")) {
            continue;
        }
        line = line.substr(0, line.find("grep -"));  // somebody else's flags
        collection.add_line(line);
        other = other.empty() ? taken_over(line) : other;
    }
    return other;
}

}  // namespace

std::vector<HelpFlag> flags_in_help(std::string_view command) {
    Collection collection;
    if (const std::string_view other = read_help(command, collection); !other.empty()) {
        // Values and meanings of what was named, or all of it.
        Collection others;
        static_cast<void>(read_help(other, others));
        for (HelpFlag& flag : others.take()) {
            if (flag.name != "-n") {
                collection.add(std::move(flag));
            }
        }
    }
    std::vector<HelpFlag> flags = collection.take();
    std::erase_if(flags, [](const HelpFlag& flag) {
        const std::vector<HelpFlag> globals = global_flags();
        return std::any_of(globals.begin(), globals.end(), [&flag](const HelpFlag& global) {
            return global.name == flag.name;
        });
    });
    return flags;
}

std::vector<HelpFlag> global_flags() {
    return {
        {"--json", "", "data as JSON, one object a line"},
        {"--no-color", "", "no colours"},
        {"--socket", "PATH", "the daemon's socket"},
        {"--help", "", "what a command does, with examples"},
        {"--version", "", "print the version"},
    };
}

bool usage_names(std::string_view command, std::string_view word) {
    for (const std::string_view line : lines_of(help_of(command))) {
        if (!line.starts_with("usage:") && !line.starts_with("       agent-relay")) {
            continue;
        }
        for (const char open : {'<', '['}) {
            const std::string named = std::string(1, open) + std::string(word);
            const std::size_t found = line.find(named);
            if (found != std::string_view::npos
                && !is_name(line[std::min(found + named.size(), line.size() - 1)])) {
                return true;
            }
        }
    }
    return false;
}

}  // namespace relay::cli
