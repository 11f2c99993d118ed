// SPDX-License-Identifier: Apache-2.0
#include "layout/journal_batch.hpp"

#include <doctest/doctest.h>

#include <string>

namespace relay::layout {
namespace {

std::string sealed(const std::string& payload, BatchHeader& header) {
    std::string buffer(batch_header_bytes, 'x');
    buffer += payload;
    seal_batch(buffer, header);
    return buffer;
}

BatchHeader some_header() {
    BatchHeader header;
    header.generation = 7;
    header.salt = 0xFEDCBA9876543210;
    header.lsn = 42;
    header.synced_lsn = 41;
    header.previous_crc = 0x12345678;
    return header;
}

SegmentHeader some_segment() {
    SegmentHeader header;
    for (std::size_t index = 0; index < header.journal.size(); ++index) {
        header.journal[index] = static_cast<std::uint8_t>(index + 1);
    }
    header.generation = 3;
    header.salt = 0x1122334455667788;
    header.first_lsn = 100;
    header.previous_generation = 2;
    header.previous_crc = 0xCAFEBABE;
    return header;
}

std::string flipped(std::string bytes, std::size_t bit) {
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ static_cast<char>(1 << (bit % 8)));
    return bytes;
}

}  // namespace

TEST_CASE("a batch that vouches for itself is none") {
    for (const std::uint64_t synced : {42U, 43U}) {
        BatchHeader header = some_header();
        header.synced_lsn = synced;
        CHECK_FALSE(decode_batch(sealed("payload", header)).ok());
    }
}

TEST_CASE("a batch reads back as it was sealed") {
    for (const std::size_t size : {0U, 1U, 100U, 4031U, 4032U, 4033U, 70'000U}) {
        std::string payload;
        for (std::size_t index = 0; index < size; ++index) {
            payload += static_cast<char>(index * 7);
        }
        BatchHeader header = some_header();
        const std::string batch = sealed(payload, header);
        CHECK(batch.size() % journal_block_bytes == 0);
        CHECK(batch.size() == batch_bytes(size));
        const auto read = decode_batch(batch);
        REQUIRE(read.ok());
        CHECK(read.value().generation == 7);
        CHECK(read.value().salt == 0xFEDCBA9876543210);
        CHECK(read.value().lsn == 42);
        CHECK(read.value().synced_lsn == 41);
        CHECK(read.value().previous_crc == 0x12345678);
        CHECK(read.value().crc == header.crc);
        CHECK(batch_payload(batch, read.value()) == payload);
    }
}

TEST_CASE("a batch is followed by whatever and still reads back") {
    BatchHeader header = some_header();
    std::string batch = sealed("payload", header);
    batch += std::string(5000, '\xFF');
    const auto read = decode_batch(batch);
    REQUIRE(read.ok());
    CHECK(batch_payload(batch, read.value()) == "payload");
}

TEST_CASE("no truncation of a batch passes for a batch") {
    BatchHeader header = some_header();
    const std::string payload(300, 'p');
    const std::string batch = sealed(payload, header);
    const std::size_t whole = batch_header_bytes + payload.size();
    for (std::size_t size = 0; size < whole; ++size) {
        REQUIRE_FALSE(decode_batch(std::string_view(batch).substr(0, size)).ok());
    }
    CHECK(decode_batch(std::string_view(batch).substr(0, whole)).ok());
}

TEST_CASE("no single flipped bit in a batch goes unnoticed") {
    BatchHeader header = some_header();
    const std::string payload(300, 'p');
    const std::string batch = sealed(payload, header);
    const std::size_t bits = (batch_header_bytes + payload.size()) * 8;
    for (std::size_t bit = 0; bit < bits; ++bit) {
        REQUIRE_FALSE_MESSAGE(decode_batch(flipped(batch, bit)).ok(), "bit " << bit);
    }
}

TEST_CASE("a segment header reads back as it was written") {
    SegmentHeader header = some_segment();
    const std::string block = encode_segment_header(header);
    CHECK(block.size() == journal_block_bytes);
    const auto read = decode_segment_header(block);
    REQUIRE(read.ok());
    CHECK(read.value() == header);
}

TEST_CASE("no truncation and no flipped bit of a segment header goes unnoticed") {
    SegmentHeader header = some_segment();
    const std::string block = encode_segment_header(header);
    for (std::size_t size = 0; size < block.size(); ++size) {
        REQUIRE_FALSE(decode_segment_header(std::string_view(block).substr(0, size)).ok());
    }
    for (std::size_t bit = 0; bit < block.size() * 8; ++bit) {
        REQUIRE_FALSE_MESSAGE(decode_segment_header(flipped(block, bit)).ok(), "bit " << bit);
    }
}

}  // namespace relay::layout
