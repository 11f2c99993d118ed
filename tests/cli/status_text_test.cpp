// SPDX-License-Identifier: Apache-2.0
#include "cli/status_text.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using nlohmann::ordered_json;
using relay::cli::status_text;

TEST_CASE("what the daemon answers to status is told a line a subject") {
    const ordered_json status = ordered_json::parse(
        R"({"type":"ack","id":1,"pid":7,"version":"0.1.0","protocol":1,"uptime_ms":125000,"sessions":2,)"
        R"("connections":1,"followers":0,"events":22,"acks":21,"redactions":1,"queue_depth":3,)"
        R"("inflight_bytes":512,"journal_bytes":33554432,"journal_lsn":11,"checkpoint_age_ms":1424,)"
        R"("commits":100,"changes":250,"fsync_us":[{"below":256,"count":60},{"below":4096,"count":38},)"
        R"({"below":8192,"count":2}],"fsync_us_sum":5,"volumes":[{"name":"8:1","anchor":"/home",)"
        R"("state":"well","sessions":4,"queued":0},{"name":"8:2","anchor":"/m\u001b","state":"deferred",)"
        R"("since":"2026-11-16T11:38:00.000Z","reason":"disk full","sessions":1,"queued":9}],)"
        R"("errors":{"refused":5,"refused_connections":2,"journal":null,"checkpoint":"no space"}})");
    CHECK(
        status_text(status)
        == "  version     0.1.0, protocol 1\n"
           "  up          2m05s\n"
           "  sessions    2 being recorded, 1 connection, 0 followers\n"
           "  events      22 taken, 21 answered, 5 refused, 1 redaction\n"
           "  waiting     3 changes, 512B in flight\n"
           "  refused     2 connections beyond daemon.max_connections\n"
           "  journal     34MB, batch 11, 1s without a checkpoint\n"
           "  commits     100 with 250 changes, half of them within 256us, 99% within 8ms\n"
           "  volume      /home (8:1): well, 4 sessions, 0 changes waiting\n"
           "  volume      /m\\x1b (8:2): deferred since 2026-11-16T11:38:00.000Z, disk full, 1 "
           "session, 9 "
           "changes waiting\n"
           "  ill         the checkpoint failed: no space\n");
}

TEST_CASE("a daemon that answers little is told of without its silence") {
    CHECK(
        status_text(ordered_json::object()).find("commits     0 with 0 changes\n")
        != std::string::npos);
}
