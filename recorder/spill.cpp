// SPDX-License-Identifier: Apache-2.0
#include "recorder/spill.hpp"

#include "layout/crc32c.hpp"
#include "layout/little_endian.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace relay::recorder {

using layout::Done;
using layout::get_le;
using layout::put_le;
using layout::Ulid;

namespace {

constexpr std::size_t frame_header_bytes = 16;
constexpr std::string_view spill_suffix = ".spill";

std::string spill_name(const Ulid& session) {
    return session.text() + std::string(spill_suffix);
}

// Calls `visit(lsn, changes)` for each whole frame and returns where the last one ends. A frame that
// does not check out is the end: what was synced before a checkpoint is never behind one that was not.
template<typename Visit>
Result<std::int64_t> walk_frames(File& file, const Visit& visit) {
    std::int64_t offset = 0;
    for (;;) {
        std::string frame(frame_header_bytes, '\0');
        auto count = file.read(offset, frame.data(), frame.size());
        if (!count.ok()) {
            return count.error();
        }
        if (count.value() < frame_header_bytes) {
            return offset;
        }
        auto stat = file.stat();
        if (!stat.ok()) {
            return stat.error();
        }
        const auto length = static_cast<std::int64_t>(get_le<std::uint32_t>(frame, 4));
        const std::int64_t left =
            stat.value().size - offset - static_cast<std::int64_t>(frame_header_bytes);
        if (length > left) {
            return offset;
        }
        frame.resize(frame_header_bytes + static_cast<std::size_t>(length));
        count = file.read(
            offset + static_cast<std::int64_t>(frame_header_bytes),
            frame.data() + frame_header_bytes,
            static_cast<std::size_t>(length));
        if (!count.ok()) {
            return count.error();
        }
        if (count.value() != static_cast<std::size_t>(length)
            || get_le<std::uint32_t>(frame, 0)
                   != layout::crc32c(std::string_view(frame).substr(4))) {
            return offset;
        }
        const auto lsn = get_le<std::uint64_t>(frame, 8);
        if (Status visited = visit(lsn, std::string_view(frame).substr(frame_header_bytes));
            !visited.ok()) {
            return visited.error();
        }
        offset += static_cast<std::int64_t>(frame.size());
    }
}

}  // namespace

Result<Spill::Open*> Spill::open(const Ulid& session) {
    Open& spill = open_[session];
    if (spill.file) {
        return &spill;
    }
    auto file = directory_.open_file(spill_name(session), OpenMode::create);
    if (!file.ok()) {
        return file.error();
    }
    names_changed_ = true;
    if (spill.synced_lsn == 0) {
        auto end =
            walk_frames(*file.value(), [this, &spill](std::uint64_t lsn, std::string_view changes) {
                if (lsn <= trusted_lsn_) {
                    spill.synced_lsn = lsn;
                    spill.synced_end +=
                        static_cast<std::int64_t>(frame_header_bytes + changes.size());
                }
                return Status(Done{});
            });
        if (!end.ok()) {
            return end.error();
        }
    }
    // What lies behind may look like frames and must never be read as such.
    if (Status cut = file.value()->truncate(spill.synced_end); !cut.ok()) {
        return cut.error();
    }
    spill.end = spill.synced_end;
    spill.last_lsn = spill.synced_lsn;
    spill.file = std::move(file.value());
    return &spill;
}

Status Spill::add(const Ulid& session, std::uint64_t lsn, std::string_view changes) {
    auto opened = open(session);
    if (!opened.ok()) {
        return opened.error();
    }
    Open& spill = *opened.value();
    if (lsn <= spill.last_lsn) {
        return Done{};
    }
    std::string frame(frame_header_bytes, '\0');
    put_le(frame.data() + 4, static_cast<std::uint32_t>(changes.size()));
    put_le(frame.data() + 8, lsn);
    frame.append(changes);
    put_le(frame.data(), layout::crc32c(std::string_view(frame).substr(4)));
    if (Status written = spill.file->write(spill.end, frame); !written.ok()) {
        spill.file.reset();
        return written;
    }
    spill.end += static_cast<std::int64_t>(frame.size());
    spill.last_lsn = lsn;
    return Done{};
}

Status Spill::sync() {
    Status result = Done{};
    for (auto& [session, spill] : open_) {
        if (!spill.file) {
            continue;
        }
        Status synced = spill.file->sync();
        spill.file.reset();
        if (synced.ok()) {
            spill.synced_end = spill.end;
            spill.synced_lsn = spill.last_lsn;
        } else {
            result = synced;
        }
    }
    if (result.ok() && names_changed_) {
        result = directory_.sync();
        names_changed_ = !result.ok();
    }
    return result;
}

Status Spill::read(const Ulid& session, const Visitor& visitor) {
    auto file = directory_.open_file(spill_name(session), OpenMode::existing);
    if (!file.ok()) {
        if (file.error().code == Errc::not_found) {
            return Done{};
        }
        return file.error();
    }
    auto end = walk_frames(*file.value(), visitor);
    if (!end.ok()) {
        return end.error();
    }
    return Done{};
}

Status Spill::remove(const Ulid& session) {
    open_.erase(session);
    Status removed = directory_.remove(spill_name(session));
    if (!removed.ok() && removed.error().code == Errc::not_found) {
        return Done{};
    }
    return removed;
}

Status Spill::sync_removals() {
    return directory_.sync();
}

Result<std::vector<Ulid>> Spill::sessions() {
    auto names = directory_.list();
    if (!names.ok()) {
        return names.error();
    }
    std::vector<Ulid> found;
    for (const std::string& name : names.value()) {
        if (!name.ends_with(spill_suffix)) {
            continue;
        }
        if (auto ulid = Ulid::parse(name.substr(0, name.size() - spill_suffix.size()))) {
            found.push_back(*ulid);
        }
    }
    return found;
}

}  // namespace relay::recorder
