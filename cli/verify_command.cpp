// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.hpp"
#include "cli/flag_table.hpp"
#include "cli/human_text.hpp"
#include "cli/progress.hpp"
#include "cli/session_choice.hpp"
#include "cli/session_filter.hpp"
#include "cli/side_by_side.hpp"
#include "cli/terminal_text.hpp"
#include "layout/json_writer.hpp"
#include "layout/session_reader.hpp"
#include "layout/ulid.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace relay::cli {

const std::string_view verify_help =
    R"(agent-relay verify: recompute the hashes and the chain of sessions

usage: agent-relay verify [session]... [flags]        without a session: all of this repository's

examples:
  agent-relay verify
  agent-relay verify TWFTA9 261116-minty-guitar
  agent-relay verify --json ~/backup/01J9X3M7K5VBHQEN6T2F4D8RPZ | jq '.damage[]'

Needs no daemon and changes nothing. Names every file that differs from what its turn's seal says.

flags:
  --all-repos        every store that sessions were ever recorded in
  --store DIR        this store alone: a repository, a copied .agent-relay, a directory of sessions

--json prints a line a session: {"v":1,"session":…,"path":…,"ok":true,"turns":2,"open_turns":0,
"damage":[{"file":…,"what":…}],"remarks":[]}; "session" is its id, or the name that fits none, and "error" stands in
place of the rest when it cannot be read.

exit status: 0 all as sealed, 1 unreadable, 2 wrong usage or ambiguous, 3 no such session, 5 damaged
)";

namespace {

using layout::Errc;
using layout::Finding;
using layout::JsonObject;
using layout::Result;
using layout::Verification;

std::string findings_json(const std::vector<Finding>& findings) {
    std::string out = "[";
    for (const Finding& finding : findings) {
        if (out.size() > 1) {
            out += ',';
        }
        JsonObject object(out, JsonObject::Form::compact);
        object.string("file", finding.file);
        object.string("what", finding.what);
        object.finish();
    }
    return out + "]";
}

// A session to look at, or why it could not be chosen.
struct Task {
    std::string name;  // as it was named
    Result<std::string> directory;

    // Its id, as far as there is one.
    [[nodiscard]] std::string session() const {
        const std::string id =
            directory.ok() ? directory.value().substr(directory.value().rfind('/') + 1) : "";
        return layout::Ulid::parse(id) ? id : name;
    }
};

std::string report_json(const Task& task, const Result<Verification>& result) {
    std::string out;
    JsonObject object(out, JsonObject::Form::compact);
    object.integer("v", 1);
    object.string("session", task.session());
    object.string_or_null(
        "path",
        task.directory.ok() ? std::optional<std::string>(task.directory.value()) : std::nullopt);
    object.boolean("ok", result.ok() && result.value().damage.empty());
    if (result.ok()) {
        object.integer("turns", result.value().turns);
        object.integer("open_turns", result.value().open_turns);
        object.raw("damage", findings_json(result.value().damage));
        object.raw("remarks", findings_json(result.value().remarks));
    } else {
        object.string("error", result.error().context);
    }
    object.finish();
    return out;
}

void print_report(const std::string& directory, const Verification& found, std::ostream& out) {
    out << harmless(directory) << ": "
        << (found.damage.empty() ? std::string("ok")
                                 : "damaged in " + counted(std::ssize(found.damage), "place"))
        << ", " << counted(found.turns, "sealed turn");
    if (found.open_turns > 0) {
        out << ", " << counted(found.open_turns, "open turn");
    }
    out << '\n';
    for (const Finding& finding : found.damage) {
        out << "  damage  " << harmless(finding.file) << ": " << harmless(finding.what) << '\n';
    }
    for (const Finding& finding : found.remarks) {
        out << "  remark  " << harmless(finding.file) << ": " << harmless(finding.what) << '\n';
    }
}

ExitCode code_of(const Result<Verification>& result) {
    if (result.ok()) {
        return result.value().damage.empty() ? ExitCode::ok : ExitCode::damaged;
    }
    if (result.error().code == Errc::not_found) {
        return ExitCode::no_such_session;
    }
    return result.error().code == Errc::corrupt ? ExitCode::damaged : ExitCode::failed;
}

// The directory under its own name, which is the session's id, however the user got there: through
// "latest", "." or a slash at the end. As given when there is none.
std::string resolved(const std::string& directory) {
    char* const found = ::realpath(directory.c_str(), nullptr);
    if (found == nullptr) {
        return directory;
    }
    std::string path = found;
    ::free(found);
    return path;
}

Task task_for(const std::string& word, const SearchPlaces& places) {
    const bool is_path = word.find('/') != std::string::npos || word == "." || word == "..";
    const Result<ChosenSession> chosen = choose_session(word, places);
    if (is_path && (!chosen.ok() || chosen.value().turn || ::access(word.c_str(), F_OK) == 0)) {
        return {word, resolved(word)};
    }
    if (!chosen.ok()) {
        return {word, chosen.error()};
    }
    return {word, chosen.value().directory};
}

Result<std::vector<Task>> find_tasks(
    const std::vector<std::string>& words,
    const StoreFlags& stores,
    const Surroundings& surroundings) {
    std::vector<Task> tasks;
    const Result<SearchPlaces> places = find_search_places(surroundings.environment, stores.store);
    if (!words.empty()) {
        tasks.reserve(words.size());
        for (const std::string& word : words) {
            // A directory needs no store around it.
            tasks.push_back(
                places.ok() || word.find('/') != std::string::npos
                    ? task_for(word, places.ok() ? places.value() : SearchPlaces{})
                    : Task{word, places.error()});
        }
        return tasks;
    }
    if (!places.ok()) {
        return places.error();
    }
    std::vector<std::string> directories{places.value().nearest};
    if (stores.all_repos) {
        directories = places.value().all();
    }
    for (const std::string& directory : directories) {
        const Result<std::vector<layout::Ulid>> ids = layout::list_sessions(directory);
        if (!ids.ok()) {
            return ids.error();
        }
        for (const layout::Ulid& id : ids.value()) {
            tasks.push_back({id.text(), directory + "/" + id.text()});
        }
    }
    return tasks;
}

// Looks at many sessions side by side and reports them in their order, each as soon as all before it are.
class Verifying {
public:
    Verifying(const std::vector<Task>& tasks, bool json, const Surroundings& surroundings)
        : tasks_(tasks),
          json_(json),
          surroundings_(surroundings),
          progress_(surroundings, "verified", tasks.size()),
          results_(tasks.size()) {}

