// SPDX-License-Identifier: Apache-2.0
#include "delivery/spool_file.hpp"

#include "layout/input_file.hpp"
#include "layout/ulid.hpp"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <string_view>
#include <system_error>
#include <utility>

namespace relay::delivery {

namespace {

using layout::Done;
using layout::Errc;
using layout::Error;
using layout::Result;
using layout::Status;

constexpr std::string_view magic = "agent-relay spool 1 ";
constexpr std::string_view suffix = ".spool";
constexpr std::size_t ulid_characters = 26;
constexpr std::size_t seq_digits = 20;
constexpr std::size_t header_bytes = magic.size() + ulid_characters + 1 + seq_digits + 1;
constexpr std::size_t record_head_bytes_max = 48;
constexpr std::int64_t record_bytes_max = 64
                                          << 20;  // the largest line a daemon can be told to take
constexpr std::size_t copy_bytes = 1 << 20;

Error failure(int number, const std::string& what) {
    const bool full = number == ENOSPC || number == EDQUOT;
    return Error{
        full ? Errc::no_space : Errc::io,
        number,
        what + ": " + std::system_category().message(number)};
}

std::string header_of(const std::string& session, std::int64_t first_seq) {
    const std::string digits = std::to_string(first_seq);
    return std::string(magic) + session + " "
           + std::string(seq_digits - std::min(seq_digits, digits.size()), '0') + digits + "\n";
}

bool write_at(int fd, std::string_view bytes, off_t at) {
    while (!bytes.empty()) {
        const ssize_t written = ::pwrite(fd, bytes.data(), bytes.size(), at);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            errno = written == 0 ? ENOSPC : errno;
            return false;
        }
        bytes.remove_prefix(static_cast<std::size_t>(written));
        at += written;
    }
    return true;
}

// Up to `size` bytes; fewer only at the end of the file.
bool read_at(int fd, off_t at, std::size_t size, std::string& into) {
    into.resize(size);
    std::size_t filled = 0;
    while (filled < size) {
        const ssize_t got =
            ::pread(fd, into.data() + filled, size - filled, at + static_cast<off_t>(filled));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return false;
        }
        if (got == 0) {
            break;
        }
        filled += static_cast<std::size_t>(got);
    }
    into.resize(filled);
    return true;
}

// "31 65536\n" or "31 -\n".
struct RecordHead {
    std::size_t bytes = 0;  // of the head itself
    std::int64_t members = 0;
    std::int64_t stream = -1;  // no stream
};

std::optional<RecordHead> parse_head(std::string_view text) {
    RecordHead head;
    const char* const end = text.data() + text.size();
    const auto [space, failed] = std::from_chars(text.data(), end, head.members);
    if (failed != std::errc{} || space == end || *space != ' ' || head.members < 2) {
        return std::nullopt;
    }
    const char* newline = space + 1;
    if (newline != end && *newline == '-') {
        ++newline;
    } else {
        const auto [rest, wrong] = std::from_chars(newline, end, head.stream);
        if (wrong != std::errc{} || head.stream < 0) {
            return std::nullopt;
        }
        newline = rest;
    }
    if (newline == end || *newline != '\n' || head.members > record_bytes_max
        || head.stream > record_bytes_max) {
        return std::nullopt;
    }
    head.bytes = static_cast<std::size_t>(newline + 1 - text.data());
    return head;
}

Result<Descriptor> create_locked(const std::string& path) {
    Descriptor file(
        ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file.valid()) {
        return failure(errno, "create " + path);
    }
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
        return failure(errno, "lock " + path);
    }
    return file;
}

std::string hidden_name(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return path.substr(0, slash + 1) + "." + path.substr(slash + 1) + ".tmp";
}

// Whether it is called <session>.<pid>.tmp and that process is gone.
bool is_abandoned(std::string_view name) {
    constexpr std::string_view end = ".tmp";
    if (name.size() <= ulid_characters + 1 + end.size() || name[ulid_characters] != '.'
        || !name.ends_with(end)
        || !layout::Ulid::parse(name.substr(0, ulid_characters)).has_value()) {
        return false;
    }
    pid_t writer = 0;
    const char* const number_end = name.data() + name.size() - end.size();
    const auto [rest, failed] =
        std::from_chars(name.data() + ulid_characters + 1, number_end, writer);
    return failed == std::errc{} && rest == number_end && writer > 0 && ::kill(writer, 0) != 0
           && errno == ESRCH;
}

