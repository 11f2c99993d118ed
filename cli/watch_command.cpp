// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.hpp"
#include "cli/file_events.hpp"
#include "cli/flag_table.hpp"
#include "cli/moment_printer.hpp"
#include "cli/screen.hpp"
#include "cli/session_choice.hpp"
#include "cli/session_filter.hpp"
#include "cli/session_follower.hpp"
#include "layout/session_paths.hpp"
#include "layout/session_reader.hpp"

#include <chrono>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace relay::cli {

const std::string_view watch_help = R"(agent-relay watch: a session as it happens

usage: agent-relay watch [session] [flags]

examples:
  agent-relay watch                       the session that runs here
  agent-relay watch TWFTA9 --from 1       from its first turn on
  agent-relay watch @latest --filter error
  agent-relay watch --json | jq -r 'select(.type == "turn.output") | .text'

Prompts stand behind "> ", standard error behind "! ", tools, decisions and blockers on lines of their own. Begins
with the turn that runs, or the last one, and follows across turns until the session ends or is checkpointed. Reads
files alone: the daemon may come and go meanwhile.

flags:
  --from TURN      begin with this turn; with it a watch that was left goes on
  --filter TEXT    only lines with this text, in any case of its letters
  --store DIR      look for the session in this store

--json prints a line an event: the members of its line in events.jsonl, "session", and "text" for prompts and output.

exit status: 0 the session has ended, 1 no such session or failed, 2 wrong usage or ambiguous, 130 Ctrl-C
)";

namespace {

using layout::Errc;
using layout::Error;
using layout::Result;
using layout::Status;

struct WatchFlags {
    std::optional<std::int64_t> from;
    std::string filter;
    std::string session = "@running";
    StoreFlags stores;
};

Result<WatchFlags> parse_flags(const std::vector<std::string>& arguments) {
    WatchFlags flags;
    const std::vector<Flag> known{
        number_flag("--from", "the number of a turn", 1, flags.from),
        text_flag("--filter", "a text", flags.filter),
        text_flag("--store", "a directory", flags.stores.store),
    };
    const Result<std::vector<std::string>> words = take_flags(arguments, known);
    if (!words.ok()) {
        return words.error();
    }
    if (words.value().size() > 1) {
        return Error{
            Errc::invalid, 0, "watch takes one session, not also \"" + words.value()[1] + "\""};
    }
    if (!words.value().empty()) {
        flags.session = words.value().front();
    }
    return flags;
}

// The turn that runs or ran last, by its files: meta.json may be a second behind.
std::int64_t current_turn(const std::string& directory) {
    const Result<std::vector<std::int64_t>> turns = layout::list_turns(directory);
    return turns.ok() && !turns.value().empty() ? turns.value().back() : 0;
}

// Tells of a session until it has ended; see watch_help for what is returned.
class Watch {
public:
    Watch(const ChosenSession& session, FileEvents& events, MomentPrinter& printer)
        : follower_(session.directory), events_(events), printer_(printer) {}

    void begin_at(std::int64_t turn) { follower_.begin_at(turn); }

    [[nodiscard]] Result<ExitCode> run() {
        // Watched before it is read: nothing can happen in between.
        if (const Status watching = watch(); !watching.ok()) {
            return watching.error();
        }
        bool over = true;  // says meta.json, whatever the timeline says
        while (!events_.interrupted()) {
            const Status read = follower_.read([this](const Moment& moment) {
                if (!events_.interrupted()) {
                    printer_.show(moment);
                }
            });
            if (!read.ok()) {
                return read.error();
            }
            if (follower_.at_rest() && !events_.interrupted()) {
                return ExitCode::ok;
            }
            over = over && is_over();
            const Result<std::vector<FileEvents::Event>> seen =
                events_.wait(over ? std::optional(reopening_max) : std::nullopt);
            if (!seen.ok()) {
                return seen.error();
            }
            if (over && seen.value().empty() && !events_.interrupted()) {
                end_is_lost_ = true;
                return ExitCode::ok;
            }
            if (const Status noted = note(seen.value()); !noted.ok()) {
                return noted.error();
            }
        }
        return ExitCode::interrupted;
    }

