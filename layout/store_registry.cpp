// SPDX-License-Identifier: Apache-2.0
#include "layout/store_registry.hpp"

#include "layout/json_depth.hpp"
#include "layout/session_reader.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <string>

namespace relay::layout {

namespace {

constexpr std::int64_t registry_bytes_max = 16 << 20;
constexpr std::size_t registry_depth_max = 16;

std::string string_member(const nlohmann::json& object, const char* key) {
    const auto member = object.find(key);
    return member != object.end() && member->is_string() ? member->get<std::string>() : "";
}

}  // namespace

std::vector<Store> known_stores(const UserDirectories& user) {
    std::vector<Store> stores{user_store(user)};
    const Result<std::string> text =
        read_file(user.state + "/" + std::string(registry_file), registry_bytes_max);
    if (!text.ok() || json_depth(text.value()) > registry_depth_max) {
        return stores;
    }
    const auto registry = nlohmann::json::parse(text.value(), nullptr, /*allow_exceptions=*/false);
    if (!registry.is_object() || !registry.contains("stores") || !registry["stores"].is_array()) {
        return stores;
    }
    for (const auto& entry : registry["stores"]) {
        if (!entry.is_object()) {
            continue;
        }
        Store store;
        store.anchor = string_member(entry, "anchor");
        store.below = string_member(entry, "below");
        store.is_repo = !entry.contains("repo") || entry["repo"] != false;
        const bool usable = store.anchor.starts_with('/') && !store.below.empty();
        if (usable && std::find(stores.begin(), stores.end(), store) == stores.end()) {
            stores.push_back(std::move(store));
        }
    }
    return stores;
}

}  // namespace relay::layout
