// SPDX-License-Identifier: Apache-2.0

// Any text as config.toml, as an environment and as flags: it is read or refused with a sentence.

#include "daemon/config.hpp"
#include "tests/fuzz/fuzz_input.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace relay;
    static const int file = ::memfd_create("config.toml", MFD_CLOEXEC);
    static const std::string path = "/proc/self/fd/" + std::to_string(file);
    HOLDS(file >= 0 && ::ftruncate(file, 0) == 0);
    HOLDS(::pwrite(file, data, size, 0) == static_cast<ssize_t>(size));
    const std::string text(reinterpret_cast<const char*>(data), size);

    layout::ConfigSources sources;
    sources.explicit_file = path;
    const auto config = daemon::load_config(sources);
    if (config.ok()) {
        HOLDS(config.value().segments_max >= 2);
        HOLDS(config.value().max_event_bytes <= config.value().segment_bytes / 2);
    } else {
        HOLDS(!config.error().context.empty());
    }

    layout::ConfigSources flags;
    flags.system_file.clear();
    const std::size_t equals = text.find('=');
    flags.flags.emplace_back(
        text.substr(0, equals), equals == std::string::npos ? "" : text.substr(equals + 1));
    static_cast<void>(daemon::load_config(flags));

    const auto duration = layout::parse_duration(text);
    HOLDS(!duration.ok() || duration.value().count() >= 0);
    const auto bytes = layout::parse_size(text);
    HOLDS(!bytes.ok() || bytes.value() >= 0);
    return 0;
}
