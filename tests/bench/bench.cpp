// SPDX-License-Identifier: Apache-2.0

// A closed-loop load generator: every client has a connection and a session of its own and sends its next
// event when the last one is acknowledged. In between, the same disk is asked how long a bare sync takes,
// because only the ratio of the two says anything about the daemon. Slowness is printed, never judged;
// a wrong answer ends the program with status 1.

#include "layout/session_reader.hpp"

#include <boost/filesystem.hpp>
#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace relay::tests {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::size_t prompt_bytes = 1024;
constexpr std::size_t chunk_bytes = 200;
constexpr std::size_t stderr_bytes = 100;
constexpr int chunks_a_turn = 20;

constexpr std::chrono::milliseconds load_slice{400};
constexpr std::chrono::milliseconds sync_slice{80};
constexpr std::size_t sync_bytes = 4096;
constexpr std::size_t sync_file_bytes = 8 << 20;  // written round and round, as the journal is
constexpr std::chrono::seconds patience{30};      // for the daemon to start, to answer, to end

[[noreturn]] void fail(const std::string& sentence) {
    static_cast<void>(std::fprintf(stderr, "relay_bench: %s\n", sentence.c_str()));
    ::exit(1);
}

double microseconds(Clock::duration duration) {
    return std::chrono::duration<double, std::micro>(duration).count();
}

class Sample {
public:
    void add(Clock::duration duration) {
        values_.push_back(static_cast<float>(microseconds(duration)));
    }
    // The value that this share of the sample stays below; 0 when there is none.
    [[nodiscard]] double quantile(double share) {
        if (values_.empty()) {
            return 0;
        }
        const auto rank = static_cast<std::size_t>(share * static_cast<double>(values_.size() - 1));
        const auto at = values_.begin() + static_cast<std::ptrdiff_t>(rank);
        std::nth_element(values_.begin(), at, values_.end());
        return static_cast<double>(*at);
    }

private:
    std::vector<float> values_;
};

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

class Daemon {
public:
    Daemon(const std::string& program, const std::string& directory);
    Daemon(const Daemon&) = delete;
    Daemon& operator=(const Daemon&) = delete;
    ~Daemon();

    // SIGTERM; a daemon that does not end well is a wrong answer.
    void stop();

    [[nodiscard]] const std::string& home() const { return home_; }
    [[nodiscard]] std::string socket() const { return home_ + "/relay.sock"; }
    [[nodiscard]] double resident_mib() const;
    [[nodiscard]] double cpu_microseconds() const;
    struct Switches {
        std::int64_t voluntary = 0;
        std::int64_t involuntary = 0;
    };
    [[nodiscard]] Switches context_switches() const;  // of all threads

private:
    [[nodiscard]] std::string proc() const { return "/proc/" + std::to_string(pid_); }

    std::string home_;
    pid_t pid_ = 0;
};

int connect_to(const std::string& socket) {
    sockaddr_un address{};
    if (socket.size() >= sizeof(address.sun_path)) {
        fail("the socket's path " + socket + " is too long; choose a shorter --directory");
    }
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, socket.data(), socket.size());
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const auto* const generic = reinterpret_cast<const sockaddr*>(&address);
    if (::connect(fd, generic, sizeof(address)) != 0) {
        ::close(fd);
        return -1;
    }
    return fd;
}

