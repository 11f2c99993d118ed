// SPDX-License-Identifier: Apache-2.0
#include "layout/sha256.hpp"
#include "tests/end_to_end/recording.hpp"
#include "tests/support/eventually.hpp"

#include <doctest/doctest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <array>

namespace relay::tests {
namespace {

DaemonSetup own_stores() {
    DaemonSetup setup = small_journal();
    setup.relocated = false;
    return setup;
}

TEST_CASE("everything in a store is private whatever the umask") {
    DaemonProcess daemon(own_stores());
    const std::string repo = daemon.root() + "/repo";
    REQUIRE(make_repository(repo));
    const mode_t before = ::umask(0);
    const bool started = daemon.start();
    ::umask(before);
    REQUIRE_MESSAGE(started, daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, repo);
    CHECK(session.path == repo + "/.agent-relay/sessions/" + session.id);
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "p"}}));
    CHECK_ACK(client.ask("turn.output", session.id, {{"text", "o"}}));
    CHECK_ACK(client.ask("turn.stderr", session.id, {{"text", "e"}}));
    CHECK_ACK(client.ask("session.attachment", session.id, {{"name", "n"}, {"data", "YQ=="}}));
    CHECK_ACK(client.ask("turn.end", session.id, {{"diff", "d"}}));
    CHECK_ACK(client.ask("session.checkpoint", session.id, {{"reason", "manual"}}));
    int files = 0;
    for (const std::string& store : {repo + "/.agent-relay", daemon.state()}) {
        CHECK(mode_of(store) == 0700);
        for (const std::string& name : tree_of(store)) {
            CAPTURE(name);
            struct stat found {};
            REQUIRE(::lstat((store + "/" + name).c_str(), &found) == 0);
            if (!S_ISLNK(found.st_mode)) {
                CHECK((found.st_mode & 07777) == (name.ends_with('/') ? 0700 : 0600));
                ++files;
            }
        }
    }
    CHECK(files > 12);
    CHECK(mode_of(daemon.socket()) == 0600);
}

