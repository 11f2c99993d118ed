// SPDX-License-Identifier: Apache-2.0

// A closed-loop load on one daemon: every client has a connection and a session of its own and sends its next
// event when the last one is acknowledged. In between, the same disk is asked how long a bare sync takes,
// because only the ratio of the two says anything about the daemon. Slowness is printed, never judged;
// a wrong answer ends the program with status 1.

#include "layout/session_reader.hpp"
#include "tests/bench/line_talker.hpp"
#include "tests/bench/load.hpp"

#include <boost/filesystem.hpp>
#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace relay::tests {
namespace {

using Json = nlohmann::json;

constexpr std::chrono::milliseconds load_slice{400};
constexpr std::chrono::milliseconds sync_slice{80};
constexpr std::size_t sync_bytes = 4096;
constexpr std::size_t sync_file_bytes = 8 << 20;  // written round and round, as the journal is

struct Options {
    std::string daemon;
    std::string directory;
    std::vector<int> clients;
    int seconds = 5;
    int sessions = 1000;
    bool idle = false;
    bool rss = false;
};

// -- the daemon

struct RecordedSession {
    std::string path;
    const LineTalker* line = nullptr;
};

class Daemon final : public Contender {
public:
    Daemon(const std::string& program, const std::string& directory)
        : place_(directory), server_(start(program)) {
        boost::filesystem::create_directory(place_.path() + "/work");
    }
    std::unique_ptr<Talker> connect(int /*number*/) override {
        auto line = std::make_unique<LineTalker>(socket());
        const Json answer = Json::parse(line->ask(
            R"("type":"session.start","agent":"custom","cwd":)"
            + Json(place_.path() + "/work").dump() + "}"));
        line->use_session(answer.value("session", ""));
        sessions_.push_back({answer.value("path", ""), line.get()});
        return line;
    }
    ServerProcess& server() override { return server_; }

    // What was acknowledged must be there: the sealed turns verify, and there are as many as were ended.
    void check() override {
        for (const RecordedSession& session : {sessions_.front(), sessions_.back()}) {
            auto verified = layout::verify_session(session.path);
            if (!verified.ok()) {
                fail("cannot verify " + session.path + ": " + verified.error().context);
            }
            const layout::Verification& found = verified.value();
            if (!found.damage.empty()) {
                fail(
                    session.path + "/" + found.damage.front().file + ": "
                    + found.damage.front().what);
            }
            if (found.turns != session.line->ended_turns()) {
                fail(
                    session.path + " has " + std::to_string(found.turns)
                    + " sealed turns instead of " + std::to_string(session.line->ended_turns()));
            }
        }
    }

    [[nodiscard]] const std::string& home() const { return place_.path(); }
    [[nodiscard]] std::string socket() const { return place_.path() + "/s"; }

private:
    [[nodiscard]] ServerStart start(const std::string& program) const {
        ServerStart start;
        start.socket = socket();
        start.log = place_.path() + "/log";
        start.command = {program, "--socket", start.socket};
        start.environment = {{"AGENT_RELAY_HOME", place_.path() + "/home"}};
        return start;
    }

    BenchDirectory place_;
    ServerProcess server_;
    std::vector<RecordedSession> sessions_;
};

// -- measuring

// What the disk itself needs: one block into a file whose blocks are all written already, and a sync.
class BareSync {
public:
    explicit BareSync(const std::string& path)
        : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
        const std::string zeros(sync_file_bytes, '\0');
        if (::pwrite(fd_, zeros.data(), zeros.size(), 0) != static_cast<ssize_t>(zeros.size())
            || ::fsync(fd_) != 0) {
            fail("cannot write " + path);
        }
    }
    BareSync(const BareSync&) = delete;
    BareSync& operator=(const BareSync&) = delete;
    ~BareSync() { ::close(fd_); }

