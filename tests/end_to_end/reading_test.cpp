// SPDX-License-Identifier: Apache-2.0

// Every reading command through the real program: on what a daemon recorded, on what nobody should have made
// of it, on a copied store, at a terminal and in a pipe.

#include "tests/end_to_end/recording.hpp"
#include "tests/support/pseudo_terminal.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/written_session.hpp"

#include <boost/filesystem.hpp>
#include <doctest/doctest.h>
#include <relay_built_here.hpp>

#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace relay::tests {
namespace {

namespace filesystem = boost::filesystem;

std::vector<std::string> relay(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), RELAY_CLI_BINARY);
    return arguments;
}

std::vector<Json> lines_of(const std::string& text) {
    std::vector<Json> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
        lines.push_back(Json::parse(line, nullptr, /*allow_exceptions=*/false));
        CHECK_MESSAGE(lines.back().is_object(), line);
    }
    return lines;
}

std::string short_of(const std::string& id) {
    return id.substr(id.size() - 6);
}

// A home with three sessions in the user store: 1 and 2 completed, 3 checkpointed and going on from 2.
class Home {
public:
    Home() {
        layout::Meta second = example_meta(2);
        second.name = "parser";
        second.labels = {"bug"};
        layout::Meta third = example_meta(3);
        third.status = layout::SessionStatus::checkpointed;
        third.checkpoint_reason = "rate_limit";
        third.preview = "Task 3: evil \x1b]0;title\x07 preview";
        third.parent = layout::Parent{second.id.text(), 1, "resume"};
        static_cast<void>(write_session(
            sessions(),
            example_meta(1),
            {{"say hello\nplease", "hello\nworld\n", "warning: old\n"}}));
        static_cast<void>(write_session(
            sessions(), second, {{"first question", "first answer\n"}, {"second", "2\n"}}));
        static_cast<void>(write_session(
            sessions(),
            third,
            {{"evil \x1b]0;title\x07 prompt",
              "red \x1b[31mtext\x1b[0m\r\nlast line without end"}}));
    }

    [[nodiscard]] std::string sessions() const { return root_.path() + "/state/sessions"; }
    [[nodiscard]] std::map<std::string, std::string> environment() const {
        return {
            {"AGENT_RELAY_HOME", root_.path()},
            {"HOME", root_.path()},
            {"TZ", "UTC"},
            {"ASAN_OPTIONS", "detect_leaks=0"}};
    }
    [[nodiscard]] ProgramEnd run(std::vector<std::string> arguments) const {
        return run_program(relay(std::move(arguments)), environment());
    }

private:
    TemporaryDirectory root_;
};

std::string id_of(std::int64_t number) {
    return example_meta(number).id.text();
}

TEST_CASE("list shows the sessions of the store newest first in columns") {
    const Home home;
    const ProgramEnd end = home.run({"list"});
    CHECK(end.status == 0);
    CHECK(end.err.empty());
    std::istringstream lines(end.out);
    std::string line;
    std::getline(lines, line);
    CHECK(line.starts_with("ID      NAME"));
    CHECK(line.ends_with("PREVIEW"));
    for (const int number : {3, 2, 1}) {
        std::getline(lines, line);
        CAPTURE(line);
        CHECK(line.starts_with(short_of(id_of(number)) + "  "));
        CHECK(line.find("Task " + std::to_string(number) + ":") != std::string::npos);
    }
    CHECK(home.run({"ls"}).out == end.out);
    CHECK(end.out.find("parser  ") != std::string::npos);
    CHECK(end.out.find('\x1b') == std::string::npos);
}

