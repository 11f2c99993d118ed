// SPDX-License-Identifier: Apache-2.0
#include "cli/session_scan.hpp"

#include "cli/side_by_side.hpp"
#include "layout/meta_skim.hpp"
#include "layout/session_reader.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

namespace relay::cli {

namespace {

using layout::Errc;
using layout::Error;
using layout::Meta;
using layout::Result;
using layout::Ulid;

constexpr std::size_t sessions_a_thread = 64;  // about a millisecond of work
constexpr std::size_t skipped_named_max = 20;

// What became of one place: read and wanted, read and not wanted, or skipped.
struct Outcome {
    std::unique_ptr<ScannedSession> session;  // large, and few of many are wanted
    std::optional<Error> why;
};

Outcome
look_at(const SessionPlace& place, const ScanRequest& request, layout::MetaSkimmer& skimmer) {
    Outcome outcome;
    std::string text;
    Result<Meta> meta = skimmer.skim_session(place.directory(), text);
    if (!meta.ok()) {
        outcome.why = meta.error();
    } else if (meta.value().id != place.id) {
        outcome.why =
            Error{Errc::corrupt, 0, "meta.json is that of session " + meta.value().id.text()};
    } else if (!request.wanted || request.wanted(meta.value())) {
        outcome.session = std::make_unique<ScannedSession>(
            ScannedSession{std::move(meta.value()), place.directory()});
    }
    return outcome;
}

}  // namespace

std::vector<SessionPlace> find_places(
    const std::vector<std::string>& sessions_directories,
    const ListSessions& list,
    std::vector<SkippedSession>& skipped) {
    std::vector<SessionPlace> places;
    for (const std::string& directory : sessions_directories) {
        const Result<std::vector<Ulid>> ids = list(directory);
        if (!ids.ok()) {
            skipped.push_back({directory, ids.error()});
            continue;
        }
        places.reserve(places.size() + ids.value().size());
        for (const Ulid& id : ids.value()) {
            places.push_back({id, &directory});
        }
    }
    if (sessions_directories.size() > 1) {
        std::stable_sort(
            places.begin(), places.end(), [](const SessionPlace& left, const SessionPlace& right) {
                return left.id > right.id;
            });
    }
    return places;
}

SessionScan scan_sessions(const ScanRequest& request) {
    SessionScan scan;
    std::vector<SessionPlace> places = find_places(
        request.sessions_directories,
        request.list ? request.list : layout::list_sessions,
        scan.skipped);
    if (request.wanted_id) {
        std::erase_if(
            places, [&request](const SessionPlace& place) { return !request.wanted_id(place.id); });
    }
    std::vector<layout::MetaSkimmer> skimmers(worker_count(places.size(), sessions_a_thread));
    std::vector<Outcome> outcomes(places.size());
    side_by_side(places.size(), skimmers.size(), [&](std::size_t worker, std::size_t item) {
        outcomes[item] = look_at(places[item], request, skimmers[worker]);
    });
    for (std::size_t item = 0; item < outcomes.size(); ++item) {
        if (outcomes[item].session) {
            scan.sessions.push_back(std::move(*outcomes[item].session));
        } else if (outcomes[item].why) {
            scan.skipped.push_back({places[item].directory(), std::move(*outcomes[item].why)});
        }
    }
    return scan;
}

std::string reason_of(const SkippedSession& skipped) {
    const std::string inside = skipped.directory + "/";
    const std::string& why = skipped.why.context;
    return why.starts_with(inside) ? why.substr(inside.size()) : why;
}

void name_skipped(std::span<const SkippedSession> skipped, const Surroundings& surroundings) {
    for (const SkippedSession& session :
         skipped.first(std::min(skipped.size(), skipped_named_max))) {
        static_cast<void>(complain(
            surroundings,
            ExitCode::ok,
            "skipped \"" + session.directory + "\": " + reason_of(session)
                + (session.why.code == Errc::corrupt
                       ? "; see agent-relay verify \"" + session.directory + "\""
                       : "")));  // of others verify has no more to say
    }
    if (skipped.size() > skipped_named_max) {
        static_cast<void>(complain(
            surroundings,
            ExitCode::ok,
            "skipped " + std::to_string(skipped.size() - skipped_named_max)
                + " more sessions; see agent-relay verify"));
    }
}

}  // namespace relay::cli
