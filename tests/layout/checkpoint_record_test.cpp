// SPDX-License-Identifier: Apache-2.0
#include "layout/checkpoint_record.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>

namespace relay::layout {
namespace {

CheckpointRecord some_record() {
    CheckpointRecord record;
    record.sequence = 9;
    record.journal[3] = 0xAB;
    record.lsn = 1234;
    record.next_generation = 17;
    record.last_ulid = Ulid::parse("01J9X3M7K5VBHQEN6T2F4D8RPZ").value();
    SessionMark mark;
    mark.session = record.last_ulid;
    mark.claim.anchor = "/repo \xFF\n";
    mark.claim.below = ".agent-relay";
    mark.claim.is_repo = true;
    mark.claim.owner = "1 2 3";
    mark.synced_lsn = 1200;
    mark.client_seq = 5;
    mark.event_seq = 6;
    mark.files.push_back(
        {"events.jsonl", 77, std::numeric_limits<std::uint64_t>::max(), 0xFFFFFFFF});
    mark.files.push_back({"turns/001-output.md", 0, 12, 0});
    record.sessions.push_back(mark);
    mark.files.clear();
    mark.claim.is_repo = false;
    record.sessions.push_back(mark);
    return record;
}

}  // namespace

TEST_CASE("a checkpoint reads back as it was written") {
    CheckpointRecord record = some_record();
    auto read = decode_checkpoint(encode_checkpoint(record));
    REQUIRE(read.ok());
    CHECK(read.value() == record);
    record.clean = true;
    record.sessions.clear();
    read = decode_checkpoint(encode_checkpoint(record));
    REQUIRE(read.ok());
    CHECK(read.value() == record);
}

TEST_CASE("a checkpoint over the remains of a longer one reads back") {
    CheckpointRecord record = some_record();
    const std::string longer = encode_checkpoint(record);
    record.sessions.clear();
    record.sequence = 11;
    std::string bytes = encode_checkpoint(record);
    bytes += longer.substr(bytes.size());
    const auto read = decode_checkpoint(bytes);
    REQUIRE(read.ok());
    CHECK(read.value() == record);
}

TEST_CASE("no truncation and no flipped bit of a checkpoint goes unnoticed") {
    const std::string bytes = encode_checkpoint(some_record());
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        REQUIRE_FALSE(decode_checkpoint(std::string_view(bytes).substr(0, size)).ok());
    }
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
        std::string bad = bytes;
        bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ static_cast<char>(1 << (bit % 8)));
        REQUIRE_FALSE_MESSAGE(decode_checkpoint(bad).ok(), "bit " << bit);
    }
}

}  // namespace relay::layout