TEST_CASE("list filters by every view and prints the documents as JSON lines") {
    const Home home;
    const auto ids = [&home](std::vector<std::string> flags) {
        flags.insert(flags.begin(), {"list", "--json"});
        std::vector<std::string> found;
        for (const Json& line : lines_of(home.run(flags).out)) {
            found.push_back(line.value("id", ""));
        }
        return found;
    };
    using Ids = std::vector<std::string>;
    CHECK(ids({}) == Ids{id_of(3), id_of(2), id_of(1)});
    CHECK(ids({"-n", "2"}) == Ids{id_of(3), id_of(2)});
    CHECK(ids({"--status", "checkpointed"}) == Ids{id_of(3)});
    CHECK(ids({"--agent", "codex"}) == Ids{id_of(1)});
    CHECK(ids({"--label", "bug"}) == Ids{id_of(2)});
    CHECK(ids({"--since", "2026-11-01T00:03"}) == Ids{id_of(3)});
    CHECK(ids({"--older-than", "2026-11-01T00:02"}) == Ids{id_of(1)});
    CHECK(ids({"--repo", "relay"}).size() == 3);
    CHECK(ids({"--flagged"}).empty());
    CHECK(ids({"--archived"}).empty());
    const std::vector<Json> lines = lines_of(home.run({"list", "--json"}).out);
    CHECK(lines.front()["path"] == home.sessions() + "/" + id_of(3));
    Json document = Json::parse(read_text(home.sessions() + "/" + id_of(3) + "/meta.json"));
    document["path"] = lines.front()["path"];
    CHECK(lines.front() == document);
    const ProgramEnd none = home.run({"list", "--flagged"});
    CHECK(none.status == 0);
    CHECK(none.out.empty());
    CHECK(
        none.err
        == "agent-relay: no session in " + home.sessions()
               + " fits; --all-repos looks in every store, --all also at archived ones\n");
}

TEST_CASE("a session that failed reads so without any colour and is found by it") {
    const Home home;
    layout::Meta failed = example_meta(4);
    failed.exit_code = 3;
    static_cast<void>(write_session(home.sessions(), failed));
    const ProgramEnd end = home.run({"list", "--status", "failed"});
    CHECK(end.out.find(" failed ") != std::string::npos);
    CHECK(end.out.find(short_of(id_of(4))) != std::string::npos);
    CHECK(end.out.find(short_of(id_of(1))) == std::string::npos);
    CHECK(lines_of(home.run({"list", "--status", "failed", "--json"}).out).size() == 1);
    CHECK(lines_of(home.run({"list", "--status", "completed", "--json"}).out).size() == 3);
}

TEST_CASE("show prints the conversation and each thing of it raw") {
    const Home home;
    const ProgramEnd all = home.run({"show", "@3"});
    CHECK(all.status == 0);
    CHECK(all.err.empty());
    CHECK(all.out.starts_with(example_meta(1).slug + "\nid        " + id_of(1) + "\n"));
    CHECK(
        all.out.find("── turn 1\n> say hello\n> please\n\nhello\nworld\n! warning: old\n── turn 1 "
                     "completed, 30s\n")
        != std::string::npos);
    CHECK(home.run({"show", "@3", "--prompt"}).out == "say hello\nplease");
    CHECK(home.run({"show", "@3:1", "--output"}).out == "hello\nworld\n");
    CHECK(home.run({"show", "@3", "--stderr"}).out == "warning: old\n");
    CHECK(home.run({"show", "parser", "--output"}).out == "first answer\n2\n");
    CHECK(home.run({"show", "parser:2", "--output"}).out == "2\n");
    CHECK(home.run({"show", "@3", "--path"}).out == home.sessions() + "/" + id_of(1) + "\n");
    CHECK(
        home.run({"show", "@3:1", "--path", "--output"}).out
        == home.sessions() + "/" + id_of(1) + "/turns/001-output.md\n");
    CHECK(
        home.run({"show", "@3:1", "--state"}).out
        == read_text(home.sessions() + "/" + id_of(1) + "/turns/001-state.json"));
    CHECK(
        home.run({"show", "@3", "--state"}).out
        == read_text(home.sessions() + "/" + id_of(1) + "/meta.json"));
    const std::vector<Json> lines = lines_of(home.run({"show", "@3", "--json"}).out);
    REQUIRE(lines.size() == 2);
    CHECK(lines[0]["type"] == "session");
    CHECK(lines[0]["meta"]["id"] == id_of(1));
    CHECK(lines[1]["prompt"] == "say hello\nplease");
    CHECK(lines[1]["stderr"] == "warning: old\n");
    CHECK(lines[1]["diff"].is_null());
    CHECK(lines[1]["state"]["status"] == "completed");
}

