// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.hpp"
#include "cli/flag_table.hpp"
#include "cli/human_text.hpp"
#include "cli/index_notes.hpp"
#include "cli/progress.hpp"
#include "cli/screen.hpp"
#include "cli/search_plan.hpp"
#include "cli/session_choice.hpp"
#include "cli/session_filter.hpp"
#include "cli/session_scan.hpp"
#include "cli/side_by_side.hpp"
#include "cli/terminal_text.hpp"
#include "cli/text_search.hpp"
#include "layout/json_writer.hpp"
#include "layout/session_paths.hpp"
#include "layout/session_reader.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace relay::cli {

const std::string_view search_help = R"(agent-relay search: find words in what was recorded

usage: agent-relay search <word>... [flags]

examples:
  agent-relay search "rate limit" --since 2d       these words side by side
  agent-relay search parser newline                both words in one line
  agent-relay search --regex 'E[0-9]{4}' --agent codex
  agent-relay search --all-repos --json deprecated | jq -r .path

Looks through prompts, outputs and standard error of every turn, newest session first, and prints
"<session>:<turn> <stream>:<line>: <text>". Small letters stand for both cases; a capital in the words makes every
letter count. Sessions are chosen by the flags of agent-relay list: --status, --agent, --label, --stage, --flagged,
--unread, --archived, --all, --since, --older-than, --repo, --all-repos, --store.

flags:
  --regex          the word is an extended regular expression, as in grep -E
  -n NUMBER        stop after so many lines

--json prints a line a hit: {"v":1,"session":…,"slug":…,"turn":2,"stream":"output","line":14,"text":…,"path":…}

exit status: 0 found, 1 not found or failed, 2 wrong usage
)";

namespace {

using layout::Errc;
using layout::Error;
using layout::Meta;
using layout::Result;
using layout::Status;

// Of one session, which are held until those before it are printed.
constexpr std::ptrdiff_t hits_max = 100'000;

struct SearchFlags {
    SessionFilter filter;
    StoreFlags stores;
    bool regex = false;
    std::optional<std::int64_t> limit;
    std::vector<std::string> words;
};

Status parse_flags(const std::vector<std::string>& arguments, SearchFlags& flags) {
    std::vector<Flag> known = filter_flags(flags.filter);
    for (Flag& flag : store_flags(flags.stores)) {
        known.push_back(std::move(flag));
    }
    known.push_back(switch_flag("--regex", flags.regex));
    known.push_back(number_flag("-n", "a number of at least 1", 1, flags.limit));
    Result<std::vector<std::string>> words = take_flags(arguments, known);
    if (!words.ok()) {
        return words.error();
    }
    flags.words = std::move(words.value());
    if (flags.words.empty()) {
        return Error{Errc::invalid, 0, "search needs a word to search for"};
    }
    if (flags.regex && flags.words.size() > 1) {
        return Error{Errc::invalid, 0, "--regex takes one expression; put it in quotes"};
    }
    return layout::Done{};
}

struct Hit {
    std::int64_t turn = 0;
    std::string_view stream;
    std::string file;
    LineHit line;
};

struct Found {
    std::vector<Hit> hits;
    std::optional<Error> fault;
    bool done = false;
};

// The hits of many sessions, searched side by side and printed in their order, each as soon as all before
// it are.
class Search {
public:
    Search(
        const std::vector<ScannedSession>& sessions,
        const SearchPlan& plan,
        std::int64_t limit,
        bool json,
        const Surroundings& surroundings,
        Progress& progress)
        : sessions_(sessions),
          plan_(plan),
          limit_(limit),
          json_(json),
          surroundings_(surroundings),
          screen_(look_at_screen(surroundings)),
          progress_(progress),
          found_(sessions.size()) {}

    void run(const TextPattern& pattern) {
        const std::size_t workers = worker_count(sessions_.size(), 4);
        const std::vector<TextPattern> patterns(workers, pattern);
        side_by_side(sessions_.size(), workers, [&](std::size_t worker, std::size_t item) {
            Found found;
            if (!enough_) {
                found = look_through(sessions_[item].directory, patterns[worker]);
            }
            found.done = true;
            const std::lock_guard guard(mutex_);
            found_[item] = std::move(found);
            print_ready();
        });
    }

    [[nodiscard]] std::int64_t printed() const { return printed_; }
    [[nodiscard]] const std::vector<SkippedSession>& skipped() const { return skipped_; }

private:
    [[nodiscard]] Found
    look_through(const std::string& directory, const TextPattern& pattern) const {
        Found found;
        const auto planned = plan_.turns.find(directory);
        const Result<std::vector<std::int64_t>> turns =
            planned == plan_.turns.end() ? layout::list_turns(directory) : planned->second;
        if (!turns.ok()) {
            found.fault = turns.error();
            return found;
        }
        for (const std::int64_t turn : turns.value()) {
            const std::vector<std::pair<std::string_view, std::string>> files{
                {"prompt", layout::prompt_file(turn)},
                {"output", layout::output_file(turn)},
                {"stderr", layout::stderr_file(turn)},
            };
            for (const auto& entry : files) {
                const std::string path = directory + "/" + entry.second;
                const Status searched = search_file(path, pattern, [&](LineHit line) {
                    found.hits.push_back({turn, entry.first, path, std::move(line)});
                    return !enough_
                           && std::ssize(found.hits) < std::min<std::int64_t>(limit_, hits_max);
                });
                if (std::ssize(found.hits) == hits_max) {
                    found.fault = Error{
                        Errc::busy,
                        0,
                        "only its first " + std::to_string(hits_max) + " lines are shown"};
                    return found;
                }
                if (!searched.ok() && searched.error().code != Errc::not_found) {
                    found.fault = searched.error();
                }
            }
        }
        return found;
    }

