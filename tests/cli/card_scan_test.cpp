// SPDX-License-Identifier: Apache-2.0
#include "cli/card_scan.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/written_session.hpp"

#include <boost/filesystem.hpp>
#include <doctest/doctest.h>

#include <fcntl.h>

#include <atomic>
#include <fstream>
#include <string>
#include <vector>

using relay::cli::CardRequest;
using relay::cli::CardScan;
using relay::cli::decode_card;
using relay::cli::Documents;
using relay::cli::FoundCard;
using relay::cli::scan_cards;
using relay::cli::SessionCard;
using relay::layout::Errc;
using relay::layout::Meta;
using relay::tests::example_meta;
using relay::tests::TemporaryDirectory;
using relay::tests::write_many_sessions;
using relay::tests::write_session;

namespace {

namespace filesystem = boost::filesystem;

Meta with_agent(int number, const std::string& agent) {
    Meta meta = example_meta(number);
    meta.agent = agent;
    return meta;
}

// Notes meta.json as it is now.
void note(
    const std::string& cache,
    const std::string& sessions,
    const Meta& meta,
    const std::string& card,
    const std::string& document) {
    auto file = relay::cli::IndexFile::open_or_make(cache);
    REQUIRE(file.ok());
    const auto stamp =
        relay::cli::FileStamp::of(AT_FDCWD, sessions + "/" + meta.id.text() + "/meta.json");
    REQUIRE(stamp);
    const std::vector<relay::cli::NotedMeta> noted{{meta.id, *stamp, card, document}};
    REQUIRE(relay::cli::SessionIndex(file.value().database()).note(sessions, noted).ok());
}

// With a card and a document that tell that they came from the index.
void note_marked(const std::string& cache, const std::string& sessions, const Meta& meta) {
    Meta marked = meta;
    marked.agent = "from-index";
    note(cache, sessions, meta, relay::cli::encode_card(marked), "{from index}");
}

std::string agents_of(const CardScan& scan) {
    std::string agents;
    for (const FoundCard& session : scan.sessions) {
        agents += std::string(decode_card(session.card).value().agent) + " ";
    }
    return agents;
}

// Three sessions, all of them in the index.
struct IndexedSessions {
    TemporaryDirectory directory;
    std::string sessions = directory.path() + "/sessions";
    CardRequest request;

    IndexedSessions() {
        for (const int number : {1, 2, 3}) {
            static_cast<void>(write_session(sessions, with_agent(number, "from-file")));
            note_marked(directory.path(), sessions, example_meta(number));
        }
        request.sessions_directories = {sessions, directory.path() + "/none"};
        request.index_directory = directory.path();
        CHECK(agents() == "from-index from-index from-index ");
    }
    [[nodiscard]] std::string agents() const { return agents_of(scan_cards(request)); }
    [[nodiscard]] std::string session(int number) const {
        return sessions + "/" + example_meta(number).id.text();
    }
};

}  // namespace

TEST_CASE("a session that came is listed though the index does not know it") {
    const IndexedSessions indexed;
    static_cast<void>(write_session(indexed.sessions, with_agent(4, "new")));
    CHECK(indexed.agents() == "new from-index from-index from-index ");
}

TEST_CASE("a session whose meta.json was replaced is read from its file") {
    const IndexedSessions indexed;
    const std::string meta = indexed.session(2) + "/meta.json";
    std::ofstream(meta + ".tmp") << relay::layout::encode_meta(with_agent(2, "updated"));
    filesystem::rename(meta + ".tmp", meta);
    CHECK(indexed.agents() == "from-index updated from-index ");
}

TEST_CASE("a meta.json that was edited in place is read from its file") {
    const IndexedSessions indexed;
    // Of the same length, with its time set back: that of its inode tells.
    const std::string meta = indexed.session(2) + "/meta.json";
    const auto time = filesystem::last_write_time(meta);
    const auto inode = relay::cli::FileStamp::of(AT_FDCWD, meta);
    do {  // the clock of files ticks every few milliseconds
        std::ofstream(meta) << relay::layout::encode_meta(with_agent(2, "by-hands!"));
        filesystem::last_write_time(meta, time);
    } while (relay::cli::FileStamp::of(AT_FDCWD, meta) == inode);
    CHECK(indexed.agents() == "from-index by-hands! from-index ");
}

TEST_CASE("a session that went is not listed and one that came back is") {
    const IndexedSessions indexed;
    const std::string trash = indexed.directory.path() + "/trash";
    filesystem::rename(indexed.session(2), trash);
    CHECK(indexed.agents() == "from-index from-index ");
    filesystem::rename(trash, indexed.session(2));
    CHECK(indexed.agents() == "from-index from-index from-index ");
    // Another one in its place, as from a backup.
    filesystem::remove_all(indexed.session(2));
    static_cast<void>(write_session(indexed.sessions, with_agent(2, "restored")));
    CHECK(indexed.agents() == "from-index restored from-index ");
}

