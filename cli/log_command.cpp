// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.hpp"
#include "cli/file_events.hpp"
#include "cli/flag_table.hpp"
#include "cli/moment_printer.hpp"
#include "cli/screen.hpp"
#include "cli/session_filter.hpp"
#include "cli/session_follower.hpp"
#include "cli/session_scan.hpp"
#include "layout/meta_skim.hpp"
#include "layout/session_paths.hpp"
#include "layout/ulid.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace relay::cli {

const std::string_view log_help = R"(agent-relay log: everything that happens in a store

usage: agent-relay log stream [flags]

examples:
  agent-relay log stream --since 1h                what happened in the last hour, then what happens
  agent-relay log stream --all-repos --filter error
  agent-relay log stream --no-follow --json | jq -r 'select(.type == "turn.note") | .payload.summary'

Every session of the store, the oldest first and each as a whole; then all of them live, with the end of its id before
every line. Ctrl-C ends it. Sessions are chosen by the flags of agent-relay list: --status, --agent, --label, --stage,
--flagged, --unread, --archived, --all, --since, --older-than, --repo, --all-repos, --store.

flags:
  --filter TEXT    only lines with this text, in any case of its letters
  --no-follow      end after what is there

--json prints what agent-relay watch --json prints.

exit status: 0 all was shown (--no-follow), 1 failed, 2 wrong usage, 130 Ctrl-C
)";

namespace {

using layout::Errc;
using layout::Error;
using layout::Meta;
using layout::Result;
using layout::Status;
using layout::Ulid;

// Ended sessions go on only when somebody reopens them; of so many that is noticed.
constexpr std::size_t ended_watched_max = 1000;

struct LogFlags {
    SessionFilter filter;
    StoreFlags stores;
    std::string text;
    bool no_follow = false;
};

class LogStream {
public:
    LogStream(
        const LogFlags& flags, bool json, FileEvents& events, const Surroundings& surroundings)
        : flags_(flags),
          json_(json),
          events_(events),
          surroundings_(surroundings),
          screen_(look_at_screen(surroundings)) {}

    // What is there, oldest first.
    [[nodiscard]] Status show_past(const std::vector<std::string>& directories) {
        for (const std::string& directory : directories) {
            // One that is not there yet has no sessions; it is seen by the next log stream.
            if (const Result<int> number = events_.watch(directory); number.ok()) {
                stores_[number.value()] = directory;
            }
        }
        ScanRequest request;
        request.sessions_directories = directories;
        request.wanted = [this](const Meta& meta) {
            return flags_.filter.admits(meta);
        };
        const SessionScan scan = scan_sessions(request);
        name_skipped(scan.skipped, surroundings_);
        std::size_t newer = scan.sessions.size();
        for (auto session = scan.sessions.rbegin(); session != scan.sessions.rend(); ++session) {
            if (events_.interrupted()) {
                return layout::Done{};
            }
            --newer;
            const bool ended = session->meta.status == layout::SessionStatus::completed;
            if (Status shown = add_session(session->directory, !ended || newer < ended_watched_max);
                !shown.ok()) {
                return shown;
            }
        }
        return layout::Done{};
    }

    // What happens, until Ctrl-C.
    [[nodiscard]] Result<ExitCode> follow() {
        if (stores_.empty() && !events_.interrupted()) {
            return Error{
                Errc::not_found, 0, "nothing was ever recorded here; --all-repos looks further"};
        }
        while (!events_.interrupted()) {
            const Result<std::vector<FileEvents::Event>> seen = events_.wait();
            if (!seen.ok()) {
                return seen.error();
            }
            for (const FileEvents::Event& event : seen.value()) {
                if (const Status noted = note(event); !noted.ok()) {
                    return noted.error();
                }
            }
        }
        return ExitCode::interrupted;
    }

    void finish() {
        for (auto& [number, session] : sessions_) {
            session->printer.finish();
        }
    }

private:
    struct Session {
        SessionFollower follower;
        MomentPrinter printer;
        Session(const std::string& directory, std::ostream& out, MomentPrinter::Style style)
            : follower(directory), printer(out, std::move(style)) {}
    };

    [[nodiscard]] MomentPrinter::Style style_for(const std::string& directory) const {
        const std::string id = directory.substr(directory.rfind('/') + 1);
        const std::string end = id.substr(id.size() - std::min<std::size_t>(id.size(), 6));
        return {
            {screen_, screen_.paint(Tone::cyan, end) + "  ", flags_.text},
            id,
            json_,
            surroundings_.out_is_terminal};
    }

    Status read(Session& session) const {
        return session.follower.read(
            [&session](const Moment& moment) { session.printer.show(moment); });
    }