TEST_CASE("recorded escapes reach a terminal neither in a list nor in a conversation") {
    const Home home;
    for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
             {"list"},
             {"show"},
             {"show", "--output"},
             {"show", "--prompt"},
             {"watch", "@latest"},
             {"search", "evil"},
             {"search", "prompt"},
             {"tree"},
             {"show", "--json"},
             {"watch", "@latest", "--json"}}) {
        CAPTURE(command.front());
        auto environment = home.environment();
        environment["NO_COLOR"] = "1";
        PseudoTerminal terminal(relay(command), environment);
        CHECK(terminal.wait() == 0);
        CHECK_FALSE(terminal.shown().empty());
        CHECK_MESSAGE(terminal.shown().find('\x1b') == std::string::npos, terminal.shown());
        CHECK(terminal.shown().find('\x07') == std::string::npos);
    }
    // In a pipe the bytes are what was recorded.
    CHECK(
        home.run({"show", "@latest", "--output"}).out
        == "red \x1b[31mtext\x1b[0m\r\nlast line without end");
    CHECK(
        home.run({"show", "@latest"}).out.find("red \\x1b[31mtext\\x1b[0m\nlast line without end\n")
        != std::string::npos);
}

TEST_CASE("at a terminal a list has colours and fits into its columns") {
    const Home home;
    PseudoTerminal coloured(relay({"list"}), home.environment(), 100);
    CHECK(coloured.wait() == 0);
    CHECK(coloured.shown().find("\x1b[33mcheckpointed\x1b[0m") != std::string::npos);
    auto configured = home.environment();
    configured["AGENT_RELAY_DEFAULT__NO_COLOR"] = "true";
    PseudoTerminal by_flag(relay({"list", "--no-color"}), home.environment(), 100);
    PseudoTerminal by_configuration(relay({"list"}), configured, 100);
    for (PseudoTerminal* const plain : {&by_flag, &by_configuration}) {
        CHECK(plain->wait() == 0);
        CHECK(plain->shown().find("checkpointed") != std::string::npos);
        CHECK(plain->shown().find('\x1b') == std::string::npos);
    }
    for (const unsigned columns : {40U, 48U, 55U, 60U, 80U, 120U}) {
        auto environment = home.environment();
        environment["NO_COLOR"] = "1";
        PseudoTerminal terminal(relay({"list"}), environment, static_cast<unsigned short>(columns));
        CHECK(terminal.wait() == 0);
        std::istringstream lines(terminal.shown());
        for (std::string line; std::getline(lines, line);) {
            std::size_t width = 0;
            for (const char byte : line) {
                width +=
                    (static_cast<unsigned char>(byte) & 0xc0U) != 0x80U && byte != '\r' ? 1 : 0;
            }
            CAPTURE(line);
            CHECK(width <= columns);
        }
        CHECK((terminal.shown().find("TOKENS") != std::string::npos) == (columns >= 100));
    }
}

TEST_CASE("what is longer than the screen goes through the pager and what is not does not") {
    const Home home;
    auto environment = home.environment();
    environment["PAGER"] = "sed 's/^/paged: /'";
    PseudoTerminal tall(relay({"list"}), environment, 80, 24);
    CHECK(tall.wait() == 0);
    CHECK(tall.shown().find("paged: ") == std::string::npos);
    PseudoTerminal small(relay({"list"}), environment, 80, 3);
    CHECK(small.wait() == 0);
    CHECK(small.shown().starts_with("paged: "));
    CHECK(small.shown().find(short_of(id_of(1))) != std::string::npos);
    environment["AGENT_RELAY_PAGER"] = "no-such-pager --fast";
    PseudoTerminal missing(relay({"list"}), environment, 80, 3);
    CHECK(missing.wait() == 0);
    CHECK(missing.shown().find(short_of(id_of(1))) != std::string::npos);
    environment["AGENT_RELAY_PAGER"] = "cat";
    PseudoTerminal none(relay({"list"}), environment, 80, 3);
    CHECK(none.wait() == 0);
    CHECK(none.shown().find("paged: ") == std::string::npos);
    CHECK(none.shown().find(short_of(id_of(1))) != std::string::npos);
}

