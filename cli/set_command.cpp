// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.hpp"
#include "cli/daemon_talk.hpp"
#include "cli/flag_table.hpp"
#include "cli/session_choice.hpp"
#include "cli/terminal_text.hpp"
#include "layout/json_writer.hpp"
#include "layout/nearest_name.hpp"
#include "layout/session_reader.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace relay::cli {

const std::string_view set_help =
    R"(agent-relay set: name a session, label it, say at what stage it is

usage: agent-relay set <session> <change>...

examples:
  agent-relay set TWFTA9 name=parser
  agent-relay set parser label+=bug label+=priority::2 stage=in-progress
  agent-relay set @latest label-=bug flagged=yes
  agent-relay set parser name= stage=             take them away again
  agent-relay list --label bug --stage in-progress --flagged      find them again

changes:
  name=NAME          empty: none
  stage=STAGE        any word of yours; empty: none
  label+=LABEL       adds one; label-=LABEL takes one away
  flagged=yes|no     also unread=yes|no, archived=yes|no

Works on sessions that run and on those that have ended. The daemon writes meta.json; it is started when there is none.

--json prints what is set now:
  {"v":1,"session":…,"name":"parser","labels":["bug"],"stage":null,"flagged":true,"unread":false,"archived":false}

exit status: 0 set, 1 refused, 2 wrong usage or ambiguous, 3 no such session, 4 daemon unreachable
)";

const std::string_view archive_help = R"(agent-relay archive: put sessions out of sight, and back

usage: agent-relay archive <session>... [--undo]

examples:
  agent-relay archive TWFTA9 parser
  agent-relay list --archived                 what was put away; list --all shows both
  agent-relay archive --undo parser

Archived sessions stay where they are, whole; only list, search and the like pass them over. It is the same as
agent-relay set <session> archived=yes.

flags:
  --undo           bring them back

--json prints a line a session, as of agent-relay set.

exit status: 0 done, 1 refused, 2 wrong usage or ambiguous, 3 no such session, 4 daemon unreachable
)";

namespace {

using layout::Done;
using layout::Errc;
using layout::Error;
using layout::Meta;
using layout::Result;
using layout::Status;
using nlohmann::ordered_json;

constexpr std::array<std::string_view, 6> known_keys{
    "name", "stage", "label", "flagged", "unread", "archived"};

// "label+=bug"
struct Change {
    std::string key;
    enum class How { set, add, remove } how = How::set;
    std::string value;
};

Error refuse(std::string sentence) {
    return {Errc::invalid, 0, std::move(sentence)};
}

Result<bool> parse_yes(const Change& change) {
    for (const std::string_view yes : {"yes", "true", "1", "on"}) {
        if (change.value == yes) {
            return true;
        }
    }
    for (const std::string_view no : {"no", "false", "0", "off"}) {
        if (change.value == no) {
            return false;
        }
    }
    return refuse(change.key + " is yes or no, got \"" + change.value + "\"");
}

Result<Change> parse_change(const std::string& word) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) {
        return refuse("\"" + word + "\" is no change; write name=…, label+=… or the like");
    }
    Change change{word.substr(0, equals), Change::How::set, word.substr(equals + 1)};
    if (change.key.ends_with('+') || change.key.ends_with('-')) {
        change.how = change.key.ends_with('+') ? Change::How::add : Change::How::remove;
        change.key.pop_back();
    }
    if (std::find(known_keys.begin(), known_keys.end(), change.key) == known_keys.end()) {
        const std::string_view nearest = layout::nearest_name(change.key, known_keys, 2);
        return refuse(
            "set does not know \"" + change.key + "\""
            + (nearest.empty() ? "" : " (did you mean \"" + std::string(nearest) + "\"?)"));
    }
    const bool label = change.key == "label";
    if (label != (change.how != Change::How::set)) {
        return refuse(
            label ? "a session may have many labels; write label+=" + change.value
                        + " or label-=" + change.value
                  : "only labels are added and taken away; write " + change.key + "=…");
    }
    if (change.key == "name" && !change.value.empty() && !can_be_name(change.value)) {
        return refuse("\"" + change.value + "\" can be no name, for it means something else");
    }
    if (label && change.value.empty()) {
        return refuse("\"" + word + "\" names no label");
    }
    return change;
}

