// SPDX-License-Identifier: Apache-2.0
#include "cli/file_stamp.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>

namespace relay::cli {

namespace {

constexpr std::int64_t second_ns = 1'000'000'000;
constexpr std::int64_t settling_ns = 3 * second_ns;  // the coarsest file system counts in twos

std::int64_t in_ns(const timespec& time) {
    return time.tv_sec * second_ns + time.tv_nsec;
}

}  // namespace

std::optional<FileStamp> FileStamp::of(int directory, const std::string& name) {
    struct stat found {};
    if (::fstatat(directory, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) {
        return std::nullopt;
    }
    return FileStamp{
        {static_cast<std::int64_t>(found.st_dev),
         static_cast<std::int64_t>(found.st_ino),
         found.st_size,
         in_ns(found.st_mtim),
         in_ns(found.st_ctim)}};
}

bool FileStamp::settled(std::int64_t now_ns) const {
    return std::max(fields[3], fields[4]) + settling_ns < now_ns;
}

std::string_view FileStamp::bytes() const {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): bytes of integers
    return {reinterpret_cast<const char*>(fields.data()), sizeof fields};
}

std::int64_t file_clock_ns() {
    timespec now{};
    static_cast<void>(::clock_gettime(CLOCK_REALTIME, &now));  // cannot fail for this clock
    return in_ns(now);
}

}  // namespace relay::cli
