// SPDX-License-Identifier: Apache-2.0
#include "cli/session_choice.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/written_session.hpp"

#include <boost/filesystem.hpp>
#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <optional>
#include <string>

using relay::cli::can_be_name;
using relay::cli::choice_code;
using relay::cli::choose_session;
using relay::cli::ExitCode;
using relay::cli::find_search_places;
using relay::cli::SearchPlaces;
using relay::cli::short_id;
using relay::layout::Errc;
using relay::layout::Meta;
using relay::layout::SessionStatus;
using relay::tests::example_meta;
using relay::tests::TemporaryDirectory;
using relay::tests::write_session;

namespace {

// Sessions 1 to 3; the third is the newest and running, the second has a name.
struct Store {
    Store() {
        Meta second = example_meta(2);
        second.name = "parser";
        Meta third = example_meta(3);
        third.status = SessionStatus::active;
        third.ended_at.reset();
        for (const Meta& meta : {example_meta(1), second, third}) {
            static_cast<void>(write_session(places.nearest, meta));
        }
    }

    [[nodiscard]] std::string chosen(const std::string& word) const {
        const auto session = choose_session(word, places);
        return session.ok() ? session.value().id.text() : session.error().context;
    }
    [[nodiscard]] ExitCode code(const std::string& word) const {
        const auto session = choose_session(word, places);
        return session.ok() ? ExitCode::ok : choice_code(session.error());
    }

    TemporaryDirectory directory;
    SearchPlaces places{directory.path() + "/near/sessions", {directory.path() + "/far/sessions"}};
};

std::string lower(std::string text) {
    for (char& character : text) {
        character = static_cast<char>(
            character >= 'A' && character <= 'Z' ? character - 'A' + 'a' : character);
    }
    return text;
}

}  // namespace

TEST_CASE("a session is chosen by its id or slug or name or a part of its id") {
    const Store store;
    const std::string id = example_meta(2).id.text();
    for (const std::string& word :
         {id,
          lower(id),
          example_meta(2).slug,
          std::string("parser"),
          id.substr(26 - 6),
          id.substr(26 - 3),
          lower(id.substr(26 - 4)),
          short_id(example_meta(2).id),
          store.places.nearest + "/" + id,
          store.places.nearest + "/" + id + "/"}) {
        CAPTURE(word);
        CHECK(store.chosen(word) == id);
    }
    CHECK(store.code(id.substr(26 - 2)) == ExitCode::no_such_session);
}

TEST_CASE("sessions are chosen by rank and by being the one that runs") {
    const Store store;
    CHECK(store.chosen("@latest") == example_meta(3).id.text());
    CHECK(store.chosen("@1") == example_meta(3).id.text());
    CHECK(store.chosen("@3") == example_meta(1).id.text());
    CHECK(store.chosen("@running") == example_meta(3).id.text());
    CHECK(store.code("@4") == ExitCode::no_such_session);
    CHECK(store.chosen("@4") == "only 3 sessions are recorded in " + store.places.nearest);
    CHECK(store.code("@0") == ExitCode::usage);
    CHECK(store.code("@") == ExitCode::usage);
    CHECK(store.code("@newest") == ExitCode::usage);
    const SearchPlaces empty{store.directory.path() + "/none", {}};
    CHECK(choose_session("@latest", empty).error().code == Errc::not_found);
    CHECK(choose_session("@running", empty).error().code == Errc::not_found);
}

TEST_CASE("an ephemeral or damaged session is not the latest") {
    const Store store;
    Meta ephemeral = example_meta(4);
    ephemeral.ephemeral = true;
    static_cast<void>(write_session(store.places.nearest, ephemeral));
    const std::string damaged = write_session(store.places.nearest, example_meta(5));
    std::ofstream(damaged + "/meta.json") << "{\"v\":1,";
    CHECK(store.chosen("@latest") == example_meta(3).id.text());
    // By its id it is chosen all the same, so that a command can say what is wrong with it.
    CHECK(store.chosen(example_meta(5).id.text()) == example_meta(5).id.text());
}

TEST_CASE("a turn may follow the session after a colon") {
    const Store store;
    for (const std::string word : {"parser:12", "@2:12"}) {
        const auto chosen = choose_session(word, store.places);
        REQUIRE(chosen.ok());
        CHECK(chosen.value().id == example_meta(2).id);
        CHECK(chosen.value().turn == 12);
    }
    CHECK_FALSE(choose_session("parser", store.places).value().turn.has_value());
    CHECK(store.code("parser:0") == ExitCode::no_such_session);
    CHECK(store.code("parser:x") == ExitCode::no_such_session);
    CHECK(
        store.chosen("parser:x").find("; a turn is a number, as in parser:3;")
        != std::string::npos);
    CHECK(store.code(":1") == ExitCode::no_such_session);
    CHECK(store.code("") == ExitCode::usage);
}

