// SPDX-License-Identifier: Apache-2.0
#include "recorder/timeline_tail.hpp"

#include "layout/base64.hpp"
#include "layout/session_paths.hpp"
#include "layout/utf8.hpp"
#include "recorder/posix_disk.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <utility>

namespace relay::recorder {

using layout::Done;

namespace {

constexpr std::size_t read_piece_bytes = std::size_t{64} * 1024;
// One event for the wire carries at most this much of a stream; a longer run becomes several.
constexpr std::int64_t stream_piece_bytes = std::int64_t{256} * 1024;

Result<std::unique_ptr<File>> open_in(const TimelineCursor& cursor, std::string_view name) {
    PosixDisk disk;
    auto directory = disk.open_directory(cursor.directory);
    if (!directory.ok()) {
        return directory.error();
    }
    // Our own version of a file that the user changed lies under recovered/.
    auto aside = directory.value()->open_file(layout::recovered_file(name), OpenMode::existing);
    return aside.ok() ? std::move(aside) : directory.value()->open_file(name, OpenMode::existing);
}

std::string dump(const nlohmann::ordered_json& event) {
    return event.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

// Appends the stream's bytes that `event` points at, in as many events as they need.
Status append_stream(
    const TimelineCursor& cursor, nlohmann::ordered_json event, bool is_stderr, std::string& out) {
    const auto turn = event.value("turn", std::int64_t{0});
    std::int64_t offset = event.value("offset", std::int64_t{0});
    std::int64_t left = event.value("bytes", std::int64_t{0});
    if (turn <= 0 || left <= 0) {
        out += dump(event);
        return Done{};
    }
    auto file = open_in(cursor, is_stderr ? layout::stderr_file(turn) : layout::output_file(turn));
    if (!file.ok()) {
        return file.error();
    }
    while (left > 0) {
        std::string bytes(static_cast<std::size_t>(std::min(left, stream_piece_bytes)), '\0');
        auto count = file.value()->read(offset, bytes.data(), bytes.size());
        if (!count.ok()) {
            return count.error();
        }
        bytes.resize(count.value());
        if (bytes.empty()) {
            break;
        }
        // Cut between characters, if there is a boundary near: the rest comes with the next piece.
        if (static_cast<std::int64_t>(bytes.size()) < left) {
            bytes.resize(layout::utf8_prefix(bytes, bytes.size() - 1).size());
        }
        event["offset"] = offset;
        event["bytes"] = bytes.size();
        event.erase("text");
        event.erase("data");
        if (layout::is_utf8(bytes)) {
            event["text"] = bytes;
        } else {
            event["data"] = layout::encode_base64(bytes);
        }
        out += dump(event);
        offset += static_cast<std::int64_t>(bytes.size());
        left -= static_cast<std::int64_t>(bytes.size());
    }
    return Done{};
}

Status append_line(TimelineCursor& cursor, std::string_view line, std::string& out) {
    auto event = nlohmann::ordered_json::parse(line, nullptr, false);
    if (!event.is_object()) {
        return Done{};  // a line that the user wrote: not ours to deliver
    }
    const auto seq = event.value("seq", std::int64_t{-1});
    if (seq < cursor.from_seq) {
        return Done{};
    }
    cursor.next_seq = seq + 1;
    event["session"] = cursor.session.text();
    const std::string type = event.value("type", std::string());
    if (type == "turn.output" || type == "turn.stderr") {
        return append_stream(cursor, std::move(event), type == "turn.stderr", out);
    }
    out += dump(event);
    return Done{};
}

}  // namespace

Status skip_to_end(TimelineCursor& cursor) {
    auto file = open_in(cursor, layout::timeline_file);
    if (!file.ok()) {
        return file.error();
    }
    auto stat = file.value()->stat();
    if (!stat.ok()) {
        return stat.error();
    }
    cursor.offset = stat.value().size;
    return Done{};
}

Result<std::string> read_timeline(TimelineCursor& cursor, std::int64_t bytes_max) {
    auto file = open_in(cursor, layout::timeline_file);
    if (!file.ok()) {
        return file.error();
    }
    std::string out;
    std::string buffer;
    std::int64_t read_at = cursor.offset;
    while (static_cast<std::int64_t>(out.size()) < bytes_max) {
        const std::size_t end = buffer.find('\n');
        if (end != std::string::npos) {
            if (Status appended = append_line(cursor, std::string_view(buffer).substr(0, end), out);
                !appended.ok()) {
                return appended.error();
            }
            cursor.offset += static_cast<std::int64_t>(end + 1);
            buffer.erase(0, end + 1);
            continue;
        }
        const std::size_t had = buffer.size();
        buffer.resize(had + read_piece_bytes);
        auto count = file.value()->read(read_at, buffer.data() + had, read_piece_bytes);
        if (!count.ok()) {
            return count.error();
        }
        buffer.resize(had + count.value());
        read_at += static_cast<std::int64_t>(count.value());
        if (count.value() == 0) {
            break;
        }
    }
    return out;
}

}  // namespace relay::recorder
