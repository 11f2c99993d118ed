// SPDX-License-Identifier: Apache-2.0
#include "layout/journal_batch.hpp"

#include "layout/crc32c.hpp"
#include "layout/little_endian.hpp"

#include <cassert>
#include <cstring>

namespace relay::layout {

namespace {

constexpr std::string_view segment_magic = "ARJS";
constexpr std::string_view batch_magic = "ARJB";
constexpr std::size_t crc_begin = 8;  // magic and crc itself come before

}  // namespace

std::string encode_segment_header(SegmentHeader& header) {
    std::string block(journal_block_bytes, '\0');
    char* at = block.data();
    std::memcpy(at, segment_magic.data(), segment_magic.size());
    put_le(at + 8, journal_version);
    std::memcpy(at + 16, header.journal.data(), header.journal.size());
    put_le(at + 32, header.generation);
    put_le(at + 40, header.salt);
    put_le(at + 48, header.first_lsn);
    put_le(at + 56, header.previous_generation);
    put_le(at + 64, header.previous_crc);
    header.crc = crc32c(std::string_view(block).substr(crc_begin));
    put_le(at + 4, header.crc);
    return block;
}

Result<SegmentHeader> decode_segment_header(std::string_view block) {
    if (block.size() < journal_block_bytes || !block.starts_with(segment_magic)) {
        return Error{Errc::corrupt, 0, "no journal segment header"};
    }
    block = block.substr(0, journal_block_bytes);
    SegmentHeader header;
    header.crc = get_le<std::uint32_t>(block, 4);
    if (header.crc != crc32c(block.substr(crc_begin))) {
        return Error{Errc::corrupt, 0, "journal segment header fails its checksum"};
    }
    const auto version = get_le<std::uint32_t>(block, 8);
    if (version != journal_version) {
        return Error{
            Errc::invalid,
            0,
            "the journal has version " + std::to_string(version) + ", this program reads version "
                + std::to_string(journal_version)};
    }
    std::memcpy(header.journal.data(), block.data() + 16, header.journal.size());
    header.generation = get_le<std::uint64_t>(block, 32);
    header.salt = get_le<std::uint64_t>(block, 40);
    header.first_lsn = get_le<std::uint64_t>(block, 48);
    header.previous_generation = get_le<std::uint64_t>(block, 56);
    header.previous_crc = get_le<std::uint32_t>(block, 64);
    return header;
}

std::size_t batch_bytes(std::size_t payload_bytes) {
    const std::size_t whole = batch_header_bytes + payload_bytes;
    return (whole + journal_block_bytes - 1) / journal_block_bytes * journal_block_bytes;
}

void seal_batch(std::string& buffer, BatchHeader& header) {
    assert(buffer.size() >= batch_header_bytes);
    header.payload_bytes = static_cast<std::uint32_t>(buffer.size() - batch_header_bytes);
    char* at = buffer.data();
    std::memset(at, 0, batch_header_bytes);
    std::memcpy(at, batch_magic.data(), batch_magic.size());
    put_le(at + 8, header.generation);
    put_le(at + 16, header.salt);
    put_le(at + 24, header.lsn);
    put_le(at + 32, header.synced_lsn);
    put_le(at + 40, header.payload_bytes);
    put_le(at + 44, header.previous_crc);
    header.crc = crc32c(std::string_view(buffer).substr(crc_begin));
    put_le(at + 4, header.crc);
    buffer.resize(batch_bytes(header.payload_bytes), '\0');
}

std::size_t claimed_batch_bytes(std::string_view bytes) {
    if (bytes.size() < batch_header_bytes || !bytes.starts_with(batch_magic)) {
        return 0;
    }
    return batch_header_bytes + get_le<std::uint32_t>(bytes, 40);
}

Result<BatchHeader> decode_batch(std::string_view bytes) {
    const std::size_t claimed = claimed_batch_bytes(bytes);
    if (claimed == 0) {
        return Error{Errc::corrupt, 0, "no batch"};
    }
    if (claimed > bytes.size()) {
        return Error{Errc::corrupt, 0, "batch longer than its segment"};
    }
    BatchHeader header;
    header.crc = get_le<std::uint32_t>(bytes, 4);
    header.generation = get_le<std::uint64_t>(bytes, 8);
    header.salt = get_le<std::uint64_t>(bytes, 16);
    header.lsn = get_le<std::uint64_t>(bytes, 24);
    header.synced_lsn = get_le<std::uint64_t>(bytes, 32);
    header.payload_bytes = get_le<std::uint32_t>(bytes, 40);
    header.previous_crc = get_le<std::uint32_t>(bytes, 44);
    if (header.crc != crc32c(bytes.substr(crc_begin, claimed - crc_begin))) {
        return Error{Errc::corrupt, 0, "batch fails its checksum"};
    }
    if (header.synced_lsn >= header.lsn) {
        return Error{Errc::corrupt, 0, "batch vouches for itself"};
    }
    return header;
}

std::string_view batch_payload(std::string_view bytes, const BatchHeader& header) {
    return bytes.substr(batch_header_bytes, header.payload_bytes);
}

}  // namespace relay::layout
