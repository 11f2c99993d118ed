// SPDX-License-Identifier: Apache-2.0
#include "cli/index_notes.hpp"
#include "cli/search_plan.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/written_session.hpp"

#include <boost/filesystem.hpp>
#include <doctest/doctest.h>

#include <fcntl.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

using relay::cli::FileStamp;
using relay::cli::GramCollector;
using relay::cli::IndexFile;
using relay::cli::NotedText;
using relay::cli::plan_search;
using relay::cli::SearchPlan;
using relay::cli::SessionIndex;
using relay::layout::Ulid;
using relay::tests::example_meta;
using relay::tests::TemporaryDirectory;

namespace {

// None with a turn: plans are made of what the index says.
constexpr std::int64_t sessions_count = 1500;

class PlannedSessions {
public:
    PlannedSessions() {
        for (std::int64_t number = 1; number <= sessions_count; ++number) {
            boost::filesystem::create_directories(turns_of(number));
        }
    }
    [[nodiscard]] std::string sessions() const { return directory_.path() + "/sessions"; }
    [[nodiscard]] std::string session(std::int64_t number) const {
        return sessions() + "/" + example_meta(number).id.text();
    }
    [[nodiscard]] std::string turns_of(std::int64_t number) const {
        return session(number) + "/turns";
    }
    void note(std::int64_t number, const std::vector<std::string>& texts) const {
        NotedText noted{
            example_meta(number).id, FileStamp::of(AT_FDCWD, turns_of(number)).value(), {}};
        GramCollector collector;
        for (const std::string& text : texts) {
            collector.add(text);
            noted.turns.push_back({std::ssize(noted.turns) + 1, collector.take()});
        }
        auto file = IndexFile::open_or_make(directory_.path());
        REQUIRE(file.ok());
        REQUIRE(SessionIndex(file.value().database()).note(sessions(), std::vector{noted}).ok());
    }
    [[nodiscard]] SearchPlan plan(const std::string& word) const {
        return plan_search(directory_.path(), {word}, {sessions()});
    }
    [[nodiscard]] bool keeps(const SearchPlan& plan, std::int64_t number) const {
        const std::vector<Ulid>& kept = plan.sessions.at(sessions()).value();
        return std::find(kept.begin(), kept.end(), example_meta(number).id) != kept.end();
    }

private:
    TemporaryDirectory directory_;
};

}  // namespace

TEST_CASE("a search looks through what the index does not know and the turns that may have it") {
    const PlannedSessions planned;
    for (const std::int64_t number : {std::int64_t{3}, sessions_count - 3}) {
        planned.note(number, {"nothing", "a scarce word"});
    }
    for (const std::int64_t number : {std::int64_t{5}, sessions_count - 5}) {
        planned.note(number, {"nothing"});
    }
    const SearchPlan plan = planned.plan("scarce");
    CHECK(plan.in_stores == sessions_count);
    CHECK(plan.sessions.at(planned.sessions()).value().size() == sessions_count - 2);
    CHECK(plan.unknown.size() == sessions_count - 4);
    CHECK(plan.unknown.front().second == example_meta(sessions_count).id);
    CHECK(plan.turns.size() == 2);
    CHECK(plan.turns.at(planned.session(3)) == std::vector<std::int64_t>{2});
    CHECK(plan.turns.at(planned.session(sessions_count - 3)) == std::vector<std::int64_t>{2});
    CHECK(!planned.keeps(plan, 5));
    CHECK(!planned.keeps(plan, sessions_count - 5));
}

TEST_CASE("a session whose turns changed is looked through whole") {
    const PlannedSessions planned;
    planned.note(7, {"nothing"});
    planned.note(8, {"nothing"});
    CHECK(!planned.keeps(planned.plan("scarce"), 7));
    const auto before = FileStamp::of(AT_FDCWD, planned.turns_of(7));
    // The clock of files ticks every few milliseconds.
    for (int file = 1; FileStamp::of(AT_FDCWD, planned.turns_of(7)) == before; ++file) {
        std::ofstream(planned.turns_of(7) + "/" + std::to_string(file)) << "scarce";
    }
    const SearchPlan plan = planned.plan("scarce");
    CHECK(planned.keeps(plan, 7));
    CHECK(!plan.turns.contains(planned.session(7)));
    CHECK(!planned.keeps(plan, 8));
}
