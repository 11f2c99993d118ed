// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace relay::recorder {

// What recovery looks at where the unbroken chain of batches ends. Nothing else may influence the
// verdict.
struct TailEvidence {
    // Something that reads as a batch numbered after the last good one lies somewhere in the journal.
    bool later_batch_seen = false;

    // One of those says that the batch after the last good one had been synced. The committer writes a
    // batch only once the previous one is synced, so this proves that what is missing was acknowledged.
    bool missing_batch_was_synced = false;
};

enum class TailVerdict {
    clean,  // the journal ends here
    discard,  // a batch was being written when the machine or the daemon stopped; nobody was told "done"
    damaged,  // acknowledged batches cannot be read: keep the journal, save what can be saved, say so
};

struct TailRule {
    std::string_view name;  // what the log prints
    std::optional<bool> later_batch_seen;
    std::optional<bool> missing_batch_was_synced;
    TailVerdict verdict = TailVerdict::damaged;
};

inline constexpr std::array tail_rules{
    TailRule{"journal ends on a batch", false, false, TailVerdict::clean},
    TailRule{"torn by a crash", true, false, TailVerdict::discard},
    TailRule{"acknowledged batch unreadable", std::nullopt, true, TailVerdict::damaged},
};

// The one rule that fits; tests/recorder/tail_verdict_test.cpp proves there is exactly one.
[[nodiscard]] constexpr const TailRule& judge_tail(const TailEvidence& evidence) {
    for (const TailRule& rule : tail_rules) {
        const bool seen_fits =
            !rule.later_batch_seen || *rule.later_batch_seen == evidence.later_batch_seen;
        const bool synced_fits =
            !rule.missing_batch_was_synced
            || *rule.missing_batch_was_synced == evidence.missing_batch_was_synced;
        if (seen_fits && synced_fits) {
            return rule;
        }
    }
    return tail_rules.back();
}

}  // namespace relay::recorder