    Status add_session(const std::string& directory, bool watched) {
        auto session =
            std::make_unique<Session>(directory, surroundings_.out, style_for(directory));
        int number = -1;
        if (watched && !flags_.no_follow) {
            const Result<int> watching = events_.watch(directory);
            if (!watching.ok() && watching.error().code != Errc::not_found) {
                return watching.error();
            }
            number = watching.ok() ? watching.value() : -1;
        }
        if (Status shown = read(*session); !shown.ok()) {
            return shown;
        }
        if (number >= 0) {
            sessions_[number] = std::move(session);
        } else {
            session->printer.finish();
        }
        return layout::Done{};
    }

    // A session that has just been made says in its meta.json whether it is wanted; until that is there it
    // is watched for it.
    Status add_if_wanted(const std::string& directory) {
        const Result<int> number = events_.watch(directory);
        if (!number.ok()) {
            return number.error().code == Errc::not_found ? Status(layout::Done{})
                                                          : Status(number.error());
        }
        unborn_[number.value()] = directory;
        return add_if_born(number.value());
    }

    Status add_if_born(int number) {
        const std::string directory = unborn_.at(number);
        std::string text;
        const Result<Meta> meta = skimmer_.skim_session(directory, text);
        if (!meta.ok()) {
            return layout::Done{};
        }
        unborn_.erase(number);
        if (flags_.filter.admits(meta.value())) {
            return add_session(directory, /*watched=*/true);
        }
        events_.forget(number);
        return layout::Done{};
    }

    Status note(const FileEvents::Event& event) {
        if (event.lost) {
            for (auto& [number, session] : sessions_) {
                if (Status shown = read(*session); !shown.ok()) {
                    return shown;
                }
            }
            return layout::Done{};
        }
        if (const auto store = stores_.find(event.number); store != stores_.end()) {
            const bool is_session = event.made && Ulid::parse(event.name).has_value();
            return is_session ? add_if_wanted(store->second + "/" + event.name)
                              : Status(layout::Done{});
        }
        if (unborn_.contains(event.number)) {
            return add_if_born(event.number);
        }
        const auto session = sessions_.find(event.number);
        if (session == sessions_.end()) {
            return layout::Done{};
        }
        if (event.gone) {
            session->second->printer.finish();
            sessions_.erase(session);
            return layout::Done{};
        }
        return read(*session->second);
    }

    const LogFlags& flags_;
    const bool json_;
    FileEvents& events_;
    const Surroundings& surroundings_;
    const Screen screen_;
    layout::MetaSkimmer skimmer_;
    std::map<int, std::string> stores_;  // by the number of FileEvents; likewise below
    std::map<int, std::string> unborn_;  // directories without a meta.json yet
    std::map<int, std::unique_ptr<Session>> sessions_;
};

Status parse_flags(const std::vector<std::string>& arguments, LogFlags& flags) {
    std::vector<Flag> known = filter_flags(flags.filter);
    for (Flag& flag : store_flags(flags.stores)) {
        known.push_back(std::move(flag));
    }
    known.push_back(text_flag("--filter", "a text", flags.text));
    known.push_back(switch_flag("--no-follow", flags.no_follow));
    const Result<std::vector<std::string>> words = take_flags(arguments, known);
    if (!words.ok()) {
        return words.error();
    }
    if (words.value() != std::vector<std::string>{"stream"}) {
        return Error{
            Errc::invalid,
            0,
            words.value().empty() ? "log needs \"stream\""
                                  : "log does not know \"" + words.value().back() + "\""};
    }
    return layout::Done{};
}

}  // namespace

ExitCode log_command(const CommandLine& line, const Surroundings& surroundings) {
    LogFlags flags;
    if (const Status parsed = parse_flags(line.arguments, flags); !parsed.ok()) {
        return complain_usage(surroundings, "log", parsed.error().context);
    }
    const Result<std::vector<std::string>> directories =
        sessions_directories(flags.stores, flags.filter, surroundings.environment);
    if (!directories.ok()) {
        return complain(surroundings, ExitCode::failed, directories.error().context);
    }
    Result<FileEvents> events = FileEvents::open();
    if (!events.ok()) {
        return complain(surroundings, ExitCode::failed, events.error().context);
    }
    LogStream stream(flags, line.json, events.value(), surroundings);
    if (Status shown = stream.show_past(directories.value()); !shown.ok()) {
        return complain(surroundings, ExitCode::failed, shown.error().context);
    }
    if (flags.no_follow) {
        stream.finish();
        return events.value().interrupted() ? ExitCode::interrupted : ExitCode::ok;
    }
    const Result<ExitCode> end = stream.follow();
    stream.finish();
    return end.ok() ? end.value() : complain(surroundings, ExitCode::failed, end.error().context);
}

}  // namespace relay::cli