TEST_CASE("search finds words by session and turn and line") {
    const Home home;
    const ProgramEnd found = home.run({"search", "answer"});
    CHECK(found.status == 0);
    CHECK(found.out == short_of(id_of(2)) + ":1 output:1: first answer\n");
    const ProgramEnd nothing = home.run({"search", "FIRST"});
    CHECK(nothing.status == 1);
    CHECK(nothing.out.empty());
    CHECK(
        nothing.err
        == "agent-relay: nothing was found in 3 sessions of " + home.sessions()
               + "; --all-repos looks in every store\n");
    CHECK(
        home.run({"search", "first"}).out
        == short_of(id_of(2)) + ":1 prompt:1: first question\n" + short_of(id_of(2))
               + ":1 output:1: first answer\n");
    CHECK(home.run({"search", "first", "-n", "1"}).out.find("answer") == std::string::npos);
    CHECK(
        home.run({"search", "--regex", "^w(orld|arn)"}).out
        == short_of(id_of(1)) + ":1 output:2: world\n" + short_of(id_of(1))
               + ":1 stderr:1: warning: old\n");
    CHECK(home.run({"search", "world", "--agent", "gemini"}).status == 1);
    const std::vector<Json> lines = lines_of(home.run({"search", "--json", "world"}).out);
    REQUIRE(lines.size() == 1);
    CHECK(
        lines[0]
        == Json{
            {"v", 1},
            {"session", id_of(1)},
            {"slug", example_meta(1).slug},
            {"turn", 1},
            {"stream", "output"},
            {"line", 2},
            {"text", "world"},
            {"path", home.sessions() + "/" + id_of(1) + "/turns/001-output.md"}});
    CHECK(home.run({"search"}).status == 2);
    CHECK(home.run({"search", "--regex", "a("}).status == 2);
}

TEST_CASE("metrics sum tokens and cost and time by session or agent or day or chain") {
    const Home home;
    const auto rows = [&home](std::vector<std::string> flags) {
        flags.insert(flags.begin(), {"metrics", "--json"});
        return lines_of(home.run(flags).out);
    };
    std::vector<Json> by_agent = rows({"--by", "agent"});
    REQUIRE(by_agent.size() == 4);
    CHECK(by_agent[0]["key"] == "claude-code");
    CHECK(by_agent[3]["by"] == "total");
    CHECK(by_agent[3]["sessions"] == 3);
    CHECK(by_agent[3]["turns"] == 4);
    CHECK(by_agent[3]["tokens"]["input"] == 3006);
    CHECK(by_agent[3]["tokens"]["reasoning"].is_null());
    CHECK(by_agent[3]["cost_usd"] == 0.75);
    CHECK(by_agent[3]["wall_ms"] == 90000);
    CHECK(rows({"--by", "day"})[0]["key"] == "2026-11-01");
    const std::vector<Json> chain = rows({"--chain", id_of(3)});
    REQUIRE(chain.size() == 3);
    CHECK(chain[0]["key"] == id_of(2));
    CHECK(chain[1]["key"] == id_of(3));
    CHECK(chain[2]["sessions"] == 2);

    const ProgramEnd table = home.run({"metrics"});
    CHECK(table.status == 0);
    CHECK(table.out.starts_with("SESSION "));
    CHECK(table.out.find("\ntotal ") != std::string::npos);
    layout::Meta parts = example_meta(4);
    parts.agent = "parts";
    parts.tokens = {};
    parts.tokens.input = 1200;
    parts.tokens.output = 300;
    static_cast<void>(write_session(home.sessions(), parts));
    for (const char* const command : {"list", "metrics"}) {
        CAPTURE(command);
        CHECK(home.run({command, "--agent", "parts"}).out.find("  1.5k  ") != std::string::npos);
    }
    CHECK(home.run({"metrics", "--agent", "nobody"}).status == 2);
    CHECK(home.run({"metrics", "--chain", "nobody"}).status == 3);
    filesystem::remove_all(home.sessions() + "/" + id_of(2));
    const ProgramEnd missing = home.run({"metrics", "--chain", id_of(3)});
    CHECK(missing.status == 1);
    CHECK(
        missing.err
        == "agent-relay: the start of the chain is missing: session " + id_of(2)
               + ", the parent of " + id_of(3) + ", is in no store\n");
}

