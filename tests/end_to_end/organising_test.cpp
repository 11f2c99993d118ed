// SPDX-License-Identifier: Apache-2.0

// Naming, labelling and putting away, through the real programs.

#include "tests/end_to_end/relay_home.hpp"
#include "tests/support/written_session.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace relay::tests {
namespace {

bool says(const std::string& text, const std::string& words) {
    return text.find(words) != std::string::npos;
}

std::string listed(const RelayHome& home, const std::string& flags) {
    return home.shell("agent-relay list --json " + flags + " | jq -r .id").out;
}

TEST_CASE("what is set of an ended session is in its meta.json and found by list") {
    const RelayHome home;
    REQUIRE(home.shell("agent-relay run -- true; agent-relay run -- false").status == 1);
    const Recording first = home.sessions()[0];
    const std::string id = first.id;
    const ProgramEnd end = home.shell("agent-relay set @2 name=parser label+=bug "
                                      "label+=priority::2 stage=in-progress flagged=yes "
                                      "unread=true --json");
    CHECK_MESSAGE(end.status == 0, end.err);
    const Json told = Json::parse(end.out);
    CHECK(told["session"] == id);
    CHECK(told["name"] == "parser");
    CHECK(told["labels"] == Json({"bug", "priority::2"}));
    CHECK(told["stage"] == "in-progress");
    CHECK(told["flagged"] == true);
    CHECK(told["archived"] == false);
    const Json meta = first.meta();
    CHECK(meta["status"] == "completed");
    for (const char* const key : {"name", "labels", "stage", "flagged", "unread"}) {
        CAPTURE(key);
        CHECK(meta[key] == told[key]);
    }
    for (const std::string flags :
         {"--label bug", "--label priority::2 --label bug", "--stage in-progress", "--flagged"}) {
        CAPTURE(flags);
        CHECK(listed(home, flags) == id + "\n");
    }
    CHECK(
        home.shell("agent-relay set parser label-=bug label+=bug label+=bug label-=absent").status
        == 0);
    CHECK(first.meta()["labels"] == Json({"priority::2", "bug"}));
    CHECK(home.shell("agent-relay set parser name= stage= flagged=no label-=bug").status == 0);
    CHECK(first.meta()["name"].is_null());
    CHECK(first.meta()["stage"].is_null());
    CHECK(first.meta()["flagged"] == false);
    CHECK(first.meta()["labels"] == Json({"priority::2"}));
    CHECK(damage_of(first.path).empty());
}

TEST_CASE("sessions are archived and brought back and a daemon is started for it") {
    const RelayHome home;
    REQUIRE(
        home.shell("agent-relay run --name a -- true; agent-relay run --name b -- true").status
        == 0);
    const std::vector<Recording> sessions = home.sessions();
    home.kill_daemon();
    const ProgramEnd end = home.shell("agent-relay archive a b");
    CHECK_MESSAGE(end.status == 0, end.err);
    CHECK(says(end.out, " a, archived\n"));
    CHECK(home.daemon() != 0);
    CHECK(listed(home, "").empty());
    CHECK(listed(home, "--archived") == sessions[1].id + "\n" + sessions[0].id + "\n");
    CHECK(home.shell("agent-relay archive --undo a").status == 0);
    CHECK(listed(home, "") == sessions[0].id + "\n");
    CHECK(listed(home, "--archived") == sessions[1].id + "\n");
    // The worst of several decides.
    CHECK(home.shell("agent-relay archive nobody a").status == 3);
    CHECK(sessions[0].meta()["archived"] == true);
}

TEST_CASE("setting what cannot be is refused with the way to do it") {
    const RelayHome home;
    REQUIRE(home.shell("agent-relay run --name a -- true").status == 0);
    struct Mistake {
        std::string arguments;
        int status;
        std::string words;
    };
    const std::vector<Mistake> mistakes{
        {"", 2, "needs a session and a change"},
        {"a", 2, "needs a session and a change"},
        {"a lable+=x", 2, "did you mean \"label\"?"},
        {"a label=x", 2, "write label+=x or label-=x"},
        {"a label+=", 2, "names no label"},
        {"a name+=x", 2, "only labels are added"},
        {"a flagged=maybe", 2, "flagged is yes or no, got \"maybe\""},
        {"a loud", 2, "is no change"},
        {"a name=@latest", 2, "\"@latest\" can be no name, for it means something else"},
        {"nobody name=x", 3, "there is no session \"nobody\""},
        {"a:1 name=x", 2, "names a turn"},
        {"a label+=$(head -c 9999 /dev/zero | tr '\\0' x)", 1, "label"},
    };
    for (const Mistake& mistake : mistakes) {
        CAPTURE(mistake.arguments);
        const ProgramEnd end = home.shell("agent-relay set " + mistake.arguments);
        CHECK(end.status == mistake.status);
        CHECK_MESSAGE(says(end.err, mistake.words), end.err);
        CHECK(end.out.empty());
    }
    CHECK(home.session().meta()["labels"].empty());
    home.kill_daemon();
    home.forbid_daemon(true);
    const ProgramEnd end = home.shell("agent-relay set a name=x");
    CHECK(end.status == 4);
    CHECK(says(end.err, "agent-relayd is needed for this"));
}

TEST_CASE("a running session is labelled while its agent works") {
    const RelayHome home;
    const ProgramEnd end =
        home.shell("agent-relay run -- bash -c 'touch ready; while [ ! -e done ]; do sleep 0.01; "
                   "done' & while "
                   "[ ! -e ready ] || ! agent-relay show @running --path > /dev/null 2>&1; do "
                   "sleep 0.01; done; "
                   "agent-relay set @running stage=review label+=live; touch done; wait");
    CHECK(says(end.out, "live, stage review"));
    const Json meta = home.session().meta();
    CHECK(meta["status"] == "completed");
    CHECK(meta["labels"] == Json({"live"}));
    CHECK(meta["stage"] == "review");
}

}  // namespace
}  // namespace relay::tests
