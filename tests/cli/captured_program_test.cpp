// SPDX-License-Identifier: Apache-2.0
#include "cli/captured_program.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <string>

using relay::cli::ask_program;
using relay::cli::Question;
using relay::layout::Errc;
using std::chrono::steady_clock;

namespace {

Question shell(const std::string& line, std::chrono::milliseconds time = std::chrono::seconds(20)) {
    Question question;
    question.program = "/bin/sh";
    question.words = {"sh", "-c", line};
    question.environment = {"WORD=here", "PATH=/usr/bin:/bin"};
    question.deadline = steady_clock::now() + time;
    return question;
}

}  // namespace

TEST_CASE("a small program answers with what it prints") {
    CHECK(ask_program(shell("echo $WORD; echo noise >&2")).value() == "here\n");
    const std::string large(3'000'000, 'x');
    Question echo = shell("cat");
    echo.input = large;
    CHECK(ask_program(echo).value() == large);
    // One that does not care for its input is no trouble.
    Question deaf = shell("echo done");
    deaf.input = large;
    CHECK(ask_program(deaf).value() == "done\n");
}

TEST_CASE("a small program that fails or takes too long or says too much has no answer") {
    CHECK(ask_program(shell("echo half; exit 1")).error().code == Errc::io);
    CHECK(ask_program(shell("kill -9 $$")).error().code == Errc::io);
    const auto began = steady_clock::now();
    CHECK(
        ask_program(shell("exec sleep 60", std::chrono::milliseconds(50))).error().code
        == Errc::busy);
    CHECK(steady_clock::now() - began < std::chrono::seconds(30));
    Question chatty = shell("yes");
    chatty.output_bytes_max = 100'000;
    CHECK(ask_program(chatty).error().code == Errc::busy);
    Question absent = shell("");
    absent.program = "/no/such/program";
    CHECK_FALSE(ask_program(absent).ok());
}