TEST_CASE("tree shows who goes on from whom") {
    const Home home;
    const ProgramEnd all = home.run({"tree"});
    CHECK(all.status == 0);
    CHECK(
        all.out
        == short_of(id_of(2)) + " parser  gemini, completed, 2 turns\n└─ " + short_of(id_of(3))
               + " " + example_meta(3).slug
               + "  claude-code, checkpointed, 1 turn, resume of turn 1\n");
    CHECK(home.run({"tree", id_of(3)}).out == all.out);
    CHECK(home.run({"tree", "--alone"}).out.find(short_of(id_of(1))) != std::string::npos);
    const std::vector<Json> lines = lines_of(home.run({"tree", "--json"}).out);
    REQUIRE(lines.size() == 2);
    CHECK(lines[1]["parent"] == id_of(2));
    CHECK(lines[1]["depth"] == 1);
    CHECK(lines[1]["relation"] == "resume");
    filesystem::remove_all(home.sessions() + "/" + id_of(2));
    CHECK(home.run({"tree"}).out.starts_with(id_of(2) + "  is in none of these stores\n└─ "));
}

TEST_CASE("a family that is its own ancestor is shown once") {
    const Home home;
    layout::Meta first = example_meta(11);
    layout::Meta second = example_meta(12);
    first.parent = layout::Parent{second.id.text(), {}, "fork"};
    second.parent = layout::Parent{first.id.text(), {}, "fork"};
    static_cast<void>(write_session(home.sessions(), first));
    static_cast<void>(write_session(home.sessions(), second));
    CHECK(lines_of(home.run({"tree", "--json", id_of(11)}).out).size() == 2);
    CHECK(home.run({"metrics", "--chain", id_of(11)}).status == 1);
}

TEST_CASE("verify takes sessions by name and without one all of the store") {
    const Home home;
    CHECK(home.run({"verify", "parser"}).out == "parser: ok, 2 sealed turns\n");
    const ProgramEnd all = home.run({"verify"});
    CHECK(all.status == 0);
    CHECK(all.out.find(id_of(1) + ": ok, 1 sealed turn\n") != std::string::npos);
    write_text(home.sessions() + "/" + id_of(1) + "/turns/001-output.md", "changed\n");
    const ProgramEnd damaged = home.run({"verify", "--json"});
    CHECK(damaged.status == 5);
    const std::vector<Json> lines = lines_of(damaged.out);
    REQUIRE(lines.size() == 3);
    CHECK(lines[0]["ok"] == true);
    CHECK(lines[2]["ok"] == false);
    CHECK(lines[2]["session"] == id_of(1));
    CHECK(lines[2]["path"] == home.sessions() + "/" + id_of(1));
    CHECK(damaged.err == "agent-relay: 1 of 3 sessions is damaged, missing or unreadable\n");
    CHECK(lines[2]["damage"][0]["file"] == "turns/001-output.md");
    const ProgramEnd unknown = home.run({"verify", "nobody", "parser"});
    CHECK(unknown.status == 3);
    CHECK(unknown.out == "parser: ok, 2 sealed turns\n");
}

TEST_CASE("sessions that cannot be read are named and never fatal") {
    const Home home;
    const std::string torn =
        write_session(home.sessions(), example_meta(21), {{"p", "torn away\n"}});
    write_text(torn + "/meta.json", "{\"v\":1,");
    const std::string newer = write_session(home.sessions(), example_meta(22));
    write_text(newer + "/meta.json", R"({"v":9})");
    const std::string half = write_session(home.sessions(), example_meta(23));
    filesystem::remove(half + "/meta.json");
    filesystem::create_directory(home.sessions() + "/" + id_of(24));
    const std::vector<std::vector<std::string>> commands{
        {"list"}, {"search", "hello"}, {"metrics"}, {"tree"}, {"log", "stream", "--no-follow"}};
    for (const std::vector<std::string>& command : commands) {
        CAPTURE(command.front());
        const ProgramEnd end = home.run(command);
        CHECK(end.status == 0);
        CHECK_FALSE(end.out.empty());
        for (const std::string& skipped : {torn, newer, half}) {
            CHECK_MESSAGE(
                end.err.find("agent-relay: skipped \"" + skipped + "\": ") != std::string::npos,
                end.err);
        }
        CHECK(end.err.find("format version 9") != std::string::npos);
    }
    CHECK(home.run({"show", id_of(21)}).status == 5);
    CHECK(home.run({"show", id_of(22)}).status == 1);
    CHECK(home.run({"show", id_of(21), "--output"}).out == "torn away\n");
    CHECK(home.run({"show", "@latest"}).out.starts_with(example_meta(3).slug));
    CHECK(
        home.run({"watch", id_of(21), "--from", "1"}).out.find("torn away\n") != std::string::npos);
    CHECK(home.run({"verify"}).status == 5);
}

