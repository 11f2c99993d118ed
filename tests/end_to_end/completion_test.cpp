// SPDX-License-Identifier: Apache-2.0
#include "tests/end_to_end/relay_home.hpp"
#include "tests/support/written_session.hpp"

#include <boost/filesystem.hpp>
#include <doctest/doctest.h>
#include <relay_built_here.hpp>

#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace relay::tests {
namespace {

const std::string source = RELAY_SOURCE_DIR;

struct Offer {
    std::string word;
    std::string meaning;
};

// What is offered after this much of a command line; quoted for the shell already.
std::vector<Offer> offered(const RelayHome& home, const std::string& words) {
    const ProgramEnd end = home.shell("agent-relay __complete " + words);
    CHECK(end.status == 0);
    CHECK(end.err.empty());
    std::vector<Offer> offers;
    std::istringstream lines(end.out);
    for (std::string line; std::getline(lines, line);) {
        const std::size_t tab = line.find('\t');
        REQUIRE(tab != std::string::npos);
        offers.push_back({line.substr(0, tab), line.substr(tab + 1)});
    }
    return offers;
}

std::set<std::string> words_of(const std::vector<Offer>& offers) {
    std::set<std::string> words;
    for (const Offer& offer : offers) {
        words.insert(offer.word);
    }
    return words;
}

std::set<std::string> commands_of(const RelayHome& home) {
    std::set<std::string> commands = words_of(offered(home, "''"));
    commands.erase("help");
    return commands;
}

TEST_CASE("every flag that is completed is known to its command") {
    const RelayHome home;
    home.forbid_daemon(true);
    for (const std::string& command : commands_of(home)) {
        CHECK(home.shell("agent-relay " + command + " --help").status == 0);
        for (const Offer& offer : offered(home, command + " -")) {
            CAPTURE(command);
            CAPTURE(offer.word);
            // Words that end the command before it does anything, whatever the flag means.
            const ProgramEnd end = home.shell(
                "agent-relay " + command + " " + offer.word + " --no-such-flag-at-all < /dev/null");
            CHECK(end.err.find("unknown flag \"" + offer.word + "\"") == std::string::npos);
            CHECK(end.err.find("does not know \"" + offer.word + "\"") == std::string::npos);
        }
    }
}

// The flags that the sources take, by the strings in them.
TEST_CASE("every flag of the sources stands in the help of a command") {
    const RelayHome home;
    std::set<std::string> told{"--help", "--json", "--no-color", "--socket", "--version"};
    for (const std::string& command : commands_of(home)) {
        told.merge(words_of(offered(home, command + " -")));
    }
    const std::regex literal(R"re("(--?[a-z][a-z-]*)")re");
    std::size_t seen = 0;
    for (const auto& entry : boost::filesystem::directory_iterator(source + "/cli")) {
        const std::string name = entry.path().filename().string();
        const bool takes_flags = name.ends_with("_command.cpp") || name == "run_options.cpp"
                                 || name == "session_filter.cpp";
        if (!takes_flags || name == "daemon_command.cpp" || name == "discover_command.cpp") {
            continue;  // one hands flags on to the daemon, the other asks agents for their version
        }
        // Without the texts of the help, which show flags of agents, too.
        std::string text = read_text(entry.path().string());
        for (std::size_t raw = text.find("R\"("); raw != std::string::npos;
             raw = text.find("R\"(", raw)) {
            text.erase(raw, text.find(")\"", raw) - raw);
        }
        // Only what is said to a table of flags or compared with an argument.
        for (std::sregex_iterator found(text.begin(), text.end(), literal), end; found != end;
             ++found) {
            const std::string flag = (*found)[1];
            if (flag.starts_with("--")) {
                ++seen;
                CHECK_MESSAGE(told.contains(flag), name, ": ", flag);
            }
        }
    }
    CHECK(seen > 40);
}

TEST_CASE("commands and agents and values of flags are completed") {
    const RelayHome home;
    CHECK(commands_of(home).contains("run"));
    CHECK_FALSE(commands_of(home).contains("__complete"));
    CHECK(words_of(offered(home, "do")) == std::set<std::string>{"doctor"});
    CHECK(words_of(offered(home, "run c")) == std::set<std::string>{"claude-code", "codex"});
    CHECK(
        words_of(offered(home, "run --store ''")) == std::set<std::string>{"auto", "repo", "user"});
    CHECK(words_of(offered(home, "list --status = c")).size() == 2);
    CHECK(words_of(offered(home, "list --status f")) == std::set<std::string>{"failed"});
    CHECK(words_of(offered(home, "--socket x daemon sta")).size() == 2);
    CHECK(words_of(offered(home, "config daemon.so")) == std::set<std::string>{"daemon.socket"});
    CHECK(words_of(offered(home, "help veri")) == std::set<std::string>{"verify"});
    CHECK(offered(home, "run -- ''").empty());
    CHECK(offered(home, "run codex ''").empty());
    CHECK(offered(home, "nonsense -x --y").empty());
    for (const Offer& offer : offered(home, "list --si")) {
        CHECK(offer.meaning.find("touched since then") == 0);
    }
    REQUIRE(home.shell("mkdir -p \"$AGENT_RELAY_HOME/config\"").status == 0);
    write_text(home.root() + "/relay/config/config.toml", "[agents.mine]\nbinary = \"my-agent\"\n");
    CHECK(words_of(offered(home, "run mi")) == std::set<std::string>{"mine"});
    CHECK(home.daemons().empty());
}

TEST_CASE("sessions are completed by the end of their id and by slug with their preview") {
    const RelayHome home;
    const std::string sessions = home.root() + "/relay/state/sessions";
    layout::Meta meta = example_meta(1);
    meta.preview = "evil \x1b]0;title\x07 preview";
    static_cast<void>(write_session(sessions, meta, {{"a", "b\n"}}));
    static_cast<void>(write_session(sessions, example_meta(2), {{"a", "b\n"}}));
    const std::string end_of_id = meta.id.text().substr(20);
    std::vector<Offer> offers = offered(home, "show " + end_of_id);
    REQUIRE(offers.size() == 1);
    CHECK(offers.front().meaning == meta.slug + "  evil \\x1b]0;title\\x07 preview");
    std::string lower = end_of_id;
    for (char& letter : lower) {
        letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    }
    CHECK(offered(home, "show " + lower).size() == 1);
    CHECK(words_of(offered(home, "resume " + meta.slug)).contains(meta.slug));
    CHECK(offered(home, "verify ''").size() == 4);
    CHECK(offered(home, "verify x ''").size() == 4);
    CHECK(offered(home, "show x ''").empty());
    CHECK(words_of(offered(home, "metrics --chain @l")).contains("@latest"));
    CHECK(offered(home, "archive x ''").size() == 4);
    REQUIRE(home.shell("agent-relay delete --yes " + end_of_id).status == 0);
    CHECK(words_of(offered(home, "delete --undo ''")) == std::set<std::string>{end_of_id});
    CHECK_FALSE(words_of(offered(home, "delete ''")).contains(end_of_id));
}

TEST_CASE("bash completes with what the program offers") {
    const RelayHome home;
    const std::string line = "source '" + source + "/completions/agent-relay.bash'; ";
    const auto reply = [&](const std::string& words, const std::string& before = "") {
        return home
            .shell(
                line + before + "COMP_WORDS=(" + words
                + "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _agent_relay; printf '%s\\n' "
                  "\"${COMPREPLY[@]}\"")
            .out;
    };
    CHECK(reply("agent-relay docto") == "doctor\n");
    CHECK(reply("agent-relay list --status co") == "completed\n");
    CHECK(reply("agent-relay run --no-s") == "--no-session\n");
    CHECK(reply("agent-relay daemon st", "COMP_TYPE=63; ") == "start\nstop\nstatus\n");
    CHECK(reply("agent-relay dis", "COMP_TYPE=63; ") == "discover\n");
    CHECK(
        reply(
            "agent-relay do",
            "COMP_TYPE=63; agent-relay() { printf 'a\\tfirst\\nb\\tsecond\\n'; }; ")
        == "a  (first)\nb  (second)\n");
    layout::Meta hostile = example_meta(1);
    hostile.name = "odd $(touch x)";
    static_cast<void>(write_session(home.root() + "/relay/state/sessions", hostile));
    CHECK(reply("agent-relay show od") == "odd\\ \\$\\(touch\\ x\\)\n");
    CHECK(
        home.shell(line + "complete -p agent-relay").out.find("-F _agent_relay")
        != std::string::npos);
}

TEST_CASE("fish completes with what the program offers") {
    if (run_shell("command -v fish").status != 0) {
        MESSAGE("NOT TESTED: fish is not installed");
        return;
    }
    const RelayHome home;
    const auto offers = [&home](const std::string& words) {
        return home
            .shell(
                "fish --no-config -c \"source '" + source
                + "/completions/agent-relay.fish'; complete -C '" + words + "'\"")
            .out;
    };
    CHECK(offers("agent-relay docto") == "doctor\tis everything in order?\n");
    CHECK(offers("agent-relay list --status c") == "checkpointed\ncompleted\n");
    REQUIRE(home.shell("touch found").status == 0);
    CHECK(offers("agent-relay export @latest --out fo") == "found\n");
}

TEST_CASE("zsh describes what the program offers") {
    if (run_shell("command -v zsh").status != 0) {
        MESSAGE("NOT TESTED: zsh is not installed");
        return;
    }
    const RelayHome home;
    // What zsh gives to a completion, and takes from it.
    const auto offers = [&home](const std::string& words, int count) {
        return home
            .shell(
                "zsh -fc 'words=(" + words + "); CURRENT=" + std::to_string(count)
                + "; _describe() { print -rl -- \"${(@P)argv[-1]}\" }; _files() { print files }; "
                  "complete() { source \""
                + source + "/completions/_agent-relay\" }; complete'")
            .out;
    };
    CHECK(offers("agent-relay docto", 2) == "doctor:is everything in order?\n");
    CHECK(offers("agent-relay list --status c", 4) == "checkpointed\ncompleted\n");
    CHECK(offers("agent-relay export @latest --out fo", 5) == "files\n");
}

TEST_CASE("the other shells accept their completions") {
    for (const auto& [shell, file] : std::vector<std::pair<std::string, std::string>>{
             {"zsh", "_agent-relay"}, {"fish", "agent-relay.fish"}}) {
        if (run_shell("command -v " + shell).status != 0) {
            MESSAGE("NOT TESTED: " << shell << " is not installed");
            continue;
        }
        const ProgramEnd end = run_shell(shell + " -n '" + source + "/completions/" + file + "'");
        CHECK_MESSAGE(end.status == 0, end.err);
    }
}

}  // namespace
}  // namespace relay::tests