Status make_private_directories(const std::string& directory) {
    for (std::size_t slash = 0; slash != std::string::npos;) {
        slash = directory.find('/', slash + 1);
        if (::mkdir(directory.substr(0, slash).c_str(), 0700) != 0 && errno != EEXIST
            && slash == std::string::npos) {
            return failure(errno, "create directory " + directory);
        }
    }
    return Done{};
}

}  // namespace

off_t SpoolFile::first_record() {
    return static_cast<off_t>(header_bytes);
}

Result<SpoolFile> SpoolFile::create(
    const std::string& directory, const std::string& session, std::int64_t first_seq) {
    if (Status made = make_private_directories(directory); !made.ok()) {
        return made.error();
    }
    const std::string path = directory + "/" + session + std::string(suffix);
    Result<Descriptor> file = create_locked(hidden_name(path));
    if (!file.ok()) {
        return file.error();
    }
    SpoolFile spool(std::move(file.value()), path, session, first_seq);
    if (Status cleared = spool.clear(first_seq); !cleared.ok()) {
        static_cast<void>(::unlink(hidden_name(path).c_str()));  // the first failure counts
        return cleared.error();
    }
    if (::rename(hidden_name(path).c_str(), path.c_str()) != 0) {
        return failure(errno, "rename to " + path);
    }
    return spool;
}

Result<SpoolFile> SpoolFile::open(const std::string& path) {
    Descriptor file(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
    if (!file.valid()) {
        Error error = failure(errno, "open " + path);
        error.code = error.os_errno == ENOENT ? Errc::not_found : error.code;
        return error;
    }
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
        return Error{Errc::busy, errno, path + " is held by another process"};
    }
    // Whoever held it until now may have removed it, or put another one in its place.
    struct stat held {};
    struct stat named {};
    if (::fstat(file.get(), &held) != 0 || ::stat(path.c_str(), &named) != 0
        || held.st_ino != named.st_ino || held.st_dev != named.st_dev) {
        return Error{Errc::not_found, 0, path + " was delivered by another process"};
    }
    std::string header;
    if (!read_at(file.get(), 0, header_bytes, header)) {
        return failure(errno, "read " + path);
    }
    std::int64_t first_seq = 0;
    const std::string_view text = header;
    const bool whole = header.size() == header_bytes && text.starts_with(magic);
    const std::string session(whole ? text.substr(magic.size(), ulid_characters) : "");
    if (whole) {
        std::from_chars(text.data() + header_bytes - 1 - seq_digits, text.end() - 1, first_seq);
    }
    if (first_seq < 1 || !layout::Ulid::parse(session).has_value()) {
        return Error{
            Errc::corrupt,
            0,
            path + " does not begin as a spool file does; move it away, nothing can deliver it"};
    }
    SpoolFile spool(std::move(file), path, session, first_seq);
    spool.end_ = held.st_size;
    return spool;
}

std::vector<std::string> SpoolFile::list(const std::string& directory) {
    std::vector<std::string> paths;
    Result<layout::InputDirectory> opened =
        layout::InputDirectory::open(AT_FDCWD, directory, layout::InputDirectory::Links::refuse);
    if (!opened.ok()) {
        return paths;
    }
    const Result<std::vector<layout::InputDirectory::Entry>> entries = opened.value().entries();
    if (!entries.ok()) {
        return paths;
    }
    for (const layout::InputDirectory::Entry& entry : entries.value()) {
        std::string path = directory + "/" + entry.name;
        if (is_abandoned(entry.name)) {
            const std::string session = entry.name.substr(0, ulid_characters);
            const std::string abandoned =
                std::exchange(path, directory + "/" + session + std::string(suffix));
            if (::rename(abandoned.c_str(), path.c_str()) == 0) {
                paths.push_back(std::move(path));
            }
        } else if (
            entry.name.size() == ulid_characters + suffix.size() && entry.name.ends_with(suffix)) {
            paths.push_back(std::move(path));
        }
    }
    std::sort(paths.begin(), paths.end());
    return paths;
}

Status SpoolFile::append(const PendingEvent& event) {
    if (event.is_stream) {
        return append_stream(event.members, event.bytes);
    }
    return append_record(
        std::to_string(event.members.size()) + " -\n" + event.members + "\n", event.bytes);
}

Status SpoolFile::append_stream(std::string_view members, std::string_view bytes) {
    return append_record(
        std::to_string(members.size()) + " " + std::to_string(bytes.size()) + "\n"
            + std::string(members) + "\n",
        bytes);
}

