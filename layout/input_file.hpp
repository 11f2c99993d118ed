// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/result.hpp"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace relay::layout {

// What an open(2) or read(2) that failed means to a reader of sessions.
[[nodiscard]] inline Error input_error(const std::string& name, int os_errno) {
    Errc code = Errc::io;
    if (os_errno == ENOENT || os_errno == ENOTDIR) {
        code = Errc::not_found;
    } else if (os_errno == ELOOP || os_errno == ENXIO) {
        code = Errc::unsafe;
    }
    return {
        .code = code,
        .os_errno = os_errno,
        .context = name + ": " + std::generic_category().message(os_errno)};
}

// A regular file open for reading. Move-only; one thread at a time.
class InputFile {
public:
    // `name` is looked up in the open directory `directory`, or as a path when that is AT_FDCWD. Its
    // last component is never followed through a symbolic link, and nothing but a regular file is ever
    // waited for or read: that is Errc::unsafe.
    [[nodiscard]] static Result<InputFile> open(int directory, const std::string& name) {
        constexpr int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
        InputFile file(::openat(directory, name.c_str(), flags));
        if (file.descriptor_ < 0) {
            return input_error(name, errno);
        }
        struct stat found {};
        if (::fstat(file.descriptor_, &found) != 0) {
            return input_error(name, errno);
        }
        if (!S_ISREG(found.st_mode)) {
            return Error{
                .code = Errc::unsafe, .os_errno = 0, .context = name + ": is no regular file"};
        }
        file.bytes_ = found.st_size;
        return file;
    }

    InputFile(InputFile&& other) noexcept
        : descriptor_(std::exchange(other.descriptor_, -1)), bytes_(other.bytes_) {}
    InputFile(const InputFile&) = delete;
    InputFile& operator=(const InputFile&) = delete;
    InputFile& operator=(InputFile&&) = delete;
    ~InputFile() {
        if (descriptor_ >= 0) {
            // Nothing was written, so a failed close loses nothing.
            static_cast<void>(::close(descriptor_));
        }
    }

    // At the time of open().
    [[nodiscard]] std::int64_t bytes() const { return bytes_; }

    // Up to `size` bytes; 0 only at the end. -1 with errno set on failure.
    [[nodiscard]] ssize_t read(char* into, std::size_t size) {
        ssize_t got = -1;
        do {
            got = ::read(descriptor_, into, size);
        } while (got < 0 && errno == EINTR);
        return got;
    }

    // Likewise from `offset`, wherever read() is.
    [[nodiscard]] ssize_t read_at(std::int64_t offset, char* into, std::size_t size) const {
        ssize_t got = -1;
        do {
            got = ::pread(descriptor_, into, size, offset);
        } while (got < 0 && errno == EINTR);
        return got;
    }

private:
    explicit InputFile(int descriptor) : descriptor_(descriptor) {}

    int descriptor_ = -1;
    std::int64_t bytes_ = 0;
};

// The rest of the file. Errc::invalid when that is more than `bytes_max`.
[[nodiscard]] inline Result<std::string>
read_rest(InputFile& file, const std::string& name, std::int64_t bytes_max) {
    const auto limit = static_cast<std::size_t>(bytes_max);
    std::string content;
    std::size_t filled = 0;
    // One byte more than expected: a file that has not grown ends in the first round.
    std::size_t step = file.bytes() <= bytes_max ? static_cast<std::size_t>(file.bytes()) + 1 : 0;
    while (step > 0 && filled <= limit) {
        content.resize(filled + step);
        const ssize_t got = file.read(content.data() + filled, step);
        if (got < 0) {
            return input_error(name, errno);
        }
        filled += static_cast<std::size_t>(got);
        // A regular file gives less than was asked for only at its end.
        if (static_cast<std::size_t>(got) < step && filled <= limit) {
            content.resize(filled);
            return content;
        }
        step = 65536;
    }
    return Error{
        .code = Errc::invalid,
        .os_errno = 0,
        .context = name + ": is larger than " + std::to_string(bytes_max) + " bytes"};
}

// An open directory. Move-only; one thread at a time.
class InputDirectory {
public:
    enum class Links { follow, refuse };
    enum class Kind { file, directory, link, other };
    struct Entry {
        std::string name;
        Kind kind = Kind::other;
    };

    // `links` is about the last component alone. Errc::unsafe when it is a link and those are refused.
    [[nodiscard]] static Result<InputDirectory>
    open(int directory, const std::string& name, Links links) {
        const int no_follow = links == Links::refuse ? O_NOFOLLOW : 0;
        const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | no_follow;
        const int descriptor = ::openat(directory, name.c_str(), flags);
        if (descriptor < 0) {
            const int failure = errno;
            struct stat found {};
            const bool is_link =
                failure == ENOTDIR && no_follow != 0
                && ::fstatat(directory, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0
                && S_ISLNK(found.st_mode);
            return input_error(name, is_link ? ELOOP : failure);
        }
        DIR* const stream = ::fdopendir(descriptor);
        if (stream == nullptr) {
            const int failure = errno;
            // Nothing was written, so a failed close loses nothing.
            static_cast<void>(::close(descriptor));
            return input_error(name, failure);
        }
        return InputDirectory(stream);
    }

    // To open what lies in it.
    [[nodiscard]] int descriptor() const { return ::dirfd(stream_.get()); }

    // Everything but "." and "..", in no order.
    [[nodiscard]] Result<std::vector<Entry>> entries() {
        std::vector<Entry> found;
        ::rewinddir(stream_.get());
        for (;;) {
            errno = 0;  // it alone tells the end from a failure
            const dirent* const entry = ::readdir(stream_.get());
            if (entry == nullptr) {
                break;
            }
            const std::string name = entry->d_name;
            if (name != "." && name != "..") {
                found.push_back({name, kind_of(*entry)});
            }
        }
        if (errno != 0) {
            return input_error("reading a directory", errno);
        }
        return found;
    }

private:
    struct Close {
        void operator()(DIR* stream) const {
            // Nothing was written, so a failed close loses nothing.
            static_cast<void>(::closedir(stream));
        }
    };

    explicit InputDirectory(DIR* stream) : stream_(stream) {}

    [[nodiscard]] Kind kind_of(const dirent& entry) const {
        // Not every file system says it in the entry.
        struct stat found {};
        found.st_mode = static_cast<mode_t>(DTTOIF(entry.d_type));
        if (entry.d_type == DT_UNKNOWN
            && ::fstatat(descriptor(), entry.d_name, &found, AT_SYMLINK_NOFOLLOW) != 0) {
            return Kind::other;
        }
        if (S_ISREG(found.st_mode)) {
            return Kind::file;
        }
        if (S_ISDIR(found.st_mode)) {
            return Kind::directory;
        }
        return S_ISLNK(found.st_mode) ? Kind::link : Kind::other;
    }

    std::unique_ptr<DIR, Close> stream_;
};

}  // namespace relay::layout
