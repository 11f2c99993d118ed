// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.hpp"
#include "cli/flag_table.hpp"
#include "cli/human_text.hpp"
#include "cli/screen.hpp"
#include "cli/session_filter.hpp"
#include "cli/session_scan.hpp"
#include "cli/terminal_text.hpp"
#include "layout/json_writer.hpp"
#include "layout/meta_skim.hpp"

#include <ostream>
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
  --status STATUS    active, checkpointed or completed
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

using layout::Meta;
using layout::Result;
using layout::SessionStatus;
using layout::Timestamp;

Tone tone_of(const Meta& meta) {
    if (meta.status == SessionStatus::active) {
        return Tone::green;
    }
    if (meta.status == SessionStatus::checkpointed) {
        return Tone::yellow;
    }
    return meta.error || meta.exit_code.value_or(0) != 0 ? Tone::red : Tone::dim;
}

std::string repo_of(const Meta& meta) {
    const std::string& root = meta.repo ? meta.repo->root : meta.cwd;
    return root.substr(root.rfind('/') + 1);
}

std::string tokens_of(const Meta& meta) {
    const layout::Tokens& tokens = meta.tokens;
    if (tokens.total) {
        return count_text(*tokens.total);
    }
    if (tokens.input || tokens.output) {
        return count_text(tokens.input.value_or(0) + tokens.output.value_or(0));
    }
    return "-";
}

std::vector<Cell> row_of(const Meta& meta, bool with_repo, Timestamp now) {
    std::vector<Cell> row{
        {short_id(meta.id), Tone::cyan},
        {(meta.flagged ? "! " : "") + harmless(meta.name.value_or(meta.slug)), Tone::bold},
    };
    if (with_repo) {
        row.push_back({harmless(repo_of(meta))});
    }
    const std::int64_t turns = meta.turn_count + (meta.current_turn ? 1 : 0);
    row.push_back({harmless(meta.agent)});
    row.push_back({std::string(layout::name_of(meta.status)), tone_of(meta)});
    row.push_back({std::to_string(turns)});
    row.push_back({tokens_of(meta)});
    row.push_back({age_text(meta.updated_at, now)});
    row.push_back({harmless(meta.preview.value_or(""))});
    return row;
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

void print_lines(const SessionScan& scan, const Surroundings& surroundings) {
    for (const ScannedSession& session : scan.sessions) {
        std::string line = layout::minified_json(session.text);
        line.pop_back();
        line += ",\"path\":";
        layout::append_json_string(line, session.directory);
        line += '}';
        surroundings.out << (surroundings.out_is_terminal ? harmless_json(line) : line) << '\n';
    }
}

void say_that_there_are_none(
    const std::vector<std::string>& directories, const Surroundings& surroundings) {
    const std::string place = directories.size() == 1
                                  ? "in " + directories.front()
                                  : "in any of " + counted(std::ssize(directories), "store");
    static_cast<void>(complain(
        surroundings,
        ExitCode::ok,
        "no session " + place
            + " fits; --all-repos looks in every store, --all also at archived ones"));
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
    ScanRequest request;
    request.sessions_directories = directories.value();
    request.keep_text = line.json ? KeepText::yes : KeepText::no;
    request.wanted = [&filter](const Meta& meta) {
        return filter.admits(meta);
    };
    if (limit) {
        request.sessions_max = static_cast<std::size_t>(*limit);
    }
    request.index_directory = index_directory(surroundings.environment);
    const SessionScan scan = scan_sessions(request);
    if (line.json) {
        print_lines(scan, surroundings);
    } else if (scan.sessions.empty()) {
        say_that_there_are_none(directories.value(), surroundings);
    } else {
        const bool with_repo = directories.value().size() > 1;
        const Timestamp moment = now();
        std::vector<std::vector<Cell>> rows;
        rows.reserve(scan.sessions.size());
        for (const ScannedSession& session : scan.sessions) {
            rows.push_back(row_of(session.meta, with_repo, moment));
        }
        const Pages pages(surroundings);
        pages.surroundings().out << print_table(
            list_columns(with_repo), rows, look_at_screen(surroundings));
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
