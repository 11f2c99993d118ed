// SPDX-License-Identifier: Apache-2.0

// Pruning by rules and compressing, with and without a daemon, and killed at every call it makes.

#include "tests/end_to_end/relay_home.hpp"
#include "tests/support/wire_client.hpp"
#include "tests/support/written_session.hpp"

#include <boost/filesystem.hpp>
#include <doctest/doctest.h>
#include <relay_built_here.hpp>

#include <sstream>
#include <string>
#include <vector>

namespace relay::tests {
namespace {

namespace filesystem = boost::filesystem;

bool says(const std::string& text, const std::string& words) {
    return text.find(words) != std::string::npos;
}

std::string id_of(std::int64_t number) {
    return example_meta(number).id.text();
}

// Shrinks to little, and is more than one piece of every reader.
std::string long_output(std::int64_t number) {
    std::string text;
    for (int line = 0; line < 12'000; ++line) {
        text += "turn " + std::to_string(number) + " line " + std::to_string(line) + " needle\n";
    }
    return text;
}

// A store that no daemon knows, with sessions 1 to 5, one a minute, all weeks old; 4 runs, 5 cannot be read.
class Copy {
public:
    Copy() {
        home.forbid_daemon(true);
        for (std::int64_t number = 1; number <= 5; ++number) {
            layout::Meta meta = example_meta(number);
            meta.status =
                number == 4 ? layout::SessionStatus::active : layout::SessionStatus::completed;
            static_cast<void>(write_session(
                sessions(),
                meta,
                {{"ask " + std::to_string(number), long_output(number), "warned\n"}}));
        }
        write_text(sessions() + "/" + id_of(5) + "/meta.json", "{");
    }

    [[nodiscard]] std::string root() const { return home.root() + "/copy"; }
    [[nodiscard]] std::string sessions() const { return root() + "/sessions"; }
    [[nodiscard]] ProgramEnd prune(const std::string& flags) const {
        return home.shell("agent-relay prune --store ../copy " + flags);
    }
    [[nodiscard]] bool has(std::int64_t number) const {
        return exists(sessions() + "/" + id_of(number));
    }

