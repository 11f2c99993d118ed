// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace relay::delivery {

struct SpoolDelivery {
    std::size_t delivered = 0;  // sessions
    std::size_t left = 0;       // the daemon did not answer, or the time was up
    std::size_t hopeless = 0;   // moved aside as <session>.undeliverable
    bool is_away = false;       // nobody listened
};

// Brings what earlier processes could not deliver to the daemon, if one is running: every event once. Spool files that a
// living one writes, or another call delivers, are passed over. Ends after `most`, and when nothing was taken for as
// long as `patience`. What is not done then goes on at the next call, in a turn of its own: the daemon seals what a
// caller leaves open. Costs one look at a directory when there is nothing.
SpoolDelivery deliver_left_behind(
    const std::string& spool_directory,
    const std::string& socket,
    std::chrono::milliseconds patience,
    std::chrono::milliseconds most);

}  // namespace relay::delivery
