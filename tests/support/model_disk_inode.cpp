// SPDX-License-Identifier: Apache-2.0
// What a file of the model holds, and what is left of it.
#include "tests/support/model_disk_parts.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace relay::tests {

void ModelDisk::Inode::put(std::size_t offset, std::string_view bytes) {
    if (bytes.empty()) {
        return;
    }
    const std::size_t end = offset + bytes.size();
    const std::size_t before = seen.size();
    changes.push_back({offset, bytes.size(), false, before, overwritten.size()});
    const std::size_t within = offset < before ? std::min(bytes.size(), before - offset) : 0;
    if (within > 0) {
        overwritten.append(seen, offset, within);
        std::memcpy(seen.data() + offset, bytes.data(), within);
    }
    if (end > before) {
        home.used += static_cast<std::int64_t>(end - before);
        seen.resize(std::max(before, offset), '\0');
        seen.append(bytes.substr(within));
        sizes.push_back(end);
    }
    home.mark_dirty(*this);
}

void ModelDisk::Inode::set_size(std::size_t size) {
    const std::size_t before = seen.size();
    home.used += static_cast<std::int64_t>(size) - static_cast<std::int64_t>(before);
    // Growth alone changes only the size.
    const std::size_t cut = size < before ? before - size : 0;
    changes.push_back({std::min(size, before), cut, true, before, overwritten.size()});
    overwritten.append(seen, before - cut, cut);
    seen.resize(size, '\0');
    sizes.push_back(size);
    home.mark_dirty(*this);
}

void ModelDisk::Inode::undo(const Change& change, std::string& content) const {
    content.resize(change.size_before, '\0');
    if (change.offset < change.size_before) {
        const std::size_t size = std::min(change.size, change.size_before - change.offset);
        std::memcpy(
            content.data() + change.offset, overwritten.data() + change.overwritten_at, size);
    }
}

void ModelDisk::Inode::forget_changes() {
    changes.clear();
    overwritten.clear();
    sizes.clear();
}

std::string ModelDisk::Inode::durable() const {
    if (diverged) {
        return left;
    }
    std::string content = seen;
    for (auto change = changes.rbegin(); change != changes.rend(); ++change) {
        undo(*change, content);
    }
    return content;
}

void ModelDisk::Inode::make_durable() {
    if (changes.empty()) {
        return;
    }
    if (!diverged) {
        forget_changes();
        home.unmark_dirty(*this);
        return;
    }
    left.resize(seen.size(), '\0');
    for (const Change& change : changes) {
        if (change.offset < seen.size()) {
            const std::size_t size = std::min(change.size, seen.size() - change.offset);
            std::memcpy(left.data() + change.offset, seen.data() + change.offset, size);
        }
    }
    forget_changes();
}

// The dirty pages are dropped, and whoever has the file or its file system open will hear of it.
void ModelDisk::Inode::fail_writeback() {
    if (changes.empty()) {
        return;
    }
    ++writeback_errors;
    ++home.writeback_errors;
    left = durable();
    diverged = true;
    forget_changes();
}

// Sector by sector the changes up to some moment are on the disk; the moment is a function of the
// sector, so that nothing needs to be remembered about sectors.
void ModelDisk::Inode::lose_power(Random& random) {
    enum class Mood { nothing, everything, by_sector, by_sector_again };
    const auto mood = static_cast<Mood>(random.below(4));
    const std::uint64_t salt = random.next();
    const std::size_t moments = changes.size();
    const auto moment_of = [&](std::size_t sector) -> std::size_t {
        if (mood == Mood::nothing) {
            return 0;
        }
        const std::uint64_t draw = Random::mixed(salt + sector);
        if (mood == Mood::everything || draw % 3 == 0) {
            return moments;
        }
        if (draw % 3 == 1) {
            return 0;
        }
        return moments > 1 ? 1 + (draw >> 8) % (moments - 1) : (draw >> 8) % 2;
    };

    // Back to the last sync; what each change had written is kept for those that reached the disk.
    std::string written;
    std::vector<std::size_t> written_at(moments);
    for (std::size_t moment = moments; moment > 0; --moment) {
        const Change& change = changes[moment - 1];
        written_at[moment - 1] = written.size();
        if (!change.zeroes) {
            written.append(seen, change.offset, change.size);
        }
        undo(change, seen);
    }
    if (diverged) {
        seen = std::move(left);
    }
    const std::size_t size_before = seen.size();
    std::size_t size_max = size_before;
    for (const std::size_t size : sizes) {
        size_max = std::max(size_max, size);
    }
    seen.resize(size_max, '\0');
    for (std::size_t moment = 0; moment < moments; ++moment) {
        const Change& change = changes[moment];
        const std::size_t end = std::min(change.offset + change.size, size_max);
        for (std::size_t at = change.offset; at < end;) {
            const std::size_t sector = at / sector_bytes;
            const std::size_t stop = std::min(end, (sector + 1) * sector_bytes);
            if (moment < moment_of(sector)) {
                if (change.zeroes) {
                    std::memset(seen.data() + at, 0, stop - at);
                } else {
                    const char* const bytes = written.data() + written_at[moment];
                    std::memcpy(seen.data() + at, bytes + (at - change.offset), stop - at);
                }
            }
            at = stop;
        }
    }
    const std::uint64_t draw = random.below(3);
    std::size_t size = size_before;
    if (!sizes.empty() && draw != 0) {
        size = draw == 1 ? sizes.back() : sizes[random.below(sizes.size())];
    }
    seen.resize(size);
    forget_changes();
    left.clear();
    diverged = false;
}

}  // namespace relay::tests
