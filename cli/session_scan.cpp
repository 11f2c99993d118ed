// SPDX-License-Identifier: Apache-2.0
#include "cli/session_scan.hpp"

#include "cli/side_by_side.hpp"
#include "layout/meta_skim.hpp"
#include "layout/session_reader.hpp"

#include <algorithm>
#include <cstddef>
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

struct Place {
    Ulid id;
    const std::string* sessions_directory = nullptr;
    [[nodiscard]] std::string directory() const { return *sessions_directory + "/" + id.text(); }
};

std::vector<Place> find_places(const ScanRequest& request, std::vector<SkippedSession>& skipped) {
    std::vector<Place> places;
    for (const std::string& directory : request.sessions_directories) {
        const Result<std::vector<Ulid>> ids = layout::list_sessions(directory);
        if (!ids.ok()) {
            skipped.push_back({directory, ids.error()});
            continue;
        }
        for (const Ulid& id : ids.value()) {
            if (!request.wanted_id || request.wanted_id(id)) {
                places.push_back({id, &directory});
            }
        }
    }
    std::stable_sort(places.begin(), places.end(), [](const Place& left, const Place& right) {
        return left.id > right.id;
    });
    return places;
}

// What became of one place: read and wanted, read and not wanted (neither), or skipped.
struct Outcome {
    std::optional<ScannedSession> session;
    std::optional<Error> why;
};

Outcome look_at(const Place& place, const ScanRequest& request, layout::MetaSkimmer& skimmer) {
    Outcome outcome;
    const std::string directory = place.directory();
    std::string text;
    Result<Meta> meta = skimmer.skim_session(directory, text);
    if (!meta.ok()) {
        outcome.why = meta.error();
    } else if (meta.value().id != place.id) {
        outcome.why =
            Error{Errc::corrupt, 0, "meta.json is that of session " + meta.value().id.text()};
    } else if (!request.wanted || request.wanted(meta.value())) {
        outcome.session = ScannedSession{std::move(meta.value()), directory, {}};
        if (request.keep_text == KeepText::yes) {
            outcome.session->text = std::move(text);
        }
    }
    return outcome;
}

}  // namespace

SessionScan scan_sessions(const ScanRequest& request) {
    SessionScan scan;
    const std::vector<Place> places = find_places(request, scan.skipped);
    std::vector<Outcome> outcomes(places.size());
    const std::size_t workers = worker_count(places.size(), sessions_a_thread);
    std::vector<layout::MetaSkimmer> skimmers(workers);
    side_by_side(places.size(), workers, [&](std::size_t worker, std::size_t item) {
        outcomes[item] = look_at(places[item], request, skimmers[worker]);
    });
    scan.sessions.reserve(static_cast<std::size_t>(
        std::count_if(outcomes.begin(), outcomes.end(), [](const Outcome& one) {
            return one.session.has_value();
        })));
    for (std::size_t item = 0; item < outcomes.size(); ++item) {
        if (outcomes[item].session) {
            scan.sessions.push_back(std::move(*outcomes[item].session));
        } else if (outcomes[item].why) {
            scan.skipped.push_back({places[item].directory(), std::move(*outcomes[item].why)});
        }
    }
    return scan;
}

void name_skipped(std::span<const SkippedSession> skipped, const Surroundings& surroundings) {
    for (const SkippedSession& session :
         skipped.first(std::min(skipped.size(), skipped_named_max))) {
        static_cast<void>(complain(
            surroundings,
            ExitCode::ok,
            "skipped \"" + session.directory + "\": " + session.why.context
                + "; see agent-relay verify \"" + session.directory + "\""));
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
