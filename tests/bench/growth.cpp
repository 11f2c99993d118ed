// SPDX-License-Identifier: Apache-2.0

// What costs may not grow with: the length of a session, the bytes of an output, the sessions on disk; and how
// long the daemon needs to be there, also after it was killed with a full journal. Prints, never judges.
//
//     relay_growth --daemon PATH --directory DIR [turns|output|start|recovery|store]...
//
// `store` looks at a home that has sessions already: relay_make_sessions DIR/home/state/sessions 100000 2000.

#include "tests/bench/contender.hpp"
#include "tests/bench/line_talker.hpp"
#include "tests/bench/load.hpp"

#include <boost/filesystem.hpp>
#include <nlohmann/json.hpp>

#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace relay::tests {
namespace {

using Json = nlohmann::json;

struct Options {
    std::string daemon;
    std::string directory;
    std::vector<std::string> wishes;
};

struct Home {
    explicit Home(std::string where) : path(std::move(where)) {
        boost::filesystem::create_directories(path + "/work");
    }
    [[nodiscard]] ServerStart start(const std::string& daemon) const {
        ServerStart start;
        start.socket = path + "/s";
        start.log = path + "/log";
        start.command = {daemon, "--socket", start.socket};
        start.environment = {{"AGENT_RELAY_HOME", path + "/home"}};
        return start;
    }
    std::string path;
};

std::unique_ptr<LineTalker> begin_session(const Home& home) {
    auto line = std::make_unique<LineTalker>(home.path + "/s");
    const Json answer = Json::parse(line->ask(
        R"("type":"session.start","agent":"custom","cwd":)" + Json(home.path + "/work").dump()
        + "}"));
    line->use_session(answer.value("session", ""));
    return line;
}

void await_answer(Talker& talker) {
    talker.flush();
    while (talker.receive() == 0) {
    }
}

double cpu_us(const ServerProcess::Usage& usage) {
    return usage.user_us + usage.system_us;
}

// A client of its own, whose turns are timed one by one.
void measure_turns(const Options& options) {
    constexpr int turns = 2000;
    constexpr int turns_a_line = 250;
    const BenchDirectory place(options.directory);
    const Home home(place.path());
    ServerProcess server(home.start(options.daemon));
    const auto line = begin_session(home);
    std::puts("turns       chunk ack p50 us   turn.end ack p50 us   CPU us a turn   RSS MiB");
    TurnCursor cursor;
    for (int first = 1; first <= turns; first += turns_a_line) {
        Sample chunks;
        Sample ends;
        const ServerProcess::Usage before = server.usage();
        for (int turn = 0; turn < turns_a_line; ++turn) {
            Step step = Step::prompt;
            do {
                step = cursor.next();
                const auto begin = Clock::now();
                line->prepare(step, /*awaited=*/true);
                await_answer(*line);
                (step == Step::end ? ends : chunks).add(Clock::now() - begin);
            } while (step != Step::end);
        }
        const ServerProcess::Usage after = server.usage();
        std::printf(
            "%4d..%4d %18.0f %21.0f %15.0f %9.1f\n",
            first,
            first + turns_a_line - 1,
            chunks.quantile(0.5),
            ends.quantile(0.5),
            (cpu_us(after) - cpu_us(before)) / turns_a_line,
            after.resident_mib);
    }
    server.stop();
}

void measure_output(const Options& options) {
    constexpr std::size_t chunk = std::size_t{64} << 10;
    constexpr int pieces = 8;
    constexpr int chunks_a_piece = (1 << 30) / pieces / static_cast<int>(chunk);
    const BenchDirectory place(options.directory);
    const Home home(place.path());
    ServerProcess server(home.start(options.daemon));
    LineTalker line(home.path + "/s");
    const std::string session = Json::parse(line.ask(
                                                R"("type":"session.start","agent":"custom","cwd":)"
                                                + Json(home.path + "/work").dump() + "}"))
                                    .value("session", "");
    const std::string head = R"(,"session":")" + session + R"(",)";
    static_cast<void>(line.ask(R"("type":"turn.start")" + head + R"("prompt":"much"})"));
    const std::string event =
        R"("type":"turn.output")" + head + R"("text":)" + Json(filler(chunk)).dump() + "}";
    std::puts("of 1 GiB    MiB/s   ack p50 us   ack p99 us   CPU us a chunk of 64 KiB   RSS MiB");
    for (int piece = 0; piece < pieces; ++piece) {
        Sample acks;
        const ServerProcess::Usage before = server.usage();
        const auto begin = Clock::now();
        for (int index = 0; index < chunks_a_piece; ++index) {
            const auto sent = Clock::now();
            static_cast<void>(line.ask(event));
            acks.add(Clock::now() - sent);
        }
        const double seconds = microseconds(Clock::now() - begin) / 1e6;
        const ServerProcess::Usage after = server.usage();
        std::printf(
            "%d/%d %12.0f %12.0f %12.0f %26.0f %9.1f\n",
            piece + 1,
            pieces,
            1024.0 / pieces / seconds,
            acks.quantile(0.5),
            acks.quantile(0.99),
            (cpu_us(after) - cpu_us(before)) / chunks_a_piece,
            after.resident_mib);
    }
    const auto begin = Clock::now();
    static_cast<void>(line.ask(R"("type":"turn.end")" + head.substr(0, head.size() - 1) + "}"));
    std::printf("its turn.end: %.1f ms\n", microseconds(Clock::now() - begin) / 1e3);
    server.stop();
}

double milliseconds_to_start(const Home& home, const std::string& daemon, bool stop) {
    const auto begin = Clock::now();
    ServerProcess server(home.start(daemon));
    LineTalker line(home.path + "/s");
    static_cast<void>(line.ask(R"("type":"hello"})"));
    const double took = microseconds(Clock::now() - begin) / 1e3;
    if (stop) {
        server.stop();
    }
    return took;
}

void measure_start(const Options& options) {
    const BenchDirectory place(options.directory);
    const Home home(place.path());
    std::printf(
        "start with no journal (makes it): %.0f ms\n",
        milliseconds_to_start(home, options.daemon, true));
    Sample again;
    for (int round = 0; round < 9; ++round) {
        const auto begin = Clock::now();
        static_cast<void>(milliseconds_to_start(home, options.daemon, true));
        again.add(Clock::now() - begin);
    }
    std::printf(
        "start with an empty journal: %.0f ms (median of 9: start, hello, orderly stop %.0f ms)\n",
        milliseconds_to_start(home, options.daemon, true),
        again.quantile(0.5) / 1e3);
}

class OneRelay final : public Contender {
public:
    OneRelay(const Home& home, ServerStart start) : home_(home), server_(start) {}
    std::unique_ptr<Talker> connect(int /*number*/) override { return begin_session(home_); }
    ServerProcess& server() override { return server_; }

private:
    const Home& home_;
    ServerProcess server_;
};

// As full as the journal gets: no checkpoint is due, until half of it forces one.
void measure_recovery(const Options& options) {
    constexpr int clients = 64;
    constexpr std::int64_t segment_bytes = std::int64_t{32} << 20;
    const BenchDirectory place(options.directory);
    const Home home(place.path());
    ServerStart start = home.start(options.daemon);
    start.command.insert(start.command.end(), {"--set", "journal.checkpoint_interval=1h"});
    {
        OneRelay relay(home, start);
        Load load(relay, clients, Mode::event);
        LineTalker control(home.path + "/s");
        LoadFigures figures;
        // The second segment's first batch asks for a checkpoint; the daemon dies before it is done.
        std::int64_t journal_bytes = 0;
        while (journal_bytes <= segment_bytes) {
            load.run_for(std::chrono::milliseconds(50), figures);
            journal_bytes = Json::parse(control.ask(R"("type":"status"})"))
                                .value("journal_bytes", std::int64_t{0});
        }
        std::printf("killed after %.0f events\n", static_cast<double>(figures.events));
        ::kill(relay.server().pid(), SIGKILL);
    }
    std::printf(
        "recovery with a full journal: %.0f ms until it answers\n",
        milliseconds_to_start(home, options.daemon, true));
    std::ifstream log(home.path + "/log");
    std::string line;
    while (std::getline(log, line)) {
        if (line.find("recovered") != std::string::npos) {
            std::puts(line.c_str());
        }
    }
}

// The same load beside the sessions that are there.
void measure_store(const Options& options) {
    constexpr int clients = 8;
    const Home home(options.directory);
    std::printf("start: %.0f ms\n", milliseconds_to_start(home, options.daemon, true));
    OneRelay relay(home, home.start(options.daemon));
    const auto begin = Clock::now();
    Load load(relay, clients, Mode::event);
    std::printf(
        "session.start: %.1f ms each\n", microseconds(Clock::now() - begin) / 1e3 / clients);
    LoadFigures figures;
    load.run_for(std::chrono::seconds(1), figures);
    figures = {};
    const ServerProcess::Usage before = relay.server().usage();
    load.run_for(std::chrono::seconds(3), figures);
    const ServerProcess::Usage after = relay.server().usage();
    std::printf(
        "%d clients: chunk ack p50 %.0f us, CPU %.1f us an event, RSS %.1f MiB\n",
        clients,
        figures.acks.quantile(0.5),
        (cpu_us(after) - cpu_us(before)) / static_cast<double>(figures.events),
        after.resident_mib);
    relay.server().stop();
}

int run(std::span<char* const> arguments) {
    Options options;
    for (std::size_t at = 0; at < arguments.size(); ++at) {
        const std::string_view word = arguments[at];
        if ((word == "--daemon" || word == "--directory") && at + 1 < arguments.size()) {
            (word == "--daemon" ? options.daemon : options.directory) = arguments[++at];
        } else {
            options.wishes.emplace_back(word);
        }
    }
    const std::vector<std::pair<std::string_view, void (*)(const Options&)>> known{
        {"turns", measure_turns},
        {"output", measure_output},
        {"start", measure_start},
        {"recovery", measure_recovery},
        {"store", measure_store}};
    bool understood = !options.daemon.empty() && !options.directory.empty();
    for (const std::string& wish : options.wishes) {
        bool found = false;
        for (const auto& [name, measure] : known) {
            if (understood && wish == name) {
                found = true;
                std::printf("== %s\n", wish.c_str());
                measure(options);
            }
        }
        understood = understood && found;
    }
    if (!understood) {
        static_cast<void>(std::fputs(
            "usage: relay_growth --daemon PATH --directory DIR "
            "[turns|output|start|recovery|store]...\n",
            stderr));
        return 2;
    }
    return 0;
}

}  // namespace
}  // namespace relay::tests

int main(int argc, char** argv) {
    try {
        static_cast<void>(::setvbuf(stdout, nullptr, _IOLBF, 0));  // else lines only come late
        return relay::tests::run(
            std::span<char* const>(argv, static_cast<std::size_t>(argc)).subspan(1));
    } catch (const std::exception& exception) {
        relay::tests::fail(exception.what());
    }
}
