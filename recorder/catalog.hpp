// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/event.hpp"
#include "layout/result.hpp"
#include "layout/store.hpp"
#include "layout/ulid.hpp"
#include "recorder/clock.hpp"
#include "recorder/disk.hpp"
#include "recorder/recorder.hpp"
#include "recorder/session.hpp"

#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace relay::recorder {

// A session on disk, ready to go on.
struct FoundSession {
    SessionState state;
    std::string volume;
};

// What lies on disk beyond the session table: where new sessions go, where old ones are, and in which
// stores sessions were ever recorded (<state>/stores.json). Every call may wait for a disk, so none is
// for the io thread; any other thread may call, several at a time.
class Catalog {
public:
    Catalog(Disk& disk, const Clock& clock, layout::UserDirectories user);

    void set_default_store(layout::StorePreference preference);
    // No id issued from now on is at or below this one.
    void resume_ids_after(const layout::Ulid& last);

    // A place, an id and a slug for a new session. Errc::invalid names what is wrong with the request,
    // Errc::exists means that a session with the wished id is on disk already.
    [[nodiscard]] Result<SessionPlan>
    plan(const layout::SessionStart& start, const std::optional<layout::Ulid>& wished);

    // Looks in every known store. Errc::not_found when none has it.
    [[nodiscard]] Result<FoundSession> find(const layout::Ulid& session);

    // The directory of a session in a known store.
    [[nodiscard]] Result<std::string> directory_of(const layout::Ulid& session);

    // Newest first, as the members of the answer to session.list: `"sessions":[…],"skipped":n`.
    [[nodiscard]] Result<std::string> list(const layout::SessionList& query);
    // `"path":"…","meta":{…}`
    [[nodiscard]] Result<std::string> get(const layout::Ulid& session);

private:
    [[nodiscard]] std::vector<layout::Store> stores();
    [[nodiscard]] Status remember(const layout::Store& store);
    [[nodiscard]] std::string reserve_slug(const layout::Store& store, const layout::Ulid& id);
    [[nodiscard]] std::optional<layout::Store> store_of(const layout::Ulid& session);
    [[nodiscard]] std::vector<std::string> lineage_of(const layout::Parent& parent);
    void load_registry();
    [[nodiscard]] Status write_registry();

    Disk& disk_;
    const Clock& clock_;
    const layout::UserDirectories user_;
    const std::string host_;
    const std::string user_name_;

    std::mutex mutex_;  // what follows; held while the registry is written
    layout::UlidSource ids_;
    layout::StorePreference preference_ = layout::StorePreference::automatic;
    std::vector<layout::Store> known_;
    bool loaded_ = false;
    // Slugs taken today, by store; a slug begins with its date, so older sessions cannot collide.
    struct Day {
        std::string date;
        std::set<std::string> slugs;
    };
    std::unordered_map<std::string, Day> days_;
};

// Makes every missing directory of an absolute path, mode 0700, and opens the last one.
[[nodiscard]] Result<std::unique_ptr<Directory>>
make_private_directories(Disk& disk, const std::string& path);

}  // namespace relay::recorder
