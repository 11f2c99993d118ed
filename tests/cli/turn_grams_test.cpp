// SPDX-License-Identifier: Apache-2.0
#include "cli/turn_grams.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/written_session.hpp"

#include <boost/filesystem.hpp>
#include <doctest/doctest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

using relay::cli::gram_query;
using relay::cli::GramCollector;
using relay::cli::read_grams;
using relay::layout::Errc;
using relay::tests::compress_file;
using relay::tests::example_meta;
using relay::tests::TemporaryDirectory;
using relay::tests::write_session;

namespace {

std::set<std::string> split(const std::string& grams) {
    std::istringstream stream(grams);
    std::set<std::string> words;
    for (std::string word; stream >> word;) {
        words.insert(word);
    }
    return words;
}

bool holds(const std::set<std::string>& grams, const std::string& word) {
    for (const std::string& gram : split(gram_query({word}).value_or("none"))) {
        if (!grams.contains(gram)) {
            return false;
        }
    }
    return true;
}

}  // namespace

TEST_CASE("a text holds the threes of every word that stands in one of its lines") {
    const std::string line =
        "Mix of \xc3\x9cmlaut, \xff\xfe broken bytes, \t\r and CAPITALS \"quoted\" 1.5";
    GramCollector collector;
    collector.add("first line\n" + line.substr(0, 11));
    collector.add(line.substr(11) + "\nlast");
    const std::set<std::string> grams = split(collector.take());
    for (std::size_t begin = 0; begin < line.size(); ++begin) {
        for (std::size_t size = 3; begin + size <= line.size(); ++size) {
            CAPTURE(begin);
            CAPTURE(size);
            CHECK(holds(grams, line.substr(begin, size)));
        }
    }
    CHECK(holds(grams, "mix OF"));
    CHECK(!holds(grams, "line mix"));
    CHECK(!holds(grams, "other"));
    CHECK(collector.take().empty());
}

TEST_CASE("neither ends of lines nor parts of a text make threes") {
    GramCollector collector;
    collector.add("ab\ncd");
    collector.part();
    collector.add("ef");
    collector.add(std::string_view("a\0bc", 4));
    CHECK(split(collector.take()) == std::set<std::string>{"656661"});
}

TEST_CASE("words that are too short or broken over lines tell the index nothing") {
    CHECK(!gram_query({}));
    CHECK(!gram_query({"ab"}));
    CHECK(!gram_query({"ab", "cd"}));
    CHECK(!gram_query({"long enough", "but\nbroken"}));
    CHECK(split(gram_query({"ab", "abC"}).value()) == std::set<std::string>{"616263"});
}

TEST_CASE("the index takes sealed turns as they were sealed and no others") {
    const TemporaryDirectory directory;
    const std::string sealed = write_session(
        directory.path(), example_meta(1), {{"prompt", "output", "stderr"}, {"two", "second"}});
    GramCollector collector;
    const auto turns = read_grams(sealed, collector);
    REQUIRE(turns.ok());
    REQUIRE(turns.value().size() == 2);
    CHECK(turns.value()[1].turn == 2);
    for (const std::string word : {"prompt", "output", "stderr"}) {
        CHECK(holds(split(turns.value()[0].grams), word));
        CHECK(!holds(split(turns.value()[1].grams), word));
    }

    compress_file(sealed + "/turns/001-output.md");
    CHECK(read_grams(sealed, collector).value()[0].grams == turns.value()[0].grams);

    std::ofstream(sealed + "/turns/002-output.md", std::ios::app) << "more";
    CHECK(read_grams(sealed, collector).error().code == Errc::busy);
    boost::filesystem::remove(sealed + "/turns/002-output.md");
    CHECK(read_grams(sealed, collector).error().code == Errc::busy);
    boost::filesystem::remove(sealed + "/turns/002-state.json");
    CHECK(read_grams(sealed, collector).error().code == Errc::busy);
}
