// SPDX-License-Identifier: Apache-2.0

// How fast text is looked through for secrets: text without any, as agents print it, whole and in small pieces, and text in
// which every line has one. Prints MB/s, best of five. relay_redact_bench [FILE]: of that text instead.

#include "layout/redactor.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <functional>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <string>

namespace {

using relay::layout::Redactor;
using std::chrono::duration;
using std::chrono::steady_clock;

constexpr std::size_t text_bytes = std::size_t{64} << 20;
constexpr std::size_t piece_bytes = 256;

std::string repeated(const std::string& part) {
    std::string text;
    while (text.size() < text_bytes) {
        text += part;
    }
    return text;
}

void print(const char* what, std::size_t bytes, const std::function<std::int64_t()>& work) {
    double best = 1e9;
    std::int64_t hidden = 0;
    for (int round = 0; round < 5; ++round) {
        const auto begin = steady_clock::now();
        hidden = work();
        best = std::min(best, duration<double>(steady_clock::now() - begin).count());
    }
    std::cout << std::left << std::setw(28) << what << std::right << std::setw(8) << std::fixed
              << std::setprecision(0) << static_cast<double>(bytes) / best / 1e6 << " MB/s, "
              << hidden << " hidden\n";
}

}  // namespace

int main(int argc, char** argv) {
    const auto made = Redactor::create();
    if (!made.ok()) {
        std::cerr << made.error().context << '\n';
        return 1;
    }
    const Redactor& redactor = *made.value();
    std::string prose =
        "I'll fix the failing test in disk_test.cpp first. The desk asks for a key; see "
        "risk-matrix.md.\n"
        "  { \"token_count\": 1234, \"cost\": 0.5, \"path\": \"/home/user/src/parser.cpp\" }\n"
        "+    const auto result = parse(input, /*strict=*/true);  // Always returns a Status\n"
        "PASS tests/parser_test.cpp (12 assertions) in 0.31s; skipped 2, exit code 0\n";
    if (argc > 1) {
        std::ifstream file(argv[1], std::ios::binary);
        prose.assign(std::istreambuf_iterator<char>(file), {});
        if (prose.empty()) {
            std::cerr << "nothing in " << argv[1] << '\n';
            return 1;
        }
    }
    const std::string clean = repeated(prose);
    print("whole, no secret", clean.size(), [&] {
        std::string out;
        std::int64_t count = 0;
        static_cast<void>(redactor.judge({.text = clean}, out, count));
        return count;
    });
    print("pieces of 256, no secret", clean.size(), [&] {
        std::string out;
        std::int64_t count = 0;
        for (std::size_t at = 0; at < clean.size(); at += piece_bytes) {
            const std::size_t before = std::min<std::size_t>(at, 2048);
            static_cast<void>(redactor.judge(
                {.written = std::string_view(clean).substr(at - before, before),
                 .text = std::string_view(clean).substr(at, piece_bytes),
                 .after = {},
                 .rest = Redactor::Rest::waited},
                out,
                count));
            out.clear();
        }
        return count;
    });
    const std::string secrets = repeated(
        "export GITHUB_TOKEN=ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8 # and some words more\n");
    print("whole, a secret a line", secrets.size(), [&] {
        std::string out;
        std::int64_t count = 0;
        static_cast<void>(redactor.judge({.text = secrets}, out, count));
        return count;
    });
}
