// SPDX-License-Identifier: Apache-2.0
#include "cli/agent_table.hpp"
#include "cli/local_settings.hpp"
#include "tests/support/temporary_directory.hpp"

#include <boost/filesystem.hpp>
#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

using relay::cli::AgentCall;
using relay::cli::AgentEntry;
using relay::cli::built_in_agents;
using relay::cli::call_agent;
using relay::cli::find_agent;
using relay::cli::load_local_settings;
using relay::cli::make_run_config;
using relay::cli::RunConfig;
using relay::layout::Result;
using relay::tests::TemporaryDirectory;
using Words = std::vector<std::string>;

namespace {

struct Files {
    TemporaryDirectory directory;
    std::map<std::string, std::string> variables{{"AGENT_RELAY_HOME", directory.path()}};

    void user(const std::string& text) const { write(directory.path() + "/config", text); }
    void repository(const std::string& text) const { write(root() + "/.agent-relay", text); }
    [[nodiscard]] std::string root() const { return directory.path() + "/repo"; }
    [[nodiscard]] Result<RunConfig> load(const std::string& explicit_file = "") const {
        const auto local = load_local_settings(
            [this](const char* name) -> std::optional<std::string> {
                const auto found = variables.find(name);
                return found == variables.end() ? std::nullopt : std::optional(found->second);
            },
            boost::filesystem::exists(root()) ? root() : "",
            explicit_file);
        return local.ok() ? make_run_config(local.value().settings, local.value().repository_root)
                          : Result<RunConfig>(local.error());
    }

    static void write(const std::string& place, const std::string& text) {
        boost::filesystem::create_directories(place);
        std::ofstream(place + "/config.toml") << text;
    }
};

}  // namespace

TEST_CASE("an agent of the user's goes before a built-in one of the same letter") {
    const Files files;
    files.user(
        "[agents.c]\nbinary = \"mine\"\n[agents.other]\nbinary = \"o\"\naliases = [\"x\"]\n");
    const Result<RunConfig> config = files.load();
    REQUIRE(config.ok());
    CHECK(find_agent(config.value().agents, "c")->name == "c");
    CHECK(find_agent(config.value().agents, "x")->name == "other");
    CHECK(find_agent(config.value().agents, "claude")->name == "claude-code");
}

TEST_CASE("the built-in agents are found by name and by letter") {
    const std::vector<AgentEntry> agents = built_in_agents();
    for (const auto& [letter, name] : std::map<std::string, std::string>{
             {"c", "claude-code"},
             {"x", "codex"},
             {"g", "gemini"},
             {"o", "opencode"},
             {"a", "aider"}}) {
        REQUIRE(find_agent(agents, letter) != nullptr);
        CHECK(find_agent(agents, letter)->name == name);
        CHECK(find_agent(agents, name) == find_agent(agents, letter));
    }
    CHECK(find_agent(agents, "z") == nullptr);
    CHECK(call_agent(*find_agent(agents, "c"), "hi").words == Words{"claude", "-p", "--", "hi"});
    CHECK(
        call_agent(*find_agent(agents, "x"), "hi").words
        == Words{"codex", "exec", "--skip-git-repo-check", "--", "hi"});
    CHECK(call_agent(*find_agent(agents, "g"), std::nullopt).words == Words{"gemini"});
}

TEST_CASE("a prompt that begins with a dash is no flag of a built-in agent") {
    for (const AgentEntry& agent : built_in_agents()) {
        CAPTURE(agent.name);
        const Words words = call_agent(agent, "- first this").words;
        const bool after_the_flags =
            words.back() == "- first this" && words[words.size() - 2] == "--";
        CHECK((after_the_flags || words.back().ends_with("=- first this")));
    }
}