TEST_CASE("meta json is exact at each ack") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(
        client,
        daemon.work(),
        {{"agent", "claude-code"},
         {"command", {"claude", "-p", "x y"}},
         {"name", "n"},
         {"model", "m"},
         {"user", "u"},
         {"labels", {"l"}},
         {"pid", ::getpid()},
         {"extra", {{"k", "v"}}}});
    Json meta = session.meta();
    REQUIRE(meta.is_object());
    for (const char* const key : {"v",          "id",
                                  "slug",       "name",
                                  "status",     "agent",
                                  "model",      "command",
                                  "cwd",        "repo",
                                  "user",       "host",
                                  "pid",        "started_at",
                                  "ended_at",   "updated_at",
                                  "exit_code",  "error",
                                  "turn_count", "current_turn",
                                  "objective",  "preview",
                                  "tokens",     "cost_usd",
                                  "labels",     "flagged",
                                  "archived",   "unread",
                                  "stage",      "parent",
                                  "capture",    "chain",
                                  "extra",      "checkpoint_reason"}) {
        CHECK_MESSAGE(meta.contains(key), key);
    }
    CHECK(meta["v"] == 1);
    CHECK(meta["id"] == session.id);
    CHECK(meta["slug"] == session.slug);
    CHECK(meta["status"] == "active");
    CHECK(meta["agent"] == "claude-code");
    CHECK(meta["command"] == Json({"claude", "-p", "x y"}));
    CHECK(meta["cwd"] == daemon.work());
    CHECK(meta["repo"].is_null());
    CHECK(meta["user"] == "u");
    CHECK(meta["pid"] == ::getpid());
    CHECK(meta["host"].is_string());
    CHECK(meta["turn_count"] == 0);
    CHECK(meta["current_turn"].is_null());
    CHECK(meta["objective"].is_null());
    CHECK(meta["tokens"]["total"].is_null());
    CHECK(meta["cost_usd"].is_null());
    CHECK(meta["labels"] == Json::array({"l"}));
    CHECK(meta["extra"]["k"] == "v");
    CHECK(meta["chain"].is_null());

    const std::string prompt = "first line\n" + std::string(3000, 'p');
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", prompt}}));
    CHECK(eventually([&] { return session.meta()["current_turn"] == 1; }, std::chrono::seconds(3)));
    CHECK_ACK(client.ask("turn.end", session.id, {{"tokens", {{"input", 3}}}}));
    meta = session.meta();
    CHECK(meta["turn_count"] == 1);
    CHECK(meta["current_turn"].is_null());
    CHECK(meta["objective"].get<std::string>() == prompt.substr(0, 2048));
    CHECK(meta["preview"].get<std::string>().starts_with("first line p"));
    CHECK(meta["preview"].get<std::string>().find('\n') == std::string::npos);
    CHECK(meta["tokens"]["input"] == 3);
    CHECK(meta["tokens"]["output"].is_null());
    CHECK(meta["cost_usd"].is_null());
    CHECK(meta["chain"] == session.json("turns/001-state.json")["chain"]);

    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "again"}}));
    CHECK_ACK(client.ask(
        "turn.end", session.id, {{"tokens", {{"input", 4}, {"total", 9}}}, {"cost_usd", 0.5}}));
    meta = session.meta();
    CHECK(meta["turn_count"] == 2);
    CHECK(meta["tokens"]["input"] == 7);
    CHECK(meta["tokens"]["total"] == 9);
    CHECK(meta["tokens"]["cache_read"].is_null());
    CHECK(meta["cost_usd"] == 0.5);

    CHECK_ACK(client.ask("session.end", session.id, {{"exit_code", 2}, {"error", "it broke"}}));
    meta = session.meta();
    CHECK(meta["status"] == "completed");
    CHECK(meta["exit_code"] == 2);
    CHECK(meta["error"] == "it broke");
    CHECK(meta["ended_at"].is_string());
    CHECK(damage_of(session.path).empty());
}

TEST_CASE("a prompt is whole and output is visible at its ack") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    const std::string prompt(1'500'000, 'q');
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", prompt}}));
    CHECK(session.text("turns/001-prompt.md") == prompt);
    CHECK(session.has("turns/001-output.md"));
    CHECK_FALSE(session.has("turns/001-stderr.log"));
    struct stat first {};
    REQUIRE(::stat(session.file("turns/001-output.md").c_str(), &first) == 0);
    std::string all;
    for (int piece = 0; piece < 200; ++piece) {
        const std::string text = "piece " + std::to_string(piece) + " ü\n";
        const Json answer = client.ask("turn.output", session.id, {{"text", text}});
        REQUIRE_MESSAGE(is_ack(answer), answer.dump());
        all += text;
        REQUIRE(session.text("turns/001-output.md") == all);
    }
    // The same file all the time: `tail -f` holds on to it.
    struct stat last {};
    REQUIRE(::stat(session.file("turns/001-output.md").c_str(), &last) == 0);
    CHECK(first.st_ino == last.st_ino);
    CHECK_FALSE(session.has("turns/001-state.json"));
}