TEST_CASE("a watch of a session that is over ends whatever has become of its timeline") {
    const Home home;
    const std::string session = write_session(home.sessions(), example_meta(21), {{"p", "out\n"}});
    write_text(session + "/events.jsonl", "junk\n");
    const ProgramEnd end = home.run({"watch", id_of(21)});
    CHECK(end.status == 0);
    CHECK_MESSAGE(
        end.err.ends_with(
            "the session is over, but " + session
            + "/events.jsonl does not say how; agent-relay show has its turns\n"),
        end.err);
    filesystem::remove(session + "/events.jsonl");
    CHECK(home.run({"watch", id_of(21)}).status == 0);
}

TEST_CASE("a conversation that has lost turns is shown with a word about them") {
    const Home home;
    const std::string lost = write_session(home.sessions(), example_meta(21), {{"p", "words\n"}});
    filesystem::remove(lost + "/turns/001-state.json");
    ProgramEnd end = home.run({"show", id_of(21)});
    CHECK(end.status == 5);
    CHECK(end.out.find("words\n── turn 1 has lost its end\n") != std::string::npos);
    CHECK(end.err.find("001-state.json") != std::string::npos);
    filesystem::remove_all(lost + "/turns");
    end = home.run({"show", id_of(21)});
    CHECK(end.status == 5);
    CHECK(end.err.find("meta.json counts 1 turns, and 0 of them are there") != std::string::npos);
}

TEST_CASE("names of sessions that fit none or several end a command with the reason") {
    const Home home;
    layout::Meta namesake = example_meta(4);
    namesake.name = "parser";
    static_cast<void>(write_session(home.sessions(), namesake));
    const ProgramEnd several = home.run({"show", "parser"});
    CHECK(several.status == 2);
    CHECK(several.err.find(id_of(2)) != std::string::npos);
    CHECK(several.err.find(id_of(4)) != std::string::npos);
    const ProgramEnd none = home.run({"show", "nobody"});
    CHECK(none.status == 3);
    CHECK(
        none.err
        == "agent-relay: there is no session \"nobody\" in " + home.sessions()
               + "; agent-relay list shows what there is\n");
    CHECK(home.run({"show", "@1:9"}).status == 3);
    CHECK(home.run({"watch", "nobody"}).status == 1);
    CHECK(home.run({"watch"}).status == 1);
}

TEST_CASE("a copied store is read where it lies") {
    const Home home;
    const TemporaryDirectory elsewhere;
    filesystem::create_directories(elsewhere.path() + "/repo/.agent-relay/sessions");
    for (const Json& line : lines_of(home.run({"list", "--json"}).out)) {
        const std::string id = line.value("id", "");
        for (const std::string& name : tree_of(home.sessions() + "/" + id)) {
            const filesystem::path target =
                elsewhere.path() + "/repo/.agent-relay/sessions/" + id + "/" + name;
            filesystem::create_directories(name.ends_with('/') ? target : target.parent_path());
            if (!name.ends_with('/')) {
                filesystem::copy_file(home.sessions() + "/" + id + "/" + name, target);
            }
        }
    }
    filesystem::remove_all(home.sessions());
    const std::string store = elsewhere.path() + "/repo";
    CHECK(lines_of(home.run({"list", "--json", "--store", store}).out).size() == 3);
    CHECK(home.run({"show", "--store", store, "parser:2", "--output"}).out == "2\n");
    CHECK(home.run({"search", "--store", store + "/.agent-relay", "world"}).status == 0);
    CHECK(home.run({"verify", "--store", store + "/.agent-relay/sessions"}).status == 0);
    CHECK(home.run({"metrics", "--store", store}).status == 0);
    CHECK(home.run({"list", "--store", store + "/nowhere"}).status == 1);
    CHECK(
        home.run({"show", store + "/.agent-relay/sessions/" + id_of(1), "--prompt"}).out
        == "say hello\nplease");
}