    RelayHome home;
};

std::vector<std::string> pruned(const ProgramEnd& end) {
    std::vector<std::string> ids;
    std::istringstream lines(end.out);
    for (std::string line; std::getline(lines, line);) {
        ids.push_back(Json::parse(line)["session"]);
    }
    return ids;
}

TEST_CASE("prune shows what its rules mean and does nothing without a yes") {
    const Copy copy;
    using Ids = std::vector<std::string>;
    CHECK(pruned(copy.prune("--json --keep 0")) == Ids{id_of(3), id_of(2), id_of(1)});
    // The newest are counted over all, the running one too.
    CHECK(pruned(copy.prune("--json --keep 2")) == Ids{id_of(2), id_of(1)});
    CHECK(pruned(copy.prune("--json --older-than 2026-11-01T00:02")) == Ids{id_of(1)});
    CHECK(pruned(copy.prune("--json --keep 4 --older-than 1d")).empty());
    CHECK(pruned(copy.prune("--json --keep 0 --agent codex --status completed")) == Ids{id_of(1)});
    CHECK(pruned(copy.prune("--json --keep 0 --archived")).empty());
    const ProgramEnd preview = copy.prune("--older-than 1d");
    CHECK(preview.status == 0);
    CHECK(says(preview.err, "prune would move 3 sessions to the trash, "));
    CHECK(says(preview.err, "say --yes to do it"));
    CHECK(says(preview.err, "skipped \"" + copy.sessions() + "/" + id_of(5)));
    CHECK(preview.out.starts_with("ID      NAME"));
    CHECK(tree_of(copy.root() + "/trash").empty());
    CHECK_FALSE(exists(copy.root() + "/prune.log"));
    for (int number = 1; number <= 5; ++number) {
        CHECK(copy.has(number));
    }
}

TEST_CASE("prune moves to the trash or removes what its rules mean and logs it") {
    const Copy copy;
    ProgramEnd end = copy.prune("--older-than 1d --keep 3 --yes");
    CHECK_MESSAGE(end.status == 0, end.err);
    CHECK(says(end.out, "moved 1 session to the trash"));
    CHECK_FALSE(copy.has(1));
    CHECK(exists(copy.root() + "/trash/" + id_of(1) + "/meta.json"));
    end = copy.prune("--keep 0 --now --yes --json");
    CHECK(end.status == 0);
    CHECK(pruned(end).size() == 2);
    CHECK(says(end.out, "\"action\":\"remove\",\"done\":true"));
    CHECK_FALSE(copy.has(2));
    CHECK_FALSE(copy.has(3));
    CHECK_FALSE(exists(copy.root() + "/trash/" + id_of(2)));
    CHECK(copy.has(4));
    CHECK(copy.has(5));
    std::istringstream log(read_text(copy.root() + "/prune.log"));
    std::vector<Json> lines;
    for (std::string line; std::getline(log, line);) {
        lines.push_back(Json::parse(line));
    }
    REQUIRE(lines.size() == 3);
    CHECK(lines[0]["action"] == "trash");
    CHECK(lines[0]["session"] == id_of(1));
    CHECK(says(lines[0]["rule"].get<std::string>(), "--older-than 1d --keep 3"));
    CHECK(lines[2]["action"] == "remove");
    CHECK(copy.prune("--keep 0 --yes").status == 0);
}

TEST_CASE("prune refuses to go without a rule or by a name") {
    const Copy copy;
    struct Mistake {
        std::string flags;
        std::string words;
    };
    const std::vector<Mistake> mistakes{
        {"--yes", "needs a rule"},
        {"--agent codex --yes", "needs a rule"},
        {"--keep 0 " + id_of(1), "goes by rules, not by"},
        {"--keep -1", "--keep needs a number of at least 0"},
        {"--older-than soon", "--older-than needs a time"},
        {"--keep 0 --now --compress", "one of --now and --compress"},
    };
    for (const Mistake& mistake : mistakes) {
        CAPTURE(mistake.flags);
        const ProgramEnd end = copy.prune(mistake.flags);
        CHECK(end.status == 2);
        CHECK_MESSAGE(says(end.err, mistake.words), end.err);
    }
    CHECK(
        copy.home.shell("agent-relay prune --keep 0 --yes --store ../copy/sessions/" + id_of(1))
            .status
        == 2);
    const ProgramEnd unreachable = copy.home.shell("agent-relay prune --keep 0 --yes");
    CHECK(unreachable.status == 4);
    CHECK(copy.has(1));
}

TEST_CASE("a compressed session is read like one that is not") {
    const Copy copy;
    const std::vector<std::string> readers{
        "show --store ../copy " + id_of(1),
        "show --store ../copy --json " + id_of(1),
        "show --store ../copy --output " + id_of(1),
        "show --store ../copy --stderr " + id_of(1),
        "search --store ../copy --json 'line 11999 needle'",
        "watch --store ../copy --json --from 1 " + id_of(1),
        "metrics --store ../copy --json",
    };
    std::vector<std::string> before;
    for (const std::string& reader : readers) {
        before.push_back(copy.home.shell("agent-relay " + reader).out);
        CHECK_FALSE(before.back().empty());
    }
    const ProgramEnd end = copy.prune("--compress --keep 0 --yes --json");
    CHECK_MESSAGE(end.status == 0, end.err);
    REQUIRE(pruned(end).size() == 3);
    const Json first = Json::parse(end.out.substr(0, end.out.find('\n')));
    CHECK(first["action"] == "compress");
    CHECK(first["bytes_after"].get<std::int64_t>() * 4 < first["bytes"].get<std::int64_t>());
    const std::string turns = copy.sessions() + "/" + id_of(1) + "/turns";
    CHECK(
        tree_of(turns)
        == std::vector<std::string>{
            "001-output.md.zst", "001-prompt.md", "001-state.json", "001-stderr.log"});
    CHECK(mode_of(turns + "/001-output.md.zst") == 0600);
    CHECK(damage_of(copy.sessions() + "/" + id_of(1)).empty());
    for (std::size_t at = 0; at < readers.size(); ++at) {
        CAPTURE(readers[at]);
        CHECK(copy.home.shell("agent-relay " + readers[at]).out == before[at]);
    }
    const ProgramEnd path =
        copy.home.shell("agent-relay show --path --output --store ../copy " + id_of(1));
    CHECK(path.out == turns + "/001-output.md.zst\n");
    // The one that runs is as it was, and there is nothing left to do.
    CHECK(exists(copy.sessions() + "/" + id_of(4) + "/turns/001-output.md"));
    CHECK(says(copy.prune("--compress --keep 0 --yes").err, "no session is meant"));
}

TEST_CASE("a file that differs from its seal is not compressed") {
    const Copy copy;
    const std::string turns = copy.sessions() + "/" + id_of(1) + "/turns/";
    const std::string edited = long_output(1) + "by hand";
    write_text(turns + "001-output.md", edited);
    const ProgramEnd end = copy.prune("--compress --older-than 2026-11-01T00:02 --keep 0 --yes");
    CHECK(end.status == 0);
    CHECK(says(end.err, "001-output.md differs from its seal and stays as it is"));
    CHECK(read_text(turns + "001-output.md") == edited);
    CHECK_FALSE(exists(turns + "001-output.md.zst"));
    CHECK(tree_of(turns).size() == 4);
}

TEST_CASE("sessions are compressed beside a daemon that then crashes and reopens them") {
    const RelayHome home;
    REQUIRE(
        home.shell(
                "agent-relay run --name a -- bash -c 'for n in $(seq 2000); do echo line $n; done'")
            .status
        == 0);
    const Recording session = home.session();
    // Its journal has no checkpoint yet; replayed, it would take the missing file for a user's change.
    const ProgramEnd end = home.shell("agent-relay prune --compress --keep 0 --yes");
    CHECK_MESSAGE(end.status == 0, end.err);
    CHECK(session.has("turns/001-output.md.zst"));
    CHECK_FALSE(session.has("turns/001-output.md"));
    home.kill_daemon();
    REQUIRE(home.shell("agent-relay daemon start").status == 0);
    CHECK_FALSE(exists(session.path + "/recovered"));
    CHECK(damage_of(session.path).empty());
    // It goes on uncompressed, and its packet still has the end of the compressed turn.
    WireClient client(home.root() + "/relay/state/relay.sock");
    CHECK_ACK(client.ask("session.attach", session.id, {{"reopen", true}}));
    CHECK_ACK(client.ask("session.checkpoint", session.id, {{"reason", "enough"}}));
    CHECK(says(
        session.json("resume.json")["last_turn"]["output_tail"].get<std::string>(), "line 2000"));
    CHECK_ACK(client.ask("session.attach", session.id, {{"reopen", true}}));
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "more"}}));
    CHECK_ACK(client.ask("turn.output", session.id, {{"text", "more\n"}}));
    CHECK_ACK(client.ask("session.end", session.id));
    CHECK(session.text("turns/002-output.md") == "more\n");
    CHECK(damage_of(session.path).empty());
    CHECK(session.meta()["turn_count"] == 2);
    CHECK(says(home.shell("agent-relay fork a:1 -- cat").out, "> line 2000\n"));
}