Daemon::Daemon(const std::string& program, const std::string& directory) {
    std::string pattern = directory + "/relay-bench-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) {
        fail("cannot make a directory in " + directory);
    }
    home_ = boost::filesystem::canonical(pattern).string();
    boost::filesystem::create_directory(home_ + "/work");
    const std::string relay_home = home_ + "/relay";
    const std::string log_file = home_ + "/daemon.err";
    const std::string socket_file = socket();
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != parent) {
            ::_exit(126);
        }
        ::setenv("AGENT_RELAY_HOME", relay_home.c_str(), 1);
        const int log = ::open(log_file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        ::dup2(log, STDOUT_FILENO);
        ::dup2(log, STDERR_FILENO);
        ::execl(
            program.c_str(),
            program.c_str(),
            "--socket",
            socket_file.c_str(),
            static_cast<char*>(nullptr));
        ::_exit(127);
    }
    const auto limit = Clock::now() + patience;
    int fd = -1;
    while ((fd = connect_to(socket_file)) < 0) {
        if (Clock::now() > limit || ::waitpid(pid_, nullptr, WNOHANG) == pid_) {
            fail("the daemon does not start; see " + log_file);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ::close(fd);
}

void Daemon::stop() {
    int status = 0;
    ::kill(pid_, SIGTERM);
    if (::waitpid(std::exchange(pid_, 0), &status, 0) < 0 || !WIFEXITED(status)
        || WEXITSTATUS(status) != 0) {
        fail("the daemon did not end well; see " + home_ + "/daemon.err");
    }
}

Daemon::~Daemon() {
    if (pid_ > 0) {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    boost::system::error_code ignored;  // what stays behind is only in the way
    boost::filesystem::remove_all(home_, ignored);
}

std::int64_t status_value(const std::string& file, std::string_view key) {
    std::ifstream status(file);
    std::string word;
    std::int64_t value = 0;
    while (status >> word) {
        if (word == key && status >> value) {
            break;
        }
    }
    return value;
}

double Daemon::resident_mib() const {
    return static_cast<double>(status_value(proc() + "/status", "VmRSS:")) / 1024;
}

double Daemon::cpu_microseconds() const {
    std::ifstream stat(proc() + "/stat");
    std::string text;
    std::getline(stat, text, '\0');
    // The name in brackets may hold spaces; utime and stime are fields 14 and 15 of proc(5).
    const std::size_t bracket = text.rfind(')');
    if (bracket == std::string::npos) {
        fail("cannot read " + proc() + "/stat");
    }
    std::istringstream fields(text.substr(bracket + 1));
    std::string skipped;
    for (int field = 3; field < 14; ++field) {
        fields >> skipped;
    }
    double user = 0;
    double system = 0;
    fields >> user >> system;
    return (user + system) * 1e6 / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

Daemon::Switches Daemon::context_switches() const {
    Switches sum;
    for (const auto& task : boost::filesystem::directory_iterator(proc() + "/task")) {
        const std::string status = task.path().string() + "/status";
        sum.voluntary += status_value(status, "voluntary_ctxt_switches:");
        sum.involuntary += status_value(status, "nonvoluntary_ctxt_switches:");
    }
    return sum;
}

// -- talking to it

bool is_ack(std::string_view line, std::int64_t id) {
    std::array<char, 64> text{};
    const int size =
        std::snprintf(text.data(), text.size(), R"({"type":"ack","id":%ld,)", long{id});
    if (line.starts_with(std::string_view(text.data(), static_cast<std::size_t>(size)))) {
        return line.find(R"("deferred":true)") == std::string_view::npos;
    }
    const Json answer = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    return answer.is_object() && answer.value("type", "") == "ack"
           && answer.value("id", Json()) == id && !answer.value("deferred", false);
}

// One client: at most one event is unanswered.
class Client {
public:
    enum class Step { start, prompt, chunk, standard_error, end };

    explicit Client(const std::string& socket) : fd_(connect_to(socket)) {
        if (fd_ < 0) {
            fail("the daemon does not accept a connection");
        }
    }
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;
    ~Client() { ::close(fd_); }

    // Sends a line that begins after `{"id":N,`, and waits for its answer.
    Json ask(std::string_view rest);
    void start_session(const std::string& cwd);

    void send_next();
    // True when the answer to send_next() is there; a wrong one ends the program.
    [[nodiscard]] bool receive();

    [[nodiscard]] int descriptor() const { return fd_; }
    [[nodiscard]] Step step() const { return step_; }
    [[nodiscard]] Clock::duration took() const { return answered_at_ - sent_at_; }
    [[nodiscard]] std::int64_t turns() const { return turns_; }
    [[nodiscard]] const std::string& path() const { return path_; }
    // Shortens the first turn, so that not all clients end theirs together.
    void stagger(int chunks) { chunks_ = chunks; }

private:
    void send_line(std::string_view rest);

    int fd_;
    std::int64_t id_ = 0;
    std::string outgoing_;
    std::string incoming_;
    std::string path_;
    std::array<std::string, 5> lines_;  // by Step
    Step step_ = Step::start;
    int chunks_ = 0;  // of the running turn
    std::int64_t turns_ = 0;
    Clock::time_point sent_at_;
    Clock::time_point answered_at_;
};

void Client::send_line(std::string_view rest) {
    outgoing_ = R"({"id":)" + std::to_string(++id_) + ",";
    outgoing_ += rest;
    sent_at_ = Clock::now();
    // The socket's buffer holds many such lines and is empty: a short count is no case.
    const ssize_t count = ::send(fd_, outgoing_.data(), outgoing_.size(), MSG_NOSIGNAL);
    if (count != static_cast<ssize_t>(outgoing_.size())) {
        fail("the daemon does not take an event");
    }
}

bool Client::receive() {
    std::array<char, 4096> buffer{};
    const ssize_t count = ::recv(fd_, buffer.data(), buffer.size(), 0);
    if (count <= 0) {
        fail("the daemon closed a connection");
    }
    incoming_.append(buffer.data(), static_cast<std::size_t>(count));
    if (incoming_.back() != '\n') {
        return false;
    }
    answered_at_ = Clock::now();
    incoming_.pop_back();
    if (!is_ack(incoming_, id_)) {
        fail("wrong answer to " + outgoing_.substr(0, 80) + "…: " + incoming_);
    }
    if (step_ == Step::end) {
        ++turns_;
    }
    return true;
}

Json Client::ask(std::string_view rest) {
    incoming_.clear();
    send_line(rest);
    while (!receive()) {
    }
    return Json::parse(incoming_, nullptr, /*allow_exceptions=*/false);
}

std::string filler(std::size_t bytes) {
    constexpr std::string_view words =
        "the quick brown agent edits one file after another and tells us so; ";
    std::string text;
    while (text.size() < bytes) {
        text += words.substr(0, bytes - text.size());
    }
    return text;
}

std::string state_fields() {
    Json files = Json::array();
    for (int index = 0; index < 4; ++index) {
        files.push_back(
            {{"path", "recorder/some_file_" + std::to_string(index) + ".cpp"},
             {"operation", "modified"},
             {"lines_added", 10 + index},
             {"lines_removed", index}});
    }
    const Json fields{
        {"status", "completed"},
        {"stop_reason", "end_turn"},
        {"tokens", {{"input", 1200}, {"output", 340}, {"cache_read", 9000}, {"cache_write", 10}}},
        {"cost_usd", 0.0123},
        {"files", files},
        {"validation", {{"command", "ctest"}, {"passed", true}}},
        {"next_task", filler(60)}};
    return fields.dump().substr(1) + "\n";
}

void Client::start_session(const std::string& cwd) {
    const Json answer =
        ask(R"("type":"session.start","agent":"custom","cwd":)" + Json(cwd).dump() + "}\n");
    path_ = answer.value("path", "");
    const auto line = [&answer](std::string_view type, std::string_view rest) {
        return R"("type":")" + std::string(type) + R"(","session":")" + answer.value("session", "")
               + R"(",)" + std::string(rest);
    };
    const auto text = [](std::string_view key, std::size_t bytes) {
        return "\"" + std::string(key) + "\":" + Json(filler(bytes - 1) + "\n").dump() + "}\n";
    };
    lines_[static_cast<std::size_t>(Step::prompt)] =
        line("turn.start", text("prompt", prompt_bytes));
    lines_[static_cast<std::size_t>(Step::chunk)] = line("turn.output", text("text", chunk_bytes));
    lines_[static_cast<std::size_t>(Step::standard_error)] =
        line("turn.stderr", text("text", stderr_bytes));
    lines_[static_cast<std::size_t>(Step::end)] = line("turn.end", state_fields());
}

void Client::send_next() {
    incoming_.clear();
    switch (step_) {
    case Step::start:
    case Step::end:
        step_ = Step::prompt;
        break;
    case Step::prompt:
        step_ = Step::chunk;
        break;
    case Step::chunk:
        if (++chunks_ >= chunks_a_turn) {
            chunks_ = 0;
            step_ = Step::standard_error;
        }
        break;
    case Step::standard_error:
        step_ = Step::end;
        break;
    }
    send_line(lines_[static_cast<std::size_t>(step_)]);
}

std::vector<std::unique_ptr<Client>> open_sessions(const Daemon& daemon, int count) {
    std::vector<std::unique_ptr<Client>> clients;
    for (int index = 0; index < count; ++index) {
        clients.push_back(std::make_unique<Client>(daemon.socket()));
        clients.back()->start_session(daemon.home() + "/work");
    }
    return clients;
}

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

struct Figures {
    std::int64_t events = 0;        // acknowledged
    std::int64_t timed_events = 0;  // of these, while all clients were busy
    Clock::duration busy{};         // for so long
    Sample chunk_acks;
    Sample end_acks;
    Sample bare_syncs;
};

class Load {
public:
    explicit Load(std::vector<std::unique_ptr<Client>>& clients)
        : clients_(clients), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
        for (auto& client : clients_) {
            epoll_event event{};
            event.events = EPOLLIN;
            event.data.ptr = client.get();
            ::epoll_ctl(epoll_, EPOLL_CTL_ADD, client->descriptor(), &event);
        }
    }
    Load(const Load&) = delete;
    Load& operator=(const Load&) = delete;
    ~Load() { ::close(epoll_); }

    // Every client sends for so long; then all answers are waited for.
    void run_for(Clock::duration duration, Figures& figures) {
        const auto begin = Clock::now();
        for (auto& client : clients_) {
            client->send_next();
        }
        std::size_t unanswered = clients_.size();
        std::array<epoll_event, 256> ready{};
        while (unanswered > 0) {
            const int count = ::epoll_wait(
                epoll_,
                ready.data(),
                static_cast<int>(ready.size()),
                static_cast<int>(std::chrono::milliseconds(patience).count()));
            if (count == 0) {
                fail("no answer comes");
            }
            const bool going_on = Clock::now() - begin < duration;
            for (int index = 0; index < count; ++index) {
                auto& client =
                    *static_cast<Client*>(ready[static_cast<std::size_t>(index)].data.ptr);
                if (!client.receive()) {
                    continue;
                }
                note(client, going_on, figures);
                if (going_on) {
                    client.send_next();
                } else {
                    --unanswered;
                }
            }
        }
        figures.busy += duration;
    }

private:
    static void note(const Client& client, bool timed, Figures& figures) {
        ++figures.events;
        figures.timed_events += timed ? 1 : 0;
        if (client.step() == Client::Step::chunk) {
            figures.chunk_acks.add(client.took());
        } else if (client.step() == Client::Step::end) {
            figures.end_acks.add(client.took());
        }
    }

    std::vector<std::unique_ptr<Client>>& clients_;
    int epoll_;
};