    void measure_for(Clock::duration duration, Sample& sample) {
        const std::string block(sync_bytes, 'x');
        const auto end = Clock::now() + duration;
        while (Clock::now() < end) {
            const auto begin = Clock::now();
            const ssize_t written = ::pwrite(fd_, block.data(), block.size(), offset_);
            if (written != static_cast<ssize_t>(block.size()) || ::fdatasync(fd_) != 0) {
                fail("cannot write the file for bare syncs");
            }
            sample.add(Clock::now() - begin);
            offset_ =
                (offset_ + static_cast<off_t>(sync_bytes)) % static_cast<off_t>(sync_file_bytes);
        }
    }

private:
    int fd_;
    off_t offset_ = 0;
};

void measure_load(const Options& options, int count) {
    Daemon daemon(options.daemon, options.directory);
    LineTalker control(daemon.socket());
    BareSync bare(daemon.home() + "/bare");
    Load load(daemon, count, Mode::event);
    LoadFigures warm_up;
    load.run_for(load_slice, warm_up);

    LoadFigures figures;
    Sample syncs;
    const Json before = Json::parse(control.ask(R"("type":"status"})"));
    const ServerProcess::Usage used_before = daemon.server().usage();
    while (figures.busy < std::chrono::seconds(options.seconds)) {
        load.run_for(load_slice, figures);
        bare.measure_for(sync_slice, syncs);
    }
    const ServerProcess::Usage used = daemon.server().usage();
    const Json after = Json::parse(control.ask(R"("type":"status"})"));

    const auto growth = [&](const char* key) {
        return after.value(key, std::int64_t{0}) - before.value(key, std::int64_t{0});
    };
    if (growth("events") < figures.events) {
        fail("the daemon counts fewer events than it acknowledged");
    }
    const auto events = static_cast<double>(figures.events);
    const double cpu_us =
        used.user_us + used.system_us - used_before.user_us - used_before.system_us;
    const double chunk = figures.acks.quantile(0.5);
    const double sync = syncs.quantile(0.5);
    std::printf(
        "%7d %9.0f %8.0f %8.0f %8.0f %8.0f %7.0f %7.0f %6.2f %11.1f %9.1f %8.1f\n",
        count,
        static_cast<double>(figures.timed_events) / (microseconds(figures.busy) / 1e6),
        chunk,
        figures.acks.quantile(0.99),
        figures.ends.quantile(0.5),
        figures.ends.quantile(0.99),
        sync,
        syncs.quantile(0.99),
        chunk / sync,
        events / static_cast<double>(std::max<std::int64_t>(growth("commits"), 1)),
        cpu_us / events,
        used.resident_mib);
    daemon.check();
    daemon.server().stop();
}

void measure_idle(const Options& options) {
    constexpr std::chrono::seconds settle{1};
    constexpr std::chrono::seconds watch{5};
    Daemon daemon(options.daemon, options.directory);
    std::this_thread::sleep_for(settle);
    const ServerProcess::Switches before = daemon.server().context_switches();
    std::this_thread::sleep_for(watch);
    const ServerProcess::Switches after = daemon.server().context_switches();
    std::printf(
        "idle: %.1f MiB resident; in %d s %ld voluntary and %ld involuntary context switches\n",
        daemon.server().usage().resident_mib,
        static_cast<int>(watch.count()),
        long{after.voluntary - before.voluntary},
        long{after.involuntary - before.involuntary});
    daemon.server().stop();
}

void measure_sessions(const Options& options) {
    Daemon daemon(options.daemon, options.directory);
    Load load(daemon, options.sessions, Mode::event);
    LoadFigures figures;
    load.run_for({}, figures);  // the prompt
    load.run_for({}, figures);  // one chunk
    std::printf(
        "%d sessions with a running turn: %.1f MiB resident\n",
        options.sessions,
        daemon.server().usage().resident_mib);
    daemon.server().stop();
}

// -- the command line