TEST_CASE("a session that is damaged since it was noted is named") {
    const IndexedSessions indexed;
    filesystem::remove(indexed.session(1) + "/meta.json");
    std::ofstream(indexed.session(2) + "/meta.json") << R"({"v":1,"id":)";
    std::ofstream(indexed.session(3) + "/meta.json") << relay::layout::encode_meta(example_meta(1));
    const CardScan scan = scan_cards(indexed.request);
    CHECK(scan.sessions.empty());
    REQUIRE(scan.skipped.size() == 3);
    CHECK(
        scan.skipped[0].why.context == "meta.json is that of session " + example_meta(1).id.text());
    CHECK(scan.skipped[1].why.code == Errc::corrupt);
    CHECK(scan.skipped[1].directory == indexed.session(2));
    CHECK(scan.skipped[2].why.code == Errc::not_found);
}

TEST_CASE("a scan takes documents from the index and from files alike as one line") {
    IndexedSessions indexed;
    static_cast<void>(write_session(indexed.sessions, with_agent(3, "new")));
    CHECK(scan_cards(indexed.request).sessions.front().document.empty());
    indexed.request.documents = Documents::yes;
    const CardScan scan = scan_cards(indexed.request);
    REQUIRE(scan.sessions.size() == 3);
    CHECK(scan.sessions[0].document.starts_with("{\"v\":1,\"id\":"));
    CHECK(scan.sessions[0].document.ends_with("}"));
    CHECK(scan.sessions[0].document.find('\n') == std::string::npos);
    CHECK(scan.sessions[1].document == "{from index}");
}

TEST_CASE("a row of the index that is not whole is passed over") {
    IndexedSessions indexed;
    note(indexed.directory.path(), indexed.sessions, example_meta(1), "no card", "{from index}");
    const std::string card = relay::cli::encode_card(with_agent(2, "from-index"));
    note(indexed.directory.path(), indexed.sessions, example_meta(2), card, "");
    CHECK(indexed.agents() == "from-index from-index from-file ");
    indexed.request.documents = Documents::yes;
    CHECK(indexed.agents() == "from-index from-file from-file ");
}

TEST_CASE("without an index the files are read and a damaged one is removed") {
    IndexedSessions indexed;
    indexed.request.index_directory = indexed.directory.path() + "/nowhere";
    CHECK(indexed.agents() == "from-file from-file from-file ");
    indexed.request.index_directory = "";
    CHECK(indexed.agents() == "from-file from-file from-file ");
    indexed.request.index_directory = indexed.directory.path();
    std::ofstream(indexed.directory.path() + "/index.sqlite") << std::string(50'000, 'x');
    CHECK(indexed.agents() == "from-file from-file from-file ");
    CHECK(!filesystem::exists(indexed.directory.path() + "/index.sqlite"));
}

TEST_CASE("the sessions of several stores are one list with an index and without") {
    const IndexedSessions indexed;
    const std::string second = indexed.directory.path() + "/second";
    for (const int number : {2, 5}) {
        static_cast<void>(write_session(second, with_agent(number, "second")));
    }
    note_marked(indexed.directory.path(), second, example_meta(5));
    CardRequest request = indexed.request;
    request.sessions_directories = {indexed.sessions, second};
    const CardScan scan = scan_cards(request);
    CHECK(agents_of(scan) == "from-index from-index from-index second from-index ");
    CHECK(scan.sessions[0].place.directory() == second + "/" + example_meta(5).id.text());
    request.index_directory = "";
    CHECK(agents_of(scan_cards(request)) == "second from-file from-file second from-file ");
}

TEST_CASE("a scan for few looks at the newest until it has them") {
    const TemporaryDirectory directory;
    write_many_sessions(directory.path(), 1500, 10);
    CardRequest request;
    request.sessions_directories = {directory.path()};
    request.sessions_max = 100;
    std::atomic<int> asked{0};
    request.wanted = [&asked](const SessionCard& card) {
        ++asked;
        return card.agent == "codex";
    };
    const CardScan scan = scan_cards(request);
    REQUIRE(scan.sessions.size() == 100);
    CHECK(scan.sessions.front().place.id == example_meta(1498).id);
    CHECK(scan.sessions.back().place.id == example_meta(1498 - 3 * 99).id);
    CHECK(scan.in_stores == 1500);
    CHECK(asked < 1500);
    request.sessions_max = 1500;
    CHECK(scan_cards(request).sessions.size() == 500);

    // Of all of them the index knows two that lie far apart.
    const TemporaryDirectory cache;
    note_marked(cache.path(), directory.path(), example_meta(7));
    note_marked(cache.path(), directory.path(), example_meta(1400));
    request.index_directory = cache.path();
    request.wanted = nullptr;
    const CardScan all = scan_cards(request);
    REQUIRE(all.sessions.size() == 1500);
    for (const FoundCard& session : all.sessions) {
        const bool noted =
            session.place.id == example_meta(7).id || session.place.id == example_meta(1400).id;
        CHECK((decode_card(session.card).value().agent == "from-index") == noted);
    }
}