TEST_CASE("a name that looks like a path or a turn is a name when there is nothing else") {
    const Store store;
    Meta fourth = example_meta(4);
    fourth.name = "feature/parser";
    Meta fifth = example_meta(5);
    fifth.name = "try:2";
    static_cast<void>(write_session(store.places.nearest, fourth));
    static_cast<void>(write_session(store.places.farther.front(), fifth));
    CHECK(store.chosen("feature/parser") == fourth.id.text());
    CHECK(store.chosen("try:2") == fifth.id.text());
    CHECK(choose_session("feature/parser:3", store.places).error().code == Errc::not_found);
    for (const char* const name : {"feature/parser", "try:2", "a b", "…"}) {
        CHECK(can_be_name(name));
    }
    for (const char* const name :
         {"", "  ", ".", "..", "@1", "@me", "01m7j690z2tm97tn46f1twfta9"}) {
        CHECK_FALSE(can_be_name(name));
    }
}

TEST_CASE("what fits several sessions is refused with the candidates") {
    const Store store;
    Meta fourth = example_meta(4);
    fourth.name = "parser";
    static_cast<void>(write_session(store.places.nearest, fourth));
    CHECK(store.code("parser") == ExitCode::usage);
    CHECK(
        store.chosen("parser")
        == "\"parser\" fits several sessions: " + fourth.id.text() + " (" + fourth.slug + "), "
               + example_meta(2).id.text() + " (" + example_meta(2).slug
               + "); give more of one's id");
    Meta twin = fourth;
    twin.id.bytes[15] ^= 1;
    twin.slug = "twin";
    static_cast<void>(write_session(store.places.nearest, twin));
    CHECK(store.chosen(fourth.id.text().substr(0, 20)).find(" (twin)") != std::string::npos);
    // All began within 17 minutes: eight characters of the time are the same.
    CHECK(store.code(fourth.id.text().substr(0, 6)) == ExitCode::no_such_session);
    Meta running = example_meta(5);
    running.status = SessionStatus::active;
    static_cast<void>(write_session(store.places.nearest, running));
    CHECK(store.code("@running") == ExitCode::usage);
}

TEST_CASE("a name goes before the end of an id and the nearest store before the others") {
    const Store store;
    Meta namesake = example_meta(6);
    namesake.name = short_id(example_meta(1).id);
    static_cast<void>(write_session(store.places.nearest, namesake));
    CHECK(store.chosen(*namesake.name) == namesake.id.text());

    Meta far = example_meta(7);
    far.name = "parser";
    static_cast<void>(write_session(store.places.farther.front(), far));
    CHECK(store.chosen("parser") == example_meta(2).id.text());
    CHECK(store.chosen(far.slug) == far.id.text());
    CHECK(store.chosen(short_id(far.id)) == far.id.text());
    CHECK(store.chosen("@latest") == namesake.id.text());
}

TEST_CASE("what is nowhere is told with the place that was searched") {
    const Store store;
    CHECK(
        store.chosen("nowhere")
        == "there is no session \"nowhere\" in " + store.places.nearest
               + " or any other store; agent-relay list shows what there is");
    CHECK(store.code("./nowhere") == ExitCode::no_such_session);
    CHECK(store.code(store.directory.path()) == ExitCode::no_such_session);
}

TEST_CASE("a store is named by its root or its repository or its directory of sessions") {
    const TemporaryDirectory directory;
    const std::string sessions = directory.path() + "/repo/.agent-relay/sessions";
    boost::filesystem::create_directories(sessions);
    const auto none = [](const char*) {
        return std::optional<std::string>();
    };
    for (const char* const name : {"/repo", "/repo/.agent-relay", "/repo/.agent-relay/sessions"}) {
        CAPTURE(name);
        const auto places = find_search_places(none, directory.path() + name);
        REQUIRE(places.ok());
        CHECK(places.value().nearest == sessions);
        CHECK(places.value().farther.empty());
    }
    CHECK(find_search_places(none, directory.path() + "/none").error().code == Errc::not_found);
}

TEST_CASE("the stores that the daemon remembers are searched after the nearest") {
    const TemporaryDirectory directory;
    std::map<std::string, std::string> variables{{"AGENT_RELAY_HOME", directory.path()}};
    const auto environment = [&variables](const char* name) {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
    };
    boost::filesystem::create_directories(directory.path() + "/state");
    std::ofstream(directory.path() + "/state/stores.json")
        << R"({"v":1,"stores":[{"anchor":"/elsewhere","below":".agent-relay","repo":true}]})";
    const auto places = find_search_places(environment, "");
    REQUIRE(places.ok());
    CHECK(places.value().nearest == directory.path() + "/state/sessions");
    CHECK(places.value().farther == std::vector<std::string>{"/elsewhere/.agent-relay/sessions"});
}