constexpr const char* usage =
    "usage: relay_bench --daemon PATH [--clients N[,N...]] [--seconds N] [--idle]\n"
    "                   [--sessions N --rss] [--directory DIR]\n"
    "\n"
    "  --clients    closed-loop clients; a line of the table for each number (1,8,64)\n"
    "  --seconds    of load a line (5)\n"
    "  --idle       also: memory and wake-ups of a daemon that has nothing to do\n"
    "  --rss        also: memory with --sessions sessions open (1000), each in a running turn\n"
    "  --directory  where everything is recorded and synced; default $TMPDIR, else beside this "
    "program\n";

[[noreturn]] void fail_usage(const std::string& sentence) {
    static_cast<void>(std::fprintf(stderr, "relay_bench: %s\n%s", sentence.c_str(), usage));
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

std::vector<int> positive_numbers(std::string_view text) {
    std::vector<int> numbers;
    for (;;) {
        const std::size_t comma = text.find(',');
        numbers.push_back(positive_number(text.substr(0, comma)));
        if (comma == std::string_view::npos) {
            return numbers;
        }
        text.remove_prefix(comma + 1);
    }
}

std::string default_directory() {
    const char* const temporary = ::getenv("TMPDIR");
    return temporary != nullptr && temporary[0] == '/'
               ? temporary
               : boost::filesystem::read_symlink("/proc/self/exe").parent_path().string();
}

Options parse(std::span<char* const> arguments) {
    Options options;
    for (std::size_t at = 0; at < arguments.size(); ++at) {
        const std::string_view flag = arguments[at];
        if (flag == "--idle" || flag == "--rss") {
            (flag == "--idle" ? options.idle : options.rss) = true;
            continue;
        }
        if (at + 1 == arguments.size()) {
            fail_usage("\"" + std::string(flag) + "\" is unknown or needs a value");
        }
        const std::string_view value = arguments[++at];
        if (flag == "--daemon") {
            options.daemon = value;
        } else if (flag == "--directory") {
            options.directory = value;
        } else if (flag == "--clients") {
            options.clients = positive_numbers(value);
        } else if (flag == "--seconds") {
            options.seconds = positive_number(value);
        } else if (flag == "--sessions") {
            options.sessions = positive_number(value);
        } else {
            fail_usage("unknown flag \"" + std::string(flag) + "\"");
        }
    }
    if (options.daemon.empty()) {
        fail_usage("--daemon is missing");
    }
    if (options.directory.empty()) {
        options.directory = default_directory();
    }
    if (options.clients.empty() && !options.idle && !options.rss) {
        options.clients = {1, 8, 64};
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

void run(const Options& options) {
    refuse_memory_disk(options.directory);
    allow_descriptors();
    if (options.idle) {
        measure_idle(options);
    }
    if (options.rss) {
        measure_sessions(options);
    }
    if (options.clients.empty()) {
        return;
    }
    std::array<double, 1> load{};
    if (::getloadavg(load.data(), 1) == 1 && load[0] > 0.5) {
        std::printf(
            "note: the machine is busy (load %.1f on %ld CPUs), so waiting for a CPU counts as "
            "well\n",
            load[0],
            ::sysconf(_SC_NPROCESSORS_ONLN));
    }
    std::printf(
        "                  chunk ack, us      turn.end ack, us  bare sync, us\n"
        "clients  events/s      p50      p99      p50      p99     p50     p99  ratio events/sync "
        "CPU us/ev  RSS MiB\n");
    for (const int count : options.clients) {
        measure_load(options, count);
    }
}

}  // namespace
}  // namespace relay::tests

int main(int argc, char** argv) {
    try {
        static_cast<void>(::setvbuf(stdout, nullptr, _IOLBF, 0));  // else lines only come late
        relay::tests::run(relay::tests::parse(
            std::span<char* const>(argv, static_cast<std::size_t>(argc)).subspan(1)));
    } catch (const std::exception& exception) {
        relay::tests::fail(exception.what());
    }
    return 0;
}