// What was acknowledged must be there: the sealed turns verify, and there are as many as were ended.
void check_recording(const Client& client) {
    auto verified = layout::verify_session(client.path());
    if (!verified.ok()) {
        fail("cannot verify " + client.path() + ": " + verified.error().context);
    }
    const layout::Verification& found = verified.value();
    if (!found.damage.empty()) {
        fail(client.path() + "/" + found.damage.front().file + ": " + found.damage.front().what);
    }
    if (found.turns != client.turns()) {
        fail(
            client.path() + " has " + std::to_string(found.turns) + " sealed turns instead of "
            + std::to_string(client.turns()));
    }
}

void measure_load(const Options& options, int count) {
    Daemon daemon(options.daemon, options.directory);
    Client control(daemon.socket());
    auto clients = open_sessions(daemon, count);
    for (int index = 0; index < count; ++index) {
        clients[static_cast<std::size_t>(index)]->stagger(index % chunks_a_turn);
    }
    BareSync bare(daemon.home() + "/bare");
    Load load(clients);
    Figures warm_up;
    load.run_for(load_slice, warm_up);

    Figures figures;
    const Json before = control.ask(R"("type":"status"})"
                                    "\n");
    const double cpu_before = daemon.cpu_microseconds();
    while (figures.busy < std::chrono::seconds(options.seconds)) {
        load.run_for(load_slice, figures);
        bare.measure_for(sync_slice, figures.bare_syncs);
    }
    const double cpu = daemon.cpu_microseconds() - cpu_before;
    const Json after = control.ask(R"("type":"status"})"
                                   "\n");
    const double resident = daemon.resident_mib();

    const auto growth = [&](const char* key) {
        return after.value(key, std::int64_t{0}) - before.value(key, std::int64_t{0});
    };
    if (growth("events") < figures.events) {
        fail("the daemon counts fewer events than it acknowledged");
    }
    const auto events = static_cast<double>(figures.events);
    const double chunk = figures.chunk_acks.quantile(0.5);
    const double sync = figures.bare_syncs.quantile(0.5);
    std::printf(
        "%7d %9.0f %8.0f %8.0f %8.0f %8.0f %7.0f %7.0f %6.2f %11.1f %9.1f %8.1f\n",
        count,
        static_cast<double>(figures.timed_events) / (microseconds(figures.busy) / 1e6),
        chunk,
        figures.chunk_acks.quantile(0.99),
        figures.end_acks.quantile(0.5),
        figures.end_acks.quantile(0.99),
        sync,
        figures.bare_syncs.quantile(0.99),
        chunk / sync,
        events / static_cast<double>(std::max<std::int64_t>(growth("commits"), 1)),
        cpu / events,
        resident);
    check_recording(*clients.front());
    check_recording(*clients.back());
    clients.clear();
    daemon.stop();
}

void measure_idle(const Options& options) {
    constexpr std::chrono::seconds settle{1};
    constexpr std::chrono::seconds watch{5};
    Daemon daemon(options.daemon, options.directory);
    std::this_thread::sleep_for(settle);
    const Daemon::Switches before = daemon.context_switches();
    std::this_thread::sleep_for(watch);
    const Daemon::Switches after = daemon.context_switches();
    std::printf(
        "idle: %.1f MiB resident; in %d s %ld voluntary and %ld involuntary context switches\n",
        daemon.resident_mib(),
        static_cast<int>(watch.count()),
        long{after.voluntary - before.voluntary},
        long{after.involuntary - before.involuntary});
    daemon.stop();
}

void measure_sessions(const Options& options) {
    Daemon daemon(options.daemon, options.directory);
    auto clients = open_sessions(daemon, options.sessions);
    Load load(clients);
    Figures figures;
    load.run_for({}, figures);  // the prompt
    load.run_for({}, figures);  // one chunk
    std::printf(
        "%d sessions with a running turn: %.1f MiB resident\n",
        options.sessions,
        daemon.resident_mib());
    clients.clear();
    daemon.stop();
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
