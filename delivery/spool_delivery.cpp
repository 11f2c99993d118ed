// SPDX-License-Identifier: Apache-2.0
#include "delivery/spool_delivery.hpp"

#include "delivery/courier.hpp"
#include "delivery/outbox.hpp"
#include "delivery/spool_file.hpp"

#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

namespace relay::delivery {

namespace {

using layout::Errc;
using layout::Result;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Its bytes may still be worth something to a person.
void move_aside(const std::string& path) {
    static_cast<void>(
        ::rename(path.c_str(), (path.substr(0, path.rfind('.')) + ".undeliverable").c_str()));
}

enum class Fate { delivered, left, away, hopeless, not_ours };

Fate deliver_one(
    const std::string& path, const std::string& socket, milliseconds patience, milliseconds most) {
    Result<SpoolFile> file = SpoolFile::open(path);
    if (!file.ok()) {
        if (file.error().code == Errc::corrupt) {
            move_aside(path);
            return Fate::hopeless;
        }
        return Fate::not_ours;
    }
    Outbox outbox(std::move(file.value()));
    Courier courier(outbox, socket, ::getpid(), Courier::Origin::left_behind);
    const bool all = courier.deliver(patience, most);
    if (courier.hopeless()) {
        move_aside(path);
        return Fate::hopeless;
    }
    if (!all) {
        return courier.reached() ? Fate::left : Fate::away;
    }
    Result<std::string> unused = std::string();
    static_cast<void>(outbox.close(unused));  // it is empty: the file goes
    return Fate::delivered;
}

}  // namespace

SpoolDelivery deliver_left_behind(
    const std::string& spool_directory,
    const std::string& socket,
    milliseconds patience,
    milliseconds most) {
    SpoolDelivery result;
    const steady_clock::time_point end = steady_clock::now() + most;
    for (const std::string& path : SpoolFile::list(spool_directory)) {
        const auto left = std::chrono::ceil<milliseconds>(end - steady_clock::now());
        // After one that could not be delivered the others would fare no better.
        const bool stop = result.left > 0 || left.count() <= 0;
        switch (stop ? Fate::left : deliver_one(path, socket, patience, left)) {
        case Fate::delivered:
            ++result.delivered;
            break;
        case Fate::away:
            result.is_away = true;
            [[fallthrough]];
        case Fate::left:
            ++result.left;
            break;
        case Fate::hopeless:
            ++result.hopeless;
            break;
        case Fate::not_ours:
            break;
        }
    }
    return result;
}

}  // namespace relay::delivery
