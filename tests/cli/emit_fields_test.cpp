// SPDX-License-Identifier: Apache-2.0
#include "cli/emit_fields.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <initializer_list>
#include <string>

using relay::cli::add_defaults;
using relay::cli::add_field;
using relay::cli::attach_request;
using relay::cli::Caller;
using relay::cli::exit_code_of;
using relay::cli::ExitCode;
using relay::cli::Fields;
using relay::cli::needs_ownership;
using relay::cli::parse_object;
using relay::cli::PlainValues;
using relay::cli::to_line;
using relay::layout::Errc;
using relay::layout::Error;
using relay::layout::Result;

namespace {

Result<std::string> read_fake(const std::string& path) {
    if (path == "prompt.md") {
        return std::string("fix \"it\"\n");
    }
    if (path == "numbers.json") {
        return std::string("[1, 2]");
    }
    if (path == "bytes.bin") {
        return std::string("\xff\x00\xfe", 3);
    }
    return Error{Errc::not_found, 0, "read \"" + path + "\": No such file or directory"};
}

std::string
line_of(std::initializer_list<const char*> arguments, PlainValues plain = PlainValues::strings) {
    Fields fields = Fields::object();
    for (const char* const argument : arguments) {
        REQUIRE(add_field(fields, argument, plain, read_fake).ok());
    }
    return to_line(fields).value();
}

std::string refusal(const char* argument, PlainValues plain = PlainValues::strings) {
    Fields fields = Fields::object();
    const auto added = add_field(fields, argument, plain, read_fake);
    REQUIRE_FALSE(added.ok());
    CHECK(added.error().code == Errc::invalid);
    CHECK(fields.empty());
    return added.error().context;
}

Fields event(const char* text) {
    return Fields::parse(text);
}

const Caller caller{"/home/u/repo", 4711, "01J9X3M7K5VBHQEN6T2F4D8RPZ"};

std::string completed(const char* text, const Caller& by = caller) {
    Fields fields = event(text);
    REQUIRE(add_defaults(fields, by).ok());
    return fields.dump();
}

}  // namespace

TEST_CASE("a field of emit is a string or JSON or a file by how it is written") {
    CHECK(
        line_of({"a=b", "c=1", "d=", "e=x=y", "f:g=h"})
        == R"({"a":"b","c":"1","d":"","e":"x=y","f:g":"h"})");
    CHECK(
        line_of({"n:=1", "o:={\"x\":[true,null]}", "s:=\"@text\""})
        == R"({"n":1,"o":{"x":[true,null]},"s":"@text"})");
    CHECK(
        line_of({"prompt=@prompt.md", "list:=@numbers.json"})
        == R"({"prompt":"fix \"it\"\n","list":[1,2]})");
    CHECK(line_of({"n=1", "b=true"}, PlainValues::json) == R"({"n":1,"b":true})");
    CHECK(line_of({"a=1", "b=2", "a=3"}) == R"({"a":"3","b":"2"})");
}

TEST_CASE("the bytes of a file reach data as base64 and nothing else as bytes") {
    CHECK(line_of({"data=@bytes.bin"}) == R"({"data":"/wD+"})");
    CHECK(line_of({"data=already"}) == R"({"data":"already"})");
    CHECK(
        refusal("text=@bytes.bin") == "field \"text\" is no UTF-8 text; bytes go into data=@file");
    CHECK(refusal("text=\xff") == "field \"text\" is no UTF-8 text; bytes go into data=@file");
}

