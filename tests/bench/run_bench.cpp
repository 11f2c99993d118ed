// SPDX-License-Identifier: Apache-2.0

// What `agent-relay run` costs an agent: how much later it begins, and how much slower its output flows. Bare and wrapped
// runs alternate, and medians are compared. Slowness is printed, never judged; a wrong byte ends the
// program with status 1.
//
//     relay_run_bench <agent-relay> [rounds] [megabytes]      in an environment of its own, with a daemon

#include <fcntl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

std::int64_t now_ns() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

std::int64_t number(std::string_view text, std::int64_t otherwise) {
    std::int64_t value = otherwise;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

// The agents: one that tells when it began, one that writes lines of text as fast as it can.
int stamp() {
    return std::printf("%lld\n", static_cast<long long>(now_ns())) > 0 ? 0 : 1;
}

int pour(std::int64_t megabytes) {
    std::string block;
    while (block.size() < 65536) {
        block += "a line of output as agents write them, of no great interest\n";
    }
    block.resize(65536);
    for (std::int64_t count = 0; count < megabytes * 16; ++count) {
        if (::write(STDOUT_FILENO, block.data(), block.size())
            != static_cast<ssize_t>(block.size())) {
            return 1;
        }
    }
    return 0;
}

struct Flow {
    std::int64_t began_ns = 0;  // before the program was started
    std::int64_t end_ns = 0;    // its output was at its end
    std::int64_t gone_ns = 0;   // it had ended
    std::int64_t bytes = 0;
    std::string text;  // the beginning
    int status = -1;
};

Flow run(std::vector<std::string> words) {
    Flow flow;
    std::array<int, 2> ends{};
    std::vector<char*> pointers;
    for (std::string& word : words) {
        pointers.push_back(word.data());
    }
    pointers.push_back(nullptr);
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        return flow;
    }
    flow.began_ns = now_ns();
    const pid_t pid = ::fork();
    if (pid == 0) {
        ::dup2(ends[1], STDOUT_FILENO);
        ::execv(pointers[0], pointers.data());
        ::_exit(127);
    }
    ::close(ends[1]);
    std::string buffer(65536, '\0');
    while (true) {
        const ssize_t got = ::read(ends[0], buffer.data(), buffer.size());
        if (got <= 0) {
            break;
        }
        if (flow.text.size() < 64) {
            flow.text.append(buffer, 0, static_cast<std::size_t>(got));
        }
        flow.bytes += got;
    }
    flow.end_ns = now_ns();
    ::close(ends[0]);
    int status = 0;
    ::waitpid(pid, &status, 0);
    flow.gone_ns = now_ns();
    flow.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return flow;
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values.empty() ? 0 : values[values.size() / 2];
}

bool measure_start(const std::string& self, const std::string& relay, std::int64_t rounds) {
    std::vector<double> bare;
    std::vector<double> wrapped;
    for (std::int64_t round = 0; round < rounds * 5; ++round) {
        const Flow plain = run({self, "--stamp"});
        const Flow through = run({relay, "run", "--", self, "--stamp"});
        if (plain.status != 0 || through.status != 0) {
            return false;
        }
        bare.push_back(static_cast<double>(number(plain.text, 0) - plain.began_ns) / 1e6);
        wrapped.push_back(static_cast<double>(number(through.text, 0) - through.began_ns) / 1e6);
    }
    std::printf(
        "start     bare %.2f ms, run %.2f ms: %.2f ms later (median of %zu)\n",
        median(bare),
        median(wrapped),
        median(wrapped) - median(bare),
        bare.size());
    return true;
}

bool measure_flow(
    const std::string& self,
    const std::string& relay,
    std::int64_t rounds,
    std::int64_t megabytes) {
    std::vector<double> bare;
    std::vector<double> unrecorded;
    std::vector<double> wrapped;
    std::vector<double> gone;
    const std::string amount = std::to_string(megabytes);
    const auto seconds = [](std::int64_t from, std::int64_t to) {
        return static_cast<double>(to - from) / 1e9;
    };
    for (std::int64_t round = 0; round < rounds; ++round) {
        const Flow plain = run({self, "--pour", amount});
        const Flow beside = run({relay, "run", "--no-session", "--", self, "--pour", amount});
        const Flow through = run({relay, "run", "--no-diff", "--", self, "--pour", amount});
        const std::int64_t bytes = megabytes << 20;
        if (plain.bytes != bytes || through.bytes != bytes || beside.bytes != bytes
            || through.status != 0) {
            return false;
        }
        bare.push_back(seconds(plain.began_ns, plain.end_ns));
        unrecorded.push_back(seconds(beside.began_ns, beside.end_ns));
        wrapped.push_back(seconds(through.began_ns, through.end_ns));
        gone.push_back(seconds(through.end_ns, through.gone_ns));
        std::printf(
            "  round %lld: bare %.3f s, run --no-session %.3f s, run %.3f s, recorded after %.3f s "
            "more\n",
            static_cast<long long>(round + 1),
            bare.back(),
            unrecorded.back(),
            wrapped.back(),
            gone.back());
    }
    std::printf(
        "%lld MiB  bare %.3f s, run --no-session %.3f s (ratio %.2f), run %.3f s (ratio %.2f), all "
        "recorded %.3f s "
        "later\n",
        static_cast<long long>(megabytes),
        median(bare),
        median(unrecorded),
        median(unrecorded) / median(bare),
        median(wrapped),
        median(wrapped) / median(bare),
        median(gone));
    return true;
}

}  // namespace

int main(int count, char** values) {
    const std::span<char*> arguments(values, static_cast<std::size_t>(count));
    const std::string first = count > 1 ? arguments[1] : "";
    const std::string second = count > 2 ? arguments[2] : "";
    if (first == "--stamp") {
        return stamp();
    }
    if (first == "--pour") {
        return pour(number(second, 0));
    }
    if (first.empty()) {
        std::fputs("usage: relay_run_bench <agent-relay> [rounds] [megabytes]\n", stderr);
        return 2;
    }
    const std::int64_t rounds = number(second, 5);
    const std::int64_t megabytes = count > 3 ? number(arguments[3], 200) : 200;
    std::array<char, 4096> self{};
    if (::readlink("/proc/self/exe", self.data(), self.size() - 1) <= 0) {
        return 1;
    }
    const bool right = measure_start(self.data(), first, rounds)
                       && measure_flow(self.data(), first, rounds, megabytes);
    return right ? 0 : 1;
}
