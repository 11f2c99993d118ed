// SPDX-License-Identifier: Apache-2.0

// Measures one contender under one load and prints a line of JSON; scripts/bench runs it for all of them.
// Slowness is printed, never judged; a wrong answer ends the program with status 1, a contender that is not
// installed with status 3.

#include "tests/bench/load.hpp"

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <cstdio>
#include <exception>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace relay::tests {
namespace {

using Json = nlohmann::json;

constexpr std::chrono::milliseconds warm_up{700};
constexpr int not_installed = 3;

struct Options {
    std::string contender;
    std::string mode = "event";
    std::string programs;
    std::string tests;
    std::string directory;
    int clients = 1;
    int milliseconds = 3000;
    bool keep = false;
};

Mode mode_of(const std::string& name) {
    return name == "turn" ? Mode::turn : name == "open" ? Mode::open : Mode::event;
}

// A number that the measured server counts up.
class SyncCount {
public:
    explicit SyncCount(const std::string& path) {
        const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (fd < 0 || ::fchmod(fd, 0666) != 0 || ::ftruncate(fd, sizeof(std::uint64_t)) != 0) {
            fail("cannot make " + path);
        }
        void* const bytes = ::mmap(nullptr, sizeof(std::uint64_t), PROT_READ, MAP_SHARED, fd, 0);
        ::close(fd);
        if (bytes == MAP_FAILED) {
            fail("cannot map " + path);
        }
        count_ = static_cast<const std::atomic<std::uint64_t>*>(bytes);
    }
    [[nodiscard]] double value() const { return static_cast<double>(count_->load()); }

private:
    const std::atomic<std::uint64_t>* count_;
};

// Bytes written to the device below a directory since it was attached, after everything is on it.
std::optional<double> device_bytes(const std::string& directory) {
    const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    static_cast<void>(::syncfs(fd));  // a number, no promise
    ::close(fd);
    struct stat about {};
    if (::stat(directory.c_str(), &about) != 0) {
        return std::nullopt;
    }
    std::ifstream stat(
        "/sys/dev/block/" + std::to_string(major(about.st_dev)) + ":"
        + std::to_string(minor(about.st_dev)) + "/stat");
    constexpr int sectors_written = 7;
    constexpr double sector_bytes = 512;
    double value = 0;
    for (int field = 0; field < sectors_written; ++field) {
        if (!(stat >> value)) {
            return std::nullopt;
        }
    }
    return value * sector_bytes;
}

double payload_bytes(std::int64_t events) {
    return static_cast<double>(events) * static_cast<double>(turn_bytes) / events_a_turn;
}

Json describe(const Options& options, LoadFigures& figures) {
    return {
        {"contender", options.contender},
        {"mode", options.mode},
        {"clients", options.clients},
        {"events_per_s",
         static_cast<double>(figures.timed_events) / (microseconds(figures.busy) / 1e6)},
        {"p50_us", figures.acks.quantile(0.5)},
        {"p99_us", figures.acks.quantile(0.99)}};
}

// The limit: the same bytes, as one write into a file whose blocks are all written already, and a sync.
Json measure_bare(const Options& options) {
    constexpr std::size_t block = 4096;
    constexpr std::size_t file_bytes = std::size_t{64} << 20;
    const int events = options.clients * (options.mode == "turn" ? events_a_turn : 1);
    const auto payload = static_cast<std::size_t>(payload_bytes(events));
    const std::string batch((payload + block - 1) / block * block, 'x');
    const BenchDirectory place(options.directory, options.keep);
    const int fd = ::open((place.path() + "/bare").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    const std::string zeros(std::size_t{1} << 20, '\0');
    for (std::size_t at = 0; at < file_bytes; at += zeros.size()) {
        if (::pwrite(fd, zeros.data(), zeros.size(), static_cast<off_t>(at)) < 0) {
            fail("cannot write " + place.path() + "/bare");
        }
    }
    static_cast<void>(::fsync(fd));  // the syncs below are looked at
    const auto before = device_bytes(options.directory);
    LoadFigures figures;
    figures.busy = std::chrono::milliseconds(options.milliseconds);
    const auto end = Clock::now() + figures.busy;
    std::size_t at = 0;
    for (auto begin = Clock::now(); begin < end; begin = Clock::now()) {
        if (::pwrite(fd, batch.data(), batch.size(), static_cast<off_t>(at))
                != static_cast<ssize_t>(batch.size())
            || ::fdatasync(fd) != 0) {
            fail("cannot sync " + place.path() + "/bare");
        }
        figures.acks.add(Clock::now() - begin);
        figures.events += events;
        at = at + 2 * batch.size() > file_bytes ? 0 : at + batch.size();
    }
    figures.timed_events = figures.events;
    Json line = describe(options, figures);
    line["syncs_per_event"] = 1.0 / events;
    if (before) {
        line["device_bytes_per_byte"] =
            (*device_bytes(options.directory) - *before) / payload_bytes(figures.events);
    }
    ::close(fd);
    return line;
}

std::optional<Json> measure(const Options& options) {
    const BenchDirectory place(options.directory, options.keep);
    const BenchDirectory home(place.path(), options.keep);
    const std::string count_file = place.path() + "/syncs";
    ::chmod(place.path().c_str(), 0711);  // a server of another user passes through
    const SyncCount syncs(count_file);
    const auto contender = make_contender(
        {.name = options.contender,
         .programs = options.programs,
         .tests = options.tests,
         .directory = home.path(),
         .sync_count = count_file,
         .clients = options.clients,
         .whole_turns = options.mode == "turn"});
    if (!contender) {
        return std::nullopt;
    }
    Load load(*contender, options.clients, mode_of(options.mode));
    LoadFigures ignored;
    load.run_for(warm_up, ignored);

    const auto device_before = device_bytes(options.directory);
    const double syncs_before = syncs.value();
    const ServerProcess::Usage before = contender->server().usage();
    LoadFigures figures;
    load.run_for(std::chrono::milliseconds(options.milliseconds), figures);
    const ServerProcess::Usage after = contender->server().usage();
    const double syncs_after = syncs.value();

    const auto events = static_cast<double>(figures.events);
    Json line = describe(options, figures);
    line["user_us"] = (after.user_us - before.user_us) / events;
    line["system_us"] = (after.system_us - before.system_us) / events;
    line["syncs_per_event"] = (syncs_after - syncs_before) / events;
    line["rss_mib"] = after.resident_mib;
    if (device_before) {
        line["device_bytes_per_byte"] =
            (*device_bytes(options.directory) - *device_before) / payload_bytes(figures.events);
    }
    contender->check();
    contender->server().stop();
    return line;
}

// -- the command line

constexpr const char* usage =
    "usage: relay_compare --contender NAME --programs DIR --tests DIR --directory DIR\n"
    "                     [--clients N] [--mode event|turn|open] [--milliseconds N] [--keep "
    "yes|no]\n"
    "\n"
    "  contenders: relay bare socket files jsonl-sync jsonl sqlite-full sqlite-batched "
    "sqlite-normal\n"
    "              redis-always redis-everysec postgres\n";

[[noreturn]] void fail_usage(const std::string& sentence) {
    static_cast<void>(std::fprintf(stderr, "relay_compare: %s\n%s", sentence.c_str(), usage));
    ::exit(2);
}

int positive_number(std::string_view text) {
    int number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number <= 0) {
        fail_usage("\"" + std::string(text) + "\" is no positive number");
    }
    return number;
}

Options parse(std::span<char* const> arguments) {
    Options options;
    if (arguments.size() % 2 != 0) {
        fail_usage("every flag has one value");
    }
    for (std::size_t at = 0; at < arguments.size(); at += 2) {
        const std::string_view flag = arguments[at];
        const std::string_view value = arguments[at + 1];
        if (flag == "--contender") {
            options.contender = value;
        } else if (flag == "--mode") {
            options.mode = value;
        } else if (flag == "--programs") {
            options.programs = value;
        } else if (flag == "--tests") {
            options.tests = value;
        } else if (flag == "--directory") {
            options.directory = value;
        } else if (flag == "--clients") {
            options.clients = positive_number(value);
        } else if (flag == "--keep" && (value == "yes" || value == "no")) {
            options.keep = value == "yes";
        } else if (flag == "--milliseconds") {
            options.milliseconds = positive_number(value);
        } else {
            fail_usage("unknown flag \"" + std::string(flag) + "\"");
        }
    }
    const bool modes = options.mode == "event" || options.mode == "turn" || options.mode == "open";
    if (options.contender.empty() || options.directory.empty() || options.programs.empty()
        || options.tests.empty() || !modes) {
        fail_usage("a flag is missing or has a value that it cannot have");
    }
    return options;
}

void refuse_memory_disk(const std::string& directory) {
    struct statfs about {};
    if (::statfs(directory.c_str(), &about) != 0) {
        fail("cannot look at " + directory);
    }
    if (about.f_type == TMPFS_MAGIC || about.f_type == RAMFS_MAGIC) {
        fail(
            directory
            + " is in memory, where a sync costs nothing; choose a --directory on a disk");
    }
}

void allow_descriptors() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));  // too few shows at connect()
    }
}

int run(const Options& options) {
    refuse_memory_disk(options.directory);
    allow_descriptors();
    const std::optional<Json> line =
        options.contender == "bare" ? measure_bare(options) : measure(options);
    if (!line) {
        return not_installed;
    }
    std::puts(line->dump().c_str());
    return 0;
}

}  // namespace
}  // namespace relay::tests

int main(int argc, char** argv) {
    try {
        return relay::tests::run(relay::tests::parse(
            std::span<char* const>(argv, static_cast<std::size_t>(argc)).subspan(1)));
    } catch (const std::exception& exception) {
        relay::tests::fail(exception.what());
    }
}
