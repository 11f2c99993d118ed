// SPDX-License-Identifier: Apache-2.0
#include "layout/checkpoint_record.hpp"

#include "layout/base64.hpp"
#include "layout/crc32c.hpp"
#include "layout/json_writer.hpp"
#include "layout/little_endian.hpp"

#include <nlohmann/json.hpp>

#include <cstring>

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

std::string path_of(const nlohmann::json& json, const char* key) {
    std::string path;
    if (!decode_base64(json.at(key).get_ref<const std::string&>(), path)) {
        throw std::invalid_argument(key);
    }
    return path;
}

Ulid ulid_of(const nlohmann::json& json, const char* key) {
    const auto ulid = Ulid::parse(json.at(key).get_ref<const std::string&>());
    if (!ulid) {
        throw std::invalid_argument(key);
    }
    return *ulid;
}

SessionMark session_of(const nlohmann::json& json) {
    SessionMark mark;
    mark.session = ulid_of(json, "session");
    mark.claim.anchor = path_of(json, "anchor");
    mark.claim.below = path_of(json, "below");
    mark.claim.is_repo = json.at("repo").get<bool>();
    mark.claim.owner = json.at("owner").get<std::string>();
    mark.synced_lsn = json.at("synced_lsn").get<std::uint64_t>();
    mark.client_seq = json.at("client_seq").get<std::int64_t>();
    mark.event_seq = json.at("event_seq").get<std::int64_t>();
    mark.device = std::stoull(json.at("device").get_ref<const std::string&>());
    for (const nlohmann::json& entry : json.at("files")) {
        FileMark file;
        file.name = entry.at("name").get<std::string>();
        file.length = entry.at("length").get<std::int64_t>();
        file.inode = std::stoull(entry.at("inode").get_ref<const std::string&>());
        file.tail_crc = entry.at("tail_crc").get<std::uint32_t>();
        mark.files.push_back(std::move(file));
    }
    return mark;
}

CheckpointRecord record_of(const nlohmann::json& json) {
    CheckpointRecord record;
    std::string journal;
    if (!decode_base64(json.at("journal").get_ref<const std::string&>(), journal)
        || journal.size() != record.journal.size()) {
        throw std::invalid_argument("journal");
    }
    std::memcpy(record.journal.data(), journal.data(), journal.size());
    record.lsn = json.at("lsn").get<std::uint64_t>();
    record.next_generation = json.at("next_generation").get<std::uint64_t>();
    record.last_ulid = ulid_of(json, "last_ulid");
    record.clean = json.at("clean").get<bool>();
    for (const nlohmann::json& entry : json.at("sessions")) {
        record.sessions.push_back(session_of(entry));
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
    try {
        CheckpointRecord record = record_of(nlohmann::json::parse(whole.substr(slot_header_bytes)));
        record.sequence = get_le<std::uint64_t>(bytes, 8);
        return record;
    } catch (const std::exception& unreadable) {
        return Error{
            Errc::corrupt, 0, std::string("the checkpoint cannot be read: ") + unreadable.what()};
    }
}

}  // namespace relay::layout
