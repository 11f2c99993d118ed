// SPDX-License-Identifier: Apache-2.0
#include "recorder/catalog.hpp"

#include "layout/json_writer.hpp"
#include "layout/session_paths.hpp"
#include "layout/session_reader.hpp"
#include "layout/slug.hpp"
#include "layout/store_registry.hpp"
#include "recorder/pipeline.hpp"
#include "recorder/session_loader.hpp"

#include <nlohmann/json.hpp>

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

namespace relay::recorder {

using layout::Claim;
using layout::Done;
using layout::Placement;
using layout::Store;
using layout::Ulid;

namespace {

constexpr std::size_t lineage_max = 64;  // a chain longer than this is a loop or a mistake

std::string host_name() {
    std::array<char, 256> name{};
    if (::gethostname(name.data(), name.size() - 1) != 0) {
        return {};
    }
    return name.data();
}

std::string user_name() {
    std::array<char, 4096> buffer{};
    passwd entry{};
    passwd* found = nullptr;
    if (::getpwuid_r(::geteuid(), &entry, buffer.data(), buffer.size(), &found) != 0
        || found == nullptr) {
        return std::to_string(::geteuid());
    }
    return found->pw_name;
}

Claim claim_of(const Store& store) {
    Claim claim;
    claim.anchor = store.anchor;
    claim.below = store.below;
    claim.is_repo = store.is_repo;
    return claim;
}

// The meta.json of a session as one line, or nothing when it cannot be read.
std::optional<nlohmann::ordered_json> compact_meta(const std::string& directory) {
    auto text =
        layout::read_file(directory + "/" + std::string(layout::meta_file), layout::meta_bytes_max);
    if (!text.ok() || !layout::decode_meta(text.value()).ok()) {
        return std::nullopt;
    }
    auto meta = nlohmann::ordered_json::parse(text.value(), nullptr, /*allow_exceptions=*/false);
    return meta.is_object() ? std::optional(std::move(meta)) : std::nullopt;
}

bool fits(const nlohmann::ordered_json& meta, const layout::SessionList& query) {
    const auto is = [&meta](const char* key, const std::optional<std::string>& wanted) {
        return !wanted || (meta.contains(key) && meta[key] == *wanted);
    };
    if (!is("status", query.status) || !is("agent", query.agent)) {
        return false;
    }
    if (!query.label) {
        return true;
    }
    const auto labels = meta.find("labels");
    return labels != meta.end() && labels->is_array()
           && std::find(labels->begin(), labels->end(), *query.label) != labels->end();
}

std::string dump(const nlohmann::ordered_json& json) {
    return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

Result<std::unique_ptr<Directory>> make_private_directories(Disk& disk, const std::string& path) {
    if (auto present = disk.open_directory(path); present.ok()) {
        return present;
    }
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) {
        return Error{Errc::invalid, 0, "not an absolute path: " + path};
    }
    // As many steps up as the path has components: bounded by its length.
    std::vector<std::string> missing{path.substr(slash + 1)};
    std::string existing = path.substr(0, slash);
    auto here = disk.open_directory(existing.empty() ? "/" : existing);
    while (!here.ok() && here.error().code == Errc::not_found && !existing.empty()) {
        const std::size_t cut = existing.rfind('/');
        missing.push_back(existing.substr(cut + 1));
        existing.resize(cut);
        here = disk.open_directory(existing.empty() ? "/" : existing);
    }
    while (here.ok() && !missing.empty()) {
        if (Status made = here.value()->make_directory(missing.back());
            !made.ok() && made.error().code != Errc::exists) {
            return made.error();
        }
        if (Status synced = here.value()->sync(); !synced.ok()) {
            return synced.error();
        }
        here = here.value()->open_directory(missing.back());
        missing.pop_back();
    }
    return here;
}

Catalog::Catalog(Disk& disk, const Clock& clock, layout::UserDirectories user)
    : disk_(disk),
      clock_(clock),
      user_(std::move(user)),
      host_(host_name()),
      user_name_(user_name()) {
}

void Catalog::set_default_store(layout::StorePreference preference) {
    const std::lock_guard guard(mutex_);
    preference_ = preference;
}

void Catalog::resume_ids_after(const Ulid& last) {
    const std::lock_guard guard(mutex_);
    ids_.resume_after(last);
}

void Catalog::load_registry() {
    if (std::exchange(loaded_, true)) {
        return;
    }
    known_ = layout::known_stores(user_);
}

Status Catalog::write_registry() {
    nlohmann::ordered_json registry;
    registry["v"] = 1;
    registry["stores"] = nlohmann::ordered_json::array();
    for (const Store& store : known_) {
        if (store.is_repo) {
            registry["stores"].push_back(
                {{"anchor", store.anchor}, {"below", store.below}, {"repo", true}});
        }
    }
    auto state = make_private_directories(disk_, user_.state);
    if (!state.ok()) {
        return state.error();
    }
    Directory& directory = *state.value();
    const std::string temporary = layout::temporary_file(layout::registry_file);
    // A leftover of a crash: it was never anything but ours.
    static_cast<void>(directory.remove(temporary));
    auto file = directory.open_file(temporary, OpenMode::create_exclusive);
    if (!file.ok()) {
        return file.error();
    }
    if (Status written = file.value()->write(0, dump(registry) + "\n"); !written.ok()) {
        return written;
    }
    if (Status synced = file.value()->sync(); !synced.ok()) {
        return synced;
    }
    if (Status renamed = directory.rename(temporary, layout::registry_file); !renamed.ok()) {
        return renamed;
    }
    return directory.sync();
}

Status Catalog::remember(const Store& store) {
    const std::lock_guard guard(mutex_);
    load_registry();
    if (!store.is_repo || std::find(known_.begin(), known_.end(), store) != known_.end()) {
        return Done{};
    }
    known_.push_back(store);
    return write_registry();
}

std::vector<Store> Catalog::stores() {
    const std::lock_guard guard(mutex_);
    load_registry();
    return known_;
}

// Called with the mutex held.
std::string Catalog::reserve_slug(const Store& store, const Ulid& id) {
    const std::string date = layout::format_slug_date(id.time());
    Day& day = days_[store.root()];
    if (day.date != date) {
        day.date = date;
        day.slugs.clear();
        auto sessions = layout::list_sessions(store.sessions());
        for (const Ulid& session : sessions.ok() ? sessions.value() : std::vector<Ulid>()) {
            if (layout::format_slug_date(session.time()) != date) {
                break;  // newest first: all others are older
            }
            if (auto meta = layout::read_meta(store.sessions() + "/" + session.text()); meta.ok()) {
                day.slugs.insert(meta.value().slug);
            }
        }
    }
    for (int attempt = 1;; ++attempt) {
        std::string slug = layout::slug_for(id, attempt);
        if (day.slugs.insert(slug).second) {
            return slug;
        }
    }
}

std::vector<std::string> Catalog::lineage_of(const layout::Parent& parent) {
    std::vector<std::string> lineage{parent.session};
    while (lineage.size() < lineage_max) {
        const auto id = Ulid::parse(lineage.back());
        const auto store = id ? store_of(*id) : std::nullopt;
        if (!store) {
            break;
        }
        auto meta = layout::read_meta(store->sessions() + "/" + id->text());
        if (!meta.ok() || !meta.value().parent) {
            break;
        }
        lineage.push_back(meta.value().parent->session);
    }
    std::reverse(lineage.begin(), lineage.end());
    return lineage;
}

Result<SessionPlan>
Catalog::plan(const layout::SessionStart& start, const std::optional<Ulid>& wished) {
    layout::StorePreference preference = layout::StorePreference::automatic;
    {
        const std::lock_guard guard(mutex_);
        preference = preference_;
    }
    if (start.store) {
        preference = *start.store == "user"   ? layout::StorePreference::user
                     : *start.store == "repo" ? layout::StorePreference::repo
                                              : layout::StorePreference::automatic;
    }
    auto placed = layout::place_session(start.cwd, preference, user_);
    if (!placed.ok()) {
        return placed.error();
    }
    const Placement& placement = placed.value();
    if (wished && store_of(*wished)) {
        return Error{Errc::exists, 0, "session " + wished->text() + " exists already"};
    }
    // A store that cannot be remembered is found again by its path alone: not worth refusing for.
    static_cast<void>(remember(placement.store));

    SessionPlan plan;
    plan.claim = claim_of(placement.store);
    auto volume = Pipeline::volume_name(disk_, plan.claim);
    if (!volume.ok()) {
        return volume.error();
    }
    plan.volume = std::move(volume.value());
    {
        const std::lock_guard guard(mutex_);
        plan.id = wished ? *wished : ids_.next(clock_.now());
        plan.meta.slug = reserve_slug(placement.store, plan.id);
    }
    plan.meta.cwd = placement.cwd;
    plan.meta.repo = placement.repo;
    plan.meta.worktree = placement.worktree;
    plan.meta.host = host_.empty() ? std::nullopt : std::optional(host_);
    plan.meta.user = user_name_;
    if (start.parent) {
        plan.lineage = lineage_of(*start.parent);
    }
    return plan;
}

std::optional<Store> Catalog::store_of(const Ulid& session) {
    for (const Store& store : stores()) {
        auto anchor = disk_.open_directory(store.anchor);
        if (anchor.ok()
            && anchor.value()->open_directory(store.below + "/sessions/" + session.text()).ok()) {
            return store;
        }
    }
    return std::nullopt;
}

Result<std::string> Catalog::directory_of(const Ulid& session) {
    const auto store = store_of(session);
    if (!store) {
        return Error{Errc::not_found, 0, "no session " + session.text() + " in any known store"};
    }
    return store->sessions() + "/" + session.text();
}

Result<FoundSession> Catalog::find(const Ulid& session) {
    const auto store = store_of(session);
    if (!store) {
        return Error{Errc::not_found, 0, "no session " + session.text() + " in any known store"};
    }
    auto anchor = disk_.open_directory(store->anchor);
    if (!anchor.ok()) {
        return anchor.error();
    }
    auto directory = anchor.value()->open_directory(store->below + "/sessions/" + session.text());
    if (!directory.ok()) {
        return directory.error();
    }
    FoundSession found;
    auto state = load_session(*directory.value(), claim_of(*store), 0, 0);
    if (!state.ok()) {
        return state.error();
    }
    found.state = std::move(state.value());
    auto volume = Pipeline::volume_name(disk_, found.state.claim);
    if (!volume.ok()) {
        return volume.error();
    }
    found.volume = std::move(volume.value());
    return found;
}

Result<std::string> Catalog::list(const layout::SessionList& query) {
    std::vector<Store> places = stores();
    if (query.cwd) {
        auto placed = layout::place_session(*query.cwd, layout::StorePreference::automatic, user_);
        if (!placed.ok()) {
            return placed.error();
        }
        places = {placed.value().store};
    }
    std::vector<std::pair<Ulid, std::string>> sessions;
    for (const Store& store : places) {
        auto ids = layout::list_sessions(store.sessions());
        if (!ids.ok()) {
            continue;  // a store that cannot be read now hides no other
        }
        for (const Ulid& id : ids.value()) {
            sessions.emplace_back(id, store.sessions() + "/" + id.text());
        }
    }
    std::sort(sessions.begin(), sessions.end(), [](const auto& left, const auto& right) {
        return left.first > right.first;
    });
    std::string fields = R"("sessions":[)";
    std::int64_t count = 0;
    std::int64_t skipped = 0;
    for (const auto& [id, directory] : sessions) {
        if (count == query.limit) {
            break;
        }
        auto meta = compact_meta(directory);
        if (!meta) {
            ++skipped;
            continue;
        }
        if (!fits(*meta, query)) {
            continue;
        }
        (*meta)["path"] = directory;
        fields += count == 0 ? "" : ",";
        fields += dump(*meta);
        ++count;
    }
    fields += R"(],"skipped":)" + std::to_string(skipped);
    return fields;
}

Result<std::string> Catalog::get(const Ulid& session) {
    auto directory = directory_of(session);
    if (!directory.ok()) {
        return directory.error();
    }
    auto meta = compact_meta(directory.value());
    if (!meta) {
        return Error{
            Errc::corrupt, 0, "meta.json of session " + session.text() + " cannot be read"};
    }
    std::string fields = R"("path":)";
    layout::append_json_string(fields, directory.value());
    fields += R"(,"meta":)" + dump(*meta);
    return fields;
}

}  // namespace relay::recorder
