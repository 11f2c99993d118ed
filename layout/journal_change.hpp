// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/result.hpp"
#include "layout/ulid.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// The journal's payload. A change is what one event does to the files of one session: physical effects
// (this file, this offset, these bytes), never commands, so that replay needs no state machine and an
// old journal stays readable.
//
//     change   offset  size  field
//                   0     4  size of the whole change in bytes
//                   4     4  number of effects
//                   8    16  session
//                  24     8  client's own sequence number of the event, 0 when it has none
//                  32     8  number of the event in the session's timeline
//                  40        effects, one after the other
//
//     effect        0     1  kind (EffectKind)
//                   1     1  zero
//                   2     2  length of the name
//                   4     4  length of the data
//                   8     8  offset in the file (append); 1 for a claim that makes the directory
//                  16        name, then data
//
// All integers are little-endian. A kind not known here makes the journal unreadable for this version:
// every effect is critical.

namespace relay::layout {

enum class EffectKind : std::uint8_t {
    claim = 1,           // the session lives at this Location with this owner; data: encode_claim()
    append = 2,          // data at offset of the growing file `name`
    replace = 3,         // `name` becomes data, by rename
    replace_synced = 4,  // the same, and data is synced before it gets its name
    remove = 5,          // `name` goes
    link_latest = 6,     // the store's `latest` points at this session
    settle = 7,          // `name` is complete: sync it, close it
};

struct Effect {
    EffectKind kind = EffectKind::append;
    std::string_view name;  // relative to the session directory
    std::string_view data;
    std::int64_t offset = 0;
};

struct ChangeHeader {
    Ulid session;
    std::int64_t client_seq = 0;
    std::int64_t event_seq = 0;
};

// Where a session lives and whose it is.
struct Claim {
    std::string anchor;  // see layout::Store
    std::string below;
    bool is_repo = false;
    bool create = false;  // the session begins with this change: make its directory
    // The owner's "<pid> <start time> <boot id>", enough to tell after a restart whether it still
    // lives; empty when unknown.
    std::string owner;

    [[nodiscard]] std::string session_directory(const Ulid& session) const;
    bool operator==(const Claim&) const = default;
};

// Builds one change in place, at the end of a string that may hold others before it.
class ChangeWriter {
public:
    ChangeWriter(std::string& out, const ChangeHeader& header);
    void add(const Effect& effect);
    void add_claim(const Claim& claim);
    void finish();
    [[nodiscard]] bool empty() const { return count_ == 0; }

private:
    std::string& out_;
    std::size_t begin_;
    std::uint32_t count_ = 0;
};

// Reads one change after the other out of a batch's payload. Every length is checked before use.
class ChangeReader {
public:
    explicit ChangeReader(std::string_view payload) : rest_(payload) {}

    // The next change; none at the end or when the bytes are no change (then `damaged()` says so).
    struct Change {
        ChangeHeader header;
        std::uint32_t effect_count = 0;
        std::string_view effects;  // their bytes
        std::string_view bytes;    // of the whole change
    };
    [[nodiscard]] std::optional<Change> next();
    [[nodiscard]] bool damaged() const { return damaged_; }

private:
    std::string_view rest_;
    bool damaged_ = false;
};

// Reads the effects of a change. The views point into the change's bytes.
class EffectReader {
public:
    explicit EffectReader(const ChangeReader::Change& change)
        : rest_(change.effects), left_(change.effect_count) {}
    [[nodiscard]] std::optional<Effect> next();
    [[nodiscard]] bool damaged() const { return damaged_; }

private:
    std::string_view rest_;
    std::uint32_t left_;
    bool damaged_ = false;
};

[[nodiscard]] Result<Claim> decode_claim(const Effect& effect);

}  // namespace relay::layout
