// SPDX-License-Identifier: Apache-2.0
#include "cli/handoff_packet.hpp"

#include "layout/documents.hpp"
#include "layout/json_depth.hpp"
#include "layout/session_paths.hpp"
#include "layout/session_reader.hpp"
#include "layout/turn_input.hpp"
#include "layout/utf8.hpp"

#include <nlohmann/json.hpp>

#include <fcntl.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

namespace relay::cli {

namespace {

using layout::Errc;
using layout::Error;
using layout::Meta;
using layout::Result;
using layout::TurnState;
using nlohmann::json;

constexpr std::int64_t state_bytes_max = 64 << 20;
constexpr std::size_t depth_max = 128;
// As in resume.json.
constexpr std::size_t items_max = 12;
constexpr std::size_t tail_bytes_max = 2048;
constexpr std::size_t lineage_max = 64;

json parsed(const layout::RawJson& text) {
    return layout::json_depth(text.text) > depth_max
               ? json()
               : json::parse(text.text, nullptr, /*allow_exceptions=*/false);
}

// A later item replaces an earlier one of its id; of more than fit the oldest go.
void keep_items(const json& items, std::vector<json>& kept) {
    for (const json& item : items.is_array() ? items : json::array()) {
        const auto id = item.is_object() ? item.find("id") : item.end();
        if (!item.is_object()) {
            continue;
        }
        if (id != item.end()) {
            std::erase_if(kept, [&id](const json& known) {
                return known.contains("id") && known["id"] == *id;
            });
        }
        kept.push_back(item);
        if (kept.size() > items_max) {
            kept.erase(kept.begin());
        }
    }
}

Result<TurnState> read_state(const std::string& directory, std::int64_t turn) {
    const std::string path = directory + "/" + layout::state_file(turn);
    const Result<std::string> text = layout::read_file(path, state_bytes_max);
    if (!text.ok()) {
        return text.error();
    }
    Result<TurnState> state = layout::decode_turn_state(text.value());
    if (!state.ok()) {
        return Error{state.error().code, 0, path + ": " + state.error().context};
    }
    return state;
}

// Empty when it cannot be read: the rest of the packet is worth having without it.
std::string output_tail(const std::string& path) {
    Result<layout::TurnInput> file = layout::TurnInput::open(AT_FDCWD, path);
    std::string tail;
    std::string piece(std::size_t{64} * 1024, '\0');
    while (file.ok()) {
        const Result<std::size_t> got = file.value().read(piece.data(), piece.size());
        if (!got.ok() || got.value() == 0) {
            break;
        }
        tail.append(piece, 0, got.value());
        tail.erase(0, tail.size() - std::min(tail.size(), tail_bytes_max + 4));
    }
    const std::string text = layout::to_utf8(layout::utf8_suffix(tail, tail_bytes_max));
    return std::string(layout::utf8_suffix(text, tail_bytes_max));
}

std::vector<std::int64_t> sealed_turns(const std::string& directory) {
    const Result<std::vector<std::int64_t>> turns = layout::list_turns(directory);
    std::vector<std::int64_t> sealed;
    for (const std::int64_t turn : turns.ok() ? turns.value() : std::vector<std::int64_t>()) {
        if (layout::InputFile::open(AT_FDCWD, directory + "/" + layout::state_file(turn)).ok()) {
            sealed.push_back(turn);
        }
    }
    return sealed;
}

std::string beside(const std::string& directory, const std::string& session) {
    return directory.substr(0, directory.rfind('/') + 1) + session;
}

bool takes_after_parent(const Meta& meta) {
    return meta.parent && (meta.parent->relation == "fork" || meta.parent->relation == "clone")
           && layout::Ulid::parse(meta.parent->session);
}

struct Place {
    std::string directory;
    Meta meta;
    std::vector<std::int64_t> sealed;
    std::optional<std::int64_t> turn;
};

// Where the turns are that the packet tells of.
Result<Place> find_turns(std::string directory, std::optional<std::int64_t> turn) {
    Result<Meta> meta = layout::read_meta(directory);
    if (!meta.ok()) {
        return meta.error();
    }
    Place place{std::move(directory), std::move(meta.value()), {}, turn};
    place.sealed = sealed_turns(place.directory);
    for (std::size_t step = 0; step < lineage_max && place.sealed.empty() && !place.turn
                               && takes_after_parent(place.meta);
         ++step) {
        const std::string above = beside(place.directory, place.meta.parent->session);
        Result<Meta> parent = layout::read_meta(above);
        if (!parent.ok()) {
            break;
        }
        place.turn = place.meta.parent->turn;
        place.directory = above;
        place.meta = std::move(parent.value());
        place.sealed = sealed_turns(above);
    }
    return place;
}

Error no_such_turn(const Place& place, std::int64_t turn) {
    const std::string id = place.meta.id.text();
    const Result<std::vector<std::int64_t>> all = layout::list_turns(place.directory);
    const bool runs =
        all.ok() && std::find(all.value().begin(), all.value().end(), turn) != all.value().end();
    const std::string number = std::to_string(turn);
    const std::string last = place.sealed.empty() ? "" : std::to_string(place.sealed.back());
    if (runs) {
        return {
            Errc::invalid,
            0,
            "turn " + number + " of session " + id + " still runs; "
                + (last.empty() ? "no turn of it has ended yet"
                                : "the last one that has ended is " + id + ":" + last)};
    }
    return {
        Errc::not_found,
        0,
        "session " + id + " has no turn " + number
            + (last.empty() ? "; none has ended yet" : "; the last one that has ended is " + last)};
}

json lineage_of(const Place& place) {
    std::vector<std::string> ids{place.meta.id.text()};
    std::optional<layout::Parent> parent = place.meta.parent;
    while (parent && ids.size() < lineage_max && layout::Ulid::parse(parent->session)) {
        ids.push_back(parent->session);
        Result<Meta> meta = layout::read_meta(beside(place.directory, parent->session));
        parent = meta.ok() ? meta.value().parent : std::nullopt;
    }
    std::reverse(ids.begin(), ids.end());
    return ids;
}

json describe(const Place& place) {
    json packet = json::object();
    packet["v"] = layout::format_version;
    packet["session_id"] = place.meta.id.text();
    packet["previous_agent"] = place.meta.agent;
    packet["turn_count"] = 0;
    packet["objective"] = place.meta.objective ? json(*place.meta.objective) : json();
    packet["working_tree"] = nullptr;
    if (const std::optional<layout::Repo>& repo = place.meta.repo) {
        json tree{{"root", repo->root}};
        tree["branch"] = repo->branch ? json(*repo->branch) : json();
        tree["head"] = repo->head ? json(*repo->head) : json();
        packet["working_tree"] = std::move(tree);
    }
    packet["last_turn"] = nullptr;
    packet["lineage"] = lineage_of(place);
    packet["record"] = place.directory;
    return packet;
}

}  // namespace

Result<json>
packet_as_of(const std::string& session_directory, const std::optional<std::int64_t>& turn) {
    const Result<Place> found = find_turns(session_directory, turn);
    if (!found.ok()) {
        return found.error();
    }
    const Place& place = found.value();
    const std::int64_t last = place.turn.value_or(place.sealed.empty() ? 0 : place.sealed.back());
    if (last > 0
        && std::find(place.sealed.begin(), place.sealed.end(), last) == place.sealed.end()) {
        return no_such_turn(place, last);
    }
    json packet = describe(place);
    std::vector<json> decisions;
    std::vector<json> blockers;
    std::map<std::string, std::string> files;
    json validation = json::object();
    for (const std::int64_t number : place.sealed) {
        if (number > last) {
            break;
        }
        const Result<TurnState> read = read_state(place.directory, number);
        if (!read.ok()) {
            return read.error();
        }
        const TurnState& state = read.value();
        keep_items(parsed(state.decisions), decisions);
        keep_items(parsed(state.blockers), blockers);
        const json touched = parsed(state.files);
        for (const json& file : touched.is_array() ? touched : json::array()) {
            if (file.is_object() && file.contains("path") && file["path"].is_string()) {
                const bool told = file.contains("status") && file["status"].is_string();
                files[file["path"].get<std::string>()] =
                    told ? file["status"].get<std::string>() : "modified";
            }
        }
        const json said = parsed(state.validation);
        const json results = said.is_object() ? said : json::object();
        for (const auto& [name, value] : results.items()) {
            validation[name] = {{"value", value}, {"source", "declared"}, {"turn", number}};
        }
        if (state.dirty && packet["working_tree"].is_object()) {
            packet["working_tree"]["dirty"] = *state.dirty;
        }
        if (state.next_task) {
            packet["next_task"] = *state.next_task;
        }
        packet["turn_count"] = number;
        packet["last_turn"] = {{"turn", number}, {"status", state.status}};
    }
    packet["decisions"] = std::move(decisions);
    packet["blockers"] = std::move(blockers);
    packet["touched_files"] = json::array();
    for (const auto& [path, status] : files) {
        packet["touched_files"].push_back({{"path", path}, {"status", status}});
    }
    packet["validation_state"] = std::move(validation);
    if (packet["last_turn"].is_object()) {
        packet["last_turn"]["output_tail"] =
            output_tail(place.directory + "/" + layout::output_file(last));
    }
    return packet;
}

}  // namespace relay::cli