Status SpoolFile::append_record(std::string head, std::string_view bytes) {
    std::string tail = "\n";
    std::array<iovec, 3> parts{
        iovec{head.data(), head.size()},
        // pwritev() wants bytes that may be written and leaves them alone.
        iovec{const_cast<char*>(bytes.data()), bytes.size()},
        iovec{tail.data(), tail.size()}};
    const std::size_t size = head.size() + bytes.size() + tail.size();
    ssize_t written = ::pwritev(descriptor_.get(), parts.data(), parts.size(), end_);
    if (written >= 0 && static_cast<std::size_t>(written) < size) {
        const std::string whole = head + std::string(bytes) + tail;
        const std::string_view rest =
            std::string_view(whole).substr(static_cast<std::size_t>(written));
        written =
            write_at(descriptor_.get(), rest, end_ + written) ? static_cast<ssize_t>(size) : -1;
    }
    if (written < 0) {
        const Error error = failure(errno, "write " + path_);
        static_cast<void>(
            ::ftruncate(descriptor_.get(), end_));  // the next one overwrites it anyway
        return error;
    }
    end_ += static_cast<off_t>(size);
    return Done{};
}

Result<std::optional<PendingEvent>> SpoolFile::read(off_t& at) const {
    const std::optional<PendingEvent> none;
    std::string text;
    if (!read_at(descriptor_.get(), at, record_head_bytes_max, text)) {
        return failure(errno, "read " + path_);
    }
    const std::optional<RecordHead> head = parse_head(text);
    if (!head.has_value()) {
        return none;
    }
    const auto members = static_cast<std::size_t>(head->members);
    const auto stream = static_cast<std::size_t>(std::max<std::int64_t>(head->stream, 0));
    const std::size_t body = members + 1 + stream + 1;
    if (!read_at(descriptor_.get(), at + static_cast<off_t>(head->bytes), body, text)) {
        return failure(errno, "read " + path_);
    }
    if (text.size() != body || text[members] != '\n' || text.back() != '\n') {
        return none;
    }
    PendingEvent event;
    event.members = text.substr(0, members);
    event.bytes = text.substr(members + 1, stream);
    event.is_stream = head->stream >= 0;
    at += static_cast<off_t>(head->bytes + body);
    return std::optional<PendingEvent>(std::move(event));
}

Status SpoolFile::clear(std::int64_t first_seq) {
    if (::ftruncate(descriptor_.get(), 0) != 0
        || !write_at(descriptor_.get(), header_of(session_, first_seq), 0)) {
        return failure(errno, "write " + path_);
    }
    first_seq_ = first_seq;
    end_ = first_record();
    return Done{};
}

Status
SpoolFile::put_before(off_t at, std::int64_t first_seq, const std::vector<PendingEvent>& inserted) {
    Result<Descriptor> file = create_locked(hidden_name(path_));
    if (!file.ok()) {
        return file.error();
    }
    SpoolFile next(std::move(file.value()), path_, session_, first_seq);
    Status written = next.clear(first_seq);
    for (const PendingEvent& event : inserted) {
        written = written.ok() ? next.append(event) : written;
    }
    std::string block;
    while (written.ok() && at < end_) {
        const auto wanted = static_cast<std::size_t>(std::min<off_t>(end_ - at, copy_bytes));
        if (!read_at(descriptor_.get(), at, wanted, block) || block.empty()) {
            return failure(errno, "read " + path_);
        }
        if (!write_at(next.descriptor_.get(), block, next.end_)) {
            return failure(errno, "write " + hidden_name(path_));
        }
        at += static_cast<off_t>(block.size());
        next.end_ += static_cast<off_t>(block.size());
    }
    written = written.ok() ? next.sync() : written;
    if (written.ok() && ::rename(hidden_name(path_).c_str(), path_.c_str()) != 0) {
        written = failure(errno, "rename to " + path_);
    }
    if (!written.ok()) {
        static_cast<void>(::unlink(hidden_name(path_).c_str()));  // the first failure counts
        return written;
    }
    *this = std::move(next);
    return Done{};
}

Status SpoolFile::sync() const {
    if (::fdatasync(descriptor_.get()) != 0) {
        return failure(errno, "sync " + path_);
    }
    return Done{};
}

void SpoolFile::remove() {
    // One that stays is found to be delivered by the next call.
    static_cast<void>(::unlink(path_.c_str()));
}

}  // namespace relay::delivery
