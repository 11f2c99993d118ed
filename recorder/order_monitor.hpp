// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cassert>
#include <cstdint>

namespace relay::recorder {

// States the one order that everything rests on, at the moments it could be broken: journal sync, then
// apply, then ack. In builds without RELAY_ORDER_MONITOR every call is empty.
struct OrderMonitor {
    // A change of batch `lsn` is about to touch a session's file.
    static void
    applying([[maybe_unused]] std::uint64_t lsn, [[maybe_unused]] std::uint64_t durable) {
#ifdef RELAY_ORDER_MONITOR
        assert(lsn != 0 && lsn <= durable && "applied before the journal was synced");
#endif
    }

    // A document is about to get its name.
    static void publishing([[maybe_unused]] bool must_be_synced, [[maybe_unused]] bool synced) {
#ifdef RELAY_ORDER_MONITOR
        assert((!must_be_synced || synced) && "renamed before it was synced");
#endif
    }

    // Somebody is about to be told that batch `lsn` is recorded.
    static void acking(
        [[maybe_unused]] std::uint64_t lsn,
        [[maybe_unused]] bool applied,
        [[maybe_unused]] std::uint64_t durable) {
#ifdef RELAY_ORDER_MONITOR
        assert(
            lsn != 0 && lsn <= durable && applied
            && "acknowledged before it was durable and visible");
#endif
    }
};

}  // namespace relay::recorder
