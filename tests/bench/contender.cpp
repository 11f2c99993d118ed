// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/contender.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace relay::tests {

std::vector<std::pair<std::string, std::string>> counted_environment(const ContenderSetup& setup) {
    return {
        {"LD_PRELOAD", setup.tests + "/librelay_count_syncs.so"},
        {"RELAY_SYNC_COUNT", setup.sync_count}};
}

std::string find_program(const std::vector<std::string>& places) {
    const auto found = std::find_if(places.begin(), places.end(), [](const std::string& place) {
        return ::access(place.c_str(), X_OK) == 0;
    });
    return found == places.end() ? std::string() : *found;
}

std::unique_ptr<Contender> make_contender(const ContenderSetup& setup) {
    if (setup.name == "relay") {
        return make_relay(setup);
    }
    if (setup.name.starts_with("redis-")) {
        return make_redis(setup);
    }
#ifdef RELAY_BENCH_POSTGRES
    if (setup.name == "postgres") {
        return make_postgres(setup);
    }
#endif
    if (find_program({setup.tests + "/relay_peer"}).empty() || setup.name == "postgres") {
        return nullptr;
    }
    return make_peer(setup);
}

}  // namespace relay::tests
