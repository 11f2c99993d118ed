// SPDX-License-Identifier: Apache-2.0
#include "cli/systemd_checkup.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using relay::cli::CheckupFinding;
using relay::cli::judge_units;
using relay::cli::read_unit_states;
using relay::cli::UnitState;
using relay::cli::UnitStates;

TEST_CASE("the states of both units are read from what systemctl shows") {
    const UnitStates units = read_unit_states(
        "Id=agent-relayd.socket\nLoadState=loaded\nActiveState=active\nUnitFileState=enabled\n"
        "Result=success\n"
        "\n"
        "MainPID=71\nResult=exit-code\nId=agent-relayd.service\nLoadState=loaded\n"
        "ActiveState=failed\nUnitFileState=static\n");
    CHECK(units.socket.load == "loaded");
    CHECK(units.socket.active == "active");
    CHECK(units.socket.unit_file == "enabled");
    CHECK(units.socket.main_pid == 0);
    CHECK(units.service.active == "failed");
    CHECK(units.service.result == "exit-code");
    CHECK(units.service.main_pid == 71);
    CHECK(read_unit_states("").socket.load.empty());
}

TEST_CASE("each state of the units has its sentence and every ill one the command that mends it") {
    const UnitState listening{"loaded", "active", "enabled", "success", 0};
    const UnitState running{"loaded", "active", "static", "success", 7};
    const UnitState absent{"not-found", "inactive", "", "success", 0};
    const UnitState masked{"masked", "inactive", "masked", "success", 0};
    const UnitState broken{"bad-setting", "inactive", "enabled", "success", 0};
    const UnitState failed{"loaded", "failed", "static", "exit-code", 0};
    const UnitState deaf{"loaded", "inactive", "enabled", "success", 0};
    const UnitState passing{"loaded", "active", "disabled", "success", 0};
    const UnitState unused{"loaded", "inactive", "disabled", "success", 0};
    struct Case {
        UnitStates units;
        std::int64_t daemon_pid;
        std::string says;
        std::string mend;  // how it begins; empty: well
    };
    const std::vector<Case> cases{
        {{listening, running}, 7, "its service runs the daemon", ""},
        {{listening, unused}, 0, "is enabled and listens", ""},
        {{absent, absent}, 7, "no unit is installed", ""},
        {{unused, unused}, 7, "installed and not enabled", ""},
        {{listening, running},
         8,
         "(pid 8) was started by somebody else",
         "agent-relay daemon stop"},
        {{masked, running}, 7, "masked", "systemctl --user unmask"},
        {{listening, masked}, 0, "masked", "systemctl --user unmask"},
        {{broken, running}, 0, "(bad-setting)", "systemctl --user daemon-reload"},
        {{listening, failed}, 0, "service has failed (exit-code)", "systemctl --user reset-failed"},
        {{failed, running}, 7, "socket has failed", "systemctl --user reset-failed"},
        {{deaf, unused}, 0, "does not listen", "systemctl --user start"},
        {{deaf, unused}, 8, "does not listen", "agent-relay daemon stop"},
        {{passing, running}, 7, "not after the next login", "systemctl --user enable"},
    };
    for (const Case& one : cases) {
        const std::vector<CheckupFinding> findings = judge_units(one.units, one.daemon_pid);
        REQUIRE(findings.size() == 1);
        CAPTURE(findings[0].what);
        CAPTURE(findings[0].mend);
        CHECK(findings[0].check == "systemd");
        CHECK(findings[0].what.find(one.says) != std::string::npos);
        CHECK(findings[0].mend.empty() == one.mend.empty());
        CHECK(findings[0].mend.starts_with(one.mend));
    }
}