    // Called with the lock held.
    void print_ready() {
        for (; next_ < found_.size() && found_[next_].done; ++next_) {
            Found found = std::exchange(found_[next_], {});
            if (found.fault) {
                skipped_.push_back({sessions_[next_].directory, std::move(*found.fault)});
            }
            for (const Hit& hit : found.hits) {
                if (printed_ == limit_ || !surroundings_.out) {
                    enough_ = true;
                    break;
                }
                progress_.stop();
                print(sessions_[next_].meta, hit);
                ++printed_;
            }
        }
        progress_.reach(next_);
    }

    void print(const Meta& meta, const Hit& hit) const {
        if (json_) {
            print_json(meta, hit);
            return;
        }
        const std::string_view text = hit.line.text;
        const TextPattern::Span match = hit.line.match;
        surroundings_.out
            << screen_.paint(Tone::cyan, short_id(meta.id) + ":" + std::to_string(hit.turn)) << ' '
            << hit.stream << ':' << hit.line.line << ": " << harmless(text.substr(0, match.begin))
            << screen_.paint(Tone::red, harmless(text.substr(match.begin, match.size)))
            << harmless(text.substr(match.begin + match.size)) << '\n';
    }

    void print_json(const Meta& meta, const Hit& hit) const {
        std::string line;
        layout::JsonObject object(line, layout::JsonObject::Form::compact);
        object.integer("v", 1);
        object.string("session", meta.id.text());
        object.string("slug", meta.slug);
        object.integer("turn", hit.turn);
        object.string("stream", hit.stream);
        object.integer("line", hit.line.line);
        object.string("text", hit.line.text);
        object.string("path", hit.file);
        object.finish();
        surroundings_.out << (surroundings_.out_is_terminal ? harmless_json(line) : line) << '\n';
    }

    const std::vector<ScannedSession>& sessions_;
    const SearchPlan& plan_;
    const std::int64_t limit_;
    const bool json_;
    const Surroundings& surroundings_;
    const Screen screen_;
    Progress& progress_;
    std::atomic<bool> enough_{false};
    std::mutex mutex_;  // what follows
    std::vector<Found> found_;
    std::vector<SkippedSession> skipped_;
    std::size_t next_ = 0;
    std::int64_t printed_ = 0;
};

}  // namespace

ExitCode search_command(const CommandLine& line, const Surroundings& surroundings) {
    SearchFlags flags;
    if (const Status parsed = parse_flags(line.arguments, flags); !parsed.ok()) {
        return complain_usage(surroundings, "search", parsed.error().context);
    }
    const Result<TextPattern> pattern =
        flags.regex ? TextPattern::regex(flags.words.front()) : TextPattern::words(flags.words);
    if (!pattern.ok()) {
        return complain_usage(surroundings, "search", pattern.error().context);
    }
    const Result<std::vector<std::string>> directories =
        sessions_directories(flags.stores, flags.filter, surroundings.environment);
    if (!directories.ok()) {
        return complain(surroundings, ExitCode::failed, directories.error().context);
    }
    const std::string index = index_directory(surroundings.environment);
    const SearchPlan plan = plan_search(
        index, flags.regex ? std::vector<std::string>() : flags.words, directories.value());
    ScanRequest request;
    request.sessions_directories = directories.value();
    request.list = [&plan](const std::string& directory) {
        return plan.sessions.at(directory);
    };
    request.wanted = [&flags](const Meta& meta) {
        return flags.filter.admits(meta);
    };
    SessionScan scan = scan_sessions(request);
    std::int64_t printed = 0;
    {
        const Pages pages(surroundings);
        Progress progress(surroundings, "searched", scan.sessions.size());
        Search search(
            scan.sessions,
            plan,
            flags.limit.value_or(INT64_MAX),
            line.json,
            pages.surroundings(),
            progress);
        search.run(pattern.value());
        printed = search.printed();
        scan.skipped.insert(scan.skipped.end(), search.skipped().begin(), search.skipped().end());
    }
    name_skipped(scan.skipped, surroundings);
    if (printed == 0) {
        static_cast<void>(complain(
            surroundings,
            ExitCode::ok,
            "nothing was found in " + counted(std::ssize(scan.sessions), "session")
                + (directories.value().size() == 1
                       ? " of " + directories.value().front() + "; --all-repos looks in every store"
                       : "")));
    }
    surroundings.out.flush();  // nobody waits for what follows
    note_unknown(index, plan);
    return printed > 0 ? ExitCode::ok : ExitCode::failed;
}

}  // namespace relay::cli
