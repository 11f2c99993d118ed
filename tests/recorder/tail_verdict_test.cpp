// SPDX-License-Identifier: Apache-2.0
#include "recorder/tail_verdict.hpp"

#include <doctest/doctest.h>

#include <algorithm>

namespace relay::recorder {

TEST_CASE("exactly one rule fits every possible end of a journal") {
    for (const bool seen : {false, true}) {
        for (const bool synced : {false, true}) {
            const TailEvidence evidence{seen, synced};
            const auto fits = std::count_if(
                tail_rules.begin(), tail_rules.end(), [&evidence](const TailRule& rule) {
                    return (!rule.later_batch_seen
                            || *rule.later_batch_seen == evidence.later_batch_seen)
                           && (!rule.missing_batch_was_synced
                               || *rule.missing_batch_was_synced
                                      == evidence.missing_batch_was_synced);
                });
            CHECK(fits == 1);
        }
    }
}

TEST_CASE("what was synced and cannot be read is damage and nothing else is") {
    CHECK(judge_tail({false, false}).verdict == TailVerdict::clean);
    CHECK(judge_tail({true, false}).verdict == TailVerdict::discard);
    CHECK(judge_tail({true, true}).verdict == TailVerdict::damaged);
    CHECK(judge_tail({false, true}).verdict == TailVerdict::damaged);
}

}  // namespace relay::recorder
