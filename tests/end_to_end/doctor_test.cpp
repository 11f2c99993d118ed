// SPDX-License-Identifier: Apache-2.0
#include "tests/end_to_end/relay_home.hpp"
#include "tests/support/written_session.hpp"

#include <boost/filesystem.hpp>
#include <doctest/doctest.h>

#include <sys/stat.h>
#include <utime.h>

#include <sstream>
#include <string>
#include <vector>

namespace relay::tests {
namespace {

struct Report {
    int status = -1;
    std::vector<Json> findings;

    // The first that is not well, of these words.
    [[nodiscard]] Json ill(const std::string& check, const std::string& words) const {
        for (const Json& finding : findings) {
            const std::string what = finding["what"];
            if (finding["check"] == check && finding["ok"] == false
                && what.find(words) != std::string::npos) {
                return finding;
            }
        }
        return {};
    }
    [[nodiscard]] std::string troubles() const {
        std::string all;
        for (const Json& finding : findings) {
            // What the tests' own directory lies on is not the program's doing.
            if (finding["ok"] == false && finding["check"] != "durability") {
                all += finding.dump() + "\n";
            }
        }
        return all;
    }
};

Report examine(const RelayHome& home) {
    const ProgramEnd end = home.shell("agent-relay doctor --json");
    Report report{end.status, {}};
    std::istringstream lines(end.out);
    for (std::string line; std::getline(lines, line);) {
        const Json finding = Json::parse(line);
        CHECK(finding["ok"] == finding["mend"].is_null());
        report.findings.push_back(finding);
    }
    CHECK(end.err.empty());
    return report;
}

// Runs the command that a finding names.
void mend(const RelayHome& home, const Json& finding) {
    REQUIRE(finding.is_object());
    const ProgramEnd end = home.shell(finding["mend"].get<std::string>());
    CAPTURE(finding.dump());
    CAPTURE(end.err);
    CHECK(end.status == 0);
}

void age(const std::string& path) {
    const utimbuf long_ago{1'000'000'000, 1'000'000'000};
    REQUIRE(::utime(path.c_str(), &long_ago) == 0);
}

TEST_CASE("a recorder in good health has a clean report and the examination changes nothing") {
    const RelayHome home;
    REQUIRE(home.shell("agent-relay run -- true").status == 0);
    const std::vector<std::string> before = tree_of(home.root() + "/relay");
    const Report report = examine(home);
    CHECK_MESSAGE(report.troubles().empty(), report.troubles());
    CHECK(report.findings.size() > 6);
    bool well = true;
    for (const Json& finding : report.findings) {
        well = well && finding["ok"] == true;
    }
    CHECK(report.status == (well ? 0 : 1));
    CHECK(tree_of(home.root() + "/relay") == before);
    const ProgramEnd shown = home.shell("agent-relay doctor");
    CHECK(shown.out.find("well  daemon") != std::string::npos);
    CHECK(home.shell("agent-relay doctor now").status == 2);
}

TEST_CASE("the doctor comes without a daemon and starts none") {
    const RelayHome home;
    const Report report = examine(home);
    CHECK(report.status == 1);
    const Json finding = report.ill("daemon", "no daemon answers");
    REQUIRE(finding.is_object());
    CHECK(home.daemons().empty());
    CHECK_FALSE(exists(home.root() + "/relay"));
    mend(home, finding);
    CHECK(examine(home).ill("daemon", "").is_null());
}

TEST_CASE("what others may read is found and its command makes it private") {
    const RelayHome home;
    REQUIRE(home.shell("agent-relay run -- true").status == 0);
    const std::string state = home.root() + "/relay/state";
    for (const std::string& path : {state, state + "/sessions", state + "/relay.sock"}) {
        CAPTURE(path);
        REQUIRE(::chmod(path.c_str(), 0755) == 0);
        const std::string check = path.ends_with(".sock") ? "socket" : "permissions";
        const Json finding = examine(home).ill(check, path + " can be reached");
        mend(home, finding);
        CHECK((mode_of(path) & 077) == 0);
    }
    CHECK(examine(home).troubles().empty());
}

TEST_CASE("a session that nobody records is found with and without a daemon") {
    const RelayHome home;
    const std::string sessions = home.root() + "/relay/state/sessions";
    layout::Meta meta = example_meta(1);
    meta.status = layout::SessionStatus::active;
    meta.ended_at.reset();
    meta.exit_code.reset();
    static_cast<void>(write_session(sessions, meta, {{"a question", "an answer\n"}}));
    const Json alone = examine(home).ill("sessions", meta.id.text());
    REQUIRE(alone.is_object());
    mend(home, alone);  // starts a daemon
    const Json finding = examine(home).ill("sessions", meta.id.text());
    if (finding.is_object()) {
        mend(home, finding);
    }
    const Report after = examine(home);
    CHECK_MESSAGE(after.ill("sessions", "").is_null(), after.troubles());
    Recording recording;
    recording.path = sessions + "/" + meta.id.text();
    CHECK(recording.meta()["status"] == "checkpointed");
}

TEST_CASE("leftovers and what waits to be delivered are found with what removes them") {
    const RelayHome home;
    REQUIRE(home.shell("agent-relay run -- true").status == 0);
    const std::string temporary = home.session().file("turns/.001-state.json.tmp");
    const std::string hidden = home.root() + "/relay/state/.trust.json.tmp";
    write_text(temporary, "{");
    write_text(hidden, "{");
    CHECK(examine(home).ill("leftovers", hidden).is_null());  // it may be in use
    age(hidden);
    const Report report = examine(home);
    mend(home, report.ill("leftovers", temporary));
    mend(home, report.ill("leftovers", hidden));
    CHECK_FALSE(exists(temporary));

    home.forbid_daemon(true);
    home.kill_daemon();
    REQUIRE(home.shell("agent-relay run -- echo later").status == 0);
    CHECK(examine(home).ill("spool", "1 session").is_object());
    home.forbid_daemon(false);
    mend(home, examine(home).ill("spool", "1 session"));
    const Report after = examine(home);
    CHECK_MESSAGE(after.troubles().empty(), after.troubles());
    CHECK(home.sessions().size() == 2);
}

TEST_CASE("a store that is gone is found and can be forgotten") {
    const RelayHome home;
    const std::string base = "export HOME=" + home.root() + "; unset AGENT_RELAY_HOME; ";
    REQUIRE(
        home.shell(base + "mkdir -p ../gone/.git && cd ../gone && agent-relay run -- true").status
        == 0);
    REQUIRE(home.shell("rm -r ../gone").status == 0);
    const ProgramEnd end = home.shell(base + "agent-relay doctor --json | grep '\"stores\"'");
    const Json finding = Json::parse(end.out, nullptr, false);
    REQUIRE(finding.is_object());
    CHECK(home.shell(base + finding["mend"].get<std::string>()).status == 0);
    const std::string others =
        "agent-relay doctor --json | grep '\"ok\":false' | grep -v durability";
    CHECK(home.shell(base + others + "; agent-relay daemon stop >&2").out.empty());
}

TEST_CASE("what has taken the place of the socket is one finding and its command starts a daemon") {
    const RelayHome home;
    REQUIRE(home.shell("mkdir -p -m 0700 \"$AGENT_RELAY_HOME/state\"").status == 0);
    write_text(home.root() + "/relay/state/relay.sock", "");
    const Report report = examine(home);
    CHECK(report.ill("daemon", "").is_null());
    mend(home, report.ill("socket", "is no socket"));
    const Report after = examine(home);
    CHECK_MESSAGE(after.troubles().empty(), after.troubles());
}

TEST_CASE("a session that cannot be read is found and goes to the trash once that is agreed to") {
    const RelayHome home;
    REQUIRE(home.shell("agent-relay run -- true").status == 0);
    const std::string meta = home.session().file("meta.json");
    write_text(meta, "{\n");
    const Json finding = examine(home).ill("sessions", home.session().path);
    REQUIRE(finding.is_object());
    CHECK(
        finding["what"]
        == home.session().path
               + ": meta.json: is no JSON: parse error at line 2, column 1: "
                 "syntax error while parsing object key - unexpected end of input; expected string "
                 "literal");
    const std::string command = finding["mend"];
    CHECK(home.shell(command).status == 2);  // nobody to ask
    CHECK(home.sessions().size() == 1);
    CHECK(home.shell(command + " --yes").status == 0);
    CHECK(examine(home).troubles().empty());
    CHECK(home.shell("agent-relay delete --list").out.find("unreadable") != std::string::npos);
}

TEST_CASE("a wrong configuration and a damaged list of trust are findings") {
    const RelayHome home;
    REQUIRE(home.shell("agent-relay run -- true").status == 0);
    REQUIRE(home.shell("mkdir -p \"$AGENT_RELAY_HOME/config\"").status == 0);
    write_text(home.root() + "/relay/config/config.toml", "[deamon]\n");
    write_text(home.root() + "/relay/state/trust.json", "{");
    ::chmod((home.root() + "/relay/state/trust.json").c_str(), 0600);
    const Report report = examine(home);
    CHECK(report.ill("configuration", "config.toml:1:2: unknown key").is_object());
    mend(home, report.ill("trust", "cannot be understood"));
    CHECK(examine(home).ill("trust", "").is_null());
}

TEST_CASE("a daemon of another version is found") {
    const RelayHome home;
    // One that answers like a daemon and is none.
    write_text(
        home.work() + "/other.py",
        "import json, socket, os\n"
        "os.umask(0o077)\n"
        "s = socket.socket(socket.AF_UNIX); s.bind('other.sock'); s.listen()\n"
        "open('ready', 'w')\n"
        "c, _ = s.accept(); c.recv(1000)\n"
        "c.sendall(b'{\"type\":\"ack\",\"id\":1,\"version\":\"9.9\",\"pid\":1,\"errors\":"
        "{\"journal\":\"torn\",\"checkpoint\":null},\"volumes\":[{\"name\":\"v\",\"anchor\":\"/x "
        "y\","
        "\"state\":\"deferred\",\"reason\":\"No space\",\"since\":\"2026\"}]}\\n')\n");
    const ProgramEnd end =
        home.shell("python3 other.py & while [ ! -e ready ]; do sleep 0.01; done; "
                   "agent-relay doctor --json --socket \"$PWD/other.sock\"; wait");
    CHECK(end.out.find("the daemon is 9.9, the command line ") != std::string::npos);
    CHECK(end.out.find("\"mend\":\"agent-relay daemon restart\"") != std::string::npos);
    CHECK(end.out.find("the daemon's journal failed: torn") != std::string::npos);
    CHECK(end.out.find("df -h '/x y'") != std::string::npos);
}

TEST_CASE("the units of systemd are looked at where a manager runs and nowhere else") {
    const RelayHome home;
    write_text(
        home.root() + "/bin/systemctl",
        "#!/bin/sh\n"
        "[ \"$1 $2\" = '--user show' ] || exit 1\n"
        "printf 'Id=agent-relayd.socket\\nLoadState=loaded\\nActiveState=inactive\\n'\n"
        "printf 'UnitFileState=enabled\\nResult=success\\n\\n'\n"
        "printf 'Id=agent-relayd.service\\nLoadState=loaded\\nActiveState=inactive\\n'\n");
    REQUIRE(::chmod((home.root() + "/bin/systemctl").c_str(), 0700) == 0);
    const std::string look = "XDG_RUNTIME_DIR=" + home.root() + "/run agent-relay doctor --json";
    REQUIRE(home.shell("mkdir -m 0700 ../run ../run/systemd").status == 0);
    CHECK(home.shell(look).out.find("\"systemd\"") == std::string::npos);
    write_text(home.root() + "/run/systemd/private", "");
    const std::string found = home.shell(look).out;
    CHECK_MESSAGE(
        found.find("agent-relayd.socket is enabled and does not listen") != std::string::npos,
        found);
    CHECK(
        found.find("\"mend\":\"systemctl --user start agent-relayd.socket\"") != std::string::npos);
    CHECK(
        home.shell(look + " --socket /elsewhere.sock").out.find("\"systemd\"")
        == std::string::npos);
}

}  // namespace
}  // namespace relay::tests
