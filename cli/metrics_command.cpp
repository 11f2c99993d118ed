// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.hpp"
#include "cli/flag_table.hpp"
#include "cli/human_text.hpp"
#include "cli/screen.hpp"
#include "cli/session_card.hpp"
#include "cli/session_choice.hpp"
#include "cli/session_filter.hpp"
#include "cli/session_scan.hpp"
#include "cli/terminal_text.hpp"
#include "layout/documents.hpp"
#include "layout/json_writer.hpp"
#include "layout/session_reader.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace relay::cli {

const std::string_view metrics_help = R"(agent-relay metrics: tokens, cost and time

usage: agent-relay metrics [flags]

examples:
  agent-relay metrics --by agent --since 7d
  agent-relay metrics --by day --all-repos
  agent-relay metrics --chain TWFTA9               a session and those that it goes on from
  agent-relay metrics --json | jq 'select(.by == "total") | .cost_usd'

Sums what sessions say of themselves; "-" is what nobody said. Time runs from a session's start to its end, or to the
last event of one that has none. Sessions are chosen by the flags of agent-relay list: --status, --agent, --label,
--stage, --flagged, --unread, --archived, --all, --since, --older-than, --repo, --all-repos, --store.

flags:
  --by session|agent|day   a row for each of these; session unless said otherwise
  --chain SESSION          only this one and its parents, the first one first

--json prints a line a row, the last with "by":"total":
  {"v":1,"by":"agent","key":"codex","sessions":3,"turns":9,"tokens":{…},"cost_usd":0.75,"wall_ms":90000}

exit status: 0 shown, 1 failed or the start of the chain is missing, 2 nothing matched, wrong usage or ambiguous,
3 no such session
)";

namespace {

using layout::Errc;
using layout::Error;
using layout::Meta;
using layout::Result;
using layout::Status;

constexpr std::size_t chain_max = 1000;  // a longer one is a loop

enum class By { session, agent, day };

struct MetricsFlags {
    SessionFilter filter;
    StoreFlags stores;
    By by = By::session;
    std::optional<std::string> chain;
};

struct Sum {
    std::string key;
    std::string label;  // what people see of it
    std::int64_t sessions = 0;
    std::int64_t turns = 0;
    layout::Tokens tokens;
    layout::Tokens in_all;  // its total alone, also of those that say only what went in and out
    std::optional<double> cost_usd;
    std::int64_t wall_ms = 0;

