// SPDX-License-Identifier: Apache-2.0
#include "cli/journal_settling.hpp"

#include "cli/daemon_talk.hpp"
#include "cli/session_choice.hpp"
#include "layout/store_registry.hpp"

#include <nlohmann/json.hpp>

#include <sys/stat.h>

namespace relay::cli {

namespace {

using layout::Done;
using layout::Result;
using layout::Status;

bool is_same_place(const std::string& left, const std::string& right) {
    struct stat one {};
    struct stat other {};
    return ::stat(left.c_str(), &one) == 0 && ::stat(right.c_str(), &other) == 0
           && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

// Whether the store that --store names is one that a daemon records in.
Result<bool> is_recorded_in(const std::string& store, const Surroundings& surroundings) {
    const Result<layout::UserDirectories> user = layout::user_directories(surroundings.environment);
    const Result<SearchPlaces> places = find_search_places(surroundings.environment, store);
    if (!user.ok() || !places.ok()) {
        return user.ok() ? places.error() : user.error();
    }
    for (const layout::Store& known : layout::known_stores(user.value())) {
        if (is_same_place(known.sessions(), places.value().nearest)) {
            return true;
        }
    }
    return false;
}

}  // namespace

Status settle_journal(
    const std::string& store, const CommandLine& line, const Surroundings& surroundings) {
    const Result<bool> recorded = store.empty() ? true : is_recorded_in(store, surroundings);
    if (!recorded.ok()) {
        return recorded.error();
    }
    if (!recorded.value()) {
        return Done{};
    }
    Result<DaemonTalk> daemon = DaemonTalk::begin(line, surroundings);
    if (!daemon.ok()) {
        return daemon.error();
    }
    // An answer that is deferred tells of a disk that refuses writes, a full one perhaps; making room there must
    // not wait for it.
    const Result<nlohmann::json> flushed = daemon.value().ask({{"type", "flush"}});
    return flushed.ok() ? Status(Done{}) : flushed.error();
}

}  // namespace relay::cli
