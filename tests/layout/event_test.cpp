// SPDX-License-Identifier: Apache-2.0
#include "layout/event.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace relay::layout {

namespace {

constexpr std::string_view session_text = "01J9X3M7K5VBHQEN6T2F4D8RPZ";

// A request of `type` for the session, with `rest` as its further members.
std::string request(std::string_view type, std::string_view rest = {}) {
    std::string line = R"({"type":")";
    line.append(type).append(R"(","id":7,"session":")").append(session_text).append("\"");
    if (!rest.empty()) {
        line.append(",").append(rest);
    }
    return line + "}";
}

std::string start(std::string_view rest) {
    std::string line = R"({"type":"session.start","id":7,"agent":"codex","cwd":"/w",)";
    return line.append(rest).append("}");
}

Event accepted(EventDecoder& decoder, std::string_view line) {
    std::variant<Event, Refusal> result = decoder.decode(line);
    if (const Refusal* const refusal = std::get_if<Refusal>(&result)) {
        FAIL("refused: " << refusal->message << " in " << line.substr(0, 200));
    }
    return std::get<Event>(std::move(result));
}

template<typename Body>
Body body_of(EventDecoder& decoder, std::string_view line) {
    Event event = accepted(decoder, line);
    REQUIRE(std::holds_alternative<Body>(event.body));
    return std::get<Body>(std::move(event.body));
}

Refusal refused(std::string_view line) {
    EventDecoder decoder;
    std::variant<Event, Refusal> result = decoder.decode(line);
    if (std::holds_alternative<Event>(result)) {
        FAIL("accepted: " << line.substr(0, 200));
    }
    return std::get<Refusal>(std::move(result));
}

// A line, and what its refusal says or holds.
struct Refused {
    std::string line;
    std::string message;
};

std::string nested(std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
}

}  // namespace

TEST_CASE("a request carries its id and session and seq whatever the order of its fields") {
    EventDecoder decoder;
    const Event event = accepted(
        decoder,
        R"({"seq":41,"text":"hi","session":"01j9x3m7k5vbhqen6t2f4d8rpz","id":7,"type":"turn.output"})");
    CHECK(event.id == "7");
    CHECK(event.seq == 41);
    REQUIRE(event.session.has_value());
    CHECK(event.session->text() == session_text);
    CHECK(std::get<TurnBytes>(event.body).bytes == "hi");
}

TEST_CASE("an id is echoed as the JSON it was sent as") {
    EventDecoder decoder;
    struct Example {
        std::string sent;
        std::string echoed;
    };
    const std::vector<Example> cases{
        {"7", "7"},
        {"-9223372036854775808", "-9223372036854775808"},
        {"18446744073709551615", "18446744073709551615"},
        {"1.5", "1.5"},
        {R"("a\"b\n\u00e4")", "\"a\\\"b\\n\u00e4\""},
        {R"("")", R"("")"},
        {"null", ""},
    };
    for (const Example& example : cases) {
        CAPTURE(example.sent);
        const Event event = accepted(decoder, R"({"type":"flush","id":)" + example.sent + "}");
        CHECK(event.id == example.echoed);
    }
    CHECK(accepted(decoder, R"({"type":"flush"})").id.empty());
}

TEST_CASE("an id that is no string or number or is too long is refused without an echo") {
    for (const std::string& id :
         {std::string("true"),
          std::string("[1]"),
          std::string("{}"),
          '"' + std::string(255, 'a') + '"'}) {
        CAPTURE(id);
        const Refusal refusal = refused(R"({"type":"flush","id":)" + id + "}");
        CHECK(refusal.code == WireError::bad_field);
        CHECK(refusal.id.empty());
        CHECK(refusal.message.starts_with(R"(field "id" )"));
    }
    EventDecoder decoder;
    const std::string longest = '"' + std::string(254, 'a') + '"';
    CHECK(accepted(decoder, R"({"type":"flush","id":)" + longest + "}").id == longest);
}

