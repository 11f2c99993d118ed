// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/journal_change.hpp"
#include "recorder/disk.hpp"
#include "recorder/volume.hpp"
#include "recorder/work.hpp"

#include <memory>
#include <vector>

namespace relay::recorder {

// A change that must wait for a sync, with what was written under temporary names for it and its effects
// from the first synced one on, in order. They point into the change.
struct Volume::Seal {
    WorkItem item;
    struct Step {
        layout::Effect effect;
        std::unique_ptr<File> temporary;  // of a replacement
        bool synced = false;
    };
    std::vector<Step> steps;
    std::vector<std::unique_ptr<File>>
        affirmed;  // in place already: their bytes only need the sync
    std::vector<File*> settling;
};

}  // namespace relay::recorder