// The members of session.update that make `changes` true. Labels are sent as a whole, so those that are there
// now are needed.
Status add_change(const Change& change, const std::vector<std::string>& now, ordered_json& update) {
    if (change.key == "name" || change.key == "stage") {
        update[change.key] = change.value.empty() ? ordered_json() : ordered_json(change.value);
        return Done{};
    }
    if (change.key != "label") {
        const Result<bool> yes = parse_yes(change);
        if (!yes.ok()) {
            return yes.error();
        }
        update[change.key] = yes.value();
        return Done{};
    }
    if (!update.contains("labels")) {
        update["labels"] = now;
    }
    auto labels = update["labels"].get<std::vector<std::string>>();
    const bool there = std::find(labels.begin(), labels.end(), change.value) != labels.end();
    if (change.how == Change::How::remove) {
        std::erase(labels, change.value);
    } else if (!there) {
        labels.push_back(change.value);
    }
    update["labels"] = std::move(labels);
    return Done{};
}

void tell(const Meta& meta, bool json, const Surroundings& surroundings) {
    if (json) {
        std::string line;
        layout::JsonObject object(line, layout::JsonObject::Form::compact);
        object.integer("v", 1);
        object.string("session", meta.id.text());
        object.string_or_null("name", meta.name);
        object.strings("labels", meta.labels);
        object.string_or_null("stage", meta.stage);
        object.boolean("flagged", meta.flagged);
        object.boolean("unread", meta.unread);
        object.boolean("archived", meta.archived);
        object.finish();
        surroundings.out << (surroundings.out_is_terminal ? harmless_json(line) : line) << '\n';
        return;
    }
    std::string line = short_id(meta.id) + " " + meta.name.value_or(meta.slug);
    for (const std::string& label : meta.labels) {
        line += ", " + label;
    }
    line += meta.stage ? ", stage " + *meta.stage : "";
    line += meta.flagged ? ", flagged" : "";
    line += meta.unread ? ", unread" : "";
    line += meta.archived ? ", archived" : "";
    surroundings.out << harmless(line) << '\n';
}

ExitCode change_session(
    const std::string& word,
    const std::vector<Change>& changes,
    const CommandLine& line,
    const Surroundings& surroundings) {
    const Result<SearchPlaces> places = find_search_places(surroundings.environment, "");
    if (!places.ok()) {
        return complain(surroundings, ExitCode::failed, places.error().context);
    }
    const Result<ChosenSession> chosen = choose_whole_session(word, places.value());
    if (!chosen.ok()) {
        return complain(surroundings, choice_code(chosen.error()), chosen.error().context);
    }
    const Result<Meta> before = layout::read_meta(chosen.value().directory);
    if (!before.ok()) {
        return complain(surroundings, ExitCode::damaged, before.error().context);
    }
    ordered_json update{{"type", "session.update"}, {"session", chosen.value().id.text()}};
    for (const Change& change : changes) {
        if (const Status added = add_change(change, before.value().labels, update); !added.ok()) {
            return complain_usage(surroundings, line.command, added.error().context);
        }
    }
    Result<DaemonTalk> daemon = DaemonTalk::begin(line, surroundings);
    const Result<nlohmann::json> answer = daemon.ok() ? daemon.value().ask(std::move(update))
                                                      : Result<nlohmann::json>(daemon.error());
    if (!answer.ok()) {
        return complain(surroundings, talk_code(answer.error()), answer.error().context);
    }
    const Result<Meta> after = layout::read_meta(chosen.value().directory);
    if (!after.ok()) {
        return complain(surroundings, ExitCode::damaged, after.error().context);
    }
    tell(after.value(), line.json, surroundings);
    return ExitCode::ok;
}

}  // namespace

ExitCode set_command(const CommandLine& line, const Surroundings& surroundings) {
    if (line.arguments.size() < 2 || line.arguments.front().find('=') != std::string::npos) {
        return complain_usage(surroundings, "set", "set needs a session and a change");
    }
    std::vector<Change> changes;
    for (auto word = line.arguments.begin() + 1; word != line.arguments.end(); ++word) {
        Result<Change> change = parse_change(*word);
        if (!change.ok()) {
            return complain_usage(surroundings, "set", change.error().context);
        }
        changes.push_back(std::move(change.value()));
    }
    return change_session(line.arguments.front(), changes, line, surroundings);
}

ExitCode archive_command(const CommandLine& line, const Surroundings& surroundings) {
    bool undo = false;
    const std::array flags{switch_flag("--undo", undo)};
    const Result<std::vector<std::string>> words = take_flags(line.arguments, flags);
    if (!words.ok()) {
        return complain_usage(surroundings, "archive", words.error().context);
    }
    if (words.value().empty()) {
        return complain_usage(surroundings, "archive", "archive needs a session");
    }
    const std::vector<Change> changes{{"archived", Change::How::set, undo ? "no" : "yes"}};
    ExitCode worst = ExitCode::ok;
    for (const std::string& word : words.value()) {
        worst = std::max(worst, change_session(word, changes, line, surroundings));
    }
    return worst;
}

}  // namespace relay::cli
