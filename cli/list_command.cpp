// SPDX-License-Identifier: Apache-2.0
#include "cli/card_scan.hpp"
#include "cli/command_line.hpp"
#include "cli/flag_table.hpp"
#include "cli/human_text.hpp"
#include "cli/screen.hpp"
#include "cli/session_filter.hpp"
#include "cli/side_by_side.hpp"
#include "cli/terminal_text.hpp"
#include "layout/json_writer.hpp"

#include <algorithm>
#include <ostream>
#include <span>
#include <string>
#include <vector>

namespace relay::cli {

const std::string_view list_help =
    R"(agent-relay list: the sessions that were recorded, newest first

usage: agent-relay list [flags]        agent-relay ls is the same

examples:
  agent-relay list                                  of this repository
  agent-relay list --status active --all-repos      everything that runs now
  agent-relay list --agent codex --since 2d -n 10
  agent-relay list --json | jq -r 'select(.cost_usd > 1) | .slug'

Any other command takes a session by the id in the first column.

which sessions:
  --status STATUS    active, checkpointed, completed, or failed: completed with an error
  --agent NAME       of this agent
  --label LABEL      with this label; given twice, with both
  --stage STAGE      at this stage
  --flagged          flagged ones
  --unread           unread ones
  --archived         archived ones, which are left out otherwise; --all: both
  --since TIME       touched since then: 90s, 15m, 2h, 3d, 2w, today, 2026-11-16, 2026-11-16T09:30
  --older-than TIME  not touched since then
  --repo REPO        of this repository, by path or last name, wherever they are stored
  -n NUMBER          at most so many

where:
  --all-repos        every store that sessions were ever recorded in
  --store DIR        this store alone: a repository, a copied .agent-relay, a directory of sessions

--json prints a line a session: the members of its meta.json, and "path".

exit status: 0 listed, also when there are none; 1 failed, 2 wrong usage
)";

namespace {

using layout::Result;
using layout::SessionStatus;
using layout::Timestamp;

constexpr std::size_t sessions_a_part = 1024;  // about a millisecond of work

bool has_failed(const SessionCard& card) {
    return card.status == SessionStatus::completed && card.failed;
}

Tone tone_of(const SessionCard& card) {
    if (card.status == SessionStatus::active) {
        return Tone::green;
    }
    if (card.status == SessionStatus::checkpointed) {
        return Tone::yellow;
    }
    return has_failed(card) ? Tone::red : Tone::dim;
}

void add_row(
    TableRows& rows,
    const layout::Ulid& id,
    const SessionCard& card,
    bool with_repo,
    Timestamp now) {
    rows.add(short_id(id), Tone::cyan);
    rows.add((card.flagged ? "! " : "") + harmless(card.name), Tone::bold);
    if (with_repo) {
        rows.add(harmless(card.root.substr(card.root.rfind('/') + 1)));
    }
    rows.add(harmless(card.agent));
    rows.add(has_failed(card) ? failed_status : layout::name_of(card.status), tone_of(card));
    rows.add(std::to_string(card.turns));
    rows.add(card.tokens ? count_text(*card.tokens) : "-");
    rows.add(age_text(card.updated_at, now));
    rows.add(harmless(card.preview));
}

// What is left out on narrow screens leaves room for the least of the others.
std::vector<Column> list_columns(bool with_repo) {
    using Side = Column::Side;
    std::vector<Column> columns{{"ID"}, {"NAME", Side::left, 12}};
    if (with_repo) {
        columns.push_back({"REPO", Side::left, 8, /*screen_min=*/70});
    }
    columns.push_back({"AGENT", Side::left, 6, /*screen_min=*/52});
    columns.push_back({"STATUS", Side::left, 9});
    columns.push_back({"TURNS", Side::right, 0, /*screen_min=*/44});
    columns.push_back({"TOKENS", Side::right, 0, /*screen_min=*/100});
    columns.push_back({"AGE", Side::right});
    columns.push_back({"PREVIEW", Side::left, 7, /*screen_min=*/60});
    return columns;
}

void print_table_of(const CardScan& scan, bool with_repo, const Surroundings& surroundings) {
    const Timestamp moment = now();
    const std::span<const FoundCard> sessions = scan.sessions;
    std::vector<TableRows> parts((sessions.size() + sessions_a_part - 1) / sessions_a_part);
    side_by_side(parts.size(), worker_count(parts.size(), 1), [&](std::size_t, std::size_t part) {
        const std::size_t begin = part * sessions_a_part;
        for (const FoundCard& session :
             sessions.subspan(begin, std::min(sessions_a_part, sessions.size() - begin))) {
            const std::optional<SessionCard> card = decode_card(session.card);
            add_row(parts[part], session.place.id, card.value(), with_repo, moment);
        }
    });
    const Pages pages(surroundings);
    print_table(
        pages.surroundings().out, list_columns(with_repo), parts, look_at_screen(surroundings));
}

void print_lines(const CardScan& scan, const Surroundings& surroundings) {
    constexpr std::size_t block_bytes = 1 << 16;
    std::string lines;
    for (const FoundCard& session : scan.sessions) {
        std::string line(session.document.substr(0, session.document.size() - 1));
        line += ",\"path\":";
        layout::append_json_string(line, session.place.directory());
        line += '}';
        lines += surroundings.out_is_terminal ? harmless_json(line) : line;
        lines += '\n';
        if (lines.size() >= block_bytes) {
            surroundings.out << lines;
            lines.clear();
        }
    }
    surroundings.out << lines;
}

void say_that_there_are_none(
    const CardScan& scan,
    const std::vector<std::string>& directories,
    const Surroundings& surroundings) {
    const bool one = directories.size() == 1;
    const std::string place = one ? "in " + directories.front()
                                  : "in any of " + counted(std::ssize(directories), "store");
    const std::string farther = one ? "; --all-repos looks in every store" : "";
    static_cast<void>(complain(
        surroundings,
        ExitCode::ok,
        scan.in_stores == 0 ? "no session is recorded " + place
                                  + " yet; agent-relay run -- make test records one" + farther
                            : "no session " + place + " fits" + farther
                                  + (one ? ", --all also at archived ones"
                                         : "; --all looks also at archived ones")));
}

}  // namespace