    ExitCode run() {
        side_by_side(
            tasks_.size(), worker_count(tasks_.size(), 1), [this](std::size_t, std::size_t item) {
                const Result<std::string>& directory = tasks_[item].directory;
                Result<Verification> result = directory.ok()
                                                  ? layout::verify_session(directory.value())
                                                  : Result<Verification>(directory.error());
                const std::lock_guard guard(mutex_);
                results_[item] = std::move(result);
                report_ready();
            });
        progress_.stop();
        if (bad_ > 0 && tasks_.size() > 1) {
            static_cast<void>(complain(
                surroundings_,
                worst_,
                std::to_string(bad_) + " of " + counted(std::ssize(tasks_), "session")
                    + (bad_ == 1 ? " is" : " are") + " damaged, missing or unreadable"));
        }
        return worst_;
    }

private:
    // Called with the lock held.
    void report_ready() {
        for (; next_ < results_.size() && results_[next_]; ++next_) {
            report(tasks_[next_], *results_[next_]);
            results_[next_] = Verification{};  // its findings are not needed any more
        }
        progress_.reach(next_);
    }

    void report(const Task& task, const Result<Verification>& result) {
        // Damage is worse than a missing session, which is worse than a wrong name, which is worse than any
        // other failure: the numbers agree.
        const ExitCode code =
            task.directory.ok() ? code_of(result) : choice_code(task.directory.error());
        worst_ = std::max(worst_, code);
        bad_ += code == ExitCode::ok ? 0 : 1;
        if (surroundings_.out_is_terminal || (!json_ && !result.ok())) {
            progress_.stop();
        }
        if (json_) {
            const std::string line = report_json(task, result);
            surroundings_.out << (surroundings_.out_is_terminal ? harmless_json(line) : line)
                              << '\n';
        } else if (result.ok()) {
            print_report(task.name, result.value(), surroundings_.out);
        } else {
            static_cast<void>(complain(surroundings_, code, result.error().context));
        }
    }

    const std::vector<Task>& tasks_;
    const bool json_;
    const Surroundings& surroundings_;
    std::mutex mutex_;  // what follows
    Progress progress_;
    std::vector<std::optional<Result<Verification>>> results_;
    std::size_t next_ = 0;
    ExitCode worst_ = ExitCode::ok;
    std::int64_t bad_ = 0;
};

}  // namespace

ExitCode verify_command(const CommandLine& line, const Surroundings& surroundings) {
    StoreFlags stores;
    const std::vector<Flag> flags = store_flags(stores);
    const Result<std::vector<std::string>> words = take_flags(line.arguments, flags);
    if (!words.ok()) {
        return complain_usage(surroundings, "verify", words.error().context);
    }
    const Result<std::vector<Task>> tasks = find_tasks(words.value(), stores, surroundings);
    if (!tasks.ok()) {
        return complain(surroundings, ExitCode::failed, tasks.error().context);
    }
    if (tasks.value().empty()) {
        return complain(
            surroundings,
            ExitCode::ok,
            "no session is recorded here; --all-repos looks in every store");
    }
    return Verifying(tasks.value(), line.json, surroundings).run();
}

}  // namespace relay::cli
