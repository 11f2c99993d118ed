// SPDX-License-Identifier: Apache-2.0
#include "cli/session_filter.hpp"

#include "cli/human_text.hpp"

#include <stdlib.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace relay::cli {

namespace {

using layout::Done;
using layout::Errc;
using layout::Error;
using layout::Result;
using layout::SessionStatus;
using layout::Status;
using layout::Timestamp;

Flag moment_flag(std::string_view name, std::optional<Timestamp>& into) {
    constexpr std::string_view needs = "a time, such as 2h, 3d, today or 2026-11-16";
    return {name, needs, [name, needs, &into](const std::string& value) -> Status {
                into = parse_moment(value, now());
                if (!into) {
                    return Error{
                        Errc::invalid,
                        0,
                        std::string(name) + " needs " + std::string(needs) + ", got \"" + value
                            + "\""};
                }
                return Done{};
            }};
}

Flag status_flag(SessionFilter& filter) {
    constexpr std::string_view needs = "one of active, checkpointed, completed, failed";
    return {
        "--status", needs, [needs, &filter](const std::string& value) -> Status {
            filter.failed = value == failed_status;
            if (filter.failed) {
                filter.status = SessionStatus::completed;
                return Done{};
            }
            for (const SessionStatus status :
                 {SessionStatus::active, SessionStatus::checkpointed, SessionStatus::completed}) {
                if (value == layout::name_of(status)) {
                    filter.status = status;
                    return Done{};
                }
            }
            return Error{
                Errc::invalid,
                0,
                "--status needs " + std::string(needs) + ", got \"" + value + "\""};
        }};
}

bool is_at_or_below(std::string_view path, std::string_view root) {
    return path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
}

bool is_of_repo(std::string_view root, const std::string& wanted) {
    if (wanted.find('/') == std::string::npos) {
        return root.substr(root.rfind('/') + 1) == wanted;
    }
    return is_at_or_below(root, wanted) || is_at_or_below(wanted, root);
}

// A path as the documents have them; a bare name stays one.
std::string repo_wanted(const std::string& value) {
    if (value.find('/') == std::string::npos && value != "." && value != "..") {
        return value;
    }
    struct Release {
        void operator()(char* memory) const { ::free(memory); }
    };
    const std::unique_ptr<char, Release> real{::realpath(value.c_str(), nullptr)};
    std::string path = real ? real.get() : value;
    while (path.size() > 1 && path.ends_with('/')) {
        path.pop_back();
    }
    return path;
}

}  // namespace

bool SessionFilter::admits(const SessionCard& card) const {
    const auto has_label = [&card](const std::string& label) {
        return card.has_label(label);
    };
    if (archived != Archived::also && card.archived != (archived == Archived::only)) {
        return false;
    }
    return (!status || card.status == *status) && (!failed || card.failed)
           && (!agent || card.agent == *agent)
           && std::all_of(labels.begin(), labels.end(), has_label)
           && (!stage || card.stage == *stage) && (!flagged || card.flagged)
           && (!unread || card.unread) && (!since || card.updated_at >= *since)
           && (!before || card.updated_at < *before) && (!repo || is_of_repo(card.root, *repo));
}

bool SessionFilter::admits(const layout::Meta& meta) const {
    const std::string bytes = encode_card(meta);
    return admits(decode_card(bytes).value());
}

std::vector<Flag> filter_flags(SessionFilter& filter) {
    using Archived = SessionFilter::Archived;
    const auto archived = [&filter](Archived wanted) {
        return [&filter, wanted](const std::string&) -> Status {
            filter.archived = wanted;
            return Done{};
        };
    };
    return {
        status_flag(filter),
        text_flag("--agent", "an agent's name", filter.agent),
        {"--label",
         "a label",
         [&filter](const std::string& value) -> Status {
             filter.labels.push_back(value);
             return Done{};
         }},
        text_flag("--stage", "a stage", filter.stage),
        switch_flag("--flagged", filter.flagged),
        switch_flag("--unread", filter.unread),
        {"--archived", "", archived(Archived::only)},
        {"--all", "", archived(Archived::also)},
        moment_flag("--since", filter.since),
        moment_flag("--older-than", filter.before),
        {"--repo",
         "a repository's path or name",
         [&filter](const std::string& value) -> Status {
             filter.repo = repo_wanted(value);
             return Done{};
         }},
    };
}

std::vector<Flag> store_flags(StoreFlags& stores) {
    return {
        switch_flag("--all-repos", stores.all_repos),
        text_flag("--store", "a directory", stores.store),
    };
}

Result<std::vector<std::string>> sessions_directories(
    const StoreFlags& stores, const SessionFilter& filter, const layout::Environment& environment) {
    const Result<SearchPlaces> places = find_search_places(environment, stores.store);
    if (!places.ok()) {
        return places.error();
    }
    if (stores.all_repos || filter.repo) {
        return places.value().all();
    }
    return std::vector<std::string>{places.value().nearest};
}

}  // namespace relay::cli