    void add(const Meta& meta) {
        ++sessions;
        turns += meta.turn_count;
        tokens.add(meta.tokens);
        layout::Tokens one;
        one.total = tokens_in_all(meta.tokens);
        in_all.add(one);
        if (meta.cost_usd) {
            cost_usd = cost_usd.value_or(0) + *meta.cost_usd;
        }
        const std::int64_t end = meta.ended_at.value_or(meta.updated_at).ms;
        wall_ms += std::max<std::int64_t>(0, end - meta.started_at.ms);
    }
};

Status parse_flags(const std::vector<std::string>& arguments, MetricsFlags& flags) {
    constexpr std::string_view needs = "one of session, agent, day";
    std::vector<Flag> known = filter_flags(flags.filter);
    for (Flag& flag : store_flags(flags.stores)) {
        known.push_back(std::move(flag));
    }
    known.push_back(text_flag("--chain", "a session", flags.chain));
    known.push_back({"--by", needs, [&flags, needs](const std::string& value) -> Status {
                         if (value == "session") {
                             flags.by = By::session;
                         } else if (value == "agent") {
                             flags.by = By::agent;
                         } else if (value == "day") {
                             flags.by = By::day;
                         } else {
                             return Error{
                                 Errc::invalid,
                                 0,
                                 "--by needs " + std::string(needs) + ", got \"" + value + "\""};
                         }
                         return layout::Done{};
                     }});
    const Result<std::vector<std::string>> words = take_flags(arguments, known);
    if (!words.ok()) {
        return words.error();
    }
    if (!words.value().empty()) {
        return Error{
            Errc::invalid,
            0,
            "metrics does not know \"" + words.value().front()
                + "\"; one session is --chain or agent-relay show"};
    }
    return layout::Done{};
}

// A session and its parents, the first one first. Errc::gone when one of them is nowhere.
Result<std::vector<Meta>> read_chain(const std::string& word, const SearchPlaces& places) {
    Result<ChosenSession> chosen = choose_session(word, places);
    std::vector<Meta> chain;
    while (chosen.ok()) {
        Result<Meta> meta = layout::read_meta(chosen.value().directory);
        if (!meta.ok()) {
            return Error{Errc::corrupt, 0, meta.error().context};
        }
        chain.push_back(std::move(meta.value()));
        if (!chain.back().parent) {
            std::reverse(chain.begin(), chain.end());
            return chain;
        }
        const std::string parent = chain.back().parent->session;
        if (chain.size() >= chain_max) {
            return Error{Errc::corrupt, 0, "the chain of \"" + word + "\" has no beginning"};
        }
        chosen = choose_session(parent, places);
        if (!chosen.ok()) {
            return Error{
                Errc::gone,
                0,
                "the start of the chain is missing: session " + parent + ", the parent of "
                    + chain.back().id.text() + ", is in no store"};
        }
    }
    return chosen.error();
}

Sum row_for(const Meta& meta, By by) {
    Sum sum;
    if (by == By::agent) {
        sum.key = meta.agent;
        sum.label = meta.agent;
    } else if (by == By::day) {
        sum.key = day_text(meta.started_at);
        sum.label = sum.key;
    } else {
        sum.key = meta.id.text();
        sum.label = short_id(meta.id) + " " + meta.name.value_or(meta.slug);
    }
    return sum;
}

// In the order in which their first sessions come.
std::vector<Sum> group(const std::vector<Meta>& sessions, By by) {
    std::vector<Sum> sums;
    std::map<std::string, std::size_t> places;
    for (const Meta& meta : sessions) {
        Sum row = row_for(meta, by);
        const auto [place, fresh] = places.emplace(row.key, sums.size());
        if (fresh) {
            sums.push_back(std::move(row));
        }
        sums[place->second].add(meta);
    }
    return sums;
}

std::string_view name_of(By by) {
    return by == By::agent ? "agent" : by == By::day ? "day" : "session";
}

std::string row_json(const Sum& sum, std::string_view by) {
    std::string line;
    layout::JsonObject object(line, layout::JsonObject::Form::compact);
    object.integer("v", 1);
    object.string("by", by);
    object.string("key", sum.key);
    object.integer("sessions", sum.sessions);
    object.integer("turns", sum.turns);
    object.key("tokens");
    layout::append_tokens(line, sum.tokens);
    object.number_or_null("cost_usd", sum.cost_usd);
    object.integer("wall_ms", sum.wall_ms);
    object.finish();
    return line;
}

std::vector<Cell> row_cells(const Sum& sum, Tone tone) {
    const auto count = [](const std::optional<std::int64_t>& number) {
        return number ? count_text(*number) : "-";
    };
    return {
        {harmless(sum.label), tone},
        {std::to_string(sum.sessions)},
        {std::to_string(sum.turns)},
        {count(sum.tokens.input)},
        {count(sum.tokens.output)},
        {count(sum.tokens.cache_read)},
        {count(sum.in_all.total)},
        {sum.cost_usd ? cost_text(*sum.cost_usd) : "-"},
        {duration_text(sum.wall_ms)},
    };
}

void print_sums(
    const std::vector<Sum>& sums, const Sum& total, By by, const Surroundings& surroundings) {
    using Side = Column::Side;
    constexpr std::size_t wide_screen = 90;
    std::string title(name_of(by));
    std::transform(title.begin(), title.end(), title.begin(), [](char letter) {
        return static_cast<char>(letter - 'a' + 'A');
    });
    const std::vector<Column> columns{
        {title, Side::left, 10},
        {"SESSIONS", Side::right},
        {"TURNS", Side::right},
        {"IN", Side::right},
        {"OUT", Side::right},
        {"CACHED", Side::right, 0, wide_screen},
        {"TOTAL", Side::right},
        {"COST", Side::right},
        {"TIME", Side::right},
    };
    std::vector<std::vector<Cell>> rows;
    rows.reserve(sums.size() + 1);
    for (const Sum& sum : sums) {
        rows.push_back(row_cells(sum, Tone::plain));
    }
    if (sums.size() > 1) {
        rows.push_back(row_cells(total, Tone::bold));
    }
    const Pages pages(surroundings);
    pages.surroundings().out << print_table(columns, rows, look_at_screen(surroundings));
}

// The chain, or what the filter admits.
Result<std::vector<Meta>>
find_sessions(const MetricsFlags& flags, const Surroundings& surroundings) {
    std::vector<Meta> sessions;
    if (flags.chain) {
        const Result<SearchPlaces> places =
            find_search_places(surroundings.environment, flags.stores.store);
        if (!places.ok()) {
            return Error{Errc::io, 0, places.error().context};
        }
        Result<std::vector<Meta>> chain = read_chain(*flags.chain, places.value());
        if (!chain.ok()) {
            return chain.error();
        }
        SessionFilter filter = flags.filter;
        filter.archived = SessionFilter::Archived::also;
        std::copy_if(
            chain.value().begin(),
            chain.value().end(),
            std::back_inserter(sessions),
            [&filter](const Meta& meta) { return filter.admits(meta); });
        return sessions;
    }
    const Result<std::vector<std::string>> directories =
        sessions_directories(flags.stores, flags.filter, surroundings.environment);
    if (!directories.ok()) {
        return Error{Errc::io, 0, directories.error().context};
    }
    ScanRequest request;
    request.sessions_directories = directories.value();
    request.wanted = [&flags](const Meta& meta) {
        return flags.filter.admits(meta);
    };
    SessionScan scan = scan_sessions(request);
    name_skipped(scan.skipped, surroundings);
    sessions.reserve(scan.sessions.size());
    for (ScannedSession& session : scan.sessions) {
        sessions.push_back(std::move(session.meta));
    }
    return sessions;
}

}  // namespace

ExitCode metrics_command(const CommandLine& line, const Surroundings& surroundings) {
    MetricsFlags flags;
    if (const Status parsed = parse_flags(line.arguments, flags); !parsed.ok()) {
        return complain_usage(surroundings, "metrics", parsed.error().context);
    }
    const Result<std::vector<Meta>> sessions = find_sessions(flags, surroundings);
    if (!sessions.ok()) {
        return complain(surroundings, choice_code(sessions.error()), sessions.error().context);
    }
    if (sessions.value().empty()) {
        return complain(
            surroundings,
            ExitCode::usage,
            "no session matched; --all-repos looks in every store, --all also at archived ones");
    }
    const std::vector<Sum> sums = group(sessions.value(), flags.by);
    Sum total;
    total.key = "total";
    total.label = "total";
    for (const Meta& meta : sessions.value()) {
        total.add(meta);
    }
    if (!line.json) {
        print_sums(sums, total, flags.by, surroundings);
        return ExitCode::ok;
    }
    for (const Sum& sum : sums) {
        const std::string row = row_json(sum, name_of(flags.by));
        surroundings.out << (surroundings.out_is_terminal ? harmless_json(row) : row) << '\n';
    }
    surroundings.out << row_json(total, "total") << '\n';
    return ExitCode::ok;
}

}  // namespace relay::cli
