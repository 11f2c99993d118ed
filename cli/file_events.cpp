// SPDX-License-Identifier: Apache-2.0
#include "cli/file_events.hpp"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <system_error>
#include <utility>

namespace relay::cli {

namespace {

using layout::Errc;
using layout::Error;
using layout::Result;

constexpr std::uint32_t watched = IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_DELETE_SELF
                                  | IN_MOVE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK;

Error refused(const std::string& what, int os_errno) {
    const Errc code = os_errno == ENOENT || os_errno == ENOTDIR ? Errc::not_found
                      : os_errno == ENOSPC                      ? Errc::busy
                                                                : Errc::io;
    return {code, os_errno, what + ": " + std::generic_category().message(os_errno)};
}

sigset_t interrupts() {
    sigset_t set{};
    ::sigemptyset(&set);
    ::sigaddset(&set, SIGINT);
    return set;
}

}  // namespace

Result<FileEvents> FileEvents::open() {
    const int inotify = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (inotify < 0) {
        return refused("watch directories", errno);
    }
    const sigset_t set = interrupts();
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    const int signals = ::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    FileEvents events(inotify, signals);
    if (signals < 0) {
        return refused("wait for signals", errno);
    }
    return events;
}

FileEvents::FileEvents(FileEvents&& other) noexcept
    : inotify_(std::exchange(other.inotify_, -1)), signals_(std::exchange(other.signals_, -1)) {
}

FileEvents::~FileEvents() {
    if (inotify_ < 0) {
        return;
    }
    // Nothing was written through them.
    static_cast<void>(::close(inotify_));
    if (signals_ >= 0) {
        static_cast<void>(::close(signals_));
    }
    const sigset_t set = interrupts();
    ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

Result<int> FileEvents::watch(const std::string& directory) {
    const int number = ::inotify_add_watch(inotify_, directory.c_str(), watched);
    if (number < 0 && errno == ENOSPC) {
        return Error{
            Errc::busy,
            ENOSPC,
            "watch " + directory
                + ": the kernel watches no more directories; raise fs.inotify.max_user_watches"};
    }
    if (number < 0) {
        return refused("watch " + directory, errno);
    }
    return number;
}

void FileEvents::forget(int number) {
    // Of a directory that is gone the kernel has forgotten it already.
    static_cast<void>(::inotify_rm_watch(inotify_, number));
}

std::vector<FileEvents::Event> FileEvents::take_events() const {
    std::vector<Event> events;
    alignas(inotify_event) std::array<char, std::size_t{64} * 1024> buffer{};
    for (;;) {
        const ssize_t got = ::read(inotify_, buffer.data(), buffer.size());
        if (got <= 0) {
            return events;
        }
        std::size_t at = 0;
        while (at < static_cast<std::size_t>(got)) {
            inotify_event head{};
            std::memcpy(&head, buffer.data() + at, sizeof head);
            Event event;
            event.number = head.wd;
            event.name = head.len == 0 ? "" : std::string(buffer.data() + at + sizeof head);
            event.made = (head.mask & (IN_CREATE | IN_MOVED_TO)) != 0;
            event.gone = (head.mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT)) != 0;
            event.lost = (head.mask & IN_Q_OVERFLOW) != 0;
            if ((head.mask & IN_IGNORED) == 0) {
                events.push_back(std::move(event));
            }
            at += sizeof head + head.len;
        }
    }
}

Result<std::vector<FileEvents::Event>>
FileEvents::wait(const std::optional<std::chrono::milliseconds>& limit) {
    constexpr std::int64_t limit_ms_max = std::numeric_limits<int>::max();
    const auto limit_ms =
        limit ? std::clamp<std::int64_t>(limit->count(), 0, limit_ms_max) : std::int64_t{-1};
    std::array<pollfd, 2> sources{pollfd{inotify_, POLLIN, 0}, pollfd{signals_, POLLIN, 0}};
    while (::poll(sources.data(), sources.size(), static_cast<int>(limit_ms)) < 0) {
        if (errno != EINTR) {
            return refused("wait for files", errno);
        }
    }
    return take_events();
}

bool FileEvents::interrupted() {
    signalfd_siginfo interrupt{};
    if (::read(signals_, &interrupt, sizeof interrupt) == sizeof interrupt) {
        interrupted_ = true;
    }
    return interrupted_;
}

}  // namespace relay::cli