TEST_CASE("flags of the user's go to the subcommand and before whatever ends the flags") {
    AgentEntry agent = *find_agent(built_in_agents(), "x");
    agent.extra_arguments = {"--color", "never"};
    const Words flags{"codex", "exec", "--color", "never", "--skip-git-repo-check"};
    const auto with = [&flags](const Words& more) {
        Words all = flags;
        all.insert(all.end(), more.begin(), more.end());
        return all;
    };
    CHECK(call_agent(agent, "hi").words == with({"--", "hi"}));
    CHECK(call_agent(agent, std::string(200'000, 'p')).words == with({"-"}));
    CHECK(call_agent(agent, std::nullopt).words == Words{"codex", "--color", "never"});
    agent = {"mine", {}, "mine", "plain", {}, {}, {"--mode="}, false};
    CHECK(call_agent(agent, "hi").words == Words{"mine", "--mode=", "hi"});
}

TEST_CASE("a prompt too long for an argument goes through standard input") {
    const std::vector<AgentEntry> agents = built_in_agents();
    const std::string prompt(200'000, 'p');
    const AgentCall codex = call_agent(*find_agent(agents, "x"), prompt);
    CHECK(codex.words == Words{"codex", "exec", "--skip-git-repo-check", "-"});
    CHECK(codex.input_text == prompt);
    const AgentCall aider = call_agent(*find_agent(agents, "a"), prompt);
    CHECK(aider.words.back() == "/dev/stdin");
    for (const AgentEntry& agent : agents) {
        CHECK(call_agent(agent, prompt).input_text == prompt);
        CHECK_FALSE(call_agent(agent, "short").input_text);
    }
}

TEST_CASE("the configuration adds agents and changes the built-in ones") {
    Files files;
    files.user(R"([default]
agent = "mine"
max_turns = 7
[agents.mine]
binary = "my-agent"
extra_args = ["--fast"]
aliases = ["m"]
prompt = "--message"
[agents.joined]
binary = "j"
prompt = "--message="
[agents.piped]
binary = "p"
prompt = "stdin"
[agents.codex]
binary = "/opt/codex"
extra_args = ["-m", "o9"]
[daemon]
orphan_grace = "1s"
)");
    files.repository("[default]\nagent = \"codex\"\n[agents.codex]\nbinary = \"./evil\"\n");
    const auto config = files.load();
    REQUIRE(config.ok());
    CHECK(config.value().default_agent == "codex");
    CHECK(config.value().max_turns == 7);
    const auto words = [&config](const char* name) {
        return call_agent(*find_agent(config.value().agents, name), "hi").words;
    };
    CHECK(words("m") == Words{"my-agent", "--fast", "--message", "hi"});
    CHECK(words("joined") == Words{"j", "--message=hi"});
    CHECK(words("piped") == Words{"p"});
    CHECK(call_agent(*find_agent(config.value().agents, "piped"), "hi").input_text == "hi");
    // A repository names no programs.
    CHECK(
        words("x") == Words{"/opt/codex", "exec", "-m", "o9", "--skip-git-repo-check", "--", "hi"});
    files.variables["AGENT_RELAY_DEFAULT__AGENT"] = "aider";
    files.variables["AGENT_RELAY_DEFAULT__MAX_TURNS"] = "2";
    CHECK(files.load().value().default_agent == "aider");
    CHECK(files.load().value().max_turns == 2);
}

TEST_CASE("a wrong configuration of agents is one sentence with its place") {
    const Files files;
    const auto refusal = [&files](const std::string& text) {
        files.user(text);
        const auto config = files.load();
        REQUIRE_FALSE(config.ok());
        const std::string& sentence = config.error().context;
        return sentence.substr(sentence.find("config.toml"));
    };
    CHECK(refusal("[agents.x]\naliases = [\"y\"]\n") == "config.toml:2:1: agents.x needs a binary");
    CHECK(
        refusal("[agents.x]\nbinray = \"y\"\n")
        == "config.toml:2:1: unknown key \"agents.x.binray\"; did you mean \"agents.x.binary\"?");
    CHECK(
        refusal("[agents.x]\nbinary = 7\n")
        == "config.toml:2:10: agents.x.binary must be a string that is not empty, got 7");
    CHECK(refusal("[agents.x]\nbinary = \"y\"\nprompt = \"shout\"\n")
              .starts_with("config.toml:3:10: agents.x.prompt must be"));
    CHECK(
        refusal("[default]\nmax_turns = -1\n").starts_with("config.toml:2:13: default.max_turns"));
    CHECK(refusal("[agents\n").starts_with("config.toml:1:"));
    CHECK_FALSE(files.load("/nowhere/config.toml").ok());
}
