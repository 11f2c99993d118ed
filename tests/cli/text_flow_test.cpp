// SPDX-License-Identifier: Apache-2.0
#include "cli/text_flow.hpp"

#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <string_view>

using relay::cli::Screen;
using relay::cli::TextFlow;
using relay::cli::Tone;
using relay::cli::whole_characters;

TEST_CASE("streams share no line and a stream goes on in its own") {
    std::ostringstream out;
    TextFlow flow(out, {});
    flow.stream("hel", "", Tone::plain);
    CHECK(out.str() == "hel");
    flow.stream("lo\nwor", "", Tone::plain);
    flow.stream("oops\nagain\n", "! ", Tone::red);
    flow.stream("ld\n", "", Tone::plain);
    flow.say("done", Tone::dim);
    flow.finish();
    CHECK(out.str() == "hello\nwor\n! oops\n! again\nld\ndone\n");
}

TEST_CASE("a character in two pieces is printed whole and half a one is marked") {
    std::ostringstream out;
    TextFlow flow(out, {});
    const std::string text = "日本";
    for (const char byte : text) {
        flow.stream(std::string_view(&byte, 1), "", Tone::plain);
    }
    CHECK(out.str() == text);
    flow.stream("\xe6\x97", "", Tone::plain);
    CHECK(out.str() == text);
    flow.finish();
    CHECK(out.str() == text + "\xef\xbf\xbd\n");
    CHECK(whole_characters("a\xc3") == 1);
    CHECK(whole_characters("a\xc3\xa4") == 3);
    CHECK(whole_characters("\xf0\x9f\x98") == 0);
    CHECK(whole_characters("\xa4\xa4\xa4\xa4") == 4);
    CHECK(whole_characters("") == 0);
}

TEST_CASE("escapes are made visible wherever a piece ends") {
    std::ostringstream out;
    TextFlow flow(out, {});
    flow.stream("a\x1b", "", Tone::plain);
    flow.stream("[2Jb\r", "", Tone::plain);
    flow.stream("\nc\rd\te\n", "", Tone::plain);
    flow.say("title\x1b]0;x\x07", Tone::plain);
    CHECK(out.str() == "a\\x1b[2Jb\nc\\x0dd\te\ntitle\\x1b]0;x\\x07\n");
}

TEST_CASE("a filter lets whole lines through whose text it is in") {
    std::ostringstream out;
    TextFlow flow(out, {Screen{}, "A1  ", "Error"});
    flow.stream("fine\nan er", "", Tone::plain);
    flow.stream("ror here\nfine again\nERROR", "! ", Tone::plain);
    flow.space();
    flow.say("no", Tone::plain);
    flow.say("error said", Tone::plain);
    flow.finish();
    CHECK(out.str() == "A1  ! ERROR\nA1  error said\n");
    std::ostringstream same;
    TextFlow whole(same, {Screen{}, "", "error"});
    whole.stream("fine\nan er", "", Tone::plain);
    whole.stream("ror here\n", "", Tone::plain);
    CHECK(same.str() == "an error here\n");
}

TEST_CASE("colours end before each line does") {
    std::ostringstream out;
    TextFlow flow(out, {Screen{true, 80, 24}, "", ""});
    flow.stream("a\nb", "! ", Tone::red);
    flow.finish();
    CHECK(out.str() == "\x1b[31m! a\x1b[0m\n\x1b[31m! b\x1b[0m\n");
}

TEST_CASE("an empty line is printed once and not at the beginning") {
    std::ostringstream out;
    TextFlow flow(out, {});
    flow.space();
    flow.say("a", Tone::plain);
    flow.space();
    flow.space();
    flow.stream("b", "", Tone::plain);
    flow.space();
    CHECK(out.str() == "a\n\nb\n\n");
}
