// SPDX-License-Identifier: Apache-2.0

// Runs a fuzzer where libFuzzer is not at hand: the corpus, then inputs made from it by chance. It follows
// no coverage, so it finds less than libFuzzer, but it needs no compiler of its own and is the same on every
// machine: enough to see on every change that what held still holds.
//
//   NAME_fuzz CORPUS INPUTS [FIRST]

#include "tests/fuzz/fuzz_input.hpp"
#include "tests/support/random.hpp"

#include <boost/filesystem.hpp>

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

namespace {

using relay::tests::Random;

constexpr std::size_t input_bytes_max = std::size_t{64} * 1024;

// What a failure is named by.
std::string trying;

void name_failure(int) {
    static_cast<void>(::write(STDERR_FILENO, trying.data(), trying.size()));
}

void run(const std::string& input) {
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

std::vector<std::string> corpus_in(const std::string& directory) {
    std::vector<std::string> files;
    for (const auto& entry : boost::filesystem::directory_iterator(directory)) {
        files.push_back(entry.path().string());
    }
    std::sort(files.begin(), files.end());
    std::vector<std::string> corpus;
    for (const std::string& file : files) {
        std::ifstream stream(file, std::ios::binary);
        corpus.emplace_back(
            std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
    }
    return corpus;
}

struct Piece {
    std::size_t from = 0;
    std::size_t bytes = 0;
};

Piece piece_of(const std::string& text, Random& random) {
    const std::size_t from = random.below(text.size() + 1);
    const std::size_t rest = text.size() - from;
    return {from, random.below(std::min<std::size_t>(rest, random.chance(4) ? rest : 16) + 1)};
}

void mutate(std::string& input, const std::string& other, Random& random) {
    const Piece piece = piece_of(input, random);
    switch (random.below(6)) {
    case 0:
        if (!input.empty()) {
            char& byte = input[random.below(input.size())];
            byte = static_cast<char>(byte ^ (1 << random.below(8)));
        }
        break;
    case 1:
        if (!input.empty()) {
            input[random.below(input.size())] = static_cast<char>(random.next());
        }
        break;
    case 2:
        input.erase(piece.from, piece.bytes);
        break;
    case 3:
        input.insert(random.below(input.size() + 1), input.substr(piece.from, piece.bytes));
        break;
    case 4: {
        const Piece foreign = piece_of(other, random);
        input.insert(piece.from, other, foreign.from, foreign.bytes);
        break;
    }
    default:
        std::fill_n(input.begin() + static_cast<std::ptrdiff_t>(piece.from), piece.bytes, '\0');
        break;
    }
    input.resize(std::min(input.size(), input_bytes_max));
}

std::string input_of(std::uint64_t number, const std::vector<std::string>& corpus) {
    Random random(number);
    std::string input = corpus[random.below(corpus.size())];
    for (std::uint64_t left = 1 + random.below(8); left > 0; --left) {
        mutate(input, corpus[random.below(corpus.size())], random);
    }
    return input;
}

}  // namespace

int main(int count, char** words) {
    if (count < 3) {
        std::cerr << "usage: " << words[0] << " CORPUS INPUTS [FIRST]\n";
        return 2;
    }
    static_cast<void>(std::signal(SIGABRT, name_failure));
    const std::vector<std::string> corpus = corpus_in(words[1]);
    if (corpus.empty()) {
        std::cerr << words[1] << " holds no inputs\n";
        return 2;
    }
    for (std::size_t file = 0; file < corpus.size(); ++file) {
        trying = "\nfile " + std::to_string(file + 1) + " of the corpus\n";
        run(corpus[file]);
    }
    const std::uint64_t inputs = std::strtoull(words[2], nullptr, 10);
    const std::uint64_t first = count > 3 ? std::strtoull(words[3], nullptr, 10) : 1;
    for (std::uint64_t number = first; number < first + inputs; ++number) {
        trying = "\nagain with: CORPUS 1 " + std::to_string(number) + "\n";
        run(input_of(number, corpus));
    }
    std::cout << corpus.size() << " inputs of the corpus and " << inputs
              << " made from them: nothing found\n";
    return 0;
}