TEST_CASE("a field of emit that cannot be understood is refused by name") {
    CHECK(refusal("word") == "\"word\" is no field; write key=value, key:=json or key=@file");
    CHECK(refusal("=x") == "\"=x\" is no field; write key=value, key:=json or key=@file");
    CHECK(refusal(":=x") == "\":=x\" is no field; write key=value, key:=json or key=@file");
    CHECK(refusal("p=@gone.md") == "field \"p\": read \"gone.md\": No such file or directory");
    CHECK(refusal("n:={").starts_with("field \"n\" is no JSON: parse error"));
    CHECK(refusal("n:=").starts_with("field \"n\" is no JSON: "));
    CHECK(refusal("n:=1 2").starts_with("field \"n\" is no JSON: "));
    CHECK(refusal("n=word", PlainValues::json).starts_with("field \"n\" is no JSON: "));
    const std::string deep = "n:=" + std::string(100'000, '[');
    CHECK(refusal(deep.c_str()) == "field \"n\" is nested deeper than 256 levels");
}

TEST_CASE("brackets inside strings do not count as depth") {
    const std::string text = "s:=\"\\\"" + std::string(1'000, '[') + "\"";
    CHECK(line_of({text.c_str()}) == "{\"s\":\"\\\"" + std::string(1'000, '[') + "\"}");
    const std::string wide = "[" + std::string("[],[],[]") + "]";
    CHECK(line_of({("w:=" + wide).c_str()}) == "{\"w\":" + wide + "}");
}

TEST_CASE("the input of emit is one object or nothing at all") {
    CHECK(parse_object("{\"type\":\"flush\"}\n").value().dump() == R"({"type":"flush"})");
    CHECK(parse_object("").value().dump() == "{}");
    CHECK(parse_object(" \n\t\r").value().dump() == "{}");
    CHECK(
        parse_object("[1]").error().context
        == "the input must be one JSON object, such as {\"type\":\"turn.end\"}");
    CHECK(parse_object("{} {}").error().context.starts_with("the input is no JSON: "));
    CHECK_FALSE(parse_object("{\"a\":\"\xff\"}").ok());
}

TEST_CASE("emit completes an event with its session and its owner and its place") {
    CHECK(
        completed(R"({"type":"turn.end"})")
        == R"({"type":"turn.end","session":"01J9X3M7K5VBHQEN6T2F4D8RPZ","id":2})");
    CHECK(
        completed(R"({"type":"turn.end","session":"x","id":"mine"})")
        == R"({"type":"turn.end","session":"x","id":"mine"})");
    CHECK(
        completed(R"({"type":"session.start"})")
        == R"({"type":"session.start","agent":"custom","cwd":"/home/u/repo","pid":4711,"id":2})");
    CHECK(
        completed(R"({"type":"session.start","agent":"a","cwd":"/","pid":1})")
        == R"({"type":"session.start","agent":"a","cwd":"/","pid":1,"id":2})");
    CHECK(
        completed(R"({"type":"session.attach","session":"x"})")
        == R"({"type":"session.attach","session":"x","pid":4711,"id":2})");
    for (const char* const type : {"hello", "session.list", "follow", "flush", "status"}) {
        CAPTURE(type);
        const Fields fields{{"type", type}};
        CHECK_FALSE(event(completed(fields.dump().c_str()).c_str()).contains("session"));
    }
}

TEST_CASE("an event without its type or its session is refused before it is sent") {
    Fields nameless = event(R"({"session":"x"})");
    CHECK(
        add_defaults(nameless, caller).error().context
        == "the event needs a type, such as turn.note");
    for (const std::optional<std::string>& session :
         {std::optional<std::string>(), std::optional<std::string>("")}) {
        Fields fields = event(R"({"type":"turn.note"})");
        CHECK(
            add_defaults(fields, Caller{"/", 1, session}).error().context
            == "turn.note needs a session; give session=<id> or set AGENT_RELAY_SESSION");
    }
}

TEST_CASE("emit attaches for what only the owner may send and for nothing else") {
    for (const char* const type :
         {"turn.start",
          "turn.output",
          "turn.stderr",
          "turn.tool",
          "turn.end",
          "session.end",
          "session.checkpoint"}) {
        CAPTURE(type);
        CHECK(needs_ownership(Fields{{"type", type}}));
    }
    for (const char* const type :
         {"turn.note",
          "session.update",
          "session.attachment",
          "session.start",
          "session.attach",
          "session.get",
          "status"}) {
        CAPTURE(type);
        CHECK_FALSE(needs_ownership(Fields{{"type", type}}));
    }
    CHECK_FALSE(needs_ownership(event(R"({"type":"session.checkpoint","force":true})")));
    CHECK(needs_ownership(event(R"({"type":"session.checkpoint","force":false})")));
    CHECK(needs_ownership(event(R"({"type":"turn.end","force":true})")));
}

TEST_CASE("the attach before an event names its session and the calling process") {
    const Fields turn_end = event(R"({"type":"turn.end","session":"S","id":9})");
    CHECK(
        attach_request(turn_end, caller, false).dump()
        == R"({"type":"session.attach","session":"S","pid":4711,"id":1})");
    CHECK(
        attach_request(turn_end, caller, true).dump()
        == R"({"type":"session.attach","session":"S","pid":4711,"reopen":true,"id":1})");
}

TEST_CASE("the exit status of emit follows the answer") {
    CHECK(exit_code_of(R"({"type":"ack","id":2})") == ExitCode::ok);
    CHECK(exit_code_of(R"({"type":"error","id":2,"code":"ended"})") == ExitCode::failed);
    CHECK(
        exit_code_of(R"({"type":"error","code":"unknown_session"})") == ExitCode::no_such_session);
    CHECK(exit_code_of("nonsense") == ExitCode::failed);
    CHECK(exit_code_of("[]") == ExitCode::failed);
}
