// SPDX-License-Identifier: Apache-2.0

// agent-relay __complete <word>...: what the shells' completions ask. The last word is the one being typed. Prints a
// candidate a line, a tab, and what it is. No daemon, no network, no words on stderr.

#include "cli/agent_table.hpp"
#include "cli/command_line.hpp"
#include "cli/current_directory.hpp"
#include "cli/help_flags.hpp"
#include "cli/local_settings.hpp"
#include "cli/session_choice.hpp"
#include "cli/session_scan.hpp"
#include "cli/terminal_text.hpp"
#include "cli/trash.hpp"
#include "layout/session_reader.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <ostream>
#include <string>
#include <vector>

namespace relay::cli {

namespace {

using layout::Result;

class Candidates {
public:
    Candidates(std::string_view typed, const Surroundings& surroundings)
        : typed_(typed), surroundings_(surroundings) {}

    void offer(std::string_view word, std::string_view meaning) const {
        const bool fits = word.size() >= typed_.size()
                          && std::equal(typed_.begin(), typed_.end(), word.begin(), same_letter);
        if (fits) {
            surroundings_.out << harmless(word) << '\t' << harmless(meaning) << '\n';
        }
    }
    [[nodiscard]] std::string_view typed() const { return typed_; }
    [[nodiscard]] const Surroundings& surroundings() const { return surroundings_; }

private:
    static bool same_letter(char a, char b) {
        return std::toupper(static_cast<unsigned char>(a))
               == std::toupper(static_cast<unsigned char>(b));
    }