ExitCode list_command(const CommandLine& line, const Surroundings& surroundings) {
    SessionFilter filter;
    StoreFlags stores;
    std::optional<std::int64_t> limit;
    std::vector<Flag> flags = filter_flags(filter);
    for (Flag& flag : store_flags(stores)) {
        flags.push_back(std::move(flag));
    }
    flags.push_back(number_flag("-n", "a number of at least 1", 1, limit));
    const Result<std::vector<std::string>> words = take_flags(line.arguments, flags);
    if (!words.ok()) {
        return complain_usage(surroundings, "list", words.error().context);
    }
    if (!words.value().empty()) {
        return complain_usage(
            surroundings,
            "list",
            "list does not know \"" + words.value().front()
                + "\"; one session is shown by agent-relay show");
    }
    const Result<std::vector<std::string>> directories =
        sessions_directories(stores, filter, surroundings.environment);
    if (!directories.ok()) {
        return complain(surroundings, ExitCode::failed, directories.error().context);
    }
    CardRequest request;
    request.sessions_directories = directories.value();
    request.documents = line.json ? Documents::yes : Documents::no;
    request.wanted = [&filter](const SessionCard& card) {
        return filter.admits(card);
    };
    if (limit) {
        request.sessions_max = static_cast<std::size_t>(*limit);
    }
    request.index_directory = index_directory(surroundings.environment);
    const CardScan scan = scan_cards(request);
    if (line.json) {
        print_lines(scan, surroundings);
    } else if (scan.sessions.empty()) {
        say_that_there_are_none(scan, directories.value(), surroundings);
    } else {
        print_table_of(scan, directories.value().size() > 1, surroundings);
    }
    name_skipped(scan.skipped, surroundings);
    surroundings.out.flush();  // nobody waits for what follows
    leave_notes(
        request.index_directory,
        scan.notes,
        scan.in_stores >= index_worthwhile ? IfMissing::make : IfMissing::leave);
    return ExitCode::ok;
}

}  // namespace relay::cli
