// SPDX-License-Identifier: Apache-2.0

// Fills a directory with sessions, to measure readers on:
//
//     relay_make_sessions /tmp/many/.agent-relay/sessions 10000 2000 5
//     time agent-relay list --store /tmp/many > /dev/null

#include "tests/support/written_session.hpp"

#include <cstdlib>
#include <iostream>

int main(int count, char** arguments) {
    if (count != 4 && count != 5) {
        std::cerr
            << "usage: relay_make_sessions <sessions directory> <count> <bytes of output a turn>"
               " [<turns>]\n";
        return 2;
    }
    constexpr int decimal = 10;
    relay::tests::write_many_sessions(
        arguments[1],
        std::strtoll(arguments[2], nullptr, decimal),
        std::strtoull(arguments[3], nullptr, decimal),
        count == 5 ? std::strtoull(arguments[4], nullptr, decimal) : 1);
    return 0;
}