TEST_CASE("anybody can verify a session with the shell") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    for (int turn = 1; turn <= 3; ++turn) {
        CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "p" + std::to_string(turn)}}));
        CHECK_ACK(client.ask("turn.output", session.id, {{"text", std::string(1000, 'o')}}));
        CHECK_ACK(client.ask("turn.stderr", session.id, {{"text", "e"}}));
        // A value that looks like the chain's line must not mislead the pipeline.
        CHECK_ACK(client.ask(
            "turn.end", session.id, {{"diff", "d"}, {"extra", {{"chain", "\n  \"chain\": \""}}}}));
    }
    if (run_shell("command -v jq sha256sum sed").status != 0) {
        MESSAGE("skipped: jq, sha256sum or sed is missing");
        return;
    }
    const ProgramEnd files =
        run_shell("cd '" + session.path + R"sh(/turns' && for n in 001 002 003; do
            for part in prompt.md output.md stderr.log diff.patch; do
                key=${part%.*}
                said=$(jq -r ".$key.sha256" $n-state.json)
                seen=$(sha256sum < $n-$part | cut -d' ' -f1)
                [ "$said" = "$seen" ] || echo "$n-$part differs: $said $seen"
                said=$(jq -r ".$key.bytes" $n-state.json)
                [ "$said" = "$(stat -c %s $n-$part)" ] || echo "$n-$part has another size"
            done
        done)sh");
    CHECK(files.status == 0);
    CHECK(files.out.empty());
    CHECK(files.err.empty());
    const ProgramEnd chain = run_shell(
        "cd '" + session.path
        + R"sh(/turns' && previous=$(printf '%064d' 0) && for n in 001 002 003; do
            said=$(jq -r .chain $n-state.json)
            seen=$({ echo "$previous"; sed '/^  "chain": "/d' $n-state.json; } | sha256sum | cut -d' ' -f1)
            [ "$said" = "$seen" ] || echo "$n differs: $said $seen"
            previous=$said
        done; echo $previous)sh");
    CHECK(chain.status == 0);
    CHECK(chain.out == session.meta()["chain"].get<std::string>() + "\n");
    CHECK(damage_of(session.path).empty());
}

TEST_CASE("the timeline numbers every event and points at the bulk") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "p"}}));
    std::string all;
    for (int piece = 0; piece < 50; ++piece) {
        CHECK_ACK(client.ask("turn.output", session.id, {{"text", "0123456789"}}));
    }
    CHECK_ACK(client.ask("turn.stderr", session.id, {{"text", "err"}}));
    CHECK_ACK(client.ask("turn.end", session.id));
    CHECK_ACK(client.ask("session.end", session.id));
    std::int64_t last_seq = -1;
    std::int64_t output_bytes = 0;
    std::int64_t stderr_bytes = 0;
    std::string types;
    const std::vector<Json> lines = session.timeline();
    for (const Json& line : lines) {
        REQUIRE(line.is_object());
        CHECK(line["seq"].get<std::int64_t>() > last_seq);
        last_seq = line["seq"].get<std::int64_t>();
        CHECK(line["at"].get<std::string>().size() == 24);
        CHECK(line["at"].get<std::string>().ends_with('Z'));
        const std::string type = line["type"].get<std::string>();
        if (type == "turn.output" || type == "turn.stderr") {
            std::int64_t& bytes = type == "turn.output" ? output_bytes : stderr_bytes;
            CHECK(line["turn"] == 1);
            CHECK(line["offset"] == bytes);
            bytes += line["bytes"].get<std::int64_t>();
            CHECK_FALSE(line.contains("text"));
        } else {
            types += type + " ";
        }
    }
    CHECK(types == "session.start turn.start turn.end session.end ");
    CHECK(output_bytes == 500);
    CHECK(stderr_bytes == 3);
    CHECK(last_seq == 54);
    CHECK(session.text("events.jsonl").ends_with('\n'));
}