// -- killed at every call

struct Killed {
    bool reached = false;
    std::string hit;
};

// Runs the program and ends it before its call number `call` below `under`.
Killed
kill_at(const RelayHome& home, const std::string& under, int call, const std::string& arguments) {
    const std::string report = home.root() + "/report";
    filesystem::remove(report);
    static_cast<void>(home.shell(
        std::string("'") + RELAY_FAULT_LAUNCHER + "' --under '" + under + "' --report '" + report
        + "' --kill " + std::to_string(call) + " -- '" + home.program() + "' " + arguments
        + " < /dev/null > /dev/null 2>&1"));
    const std::string text = read_text(report);
    const std::size_t hit = text.find("hit ");
    REQUIRE_MESSAGE(says(text, "calls "), "the launcher left no report: " << text);
    return {hit != std::string::npos, hit == std::string::npos ? "" : text.substr(hit)};
}

TEST_CASE("a compression that is killed at any call leaves a sound session and goes on") {
    const RelayHome home;
    home.forbid_daemon(true);
    const std::string store = home.root() + "/copy";
    const std::string output = long_output(1);
    const layout::Meta meta = example_meta(1);
    const std::string path = store + "/sessions/" + meta.id.text();
    int kills = 0;
    for (int call = 1;; ++call) {
        CAPTURE(call);
        filesystem::remove_all(store);
        static_cast<void>(write_session(store + "/sessions", meta, {{output, output, output}}));
        const Killed killed =
            kill_at(home, store, call, "prune --store ../copy --compress --keep 0 --yes");
        CAPTURE(killed.hit);
        CHECK_MESSAGE(damage_of(path).empty(), damage_of(path));
        CHECK(home.shell("agent-relay show --store ../copy --output @latest").out == output);
        if (!killed.reached) {
            break;
        }
        ++kills;
        CHECK(
            home.shell("agent-relay prune --store ../copy --compress --keep 0 --yes").status == 0);
        CHECK(
            tree_of(path + "/turns")
            == std::vector<std::string>{
                "001-output.md.zst", "001-prompt.md.zst", "001-state.json", "001-stderr.log.zst"});
        CHECK_MESSAGE(damage_of(path).empty(), damage_of(path));
    }
    CHECK(kills > 30);
}

TEST_CASE("a deletion that is killed at any call leaves the session whole in one of two places") {
    const RelayHome home;
    home.forbid_daemon(true);
    const std::string store = home.root() + "/copy";
    const std::string id = example_meta(2).id.text();
    int kills = 0;
    for (int call = 1;; ++call) {
        CAPTURE(call);
        filesystem::remove_all(store);
        static_cast<void>(write_session(store + "/sessions", example_meta(1), {{"p", "o"}}));
        static_cast<void>(write_session(store + "/sessions", example_meta(2), {{"p", "o"}}));
        filesystem::create_symlink("sessions/" + id, store + "/latest");
        const Killed killed = kill_at(home, store, call, "delete --store ../copy --yes " + id);
        CAPTURE(killed.hit);
        const std::string here = store + "/sessions/" + id;
        const std::string there = store + "/trash/" + id;
        CHECK(exists(here) != exists(there));
        CHECK(damage_of(exists(here) ? here : there).empty());
        if (exists(there)) {
            CHECK(exists(there + ".json"));
            CHECK(home.shell("agent-relay delete --store ../copy --undo " + id).status == 0);
        }
        CHECK(home.shell("agent-relay delete --store ../copy --yes " + id).status == 0);
        CHECK(
            filesystem::read_symlink(store + "/latest").string()
            == "sessions/" + example_meta(1).id.text());
        if (!killed.reached) {
            break;
        }
        ++kills;
    }
    CHECK(kills > 10);
}

}  // namespace
}  // namespace relay::tests
