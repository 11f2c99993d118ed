// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.hpp"
#include "layout/documents.hpp"
#include "tests/support/temporary_directory.hpp"

#include <doctest/doctest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

using relay::cli::CommandLine;
using relay::cli::ExitCode;
using relay::cli::Surroundings;
using relay::cli::verify_command;
using relay::layout::Meta;
using relay::layout::Ulid;
using relay::tests::TemporaryDirectory;

namespace {

// A session that claims `turn_count` sealed turns and has none.
std::string make_session(const std::string& parent, std::int64_t turn_count) {
    Meta meta;
    meta.id =
        *Ulid::parse(turn_count == 0 ? "01J9X3M7K5VBHQEN6T2F4D8RPZ" : "01J9X3M7K5VBHQEN6T2F4D8RQ0");
    meta.turn_count = turn_count;
    std::string path = parent + "/" + meta.id.text();
    REQUIRE(::mkdir(path.c_str(), 0700) == 0);
    std::ofstream(path + "/meta.json") << encode_meta(meta);
    return path;
}

struct Outcome {
    ExitCode code = ExitCode::ok;
    std::string out;
};

Outcome verify(std::vector<std::string> directories, bool json = false) {
    std::ostringstream out;
    std::ostringstream err;
    CommandLine line;
    line.arguments = std::move(directories);
    line.json = json;
    const Surroundings surroundings{
        [](const char*) { return std::optional<std::string>(); }, out, err, false};
    const ExitCode code = verify_command(line, surroundings);
    return {code, out.str()};
}

}  // namespace

TEST_CASE("a whole session verifies by its path and by a link with another name") {
    const TemporaryDirectory directory;
    const std::string session = make_session(directory.path(), 0);
    const std::string link = directory.path() + "/latest";
    REQUIRE(::symlink(session.c_str(), link.c_str()) == 0);
    for (const std::string& name : {session, session + "/", link}) {
        const Outcome outcome = verify({name});
        CHECK(outcome.code == ExitCode::ok);
        CHECK(outcome.out == name + ": ok, 0 sealed turns\n");
    }
    CHECK(
        verify({session}, /*json=*/true).out
        == "{\"v\":1,\"session\":\"" + session.substr(session.rfind('/') + 1) + "\",\"path\":\""
               + session
               + "\",\"ok\":true,\"turns\":0,\"open_turns\":0,\"damage\":[],\"remarks\":[]}\n");
}

TEST_CASE("damage is listed by file and decides the exit status of all") {
    const TemporaryDirectory directory;
    const std::string whole = make_session(directory.path(), 0);
    const std::string damaged = make_session(directory.path(), 2);
    const Outcome outcome = verify({damaged, directory.path() + "/none", whole});
    CHECK(outcome.code == ExitCode::damaged);
    CHECK(outcome.out.starts_with(damaged + ": damaged in "));
    CHECK(outcome.out.find("\n  damage  ") != std::string::npos);
    CHECK(outcome.out.find(whole + ": ok, ") != std::string::npos);
    const Outcome json = verify({damaged}, /*json=*/true);
    CHECK(json.code == ExitCode::damaged);
    CHECK(json.out.find("\"ok\":false") != std::string::npos);
    CHECK(json.out.find("\"damage\":[{\"file\":\"") != std::string::npos);
    CHECK(verify({whole, directory.path() + "/none"}).code == ExitCode::no_such_session);
}
