// SPDX-License-Identifier: Apache-2.0

// A secret that was found later: overwritten everywhere in its session, killed at every call, and gone on with.

#include "layout/session_reader.hpp"
#include "tests/end_to_end/relay_home.hpp"
#include "tests/support/written_session.hpp"

#include <boost/filesystem.hpp>
#include <doctest/doctest.h>
#include <relay_built_here.hpp>

#include <sstream>
#include <string>

namespace relay::tests {
namespace {

namespace filesystem = boost::filesystem;

const std::string secret = "hunter2-is-the-word";
const std::string masked = "[REDACTED:scrub]***";

bool says(const std::string& text, const std::string& words) {
    return text.find(words) != std::string::npos;
}

// Two turns, one of them compressed, and the word in every kind of file.
void write_example(const std::string& store) {
    layout::Meta meta = example_meta(1);
    meta.objective = "use " + secret;
    meta.preview = "use " + secret;
    meta.labels = {secret};
    const std::string path = write_session(
        store + "/sessions",
        meta,
        {{"use " + secret, "said " + secret + " twice: " + secret + "\n", secret},
         {"next", std::string(2000, 'x') + secret + "\n", "fine\n"}});
    compress_file(path + "/turns/002-output.md");
    filesystem::create_directories(path + "/attachments");
    write_text(path + "/attachments/a.env", "PASSWORD=" + secret + "\n");
    write_text(path + "/resume.json", R"({"objective":"use )" + secret + "\"}\n");
    std::string lines = read_text(path + "/events.jsonl");
    lines +=
        R"({"seq":900,"at":"2026-11-01T00:00:00.000Z","type":"turn.note","turn":2,"kind":"x","payload":"a \")"
        + secret + "\\\"\"}\n";
    write_text(path + "/events.jsonl", lines);
}

std::string path_in(const std::string& store) {
    return store + "/sessions/" + example_meta(1).id.text();
}

// Compressed files too.
bool holds_secret(const std::string& directory) {
    return !run_shell(
                "grep -rl --text -e " + secret + " '" + directory + "'; for f in $(find '"
                + directory + "' -name '*.zst'); do zstd -dc $f | grep -q " + secret
                + " && echo $f; done")
                .out.empty();
}

void check_scrubbed(const std::string& path) {
    CHECK_FALSE(holds_secret(path));
    CHECK_MESSAGE(damage_of(path).empty(), damage_of(path));
    CHECK(read_text(path + "/turns/001-prompt.md") == "use " + masked);
    CHECK(
        read_text(path + "/turns/001-output.md") == "said " + masked + " twice: " + masked + "\n");
    const Json meta = Json::parse(read_text(path + "/meta.json"));
    CHECK(meta["objective"] == "use " + masked);
    CHECK(meta["labels"][0] == masked);
    const std::string lines = read_text(path + "/events.jsonl");
    const std::string last = lines.substr(lines.rfind('\n', lines.size() - 2) + 1);
    CHECK(Json::parse(last)["type"] == "recorder.scrub");
    CHECK(Json::parse(last)["seq"] == 901);
    CHECK(meta["capture"]["redactions"] == Json::parse(last)["matches"]);
    CHECK_FALSE(exists(path + "/.scrub.tmp"));
}

TEST_CASE("a scrub overwrites every match in every file and the seals are whole again") {
    const RelayHome home;
    home.forbid_daemon(true);
    const std::string store = home.root() + "/copy";
    write_example(store);
    const std::string path = path_in(store);
    const std::string before =
        run_shell("cd '" + path + "' && find . -type f | sort | xargs sha256sum").out;
    const std::string scrub = "agent-relay scrub --store ../copy @latest ";
    const std::string index = home.root() + "/relay/cache/index.sqlite";
    CHECK(home.shell("agent-relay index rebuild --store ../copy").status == 0);
    const ProgramEnd dry = home.shell(scrub + "--dry-run --pattern 'hunter[0-9]-[a-z-]+'");
    CHECK(dry.status == 0);
    CHECK(exists(index));
    CHECK(says(dry.out, "turns/001-output.md: 2\n"));
    CHECK(says(dry.out, "turns/002-output.md.zst: 1\n"));
    CHECK(says(dry.out, " places would be overwritten in session "));
    CHECK(run_shell("cd '" + path + "' && find . -type f | sort | xargs sha256sum").out == before);
    const ProgramEnd done = home.shell(scrub + "--pattern 'hunter[0-9]-[a-z-]+'");
    CHECK_MESSAGE(done.status == 0, done.err);
    check_scrubbed(path);
    CHECK(!exists(index));
    CHECK(Json::parse(home.shell(scrub + "--json --pattern hunter2").out)["matches"] == 0);
    CHECK(says(home.shell("agent-relay show --store ../copy @latest:2 --output").out, masked));
}

TEST_CASE("a scrub refuses what it cannot do") {
    const RelayHome home;
    home.forbid_daemon(true);
    const std::string store = home.root() + "/copy";
    write_example(store);
    const std::string scrub = "agent-relay scrub --store ../copy @latest ";
    CHECK(home.shell(scrub).status == 2);
    CHECK(home.shell("agent-relay scrub --store ../copy --pattern x").status == 2);
    CHECK(says(home.shell(scrub + "--pattern '('").err, "RE2"));
    CHECK(says(home.shell(scrub + "--pattern 'x*'").err, "empty text"));
    const ProgramEnd broad = home.shell(scrub + "--pattern '[a-z]+'");
    CHECK(broad.status == 2);
    CHECK(says(broad.err, "narrower"));
    CHECK_MESSAGE(damage_of(path_in(store)).empty(), damage_of(path_in(store)));
    layout::Meta running = example_meta(2);
    running.status = layout::SessionStatus::active;
    static_cast<void>(write_session(store + "/sessions", running, {{"p", secret}}));
    const ProgramEnd busy = home.shell(scrub + "--pattern hunter2");
    CHECK(busy.status == 1);
    CHECK(says(busy.err, "is running"));
}

TEST_CASE("a list that somebody planted moves nothing out of the session") {
    const RelayHome home;
    home.forbid_daemon(true);
    const std::string store = home.root() + "/copy";
    write_example(store);
    const std::string path = path_in(store);
    filesystem::create_directories(path + "/.scrub.tmp");
    write_text(path + "/.scrub.tmp/ready", "../../../stolen\n");
    const ProgramEnd end =
        home.shell("agent-relay scrub --store ../copy @latest --pattern hunter2");
    CHECK(end.status == 1);
    CHECK(says(end.err, "no file of a session"));
}

TEST_CASE("a scrub that is killed at any call is undone or finished by the next") {
    const RelayHome home;
    home.forbid_daemon(true);
    const std::string store = home.root() + "/copy";
    const std::string path = path_in(store);
    int kills = 0;
    for (int call = 1;; ++call) {
        CAPTURE(call);
        filesystem::remove_all(store);
        write_example(store);
        const std::string report = home.root() + "/report";
        filesystem::remove(report);
        static_cast<void>(home.shell(
            "'" RELAY_FAULT_LAUNCHER "' --under '" + store + "' --report '" + report + "' --kill "
            + std::to_string(call) + " -- '" + home.program()
            + "' scrub --store ../copy @latest --pattern " + secret + " > /dev/null 2>&1"));
        const std::string told = read_text(report);
        REQUIRE_MESSAGE(says(told, "calls "), told);
        if (!says(told, "hit ")) {
            check_scrubbed(path);
            break;
        }
        ++kills;
        const bool begun = exists(path + "/.scrub.tmp/ready");
        CHECK_MESSAGE((begun || damage_of(path).empty()), damage_of(path));
        const ProgramEnd next =
            home.shell("agent-relay scrub --store ../copy @latest --pattern " + secret);
        CHECK_MESSAGE(next.status == 0, next.err);
        check_scrubbed(path);
    }
    CHECK(kills > 30);
}

TEST_CASE("a session that was scrubbed goes on also for a client that never left") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "use " + secret}}));
    CHECK_ACK(client.ask("turn.output", session.id, {{"text", secret + "\n"}}));
    CHECK_ACK(client.ask("turn.end", session.id));
    CHECK_ACK(client.ask("session.checkpoint", session.id, {{"reason", "pause"}}));
    auto environment = daemon.environment();
    environment["AGENT_RELAY_SOCKET"] = daemon.socket();
    const ProgramEnd end =
        run_program({RELAY_CLI_BINARY, "scrub", session.id, "--pattern", secret}, environment);
    CHECK_MESSAGE(end.status == 0, end.err);
    CHECK_FALSE(holds_secret(session.path));
    CHECK_MESSAGE(damage_of(session.path).empty(), damage_of(session.path));
    CHECK_ACK(client.ask("session.attach", session.id, {{"reopen", true}}));
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "go on"}}));
    CHECK_ACK(client.ask("turn.output", session.id, {{"text", "done\n"}}));
    CHECK_ACK(client.ask("turn.end", session.id));
    CHECK_ACK(client.ask("session.end", session.id));
    CHECK_FALSE(holds_secret(session.path));
    CHECK_MESSAGE(damage_of(session.path).empty(), damage_of(session.path));
    CHECK_FALSE(exists(session.path + "/recovered"));
    CHECK(session.meta()["turn_count"] == 2);
    CHECK(session.timeline().back()["type"] == "session.end");
}

}  // namespace
}  // namespace relay::tests