TEST_CASE("every wire type is decoded into its own body") {
    EventDecoder decoder;
    CHECK(body_of<Hello>(decoder, R"({"type":"hello","protocol":1,"client":"x"})").client == "x");
    CHECK(body_of<SessionStart>(decoder, start(R"("pid":5)")).pid == 5);
    CHECK(
        body_of<SessionAttach>(decoder, request("session.attach", R"("reopen":true,"pid":9)")).pid
        == 9);
    CHECK(
        body_of<TurnStart>(decoder, request("turn.start", R"("prompt":"","model":"m")")).model
        == "m");
    CHECK(
        body_of<TurnBytes>(decoder, request("turn.output", R"("text":"")")).stream
        == Stream::output);
    CHECK(
        body_of<TurnBytes>(decoder, request("turn.stderr", R"("text":"")")).stream
        == Stream::stderr_log);
    CHECK(
        body_of<TurnTool>(
            decoder, request("turn.tool", R"("tool_id":"t","name":"n","status":"ok")"))
            .name
        == "n");
    CHECK(
        body_of<TurnNote>(decoder, request("turn.note", R"("kind":"k","payload":[1, 2])"))
            .payload.text
        == "[1,2]");
    CHECK_FALSE(body_of<TurnEnd>(decoder, request("turn.end")).status.has_value());
    CHECK_FALSE(body_of<SessionUpdate>(decoder, request("session.update")).name.has_value());
    CHECK(
        body_of<SessionAttachment>(
            decoder, request("session.attachment", R"("name":"a","data":"aGk=")"))
            .bytes
        == "hi");
    CHECK(body_of<SessionCheckpoint>(
              decoder, request("session.checkpoint", R"("reason":"manual","force":true)"))
              .force);
    CHECK(
        body_of<SessionEnd>(decoder, request("session.end", R"("exit_code":-1,"error":"e")"))
            .exit_code
        == -1);
    CHECK(body_of<SessionList>(decoder, R"({"type":"session.list"})").limit == 100);
    body_of<SessionGet>(decoder, request("session.get"));
    CHECK(body_of<Follow>(decoder, R"({"type":"follow","from_seq":3})").from_seq == 3);
    body_of<Flush>(decoder, R"({"type":"flush"})");
    body_of<StatusQuery>(decoder, R"({"type":"status"})");
}

