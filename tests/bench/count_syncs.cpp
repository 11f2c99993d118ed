// SPDX-License-Identifier: Apache-2.0

// Preloaded into a server that is measured: counts its syncs in the file $RELAY_SYNC_COUNT, which it shares
// with whoever measures and with the server's children.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

namespace {

std::atomic<std::uint64_t>* counter() {
    static std::atomic<std::uint64_t>* const shared = []() -> std::atomic<std::uint64_t>* {
        const char* const path = std::getenv("RELAY_SYNC_COUNT");  // NOLINT(concurrency-mt-unsafe)
        const int fd = path == nullptr ? -1 : ::open(path, O_RDWR | O_CLOEXEC);
        if (fd < 0) {
            return nullptr;
        }
        void* const bytes =
            ::mmap(nullptr, sizeof(std::uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        ::close(fd);
        return bytes == MAP_FAILED ? nullptr : static_cast<std::atomic<std::uint64_t>*>(bytes);
    }();
    return shared;
}

using Call = int (*)(int);

int counted(Call call, int fd) {
    if (std::atomic<std::uint64_t>* const count = counter()) {
        count->fetch_add(1, std::memory_order_relaxed);
    }
    return call(fd);
}

Call next(const char* name) {
    return reinterpret_cast<Call>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

int fdatasync(int fd) {
    static const Call call = next("fdatasync");
    return counted(call, fd);
}

int fsync(int fd) {
    static const Call call = next("fsync");
    return counted(call, fd);
}

int syncfs(int fd) noexcept {
    static const Call call = next("syncfs");
    return counted(call, fd);
}
}
