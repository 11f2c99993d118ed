// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.hpp"
#include "cli/flag_table.hpp"
#include "cli/human_text.hpp"
#include "cli/screen.hpp"
#include "cli/session_choice.hpp"
#include "cli/session_filter.hpp"
#include "cli/session_scan.hpp"
#include "cli/terminal_text.hpp"
#include "layout/json_writer.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace relay::cli {

const std::string_view tree_help = R"(agent-relay tree: which session went on from which

usage: agent-relay tree [session] [flags]

examples:
  agent-relay tree                     every session here that has a parent or a child
  agent-relay tree TWFTA9              the whole family of one session
  agent-relay tree --json | jq -r 'select(.relation == "fork") | .id'

A parent that is in none of the stores that were looked at is shown by its id alone.

flags:
  --alone            also sessions without relatives
  --all-repos        every store that sessions were ever recorded in; a named session is looked for there anyway
  --store DIR        this store alone

--json prints a line a session, parents before children:
  {"v":1,"id":…,"slug":…,"name":null,"agent":…,"status":…,"depth":1,"parent":…,"parent_turn":3,"relation":"resume"}

exit status: 0 shown, 1 failed, 2 wrong usage or ambiguous, 3 no such session
)";

namespace {

using layout::Errc;
using layout::Error;
using layout::Meta;
using layout::Result;
using layout::Status;

struct TreeFlags {
    std::optional<std::string> session;
    StoreFlags stores;
    bool alone = false;
};

Status parse_flags(const std::vector<std::string>& arguments, TreeFlags& flags) {
    std::vector<Flag> known = store_flags(flags.stores);
    known.push_back(switch_flag("--alone", flags.alone));
    const Result<std::vector<std::string>> words = take_flags(arguments, known);
    if (!words.ok()) {
        return words.error();
    }
    if (words.value().size() > 1) {
        return Error{
            Errc::invalid, 0, "tree takes one session, not also \"" + words.value()[1] + "\""};
    }
    if (!words.value().empty()) {
        flags.session = words.value().front();
    }
    return layout::Done{};
}

struct Node {
    const Meta* meta = nullptr;         // none: known only as somebody's parent
    std::vector<std::string> children;  // ids, oldest first
    bool is_child = false;
};

// Sessions by id with their children. Ids are compared as they are written, upper case.
class Family {
public:
    explicit Family(const std::vector<ScannedSession>& sessions) {
        // The scan has the newest first.
        for (auto session = sessions.rbegin(); session != sessions.rend(); ++session) {
            const std::string id = session->meta.id.text();
            nodes_[id].meta = &session->meta;
            if (session->meta.parent) {
                nodes_[session->meta.parent->session].children.push_back(id);
                nodes_[id].is_child = true;
            }
        }
    }

    [[nodiscard]] bool contains(const std::string& id) const { return nodes_.contains(id); }
    [[nodiscard]] const Node& at(const std::string& id) const { return nodes_.at(id); }

    // Where the tree of a session begins. A loop, which only a hand can have made, begins anywhere.
    [[nodiscard]] std::string root_of(std::string id) const {
        std::set<std::string> seen;
        while (nodes_.contains(id) && nodes_.at(id).is_child && seen.insert(id).second) {
            id = nodes_.at(id).meta->parent->session;
        }
        return id;
    }