TEST_CASE("the link named latest points at the newest session") {
    DaemonProcess daemon(own_stores());
    const std::string repo = daemon.root() + "/repo";
    REQUIRE(make_repository(repo));
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const auto target = [&repo] {
        std::array<char, 256> buffer{};
        const ssize_t count =
            ::readlink((repo + "/.agent-relay/latest").c_str(), buffer.data(), buffer.size());
        return std::string(buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    };
    const Recording first = start_session(client, repo);
    CHECK(target() == "sessions/" + first.id);
    const Recording second = start_session(client, repo);
    CHECK(target() == "sessions/" + second.id);
    const Recording passing = start_session(client, repo, {{"ephemeral", true}});
    CHECK_ACK(passing.answer);
    CHECK(target() == "sessions/" + second.id);
}

TEST_CASE("a repository stays clean for git and its own gitignore is never rewritten") {
    DaemonProcess daemon(own_stores());
    const std::string repo = daemon.root() + "/repo";
    REQUIRE(make_repository(repo));
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    ::mkdir((repo + "/deep").c_str(), 0755);
    const Recording session = start_session(client, repo + "/deep");
    CHECK(session.path.starts_with(repo + "/.agent-relay/sessions/"));
    const Json meta = session.meta();
    CHECK(meta["repo"]["root"] == repo);
    CHECK(meta["repo"]["branch"] == "main");
    CHECK(meta["repo"]["head"].get<std::string>().size() == 40);
    const std::string ignore = repo + "/.agent-relay/.gitignore";
    CHECK(read_text(ignore).find('*') != std::string::npos);
    CHECK(read_text(ignore).find("!config.toml") != std::string::npos);
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "p"}}));
    CHECK_ACK(client.ask("turn.end", session.id));
    ProgramEnd status = run_shell("git -C '" + repo + "' status --porcelain");
    CHECK(status.status == 0);
    CHECK(status.out.empty());
    write_text(repo + "/.agent-relay/config.toml", "");
    status = run_shell("git -C '" + repo + "' status --porcelain --untracked-files=all");
    CHECK(status.out == "?? .agent-relay/config.toml\n");

    write_text(ignore, "mine\n");
    CHECK_ACK(start_session(client, repo).answer);
    CHECK(read_text(ignore) == "mine\n");
}

TEST_CASE("a linked worktree is recorded in the store of the main one") {
    DaemonProcess daemon(own_stores());
    const std::string repo = daemon.root() + "/repo";
    const std::string linked = daemon.root() + "/linked";
    REQUIRE(make_repository(repo));
    REQUIRE(
        run_shell("git -C '" + repo + "' worktree add -q -b side '" + linked + "'").status == 0);
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, linked);
    CHECK(session.path == repo + "/.agent-relay/sessions/" + session.id);
    CHECK(session.meta()["cwd"] == linked);
    CHECK(session.meta()["repo"]["branch"] == "side");
    CHECK_FALSE(exists(linked + "/.agent-relay"));
}

TEST_CASE("outside of a repository or when asked the user store is used") {
    DaemonProcess daemon(own_stores());
    const std::string repo = daemon.root() + "/repo";
    REQUIRE(make_repository(repo));
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const std::string user_store = daemon.state() + "/sessions/";
    CHECK(start_session(client, daemon.work()).path.starts_with(user_store));
    CHECK(start_session(client, repo, {{"store", "user"}}).path.starts_with(user_store));
    CHECK_FALSE(exists(daemon.work() + "/.agent-relay"));
    CHECK_FALSE(exists(repo + "/.agent-relay"));
}