    [[nodiscard]] std::int64_t damaged_lines() const { return follower_.damaged_lines(); }
    // The session is over, and its timeline does not say how.
    [[nodiscard]] bool end_is_lost() const { return end_is_lost_; }

private:
    // Between a session's reopening in the timeline and in meta.json.
    static constexpr std::chrono::milliseconds reopening_max{1'000};

    [[nodiscard]] bool is_over() const {
        const Result<layout::Meta> meta = layout::read_meta(follower_.directory());
        return meta.ok() && meta.value().status != layout::SessionStatus::active;
    }

    Status watch() {
        const Result<int> session = events_.watch(follower_.directory());
        if (!session.ok()) {
            return session.error();
        }
        session_ = session.value();
        // It exists only after a conflict.
        static_cast<void>(
            events_.watch(follower_.directory() + "/" + std::string(layout::recovered_directory)));
        return layout::Done{};
    }

    Status note(const std::vector<FileEvents::Event>& seen) {
        for (const FileEvents::Event& event : seen) {
            if (event.number == session_ && event.gone) {
                return Error{
                    Errc::gone, 0, "session " + follower_.directory() + " was moved or deleted"};
            }
            if (event.number == session_ && event.made
                && event.name == layout::recovered_directory) {
                return watch();
            }
        }
        return layout::Done{};
    }

    SessionFollower follower_;
    FileEvents& events_;
    MomentPrinter& printer_;
    int session_ = -1;
    bool end_is_lost_ = false;
};

ExitCode watch_session(
    const ChosenSession& session,
    const WatchFlags& flags,
    const CommandLine& line,
    const Surroundings& surroundings) {
    Result<FileEvents> events = FileEvents::open();
    if (!events.ok()) {
        return complain(surroundings, ExitCode::failed, events.error().context);
    }
    MomentPrinter printer(
        surroundings.out,
        {{look_at_screen(surroundings), "", flags.filter},
         session.id.text(),
         line.json,
         surroundings.out_is_terminal});
    Watch watch(session, events.value(), printer);
    watch.begin_at(
        flags.from ? *flags.from : session.turn.value_or(current_turn(session.directory)));
    const Result<ExitCode> end = watch.run();
    printer.finish();
    if (watch.damaged_lines() > 0) {
        static_cast<void>(complain(
            surroundings,
            ExitCode::ok,
            std::to_string(watch.damaged_lines()) + " damaged lines of " + session.directory + "/"
                + std::string(layout::timeline_file) + " were passed over"));
    }
    if (watch.end_is_lost()) {
        static_cast<void>(complain(
            surroundings,
            ExitCode::ok,
            "the session is over, but " + session.directory + "/"
                + std::string(layout::timeline_file)
                + " does not say how; agent-relay show has its turns"));
    }
    if (!end.ok()) {
        return complain(surroundings, ExitCode::failed, end.error().context);
    }
    return end.value();
}

}  // namespace

ExitCode watch_command(const CommandLine& line, const Surroundings& surroundings) {
    const Result<WatchFlags> flags = parse_flags(line.arguments);
    if (!flags.ok()) {
        return complain_usage(surroundings, "watch", flags.error().context);
    }
    const Result<SearchPlaces> places =
        find_search_places(surroundings.environment, flags.value().stores.store);
    if (!places.ok()) {
        return complain(surroundings, ExitCode::failed, places.error().context);
    }
    const Result<ChosenSession> session = choose_session(flags.value().session, places.value());
    if (!session.ok()) {
        const ExitCode code = choice_code(session.error());
        return complain(
            surroundings,
            code == ExitCode::no_such_session ? ExitCode::failed : code,
            session.error().context);
    }
    return watch_session(session.value(), flags.value(), line, surroundings);
}

}  // namespace relay::cli