TEST_CASE("a session start keeps every field it was given") {
    EventDecoder decoder;
    const SessionStart body = body_of<SessionStart>(
        decoder,
        start(
            R"("command":["codex","--x y"],"name":"n","model":"m","user":"u","labels":["a","b::1"],
                "parent":{"session":"01j9x3m7k5vbhqen6t2f4d8rpz","turn":4,"relation":"fork","more":1},
                "store":"repo","pid":12,"ephemeral":true,"extra":{ "k" : [1.5, null, "\n"] })"));
    CHECK(body.agent == "codex");
    CHECK(body.cwd == "/w");
    CHECK(body.command == std::vector<std::string>{"codex", "--x y"});
    CHECK(body.name == "n");
    CHECK(body.model == "m");
    CHECK(body.user == "u");
    CHECK(body.labels == std::vector<std::string>{"a", "b::1"});
    CHECK(body.parent == Parent{std::string(session_text), 4, "fork"});
    CHECK(body.store == "repo");
    CHECK(body.pid == 12);
    CHECK(body.ephemeral);
    CHECK(body.extra.text == R"({"k":[1.5,null,"\n"]})");
}

TEST_CASE("a turn end keeps every field it was given") {
    EventDecoder decoder;
    // Its view of the diff lives as long as the decoder's buffers do.
    const TurnEnd body = body_of<TurnEnd>(
        decoder,
        request(
            "turn.end",
            R"("status":"failed","stop_reason":"s",
               "tokens":{"input":1,"output":2,"cache_read":3,"cache_write":4,"reasoning":null,"total":10,"x":"y"},
               "cost_usd":2,"files":[{"path":"a"}],"validation":{"tests":"red"},"diff":"d\n","dirty":true,"next_task":"n",
               "limit":{"kind":"rate"},"exit_code":3,"error":"e","extra":{})"));
    CHECK(body.status == "failed");
    CHECK(body.stop_reason == "s");
    CHECK(body.tokens == Tokens{1, 2, 3, 4, std::nullopt, 10});
    CHECK(body.cost_usd == 2.0);
    CHECK(body.files.text == R"([{"path":"a"}])");
    CHECK(body.validation.text == R"({"tests":"red"})");
    CHECK(body.diff == "d\n");
    CHECK(body.dirty == true);
    CHECK(body.next_task == "n");
    CHECK(body.limit.text == R"({"kind":"rate"})");
    CHECK(body.exit_code == 3);
    CHECK(body.error == "e");
    CHECK(body.extra.text == "{}");
}

TEST_CASE("tools and notes and checkpoints keep their JSON on one line") {
    EventDecoder decoder;
    const TurnTool tool = body_of<TurnTool>(
        decoder,
        request(
            "turn.tool",
            R"("tool_id":"t","name":"n","status":"started","summary":"s","input":{ "a": "\u0000" },"output":12)"));
    CHECK(tool.status == "started");
    CHECK(tool.summary == "s");
    CHECK(tool.input.text == R"({"a":"\u0000"})");
    CHECK(tool.output.text == "12");
    const SessionCheckpoint checkpoint = body_of<SessionCheckpoint>(
        decoder,
        request(
            "session.checkpoint",
            R"("reason":"r","decisions":[{"id":1}],"blockers":[],"validation_state":{"a":1},"next_task":"n","limit":{})"));
    CHECK(checkpoint.decisions.text == R"([{"id":1}])");
    CHECK(checkpoint.blockers.text == "[]");
    CHECK(checkpoint.validation_state.text == R"({"a":1})");
    CHECK(checkpoint.next_task == "n");
    CHECK(checkpoint.limit.text == "{}");
}

TEST_CASE("session list filters are read within their bounds") {
    EventDecoder decoder;
    const SessionList list = body_of<SessionList>(
        decoder,
        R"({"type":"session.list","status":"active","agent":"a","label":"l","cwd":"/c","limit":1000,"session":5})");
    CHECK(list.status == "active");
    CHECK(list.agent == "a");
    CHECK(list.label == "l");
    CHECK(list.cwd == "/c");
    CHECK(list.limit == 1000);
}

TEST_CASE("a field that is null counts as absent") {
    EventDecoder decoder;
    const Event event = accepted(
        decoder,
        R"({"type":"session.start","id":null,"session":null,"seq":null,"agent":"a","cwd":"/","name":null,
            "labels":null,"parent":null,"pid":null,"ephemeral":null,"extra":null,"command":null})");
    CHECK(event.id.empty());
    CHECK_FALSE(event.session.has_value());
    CHECK_FALSE(event.seq.has_value());
    const SessionStart& body = std::get<SessionStart>(event.body);
    CHECK_FALSE(body.name.has_value());
    CHECK_FALSE(body.parent.has_value());
    CHECK(body.extra.empty());
    CHECK(
        refused(request("turn.start", R"("prompt":null)")).message
        == R"(field "prompt" is missing: turn.start needs it)");
}

TEST_CASE("an update tells clearing from leaving alone") {
    EventDecoder decoder;
    const SessionUpdate body = body_of<SessionUpdate>(
        decoder,
        request(
            "session.update",
            R"("name":null,"model":"m","labels":[],"flagged":true,"archived":false,"unread":null,"extra":{"a":1})"));
    REQUIRE(body.name.has_value());
    CHECK_FALSE(body.name->has_value());
    REQUIRE(body.model.has_value());
    CHECK(*body.model == "m");
    CHECK_FALSE(body.stage.has_value());
    REQUIRE(body.labels.has_value());
    CHECK(body.labels->empty());
    CHECK(body.flagged == true);
    CHECK(body.archived == false);
    CHECK_FALSE(body.unread.has_value());
    REQUIRE(body.extra.has_value());
    CHECK(body.extra->text == R"({"a":1})");
}

TEST_CASE("output is either text or base64 and may hold any byte") {
    EventDecoder decoder;
    {
        const Event event = accepted(
            decoder, request("turn.output", R"("text":"a\u0000\u00fc\n","channel":"reasoning")"));
        const TurnBytes& body = std::get<TurnBytes>(event.body);
        CHECK(body.bytes == std::string_view("a\0\u00fc\n", 5));
        CHECK(body.channel == Channel::reasoning);
    }
    {
        const Event event =
            accepted(decoder, request("turn.stderr", R"("data":"/wCA","channel":"tool")"));
        const TurnBytes& body = std::get<TurnBytes>(event.body);
        CHECK(body.bytes == std::string_view("\xff\0\x80", 3));
        CHECK(body.channel == Channel::tool);
    }
    CHECK(
        accepted(decoder, request("turn.output", R"("data":"")")).body.index()
        != std::variant_npos);
    CHECK(
        refused(request("turn.output")).message
        == R"(field "text" or "data" is missing: turn.output needs it)");
    CHECK(refused(request("turn.output", R"("text":"","data":"")")).code == WireError::bad_field);
    CHECK(refused(request("turn.output", R"("data":"","text":"")")).code == WireError::bad_field);
    CHECK(
        refused(request("turn.output", R"("data":"a b=")")).message.find("base64")
        != std::string::npos);
}

TEST_CASE("every required field is missed by name") {
    const std::vector<Refused> cases{
        {R"({"id":7})", R"(field "type" is missing: every request needs it)"},
        {R"({"id":7,"type":"session.start","cwd":"/"})",
         R"(field "agent" is missing: session.start needs it)"},
        {R"({"id":7,"type":"session.start","agent":"a"})",
         R"(field "cwd" is missing: session.start needs it)"},
        {request("turn.start"), R"(field "prompt" is missing: turn.start needs it)"},
        {request("turn.tool", R"("name":"n","status":"ok")"),
         R"(field "tool_id" is missing: turn.tool needs it)"},
        {request("turn.tool", R"("tool_id":"n","status":"ok")"),
         R"(field "name" is missing: turn.tool needs it)"},
        {request("turn.tool", R"("tool_id":"n","name":"n")"),
         R"(field "status" is missing: turn.tool needs it)"},
        {request("turn.note"), R"(field "kind" is missing: turn.note needs it)"},
        {request("session.attachment", R"("data":"")"),
         R"(field "name" is missing: session.attachment needs it)"},
        {request("session.attachment", R"("name":"a")"),
         R"(field "data" is missing: session.attachment needs it)"},
        {request("session.checkpoint"),
         R"(field "reason" is missing: session.checkpoint needs it)"},
    };
    for (const Refused& example : cases) {
        CAPTURE(example.line);
        const Refusal refusal = refused(example.line);
        CHECK(refusal.code == WireError::bad_field);
        CHECK(refusal.message == example.message);
        CHECK(refusal.id == "7");
    }
}

TEST_CASE("every type that works on a session misses its session") {
    const std::vector<std::pair<std::string, std::string>> cases{
        {"session.attach", ""},
        {"turn.start", R"(,"prompt":"")"},
        {"turn.output", R"(,"text":"")"},
        {"turn.stderr", R"(,"text":"")"},
        {"turn.tool", R"(,"tool_id":"t","name":"n","status":"ok")"},
        {"turn.note", R"(,"kind":"k")"},
        {"turn.end", ""},
        {"session.update", ""},
        {"session.attachment", R"(,"name":"n","data":"")"},
        {"session.checkpoint", R"(,"reason":"r")"},
        {"session.end", ""},
        {"session.get", ""},
    };
    for (const auto& [type, rest] : cases) {
        const Refusal refusal = refused("{\"type\":\"" + type + "\"" + rest + "}");
        CHECK(refusal.message == "field \"session\" is missing: " + type + " needs it");
    }
}

TEST_CASE("a wrong type is refused naming the field and both types") {
    const std::vector<Refused> cases{
        {R"({"type":5,"id":7})", R"(field "type" must be a string, got number)"},
        {R"({"type":"session.start","id":7,"agent":"a","cwd":5})",
         R"(field "cwd" must be a string, got number)"},
        {R"({"type":"turn.end","id":7,"session":[]})",
         R"(field "session" must be a string, got array)"},
        {request("turn.end", R"("seq":"1")"), R"(field "seq" must be an integer, got string)"},
        {request("turn.end", R"("cost_usd":"1")"),
         R"(field "cost_usd" must be a number, got string)"},
        {request("turn.end", R"("tokens":[])"),
         R"(field "tokens" must be an object of counts, got array)"},
        {request("turn.end", R"("tokens":{"input":true})"),
         R"(field "tokens.input" must be an integer, got boolean)"},
        {request("turn.end", R"("files":{})"),
         R"(field "files" must be an array of objects, got object)"},
        {request("turn.end", R"("files":[{},1])"),
         R"(field "files" must be an array of objects, got number at index 1)"},
        {request("turn.end", R"("validation":[])"),
         R"(field "validation" must be an object, got array)"},
        {request("turn.end", R"("limit":"x")"), R"(field "limit" must be an object, got string)"},
        {request("turn.end", R"("diff":{})"), R"(field "diff" must be a string, got object)"},
        {request("turn.end", R"("extra":[])"), R"(field "extra" must be an object, got array)"},
        {request("session.update", R"("flagged":1)"),
         R"(field "flagged" must be true or false, got number)"},
        {request("session.update", R"("name":1)"), R"(field "name" must be a string, got number)"},
        {start(R"("labels":["a",null])"),
         R"(field "labels" must be an array of strings, got null at index 1)"},
        {start(R"("command":"ls")"), R"(field "command" must be an array of strings, got string)"},
        {start(R"("parent":"x")"),
         R"(field "parent" must be an object {session, turn, relation}, got string)"},
        {start(R"("parent":{"session":1})"),
         R"(field "parent.session" must be a string, got number)"},
    };
    for (const Refused& example : cases) {
        CAPTURE(example.line);
        const Refusal refusal = refused(example.line);
        CHECK(refusal.code == WireError::bad_field);
        CHECK(refusal.message == example.message);
        CHECK(refusal.id == "7");
    }
}

TEST_CASE("a value out of its bounds is refused naming the bound") {
    const auto text_of = [](std::size_t bytes) {
        return '"' + std::string(bytes, 'a') + '"';
    };
    std::string many_labels;
    for (int label = 0; label < 65; ++label) {
        many_labels += many_labels.empty() ? "\"l\"" : ",\"l\"";
    }
    const std::vector<Refused> cases{
        {request("turn.end", R"("seq":0)"), "from 1 to 9223372036854775807, got 0"},
        {request("turn.end", R"("seq":1.5)"), "got 1.5"},
        {request("turn.end", R"("seq":9223372036854775808)"), "got 9223372036854775808"},
        {request("turn.end", R"("cost_usd":-0.5)"), "at least 0, got -0.5"},
        {request("turn.end", R"("tokens":{"total":-1})"), "tokens.total"},
        {request("turn.end", R"("status":"done")"),
         R"(completed, interrupted, failed; got "done")"},
        {request("turn.tool", R"("tool_id":"t","name":"n","status":"done")"), "started, ok, error"},
        {request("turn.tool", R"("tool_id":"","name":"n","status":"ok")"), "must not be empty"},
        {request("turn.output", R"("text":"","channel":"x")"), "text, reasoning, tool"},
        {request("turn.note", R"("kind":"")"), "must not be empty"},
        {request("session.checkpoint", R"("reason":"")"), "must not be empty"},
        {request("session.checkpoint", R"("reason":)" + text_of(1025)), "1025 bytes; at most 1024"},
        {request("session.update", R"("name":)" + text_of(4097)), "4097 bytes; at most 4096"},
        {request("turn.end", R"("extra":{"a":)" + text_of(16384) + "}"), "at most 16384"},
        {R"({"type":"turn.end","session":"01J9X3M7K5"})", R"("01J9X3M7K5" is no ULID)"},
        {R"({"type":"session.start","agent":"","cwd":"/"})", "must not be empty"},
        {R"({"type":"session.start","agent":"a\u001bb","cwd":"/"})", "control characters"},
        {R"({"type":"session.start","cwd":"/","agent":)" + text_of(129) + "}", "at most 128"},
        {R"({"type":"session.start","agent":"a","cwd":""})", "absolute path"},
        {R"({"type":"session.start","agent":"a","cwd":"w"})", "absolute path"},
        {R"({"type":"session.start","agent":"a","cwd":"/\u0000"})", "NUL"},
        {start(R"("store":"disk")"), "user, repo, auto"},
        {start(R"("pid":0)"), "from 1 to"},
        {start(R"("labels":[)" + many_labels + "]"), "65 labels; at most 64"},
        {start(R"("labels":[)" + text_of(257) + "]"), "257 bytes; at most 256"},
        {start(R"("command":[)" + text_of(131073) + "]"), "at most 131072"},
        {start(R"("parent":{"session":"x","relation":"fork"})"), "no ULID"},
        {start(R"("parent":{"relation":"fork"})"), R"(needs both "session" and "relation")"},
        {start(R"("parent":{"relation":"child"})"), "resume, fork, clone, subagent"},
        {R"({"type":"session.list","limit":0})", "from 1 to 1000"},
        {R"({"type":"session.list","limit":1001})", "from 1 to 1000"},
        {R"({"type":"session.list","status":"x"})", "active, checkpointed, completed"},
    };
    for (const Refused& example : cases) {
        CAPTURE(example.line.substr(0, 120));
        const Refusal refusal = refused(example.line);
        CHECK(refusal.code == WireError::bad_field);
        CHECK_MESSAGE(refusal.message.find(example.message) != std::string::npos, refusal.message);
    }
}

TEST_CASE("JSON that is kept nests at most 64 levels") {
    EventDecoder decoder;
    for (const std::size_t depth : {1U, 15U, 16U, 17U, 33U, 64U}) {
        CHECK(
            body_of<TurnNote>(
                decoder, request("turn.note", R"("kind":"k","payload":)" + nested(depth)))
                .payload.text
            == nested(depth));
    }
    const Refusal refusal = refused(request("turn.note", R"("kind":"k","payload":)" + nested(65)));
    CHECK(refusal.code == WireError::bad_field);
    CHECK(refusal.message == R"(field "payload" nests 65 levels deep; at most 64 are allowed)");
    CHECK(accepted(decoder, request("turn.note", R"("kind":"k","payload":"[[[\"[[")")).id == "7");
    accepted(decoder, request("turn.note", R"("kind":"k","ignored":)" + nested(1000)));
}

TEST_CASE("a line that is no JSON object is refused with the reason in words") {
    const std::vector<Refused> cases{
        {"", "empty"},
        {"   ", "empty"},
        {"[]", "got array"},
        {"7", "got number"},
        {"null", "got null"},
        {"hello", "no JSON"},
        {"{", "no"},
        {R"({"type":"flush")", "no"},
        {R"({"type":"flush"} {})", "no JSON"},
        {R"({"type":"flush","a":"})", "closing quote"},
        {R"({"type":"flush","a":tru})", "not true"},
        {R"({"type":"flush","a":"\q"})", "escape"},
        {R"({"type":"flush","a":"\ud800"})", "escape"},
        {R"({"type":"flush","a":1e999})", "too big"},
        {R"({"type":"flush","a":123456789012345678901234567890})", "too big"},
        {"{\"type\":\"flush\",\"a\":\"\xff\"}", "UTF-8"},
        {"{\"type\":\"flush\",\"a\":\"\n\"}", "control character"},
        {std::string("{\"type\":\"flush\",\"a\":\"\0\"}", 23), "NUL"},
        {R"({"type":"flush","a":)" + nested(1100) + "}", "1024 levels"},
        {std::string(100000, '['), "no JSON"},
    };
    for (const Refused& example : cases) {
        CAPTURE(example.line.substr(0, 80));
        const Refusal refusal = refused(example.line);
        CHECK(refusal.code == WireError::bad_json);
        CHECK_MESSAGE(refusal.message.find(example.message) != std::string::npos, refusal.message);
        CHECK(refusal.id.empty());
    }
}

TEST_CASE("an unknown type is named in the refusal and cut when it is long") {
    const Refusal refusal = refused(R"({"type":"turn.fly\n!","id":"x"})");
    CHECK(refusal.code == WireError::unknown_type);
    CHECK(refusal.id == R"("x")");
    CHECK(refusal.message == R"(type "turn.fly !" is unknown; docs/protocol.md names the types)");
    CHECK(refused(R"({"type":")" + std::string(5000, 'x') + "\"}").message.size() < 200);
    CHECK(refused(R"({"type":""})").code == WireError::unknown_type);
}

TEST_CASE("unknown fields are ignored") {
    EventDecoder decoder;
    accepted(decoder, R"({"type":"flush","session":5,"payload":{"a":[1]},"":0,"Type":"x"})");
    accepted(decoder, request("turn.output", R"("text":"a","colour":"red","":1)"));
}

TEST_CASE("a decoder goes on after bad and huge lines") {
    EventDecoder decoder;
    CHECK(std::holds_alternative<Refusal>(decoder.decode("{")));
    for (const std::size_t bytes :
         {std::size_t{100}, std::size_t{20000}, std::size_t{3} << 20, std::size_t{50}}) {
        const std::string text(bytes, 'x');
        const Event event = accepted(decoder, request("turn.output", "\"text\":\"" + text + "\""));
        CHECK(std::get<TurnBytes>(event.body).bytes == text);
    }
    CHECK(std::holds_alternative<Refusal>(decoder.decode(std::string(std::size_t{2} << 20, '['))));
    CHECK(accepted(decoder, R"({"type":"flush","id":1})").id == "1");
}

TEST_CASE("channels and codes are spelled as on the wire") {
    CHECK(name_of(Channel::text) == "text");
    CHECK(name_of(Channel::reasoning) == "reasoning");
    CHECK(name_of(Channel::tool) == "tool");
    CHECK(name_of(WireError::bad_json) == "bad_json");
    CHECK(name_of(WireError::bad_field) == "bad_field");
    CHECK(name_of(WireError::seq_gap) == "seq_gap");
    CHECK(name_of(WireError::overloaded) == "overloaded");
    CHECK(name_of(WireError::internal) == "internal");
}

}  // namespace relay::layout
