// SPDX-License-Identifier: Apache-2.0

// The index makes reading faster and nothing else: whatever becomes of it, list and search say what they say without.

#include "tests/end_to_end/recording.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/written_session.hpp"

#include <boost/filesystem.hpp>
#include <doctest/doctest.h>
#include <relay_built_here.hpp>

#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace relay::tests {
namespace {

namespace filesystem = boost::filesystem;

constexpr int sessions_count = 40;

class IndexedHome {
public:
    IndexedHome() { write_many_sessions(sessions(), sessions_count, 300, 3); }
    // Deleting starts a daemon.
    ~IndexedHome() { static_cast<void>(run({"daemon", "stop"})); }
    IndexedHome(const IndexedHome&) = delete;
    IndexedHome& operator=(const IndexedHome&) = delete;

    [[nodiscard]] std::string sessions() const { return root_.path() + "/state/sessions"; }
    [[nodiscard]] std::string index() const { return root_.path() + "/cache/index.sqlite"; }
    [[nodiscard]] std::string session(std::int64_t number) const {
        return sessions() + "/" + example_meta(number).id.text();
    }
    [[nodiscard]] ProgramEnd
    run(std::vector<std::string> arguments, const std::string& cache = "") const {
        arguments.insert(arguments.begin(), RELAY_CLI_BINARY);
        std::map<std::string, std::string> environment{
            {"AGENT_RELAY_HOME", root_.path()},
            {"HOME", root_.path()},
            {"TZ", "UTC"},
            {"ASAN_OPTIONS", "detect_leaks=0"}};
        if (!cache.empty()) {
            // The same store, named, and a cache of its own.
            environment["AGENT_RELAY_HOME"] = cache;
            arguments.insert(arguments.end(), {"--store", sessions()});
        }
        return run_program(arguments, environment);
    }
    [[nodiscard]] Json status(const std::string& verb) const {
        return Json::parse(run({"index", verb, "--json"}).out, nullptr, /*allow_exceptions=*/false);
    }
    // What was changed a moment ago is not noted yet.
    void rebuild(int searchable) const {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (status("rebuild").value("searchable", 0) != searchable) {
            REQUIRE(std::chrono::steady_clock::now() < deadline);
            std::this_thread::sleep_for(std::chrono::milliseconds(200));
        }
    }

    // Compares what is said with this home's index and with none.
    void check_same() const {
        const TemporaryDirectory nothing;
        const std::vector<std::vector<std::string>> questions{
            {"list"},
            {"list", "--json"},
            {"list", "-n", "7"},
            {"list", "--agent", "codex", "--json"},
            {"search", "session 17:"},
            {"search", "--json", "Session 17:"},
            {"search", "LINE", "fox"},
            {"search", "line", "fox", "-n", "5"},
            {"search", "scarce"},
            {"search", "xy"},
            {"search", "no such words anywhere"},
            {"search", "--regex", "session 1[0-3]:.*dog"},
        };
        for (const std::vector<std::string>& question : questions) {
            CAPTURE(question.front() + " " + question.back());
            const ProgramEnd with = run(question);
            const ProgramEnd without = run(question, nothing.path());
            CHECK(with.out == without.out);
            CHECK(with.status == without.status);
        }
    }

private:
    TemporaryDirectory root_;
};

TEST_CASE("with an index that is new or old or damaged or gone list and search say the same") {
    const IndexedHome home;
    home.check_same();
    home.rebuild(sessions_count);
    home.check_same();
    const std::string whole = read_text(home.index());

    // Old: sessions came, went, grew, were renamed and lost a word.
    static_cast<void>(write_session(
        home.sessions(), example_meta(sessions_count + 1), {{"new", "a scarce word\n"}}));
    filesystem::remove_all(home.session(3));
    layout::Meta renamed = example_meta(17);
    renamed.name = "other";
    filesystem::remove_all(home.session(17));  // sealed files are replaced, never written into
    static_cast<void>(write_session(home.sessions(), renamed, {{"prompt", "scarce\n"}}));
    filesystem::rename(home.session(20) + "/turns/003-output.md", home.session(20) + "/turns/old");
    write_text(home.session(20) + "/turns/003-output.md", "scarce, too\n");
    home.check_same();
    CHECK(home.run({"search", "scarce"}).out.find("scarce, too") != std::string::npos);

    // Damaged: cut, overwritten from the middle on, and no database at all.
    for (const std::string& damaged :
         {whole.substr(0, whole.size() / 2),
          whole.substr(0, whole.size() / 3) + std::string(whole.size() / 2, 'x'),
          std::string("x"),
          std::string()}) {
        write_text(home.index(), damaged);
        home.check_same();
    }
    filesystem::remove(home.index());
    home.check_same();
}

TEST_CASE("search finds in an index what it would find in the files and looks at no other file") {
    const IndexedHome home;
    home.rebuild(sessions_count);
    // Changed in place behind its seal, which nothing notices: the index leaves the file alone, or asks it.
    write_text(home.session(5) + "/turns/002-output.md", "scarce\n");
    CHECK(home.run({"search", "scarce"}).status == 1);
    CHECK(home.run({"search", "session 5:"}).out.find(" output:") != std::string::npos);
    CHECK(home.run({"search", "session 5:"}).out.find(":2 output:") == std::string::npos);
    CHECK(home.status("rebuild").value("searchable", 0) == sessions_count - 1);
    CHECK(home.run({"search", "scarce"}).status == 0);
}

TEST_CASE("readers add to the index what they had to read") {
    const IndexedHome home;
    CHECK(home.status("status").value("state", "") == "missing");
    home.rebuild(sessions_count);
    static_cast<void>(
        write_session(home.sessions(), example_meta(sessions_count + 1), {{"new", "word\n"}}));
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    Json status;
    do {
        REQUIRE(std::chrono::steady_clock::now() < deadline);
        CHECK(home.run({"list"}).status == 0);
        CHECK(home.run({"search", "fox"}).status == 0);
        status = home.status("status");
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
    } while (status.value("listed", 0) != sessions_count + 1
             || status.value("searchable", 0) != sessions_count + 1);
    CHECK(status.value("sessions", 0) == sessions_count + 1);
    CHECK(mode_of(home.index()) == 0600);
}

TEST_CASE("what is removed for good does not stay in the index") {
    const IndexedHome home;
    home.rebuild(sessions_count);
    CHECK(home.run({"delete", "--yes", example_meta(3).id.text()}).status == 0);
    CHECK(exists(home.index()));  // the trash gives it back
    const ProgramEnd removed = home.run({"delete", "--yes", "--now", example_meta(4).id.text()});
    CHECK_MESSAGE(removed.status == 0, removed.err);
    CHECK(!exists(home.index()));
    home.rebuild(sessions_count - 2);
    const ProgramEnd pruned = home.run({"prune", "--keep", "1", "--now", "--yes"});
    CHECK_MESSAGE(pruned.status == 0, pruned.err);
    CHECK(!exists(home.index()));
}

TEST_CASE("an index goes when it is told to") {
    const IndexedHome home;
    CHECK(home.status("rebuild").value("state", "") == "ready");
    CHECK(home.run({"index"}).out.find(home.index() + ": ") == 0);
    CHECK(home.status("remove").value("state", "") == "missing");
    CHECK(!exists(home.index()));
    write_text(home.index(), "x");
    CHECK(home.status("status").value("state", "") == "unusable");
    CHECK(home.run({"index", "melt"}).status == 2);
}

}  // namespace
}  // namespace relay::tests