    std::string_view typed_;
    const Surroundings& surroundings_;
};

enum class Of { store, trash };

void offer_sessions(const Candidates& candidates, Of of = Of::store) {
    constexpr std::size_t sessions_max = 200;  // more than anybody reads
    const Result<SearchPlaces> places =
        find_search_places(candidates.surroundings().environment, "");
    if (!places.ok()) {
        return;
    }
    const Result<std::string> trash = trash_beside(places.value().nearest);
    const std::string directory =
        of == Of::trash && trash.ok() ? trash.value() : places.value().nearest;
    const auto ids = layout::list_sessions(directory);
    ScanRequest request;
    request.sessions_directories = {directory};
    if (ids.ok() && ids.value().size() > sessions_max) {
        const layout::Ulid oldest = ids.value()[sessions_max - 1];
        request.wanted_id = [oldest](const layout::Ulid& id) {
            return id.text() >= oldest.text();
        };
    }
    for (const ScannedSession& session : scan_sessions(request).sessions) {
        const layout::Meta& meta = session.meta;
        const std::string preview = meta.preview.value_or("");
        candidates.offer(short_id(meta.id), meta.slug + "  " + preview);
        if (!candidates.typed().empty()) {
            candidates.offer(meta.slug, preview);
            candidates.offer(meta.id.text(), meta.slug + "  " + preview);
            candidates.offer(meta.name.value_or(""), meta.slug + "  " + preview);
        }
    }
    if (of == Of::store) {
        candidates.offer("@latest", "the newest session");
        candidates.offer("@running", "the one that is active");
    }
}

void offer_agents(const Candidates& candidates) {
    const Result<std::string> here = current_directory();
    const Result<LocalSettings> local = load_local_settings(
        candidates.surroundings().environment, here.ok() ? here.value() : "", "");
    const Result<RunConfig> config =
        local.ok() ? make_run_config(local.value().settings, local.value().repository_root)
                   : Result<RunConfig>(local.error());
    for (const AgentEntry& agent : config.ok() ? config.value().agents : built_in_agents()) {
        candidates.offer(agent.name, agent.binary);
    }
}

void offer_words(std::string_view choice, const Candidates& candidates) {
    while (!choice.empty()) {
        const std::size_t end = std::min(choice.find('|'), choice.size());
        candidates.offer(choice.substr(0, end), "");
        choice.remove_prefix(std::min(end + 1, choice.size()));
    }
}

void offer_values(const HelpFlag& flag, const Candidates& candidates) {
    if (flag.value == "SESSION") {
        offer_sessions(candidates);
    } else if (flag.name == "--agent" || flag.value == "AGENT") {
        offer_agents(candidates);
    } else if (flag.value == "STATUS") {
        offer_words("active|checkpointed|completed|failed", candidates);
    } else if (flag.value.find('|') != std::string::npos) {
        offer_words(flag.value, candidates);
    }
}

void offer_commands(const Candidates& candidates) {
    for (const Command& command : commands()) {
        candidates.offer(command.name, command.summary);
    }
    candidates.offer("help", "what a command does, with examples");
}

void offer_flags(const std::vector<HelpFlag>& flags, const Candidates& candidates) {
    for (const HelpFlag& flag : flags) {
        candidates.offer(flag.name, flag.meaning);
    }
}

bool takes_many_sessions(const std::string& command) {
    return command == "verify" || command == "archive" || command == "delete";
}

void offer_arguments(
    const std::string& command, std::size_t position, bool undo, const Candidates& candidates) {
    const bool first = position == 0;
    if (command == "help" && first) {
        offer_commands(candidates);
    } else if (command == "daemon" && first) {
        offer_words("start|stop|restart|status", candidates);
    } else if (command == "index" && first) {
        offer_words("status|rebuild|remove", candidates);
    } else if (command == "log" && first) {
        offer_words("stream", candidates);
    } else if (command == "note" && first) {
        offer_words("decision|blocker|validation|next|file", candidates);
    } else if (command == "config" && first) {
        for (const layout::ConfigKey& key : layout::config_keys()) {
            if (key.reader != layout::ConfigReader::nobody) {
                candidates.offer(key.name, key.meaning);
            }
        }
    } else if (usage_names(command, "session") && (first || takes_many_sessions(command))) {
        offer_sessions(candidates, undo && command == "delete" ? Of::trash : Of::store);
    } else if (usage_names(command, "agent") && position == (command == "resume" ? 1U : 0U)) {
        offer_agents(candidates);
    }
}

// What was typed, sorted as the program itself would.
struct Typed {
    std::string command;
    std::size_t position = 0;      // of the word being typed among those that are no flags
    const HelpFlag* of = nullptr;  // the flag whose value is being typed
    bool after_dashes = false;     // behind "--": somebody else's words
};

Typed sort_words(const std::vector<std::string>& before, std::vector<HelpFlag>& flags) {
    Typed typed;
    flags = global_flags();
    std::string waiting;
    for (const std::string& word : before) {
        if (word == "=") {
            continue;  // bash makes a word of it
        }
        if (!waiting.empty()) {
            waiting.clear();
        } else if (word == "--") {
            typed.after_dashes = true;
        } else if (word.starts_with('-')) {
            const auto flag = std::find_if(flags.begin(), flags.end(), [&word](const auto& each) {
                return each.name == word && !each.value.empty();
            });
            waiting = flag == flags.end() ? "" : word;
        } else if (typed.command.empty()) {
            typed.command = word == "ls" ? "list" : word;
            for (HelpFlag& flag : flags_in_help(typed.command)) {
                flags.push_back(std::move(flag));
            }
        } else {
            ++typed.position;
        }
    }
    const auto of = std::find_if(flags.begin(), flags.end(), [&waiting](const HelpFlag& flag) {
        return flag.name == waiting;
    });
    typed.of = of == flags.end() ? nullptr : &*of;
    return typed;
}

}  // namespace

ExitCode complete_command(const CommandLine& line, const Surroundings& surroundings) {
    std::vector<std::string> words = line.arguments;
    const std::string current = words.empty() || words.back() == "=" ? "" : words.back();
    if (!words.empty() && words.back() != "=") {
        words.pop_back();
    }
    std::vector<HelpFlag> flags;
    const Typed typed = sort_words(words, flags);
    const Candidates candidates(current, surroundings);
    if (typed.after_dashes) {
        return ExitCode::ok;
    }
    if (typed.of != nullptr) {
        offer_values(*typed.of, candidates);
    } else if (current.starts_with('-')) {
        offer_flags(flags, candidates);
    } else if (typed.command.empty()) {
        offer_commands(candidates);
    } else {
        const bool undo = std::find(words.begin(), words.end(), "--undo") != words.end();
        offer_arguments(typed.command, typed.position, undo, candidates);
    }
    return ExitCode::ok;
}

}  // namespace relay::cli