    // Newest first; those without relatives only when they are wanted.
    [[nodiscard]] std::vector<std::string> roots(bool alone) const {
        std::set<std::string> found;
        for (const auto& [id, node] : nodes_) {
            if (alone || node.is_child || !node.children.empty()) {
                found.insert(root_of(id));
            }
        }
        return {found.rbegin(), found.rend()};
    }

private:
    std::map<std::string, Node> nodes_;
};

struct Row {
    std::string id;
    std::size_t depth = 0;
    std::string branch;  // "├─ " and what stands before it
};

// One tree from the root down, parents before children; each session once, even in a loop.
std::vector<Row> rows_of(const Family& family, const std::string& root) {
    struct Visit {
        std::string id;
        std::size_t depth;
        std::string before;  // of the lines of its children
        bool last;
    };
    std::vector<Row> rows;
    std::set<std::string> seen;
    std::vector<Visit> ahead{{root, 0, "", true}};
    while (!ahead.empty()) {
        const Visit visit = std::move(ahead.back());
        ahead.pop_back();
        if (!seen.insert(visit.id).second) {
            continue;
        }
        const bool is_root = visit.depth == 0;
        rows.push_back(
            {visit.id, visit.depth, is_root ? "" : visit.before + (visit.last ? "└─ " : "├─ ")});
        const std::string before = is_root ? "" : visit.before + (visit.last ? "   " : "│  ");
        const std::vector<std::string>& children = family.at(visit.id).children;
        for (auto child = children.rbegin(); child != children.rend(); ++child) {
            ahead.push_back({*child, visit.depth + 1, before, child == children.rbegin()});
        }
    }
    return rows;
}

std::string row_text(const Row& row, const Node& node, const Screen& screen) {
    std::string line = screen.paint(Tone::dim, row.branch);
    if (node.meta == nullptr) {
        return line + harmless(row.id) + screen.paint(Tone::dim, "  is in none of these stores");
    }
    const Meta& meta = *node.meta;
    line += screen.paint(Tone::cyan, short_id(meta.id)) + " "
            + screen.paint(Tone::bold, harmless(meta.name.value_or(meta.slug)));
    std::string rest = "  " + meta.agent + ", " + std::string(layout::name_of(meta.status)) + ", "
                       + counted(meta.turn_count, "turn");
    if (meta.parent) {
        rest += ", " + meta.parent->relation;
        rest += meta.parent->turn ? " of turn " + std::to_string(*meta.parent->turn) : "";
    }
    return line + harmless(rest);
}

std::string row_json(const Row& row, const Node& node) {
    std::string line;
    layout::JsonObject object(line, layout::JsonObject::Form::compact);
    object.integer("v", 1);
    object.string("id", row.id);
    if (node.meta == nullptr) {
        object.boolean("missing", true);
        object.integer("depth", static_cast<std::int64_t>(row.depth));
        object.finish();
        return line;
    }
    const Meta& meta = *node.meta;
    object.string("slug", meta.slug);
    object.string_or_null("name", meta.name);
    object.string("agent", meta.agent);
    object.string("status", layout::name_of(meta.status));
    object.integer("depth", static_cast<std::int64_t>(row.depth));
    object.string_or_null(
        "parent", meta.parent ? std::optional(meta.parent->session) : std::nullopt);
    object.integer_or_null("parent_turn", meta.parent ? meta.parent->turn : std::nullopt);
    object.string_or_null(
        "relation", meta.parent ? std::optional(meta.parent->relation) : std::nullopt);
    object.finish();
    return line;
}

void print_trees(
    const Family& family,
    const std::vector<std::string>& roots,
    bool json,
    const Surroundings& surroundings) {
    const Pages pages(surroundings);
    const Screen screen = look_at_screen(surroundings);
    for (const std::string& root : roots) {
        for (const Row& row : rows_of(family, root)) {
            const Node& node = family.at(row.id);
            if (json) {
                const std::string line = row_json(row, node);
                pages.surroundings().out
                    << (surroundings.out_is_terminal ? harmless_json(line) : line) << '\n';
            } else {
                pages.surroundings().out << row_text(row, node, screen) << '\n';
            }
        }
    }
}

}  // namespace

ExitCode tree_command(const CommandLine& line, const Surroundings& surroundings) {
    TreeFlags flags;
    if (const Status parsed = parse_flags(line.arguments, flags); !parsed.ok()) {
        return complain_usage(surroundings, "tree", parsed.error().context);
    }
    const Result<SearchPlaces> places =
        find_search_places(surroundings.environment, flags.stores.store);
    if (!places.ok()) {
        return complain(surroundings, ExitCode::failed, places.error().context);
    }
    std::optional<std::string> wanted;
    ScanRequest request;
    request.sessions_directories = {places.value().nearest};
    if (flags.stores.all_repos || flags.session) {
        request.sessions_directories = places.value().all();
    }
    if (flags.session) {
        const Result<ChosenSession> session = choose_session(*flags.session, places.value());
        if (!session.ok()) {
            return complain(surroundings, choice_code(session.error()), session.error().context);
        }
        wanted = session.value().id.text();
        const std::string& directory = session.value().directory;
        const std::string store = directory.substr(0, directory.rfind('/'));
        std::vector<std::string>& all = request.sessions_directories;
        if (std::find(all.begin(), all.end(), store) == all.end()) {
            all.push_back(store);
        }
    }
    const SessionScan scan = scan_sessions(request);
    const Family family(scan.sessions);
    std::vector<std::string> roots = family.roots(flags.alone || wanted.has_value());
    if (wanted && !family.contains(*wanted)) {
        name_skipped(scan.skipped, surroundings);
        return complain(surroundings, ExitCode::damaged, "session " + *wanted + " cannot be read");
    }
    if (wanted) {
        roots = {family.root_of(*wanted)};
    }
    if (roots.empty() && !line.json) {
        static_cast<void>(complain(
            surroundings,
            ExitCode::ok,
            "no session in " + places.value().nearest
                + " has a parent or a child; --alone shows all, --all-repos looks further"));
    }
    print_trees(family, roots, line.json, surroundings);
    name_skipped(scan.skipped, surroundings);
    return ExitCode::ok;
}

}  // namespace relay::cli