TEST_CASE("all repositories that the daemon remembers are in reach from anywhere") {
    DaemonSetup setup = small_journal();
    setup.relocated = false;
    DaemonProcess daemon(setup);
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    const std::string repository = daemon.root() + "/projects/harbor";
    REQUIRE(make_repository(repository));
    WireClient client(daemon.socket());
    const Recording there = start_session(client, repository, {{"name", "far"}});
    const Recording here = start_session(client, daemon.work(), {{"name", "near"}});
    REQUIRE_FALSE(there.id.empty());
    REQUIRE_FALSE(here.id.empty());
    CHECK_ACK(client.ask("turn.start", there.id, {{"prompt", "far away"}}));
    const auto run = [&daemon](std::vector<std::string> arguments) {
        return run_program(relay(std::move(arguments)), daemon.environment());
    };
    const ProgramEnd all = run({"list", "--all-repos"});
    CHECK(all.status == 0);
    CHECK(all.out.find("REPO") != std::string::npos);
    CHECK(all.out.find("harbor") != std::string::npos);
    CHECK(all.out.find("near") != std::string::npos);
    CHECK(lines_of(run({"list", "--json", "--repo", "harbor"}).out).size() == 1);
    CHECK(lines_of(run({"list", "--json", "--repo", repository + "/"}).out).size() == 1);
    CHECK(run({"show", "far:1", "--prompt"}).out == "far away");
    CHECK(run({"search", "--all-repos", "far", "away"}).status == 0);
    CHECK(run({"show", here.id, "--path"}).out == here.path + "\n");
}

TEST_CASE("what the daemon records is what the reading commands show") {
    DaemonProcess daemon(small_journal());
    REQUIRE_MESSAGE(daemon.start(), daemon.log());
    WireClient client(daemon.socket());
    const Recording session = start_session(client, daemon.work(), {{"agent", "codex"}});
    REQUIRE_FALSE(session.id.empty());
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "why?"}}));
    CHECK_ACK(client.ask("turn.output", session.id, {{"text", "because\n"}}));
    CHECK_ACK(client.ask(
        "turn.tool",
        session.id,
        {{"tool_id", "t"}, {"name", "bash"}, {"status", "ok"}, {"summary", "make"}}));
    CHECK_ACK(client.ask(
        "turn.note", session.id, {{"kind", "decision"}, {"payload", {{"summary", "keep it"}}}}));
    CHECK_ACK(client.ask(
        "turn.end",
        session.id,
        {{"tokens", {{"input", 1500}, {"output", 20}}}, {"cost_usd", 0.5}}));
    CHECK_ACK(client.ask("turn.start", session.id, {{"prompt", "and now?"}}));
    const auto run = [&daemon](std::vector<std::string> arguments) {
        return run_program(relay(std::move(arguments)), daemon.environment());
    };
    const std::string shown = run({"show", "@running"}).out;
    CHECK(
        shown.find(
            "> why?\n\nbecause\n  tool bash ok: make\n  decision: keep it\n── turn 1 completed, ")
        != std::string::npos);
    CHECK(shown.find("1.5k in, 20 out, $0.50") != std::string::npos);
    CHECK(shown.ends_with("> and now?\n\n── turn 2 runs\n"));
    CHECK(run({"list"}).out.find("codex") != std::string::npos);
    daemon.kill();
    // meta.json may have caught up since; the turns are the same.
    const std::string after = run({"show", "@running"}).out;
    CHECK(after.substr(after.find("── turn 1")) == shown.substr(shown.find("── turn 1")));
    CHECK(run({"verify", "@latest"}).out == "@latest: ok, 1 sealed turn, 1 open turn\n");
}

}  // namespace
}  // namespace relay::tests