TEST_CASE("resume json exists only while the session is checkpointed and says who said what") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording root = start_session(client, daemon.work());
    const Recording session = start_session(
        client,
        daemon.work(),
        {{"agent", "codex"}, {"parent", {{"session", root.id}, {"relation", "resume"}}}});
    CHECK(session.meta()["parent"]["session"] == root.id);
    const auto note = [&](const char* kind, const Json& payload) {
        CHECK_ACK(client.ask("turn.note", session.id, {{"kind", kind}, {"payload", payload}}));
    };
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "build it"}}));
    note("decision", {{"id", "d1"}, {"summary", "use C++"}, {"why", "speed"}});
    CHECK_ACK(client.ask(
        "turn.end",
        session.id,
        {{"validation", {{"tests", "green"}}},
         {"files", {{{"path", "a.cpp"}, {"status", "modified"}}}}}));
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "more"}}));
    CHECK_ACK(client.ask("turn.output", session.id, {{"text", "the last words"}}));
    note("blocker", {{"summary", "no network"}, {"evidence", "ping"}});
    CHECK_FALSE(session.has("resume.json"));
    CHECK_ACK(client.ask(
        "session.checkpoint",
        session.id,
        {{"reason", "rate_limit"},
         {"decisions", {{{"summary", "stop here"}}}},
         {"limit", {{"kind", "rate"}, {"resets_at", "2030-01-01T00:00:00.000Z"}}}}));

    const Json packet = session.json("resume.json");
    REQUIRE(packet.is_object());
    CAPTURE(packet.dump(2));
    CHECK(packet["v"] == 1);
    CHECK(packet["session_id"] == session.id);
    CHECK(packet["previous_agent"] == "codex");
    CHECK(packet["checkpoint_reason"] == "rate_limit");
    CHECK(packet["turn_count"] == 2);
    REQUIRE(packet["decisions"].size() == 2);
    CHECK(packet["decisions"][0]["summary"] == "use C++");
    CHECK(packet["decisions"][0]["why"] == "speed");
    CHECK(packet["decisions"][0]["source"] == "declared");
    CHECK(packet["decisions"][0]["turn"] == 1);
    CHECK(packet["decisions"][1]["summary"] == "stop here");
    CHECK(packet["decisions"][1]["turn"] == 2);
    REQUIRE(packet["blockers"].size() == 1);
    CHECK(packet["blockers"][0]["source"] == "declared");
    CHECK(packet["blockers"][0]["turn"] == 2);
    CHECK(packet["touched_files"][0]["path"] == "a.cpp");
    CHECK(packet["validation_state"]["tests"]["value"] == "green");
    CHECK(packet["validation_state"]["tests"]["turn"] == 1);
    CHECK(packet["validation_state"]["tests"].contains("source"));
    CHECK_FALSE(packet.contains("next_task"));
    CHECK(packet["objective"] == "build it");
    CHECK(packet["last_turn"]["turn"] == 2);
    CHECK(packet["last_turn"]["status"] == "interrupted");
    CHECK(packet["last_turn"]["output_tail"] == "the last words");
    CHECK(packet["last_turn"]["prompt_file"] == "turns/002-prompt.md");
    CHECK(packet["tokens"]["total"].is_null());
    CHECK(packet["cost_usd"].is_null());
    CHECK(packet["limit"]["resets_at"] == "2030-01-01T00:00:00.000Z");
    CHECK(packet["lineage"] == Json({root.id, session.id}));

    CHECK_ACK(client.ask("session.end", session.id));
    CHECK_FALSE(session.has("resume.json"));
    CHECK(session.meta()["status"] == "completed");
}

TEST_CASE("no temporary file stays behind") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    for (int turn = 0; turn < 5; ++turn) {
        CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "p"}}));
        CHECK_ACK(client.ask("turn.end", session.id));
    }
    REQUIRE_MESSAGE(daemon.restart(), daemon.log());
    for (const std::string& name : tree_of(session.path)) {
        CHECK_MESSAGE(name.find(".tmp") == std::string::npos, name);
    }
}

TEST_CASE("turn numbers grow to four digits after nine hundred and ninety nine") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work());
    std::string lines;
    for (int turn = 1; turn <= 1001; ++turn) {
        lines += event("turn.start", session.id, {{"prompt", "p"}}).dump() + "\n";
        lines += event("turn.end", session.id).dump() + "\n";
    }
    REQUIRE(client.send_bytes(lines));
    // A disk that is busy with other things for seconds counts as ill for a while.
    Json flushed;
    CHECK_MESSAGE(
        eventually([&] {
            flushed = client.request({{"type", "flush"}}, std::chrono::seconds(60));
            return !flushed.value("deferred", false);
        }),
        daemon.log());
    CHECK_ACK(flushed);
    CHECK(session.has("turns/001-state.json"));
    CHECK(session.has("turns/999-state.json"));
    CHECK(session.has("turns/1000-state.json"));
    CHECK(session.has("turns/1001-state.json"));
    CHECK(damage_of(session.path).empty());
}

}  // namespace
}  // namespace relay::tests
