// SPDX-License-Identifier: Apache-2.0
#include "daemon/log.hpp"

#include "layout/timestamp.hpp"
#include "layout/utf8.hpp"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace relay::daemon {

namespace {

constexpr std::size_t value_bytes_max = 1024;
constexpr std::size_t line_bytes_max = 4096;  // PIPE_BUF: a pipe takes it whole or not at all

void append_byte_escaped(std::string& line, unsigned char byte) {
    constexpr std::string_view digits = "0123456789abcdef";
    line += "\\x";
    line += digits[byte >> 4];
    line += digits[byte & 15];
}

bool needs_quotes(std::string_view value) {
    return value.empty() || std::any_of(value.begin(), value.end(), [](char character) {
               const auto byte = static_cast<unsigned char>(character);
               return byte <= ' ' || byte == 0x7f || character == '"' || character == '='
                      || character == '\\';
           });
}

void append_escaped(std::string& line, std::string_view value) {
    const bool is_text = layout::is_utf8(value);
    for (std::size_t at = 0; at < value.size(); ++at) {
        const auto byte = static_cast<unsigned char>(value[at]);
        // U+0080 to U+009F are controls too: U+009B begins an escape sequence on some terminals.
        const bool begins_control = byte == 0xc2 && at + 1 < value.size()
                                    && static_cast<unsigned char>(value[at + 1]) < 0xa0;
        if (value[at] == '\n') {
            line += "\\n";
        } else if (value[at] == '\t') {
            line += "\\t";
        } else if (value[at] == '"' || value[at] == '\\') {
            line += '\\';
            line += value[at];
        } else if (is_text && begins_control) {
            append_byte_escaped(line, byte);
            append_byte_escaped(line, static_cast<unsigned char>(value[++at]));
        } else if (byte < ' ' || byte == 0x7f || (byte >= 0x80 && !is_text)) {
            append_byte_escaped(line, byte);
        } else {
            line += value[at];
        }
    }
}

std::string_view kept_part(std::string_view value) {
    return layout::is_utf8(value) ? layout::utf8_prefix(value, value_bytes_max)
                                  : value.substr(0, value_bytes_max);
}

// KEY=value, or, of a value with newlines, KEY, its length as eight bytes, and the value.
void append_journal_field(std::string& datagram, std::string_view key, std::string_view value) {
    datagram += key;
    if (value.find('\n') == std::string_view::npos) {
        datagram += '=';
    } else {
        datagram += '\n';
        for (std::uint64_t left = value.size(), byte = 0; byte < 8; ++byte, left >>= 8) {
            datagram += static_cast<char>(left & 0xff);
        }
    }
    datagram += value;
    datagram += '\n';
}

// Journald takes A-Z, 0-9 and _.
std::string journal_key(std::string_view key) {
    std::string name = "AGENT_RELAY_";
    for (const char letter : key) {
        const bool is_lower = letter >= 'a' && letter <= 'z';
        const bool fits =
            is_lower || (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9');
        name += is_lower ? static_cast<char>(letter - 'a' + 'A') : (fits ? letter : '_');
    }
    return name;
}

void append_value(std::string& line, std::string_view value) {
    const std::string_view kept = kept_part(value);
    const bool quotes = needs_quotes(kept);
    if (quotes) {
        line += '"';
    }
    append_escaped(line, kept);
    if (kept.size() < value.size()) {
        line += "…";
    }
    if (quotes) {
        line += '"';
    }
}

layout::Timestamp now() {
    const auto since = std::chrono::system_clock::now().time_since_epoch();
    return {std::chrono::duration_cast<std::chrono::milliseconds>(since).count()};
}

}  // namespace

Log::Style Log::style_of(int fd, const layout::Environment& environment) {
    if (::isatty(fd) == 1) {
        return Style::terminal;
    }
    const std::optional<std::string> journal = environment("JOURNAL_STREAM");
    struct stat status {};
    if (!journal.has_value() || ::fstat(fd, &status) != 0) {
        return Style::file;
    }
    const std::string own = std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino);
    return *journal == own ? Style::journal : Style::file;
}

int Log::open_journal() {
    constexpr std::string_view path = "/run/systemd/journal/socket";
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, path.size());
    const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        ::close(fd);
        return -1;
    }
    return fd;
}

bool Log::send_fields(
    char priority, std::string_view message, std::string_view event, Fields fields) const {
    std::string datagram;
    append_journal_field(datagram, "MESSAGE", message);
    append_journal_field(datagram, "PRIORITY", {&priority, 1});
    append_journal_field(datagram, "SYSLOG_IDENTIFIER", "agent-relayd");
    append_journal_field(datagram, "AGENT_RELAY_EVENT", event);
    for (const Field& field : fields) {
        append_journal_field(datagram, journal_key(field.key), kept_part(field.value));
    }
    ssize_t sent = 0;
    while ((sent = ::send(journal_, datagram.data(), datagram.size(), MSG_NOSIGNAL)) < 0
           && errno == EINTR) {
    }
    return sent >= 0;
}

void Log::info(std::string_view event, Fields fields) const {
    write_line('6', event, fields);
}

void Log::warn(std::string_view event, Fields fields) const {
    write_line('4', event, fields);
}

void Log::error(std::string_view event, Fields fields) const {
    write_line('3', event, fields);
}

void Log::write_line(char priority, std::string_view event, Fields fields) const {
    std::string line;
    if (style_ != Style::terminal) {
        line += '<';
        line += priority;
        line += '>';
    }
    if (style_ != Style::journal) {
        line += layout::format_timestamp(now()) + " ";
    }
    const std::size_t head = line.size();
    append_escaped(line, event);
    for (const Field& field : fields) {
        line += ' ';
        append_escaped(line, field.key);
        line += '=';
        append_value(line, field.value);
    }
    line.resize(layout::utf8_prefix(line, line_bytes_max - 1).size());
    if (journal_ >= 0
        && send_fields(priority, std::string_view(line).substr(head), event, fields)) {
        return;
    }
    line += '\n';
    // The result is dropped: a log that cannot be written has nowhere to say so.
    while (::write(fd_, line.data(), line.size()) < 0 && errno == EINTR) {
    }
}

}  // namespace relay::daemon
