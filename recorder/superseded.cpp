// SPDX-License-Identifier: Apache-2.0
#include "recorder/superseded.hpp"

#include "layout/journal_change.hpp"
#include "recorder/session_files.hpp"

#include <cassert>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace relay::recorder {

using layout::ChangeReader;
using layout::ChangeWriter;
using layout::Effect;
using layout::EffectKind;
using layout::EffectReader;

namespace {

// What a change decides for good: a document of its session, or where the store's `latest` points.
using Decision = std::pair<const SessionFiles*, std::string>;

std::optional<Decision> decision_of(const WorkItem& item, const Effect& effect) {
    switch (effect.kind) {
    case EffectKind::replace:
    case EffectKind::replace_synced:
    case EffectKind::remove:
        return Decision(item.files.get(), effect.name);
    case EffectKind::link_latest:
        return Decision(nullptr, item.files->claim().anchor + "/" + item.files->claim().below);
    case EffectKind::claim:
    case EffectKind::append:
    case EffectKind::settle:
        return std::nullopt;
    }
    return std::nullopt;
}

// Takes out what is decided later; `decided` gets what is decided here.
void reduce(WorkItem& item, std::set<Decision>& decided) {
    ChangeReader changes(item.change);
    const auto change = changes.next();
    assert(change && "a change in the pipeline is whole");
    std::vector<Effect> effects;
    EffectReader reader(*change);
    while (const auto effect = reader.next()) {
        effects.push_back(*effect);
    }
    // From the end: one change may replace a document twice.
    std::vector<Effect> kept;
    for (auto effect = effects.rbegin(); effect != effects.rend(); ++effect) {
        auto decision = decision_of(item, *effect);
        if (!decision || decided.insert(std::move(*decision)).second) {
            kept.push_back(*effect);
        }
    }
    if (kept.size() == effects.size()) {
        return;
    }
    std::string out;
    ChangeWriter writer(out, change->header);
    for (auto effect = kept.rbegin(); effect != kept.rend(); ++effect) {
        writer.add(*effect);
    }
    writer.finish();
    item.change = std::move(out);
}

}  // namespace

void drop_superseded(std::vector<WorkItem>& items) {
    std::set<Decision> decided;
    for (auto item = items.rbegin(); item != items.rend(); ++item) {
        reduce(*item, decided);
    }
}

}  // namespace relay::recorder
