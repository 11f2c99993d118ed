// SPDX-License-Identifier: Apache-2.0
#include "layout/checkpoint_record.hpp"

#include "layout/base64.hpp"
#include "layout/crc32c.hpp"
#include "layout/json_parser.hpp"
#include "layout/json_writer.hpp"
#include "layout/little_endian.hpp"

#include <simdjson.h>

#include <charconv>
#include <cstring>
#include <stdexcept>

namespace relay::layout {

namespace {

constexpr std::string_view checkpoint_magic = "ARJC";
constexpr std::size_t slot_header_bytes = 24;
constexpr std::size_t crc_begin = 8;

// Paths are bytes, not text: base64 carries them through JSON unharmed.
void append_session(std::string& out, const SessionMark& mark) {
    JsonObject object(out, JsonObject::Form::compact);
    object.string("session", mark.session.text());
    object.string("anchor", encode_base64(mark.claim.anchor));
    object.string("below", encode_base64(mark.claim.below));
    object.boolean("repo", mark.claim.is_repo);
    object.string("owner", mark.claim.owner);
    object.integer("synced_lsn", static_cast<std::int64_t>(mark.synced_lsn));
    object.integer("client_seq", mark.client_seq);
    object.integer("event_seq", mark.event_seq);
    object.string("device", std::to_string(mark.device));
    object.key("files");
    out += '[';
    for (const FileMark& file : mark.files) {
        if (&file != &mark.files.front()) {
            out += ',';
        }
        JsonObject entry(out, JsonObject::Form::compact);
        entry.string("name", file.name);
        entry.integer("length", file.length);
        entry.string("inode", std::to_string(file.inode));
        entry.integer("tail_crc", file.tail_crc);
        entry.finish();
    }
    out += ']';
    object.finish();
}

namespace dom = simdjson::dom;

// The values below throw when they are not there or of another kind: only a program with another idea of
// the record has written such a one, as its checksum is right.
dom::element value_of(dom::object json, std::string_view key) {
    const std::optional<dom::element> value = find_member(json, key);
    if (!value) {
        throw std::invalid_argument(std::string(key));
    }
    return *value;
}

template<typename Value>
Value get(dom::object json, std::string_view key) {
    Value value{};
    if (value_of(json, key).get(value) != simdjson::SUCCESS) {
        throw std::invalid_argument(std::string(key));
    }
    return value;
}

std::string string_of(dom::object json, std::string_view key) {
    return std::string(get<std::string_view>(json, key));
}

std::string bytes_of(dom::object json, std::string_view key) {
    std::string bytes;
    if (!decode_base64(get<std::string_view>(json, key), bytes)) {
        throw std::invalid_argument(std::string(key));
    }
    return bytes;
}

// Of a number in quotes, which all its 64 bits survive.
std::uint64_t number_of(dom::object json, std::string_view key) {
    const auto digits = get<std::string_view>(json, key);
    const char* const end = digits.data() + digits.size();
    std::uint64_t number = 0;
    if (std::from_chars(digits.data(), end, number).ec != std::errc()) {
        throw std::invalid_argument(std::string(key));
    }
    return number;
}

Ulid ulid_of(dom::object json, std::string_view key) {
    const auto ulid = Ulid::parse(get<std::string_view>(json, key));
    if (!ulid) {
        throw std::invalid_argument(std::string(key));
    }
    return *ulid;
}

dom::object object_of(dom::element value) {
    dom::object object;
    if (value.get(object) != simdjson::SUCCESS) {
        throw std::invalid_argument("no object");
    }
    return object;
}

SessionMark session_of(dom::object json) {
    SessionMark mark;
    mark.session = ulid_of(json, "session");
    mark.claim.anchor = bytes_of(json, "anchor");
    mark.claim.below = bytes_of(json, "below");
    mark.claim.is_repo = get<bool>(json, "repo");
    mark.claim.owner = string_of(json, "owner");
    mark.synced_lsn = get<std::uint64_t>(json, "synced_lsn");
    mark.client_seq = get<std::int64_t>(json, "client_seq");
    mark.event_seq = get<std::int64_t>(json, "event_seq");
    mark.device = number_of(json, "device");
    for (const dom::element entry : get<dom::array>(json, "files")) {
        const dom::object stated = object_of(entry);
        FileMark file;
        file.name = string_of(stated, "name");
        file.length = get<std::int64_t>(stated, "length");
        file.inode = number_of(stated, "inode");
        file.tail_crc = static_cast<std::uint32_t>(get<std::uint64_t>(stated, "tail_crc"));
        mark.files.push_back(std::move(file));
    }
    return mark;
}

CheckpointRecord record_of(dom::object json) {
    CheckpointRecord record;
    const std::string journal = bytes_of(json, "journal");
    if (journal.size() != record.journal.size()) {
        throw std::invalid_argument("journal");
    }
    std::memcpy(record.journal.data(), journal.data(), journal.size());
    record.lsn = get<std::uint64_t>(json, "lsn");
    record.next_generation = get<std::uint64_t>(json, "next_generation");
    record.last_ulid = ulid_of(json, "last_ulid");
    record.clean = get<bool>(json, "clean");
    for (const dom::element entry : get<dom::array>(json, "sessions")) {
        record.sessions.push_back(session_of(object_of(entry)));
    }
    return record;
}

}  // namespace

std::string encode_checkpoint(const CheckpointRecord& record) {
    std::string out(slot_header_bytes, '\0');
    const std::string journal(record.journal.begin(), record.journal.end());
    JsonObject object(out, JsonObject::Form::compact);
    object.string("journal", encode_base64(journal));
    object.integer("lsn", static_cast<std::int64_t>(record.lsn));
    object.integer("next_generation", static_cast<std::int64_t>(record.next_generation));
    object.string("last_ulid", record.last_ulid.text());
    object.boolean("clean", record.clean);
    object.key("sessions");
    out += '[';
    for (const SessionMark& mark : record.sessions) {
        if (&mark != &record.sessions.front()) {
            out += ',';
        }
        append_session(out, mark);
    }
    out += ']';
    object.finish();

    char* at = out.data();
    std::memcpy(at, checkpoint_magic.data(), checkpoint_magic.size());
    put_le(at + 8, record.sequence);
    put_le(at + 16, static_cast<std::uint32_t>(out.size() - slot_header_bytes));
    put_le(at + 4, crc32c(std::string_view(out).substr(crc_begin)));
    return out;
}

Result<CheckpointRecord> decode_checkpoint(std::string_view bytes) {
    if (bytes.size() < slot_header_bytes || !bytes.starts_with(checkpoint_magic)) {
        return Error{Errc::corrupt, 0, "no checkpoint"};
    }
    const std::size_t length = get_le<std::uint32_t>(bytes, 16);
    if (length > bytes.size() - slot_header_bytes) {
        return Error{Errc::corrupt, 0, "the checkpoint is cut short"};
    }
    const std::string_view whole = bytes.substr(0, slot_header_bytes + length);
    if (get_le<std::uint32_t>(bytes, 4) != crc32c(whole.substr(crc_begin))) {
        return Error{Errc::corrupt, 0, "the checkpoint fails its checksum"};
    }
    const Result<dom::object> json =
        parse_json_object(whole.substr(slot_header_bytes), simdjson::DEFAULT_MAX_DEPTH);
    if (!json.ok()) {
        return Error{Errc::corrupt, 0, "the checkpoint " + json.error().context};
    }
    try {
        CheckpointRecord record = record_of(json.value());
        record.sequence = get_le<std::uint64_t>(bytes, 8);
        return record;
    } catch (const std::invalid_argument& unreadable) {
        return Error{
            Errc::corrupt, 0, std::string("the checkpoint cannot be read: ") + unreadable.what()};
    }
}

}  // namespace relay::layout
