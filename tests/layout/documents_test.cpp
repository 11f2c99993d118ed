// SPDX-License-Identifier: Apache-2.0
#include "layout/documents.hpp"
#include "layout/sha256.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace relay::layout {

namespace {

constexpr Timestamp noon{1'794'830'400'123};  // 2026-11-16T12:00:00.123Z
constexpr std::int64_t integer_max = std::numeric_limits<std::int64_t>::max();

Meta full_meta() {
    Meta meta;
    meta.id = *Ulid::parse("01J9X3M7K5VBHQEN6T2F4D8RPZ");
    meta.slug = "261116-quiet-harbor";
    meta.name = "n";
    meta.status = SessionStatus::checkpointed;
    meta.agent = "codex";
    meta.model = "m";
    meta.command = {"codex", "a b"};
    meta.cwd = "/w";
    meta.repo = Repo{"/w", "main", "abc"};
    meta.worktree = "/w2";
    meta.user = "u";
    meta.host = "h";
    meta.pid = 5;
    meta.started_at = noon;
    meta.ended_at = Timestamp{noon.ms + 1};
    meta.updated_at = Timestamp{noon.ms + 2};
    meta.exit_code = -1;
    meta.error = "e";
    meta.turn_count = 2;
    meta.current_turn = 3;
    meta.objective = "o\nx";
    meta.preview = "o x";
    meta.tokens = {1, 2, 3, 4, 5, 6};
    meta.cost_usd = 0.25;
    meta.labels = {"bug"};
    meta.flagged = true;
    meta.archived = true;
    meta.unread = true;
    meta.stage = "todo";
    meta.parent = Parent{"01J9X3M7K5VBHQEN6T2F4D8RPY", 4, "fork"};
    meta.checkpoint_reason = "manual";
    meta.ephemeral = true;
    meta.capture = {
        noon, 9, 1, 2, 3, {{"turns/001-output.md", "recovered/001-output.md", noon}}, {}};
    meta.capture.deferred = CaptureDeferral{noon, Timestamp{noon.ms + 5}, "full"};
    meta.chain = std::string(chain_origin);
    meta.extra = {R"({"k":[1,{"b":null,"a":1.5}]})"};
    meta.unknown = {
        {"future", {R"({"z":1,"a":[true]})"}}, {"null", {"null"}}, {"Name", {R"("\u0001é")"}}};
    return meta;
}

TurnState full_state() {
    TurnState state;
    state.turn = 2;
    state.status = "failed";
    state.started_at = noon;
    state.ended_at = Timestamp{noon.ms + 7};
    state.duration_ms = 7;
    state.stop_reason = "s";
    state.model = "m";
    state.tokens = Tokens{1, {}, {}, {}, {}, 1};
    state.cost_usd = 1.5;
    state.tools = {{"t1", "bash", "ok", noon, 12, "ran"}, {"t2", "bash", "started", noon, {}, {}}};
    state.files = {R"([{"path":"a"}])"};
    state.dirty = false;
    state.validation = {R"({"tests":"green"})"};
    state.decisions = {R"([{"id":"d"}])"};
    state.blockers = {R"([{"id":"b"}])"};
    state.next_task = "n";
    state.exit_code = 1;
    state.error = "e";
    state.limit = {R"({"kind":"rate"})"};
    state.prompt = {3, "aa"};
    state.output = {4, "bb"};
    state.stderr_log = FileSeal{5, "cc"};
    state.diff = FileSeal{6, "dd"};
    state.extra = {R"({"x":1})"};
    return state;
}

std::string replaced(std::string text, std::string_view what, std::string_view with) {
    const std::size_t at = text.find(what);
    REQUIRE(at != std::string::npos);
    return text.replace(at, what.size(), with);
}

// What `sed '/^  "chain": "/d'` prints.
std::string without_chain_lines(const std::string& text) {
    std::string rest;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = text.find('\n', at) + 1;
        const std::string line = text.substr(at, end - at);
        rest += line.starts_with("  \"chain\": \"") ? "" : line;
        at = end;
    }
    return rest;
}

}  // namespace

TEST_CASE("tokens add what is known and keep the unknown unknown") {
    Tokens sum{1, {}, integer_max, {}, {}, integer_max - 1};
    sum.add({2, 3, 1, {}, {}, 1});
    CHECK(sum == Tokens{3, 3, integer_max, {}, {}, integer_max});
    Tokens low{std::numeric_limits<std::int64_t>::min(), {}, {}, {}, 4, {}};
    low.add({-1, {}, {}, 5, {}, {}});
    CHECK(low == Tokens{std::numeric_limits<std::int64_t>::min(), {}, {}, 5, 4, {}});
}

TEST_CASE("tokens are written with all six members") {
    std::string out;
    append_tokens(out, {1, {}, 3, {}, 5, {}});
    CHECK(
        out
        == R"({"input":1,"output":null,"cache_read":3,"cache_write":null,"reasoning":5,"total":null})");
}

TEST_CASE("a fresh meta document writes every member it always has") {
    Meta meta;
    meta.id = *Ulid::parse("01J9X3M7K5VBHQEN6T2F4D8RPZ");
    meta.started_at = noon;
    meta.updated_at = noon;
    CHECK(encode_meta(meta) == R"({
  "v": 1,
  "id": "01J9X3M7K5VBHQEN6T2F4D8RPZ",
  "slug": "",
  "name": null,
  "status": "active",
  "agent": "",
  "model": null,
  "command": [],
  "cwd": "",
  "repo": null,
  "user": null,
  "host": null,
  "pid": null,
  "started_at": "2026-11-16T12:00:00.123Z",
  "ended_at": null,
  "updated_at": "2026-11-16T12:00:00.123Z",
  "exit_code": null,
  "error": null,
  "turn_count": 0,
  "current_turn": null,
  "objective": null,
  "preview": null,
  "tokens": {"input":null,"output":null,"cache_read":null,"cache_write":null,"reasoning":null,"total":null},
  "cost_usd": null,
  "labels": [],
  "flagged": false,
  "archived": false,
  "unread": false,
  "stage": null,
  "parent": null,
  "checkpoint_reason": null,
  "capture": {"last_event_at":null,"last_seq":0,"redactions":0,"dropped":0,"gaps":0},
  "chain": null,
  "extra": {}
}
)");
}

TEST_CASE("a full meta document writes what it knows and what it does not know last") {
    CHECK(encode_meta(full_meta()) == R"({
  "v": 1,
  "id": "01J9X3M7K5VBHQEN6T2F4D8RPZ",
  "slug": "261116-quiet-harbor",
  "name": "n",
  "status": "checkpointed",
  "agent": "codex",
  "model": "m",
  "command": ["codex","a b"],
  "cwd": "/w",
  "repo": {"root":"/w","branch":"main","head":"abc"},
  "worktree": "/w2",
  "user": "u",
  "host": "h",
  "pid": 5,
  "started_at": "2026-11-16T12:00:00.123Z",
  "ended_at": "2026-11-16T12:00:00.124Z",
  "updated_at": "2026-11-16T12:00:00.125Z",
  "exit_code": -1,
  "error": "e",
  "turn_count": 2,
  "current_turn": 3,
  "objective": "o\nx",
  "preview": "o x",
  "tokens": {"input":1,"output":2,"cache_read":3,"cache_write":4,"reasoning":5,"total":6},
  "cost_usd": 0.25,
  "labels": ["bug"],
  "flagged": true,
  "archived": true,
  "unread": true,
  "stage": "todo",
  "parent": {"session":"01J9X3M7K5VBHQEN6T2F4D8RPY","turn":4,"relation":"fork"},
  "checkpoint_reason": "manual",
  "ephemeral": true,
  "capture": {"last_event_at":"2026-11-16T12:00:00.123Z","last_seq":9,"redactions":1,"dropped":2,"gaps":3,"conflicts":[{"file":"turns/001-output.md","kept":"recovered/001-output.md","at":"2026-11-16T12:00:00.123Z"}],"deferred":{"from":"2026-11-16T12:00:00.123Z","until":"2026-11-16T12:00:00.128Z","reason":"full"}},
  "chain": "0000000000000000000000000000000000000000000000000000000000000000",
  "extra": {"k":[1,{"b":null,"a":1.5}]},
  "future": {"z":1,"a":[true]},
  "null": null,
  "Name": "\u0001é"
}
)");
}

TEST_CASE("a meta document reads back to the byte with members it does not know") {
    const std::string text = encode_meta(full_meta());
    const Result<Meta> meta = decode_meta(text);
    REQUIRE_MESSAGE(meta.ok(), meta.error().context);
    CHECK(encode_meta(meta.value()) == text);
    CHECK(meta.value().status == SessionStatus::checkpointed);
    CHECK(meta.value().unknown == full_meta().unknown);
    CHECK(meta.value().capture == full_meta().capture);
}

TEST_CASE("a meta document with only an id gets defaults for the rest") {
    const Result<Meta> meta = decode_meta(R"({"id":"01J9X3M7K5VBHQEN6T2F4D8RPZ","name":null})");
    REQUIRE(meta.ok());
    CHECK(meta.value().status == SessionStatus::active);
    CHECK(meta.value().turn_count == 0);
    CHECK(meta.value().unknown.empty());
    CHECK(meta.value().extra.empty());
}

TEST_CASE("a meta document of a newer version is refused saying both versions") {
    const Result<Meta> meta = decode_meta(R"({"v":2,"id":[],"name":7})");
    REQUIRE_FALSE(meta.ok());
    CHECK(meta.error().code == Errc::invalid);
    CHECK(
        meta.error().context == "written in format version 2; this program reads up to version 1");
}

TEST_CASE("a meta member of the wrong type is corrupt and named") {
    const std::string text = encode_meta(full_meta());
    struct Example {
        std::string right;
        std::string wrong;
        std::string message;
    };
    const std::vector<Example> cases{
        {R"("v": 1)", R"("v": "1")", R"("v" must be an integer of 64 bits)"},
        {R"("v": 1)", R"("v": 0)", R"("v" must be at least 1)"},
        {R"("id": "01J9X3M7K5VBHQEN6T2F4D8RPZ")", R"("id": "01J9")", R"("id" must be a ULID)"},
        {R"("id": )", R"("ID": )", R"("id" is missing)"},
        {R"("slug": ")", R"("slug": 1, "x": ")", R"("slug" must be a string)"},
        {"checkpointed", "resting", R"("status" must be active, checkpointed or completed)"},
        {R"(["codex","a b"])", R"(["codex",1])", R"("command" must be an array of strings)"},
        {R"({"root":"/w")", R"({"root":5)", R"("repo.root" must be a string)"},
        {R"("pid": 5)", R"("pid": 9223372036854775808)", R"("pid" must be an integer of 64 bits)"},
        {R"("pid": 5)", R"("pid": 5.0)", R"("pid" must be an integer of 64 bits)"},
        {"12:00:00.124Z", "25:00:00.124Z", R"("ended_at" must be a time)"},
        {R"("cost_usd": 0.25)", R"("cost_usd": "0")", R"("cost_usd" must be a number)"},
        {R"("flagged": true)", R"("flagged": 1)", R"("flagged" must be true or false)"},
        {R"({"input":1,)", R"({"input":"1",)", R"("tokens.input" must be)"},
        {R"("parent": {)", R"("parent": 3, "x": {)", R"("parent" must be an object)"},
        {R"("kept":")", R"("kept":1,"x":")", R"("capture.conflicts[0].kept" must be a string)"},
        {R"("extra": {)", R"("extra": [], "x": {)", R"("extra" must be an object)"},
    };
    for (const Example& example : cases) {
        CAPTURE(example.wrong);
        const Result<Meta> meta = decode_meta(replaced(text, example.right, example.wrong));
        REQUIRE_FALSE(meta.ok());
        CHECK(meta.error().code == Errc::corrupt);
        CHECK_MESSAGE(
            meta.error().context.find(example.message) != std::string::npos, meta.error().context);
    }
}

TEST_CASE("text that is no JSON object is a corrupt document and never a crash") {
    const std::string deep(std::size_t{1} << 20, '[');
    const std::string deep_objects = R"({"id":"01J9X3M7K5VBHQEN6T2F4D8RPZ","x":)" + deep;
    for (const std::string& text :
         {std::string(),
          std::string("{"),
          std::string("[]"),
          std::string("null"),
          std::string("{\"id\":\"\xff\"}"),
          std::string(4096, '\0'),
          deep,
          deep_objects}) {
        CAPTURE(text.substr(0, 60));
        const Result<Meta> meta = decode_meta(text);
        REQUIRE_FALSE(meta.ok());
        CHECK(meta.error().code == Errc::corrupt);
        CHECK(meta.error().context.size() < 1000);
        const Result<TurnState> state = decode_turn_state(text);
        REQUIRE_FALSE(state.ok());
        CHECK(state.error().code == Errc::corrupt);
    }
}

TEST_CASE("a document that nests too deep for a recursive printer is corrupt") {
    const auto nested = [](std::size_t depth) {
        const std::string value = std::string(depth, '[') + std::string(depth, ']');
        return R"({"id":"01J9X3M7K5VBHQEN6T2F4D8RPZ","x":)" + value + "}";
    };
    CHECK(decode_meta(nested(1023)).ok());
    for (const std::size_t depth : {std::size_t{1024}, std::size_t{500000}}) {
        const Result<Meta> meta = decode_meta(nested(depth));
        REQUIRE_FALSE(meta.ok());
        CHECK(meta.error().code == Errc::corrupt);
        CHECK(meta.error().context == "nests deeper than 1024 levels");
    }
}

TEST_CASE("a meta document that is cut anywhere is corrupt") {
    const std::string text = encode_meta(full_meta());
    for (std::size_t bytes = 0; bytes + 2 < text.size(); bytes += 7) {
        CHECK_FALSE(decode_meta(std::string_view(text).substr(0, bytes)).ok());
    }
}

TEST_CASE("a turn state writes every member and its chain last") {
    TurnState state;
    state.turn = 1;
    state.status = "completed";
    state.started_at = noon;
    state.ended_at = noon;
    const SealedState sealed = encode_turn_state(state, chain_origin);
    CHECK(sealed.text == R"({
  "v": 1,
  "turn": 1,
  "status": "completed",
  "started_at": "2026-11-16T12:00:00.123Z",
  "ended_at": "2026-11-16T12:00:00.123Z",
  "duration_ms": 0,
  "stop_reason": null,
  "model": null,
  "tokens": null,
  "cost_usd": null,
  "tools": [],
  "files": [],
  "validation": {},
  "decisions": [],
  "blockers": [],
  "next_task": null,
  "exit_code": null,
  "error": null,
  "limit": null,
  "prompt": {"bytes":0,"sha256":""},
  "output": {"bytes":0,"sha256":""},
  "stderr": null,
  "diff": null,
  "extra": {},
  "chain": ")" + sealed.chain + "\"\n}\n");
}

TEST_CASE("a full turn state reads back to the byte") {
    const SealedState sealed = encode_turn_state(full_state(), chain_origin);
    const Result<TurnState> state = decode_turn_state(sealed.text);
    REQUIRE_MESSAGE(state.ok(), state.error().context);
    CHECK(encode_turn_state(state.value(), chain_origin).text == sealed.text);
    CHECK(state.value().tools == full_state().tools);
    CHECK(state.value().stderr_log == full_state().stderr_log);
    CHECK(state.value().dirty == false);
    CHECK(
        sealed.text.find(
            R"(  "tools": [{"id":"t1","name":"bash","status":"ok","started_at":"2026-11-16T12:00:00.123Z",)"
            R"("duration_ms":12,"summary":"ran"},{"id":"t2",)")
        != std::string::npos);
    CHECK_FALSE(decode_turn_state("{}").ok());
    const Result<TurnState> newer =
        decode_turn_state(replaced(sealed.text, "\"v\": 1", "\"v\": 9"));
    REQUIRE_FALSE(newer.ok());
    CHECK(newer.error().code == Errc::invalid);
    const Result<TurnState> odd =
        decode_turn_state(replaced(sealed.text, "\"tools\": [{", "\"tools\": [1,{"));
    REQUIRE_FALSE(odd.ok());
    CHECK(odd.error().context == R"(member "tools" must be an array of objects)");
}

TEST_CASE("the chain is the hash of the previous chain and the document without its chain line") {
    TurnState state = full_state();
    // Neither a member of the client's nor a value may pass for the chain line or its place.
    state.extra = {
        R"({"chain":"0000000000000000000000000000000000000000000000000000000000000000"})"};
    state.error = "\n  \"chain\": \"x\"";
    const std::string previous = sha256_hex("before");
    const SealedState sealed = encode_turn_state(state, previous);
    CHECK(sealed.chain == sha256_hex(previous + "\n" + without_chain_lines(sealed.text)));
    const Result<ChainCheck> check = check_chain(sealed.text, previous);
    REQUIRE(check.ok());
    CHECK(check.value().stated == sealed.chain);
    CHECK(check.value().computed == sealed.chain);
}

TEST_CASE("any change of a sealed state or of the chain before it shows in its chain") {
    const SealedState sealed = encode_turn_state(full_state(), chain_origin);
    const Result<ChainCheck> other = check_chain(sealed.text, sealed.chain);
    REQUIRE(other.ok());
    CHECK(other.value().stated != other.value().computed);
    for (std::size_t at = 0; at < sealed.text.size(); at += 3) {
        CAPTURE(at);
        std::string changed = sealed.text;
        changed[at] = changed[at] == 'x' ? 'y' : 'x';
        const Result<ChainCheck> check = check_chain(changed, chain_origin);
        const bool noticed = !check.ok() || check.value().stated != check.value().computed;
        CHECK(noticed);
    }
}

TEST_CASE("a state without exactly one chain line has no chain to check") {
    const SealedState sealed = encode_turn_state(full_state(), chain_origin);
    CHECK_FALSE(check_chain(without_chain_lines(sealed.text), chain_origin).ok());
    CHECK_FALSE(check_chain("", chain_origin).ok());
    CHECK_FALSE(check_chain(sealed.text + "  \"chain\": \"x\"\n", chain_origin).ok());
    CHECK(check_chain("\n  \"chain\": \"", chain_origin).value().stated.empty());
    CHECK(check_chain("\n  \"chain\": \"ab\"", chain_origin).value().stated == "ab");
}

TEST_CASE("a bare resume packet leaves out only the next task") {
    ResumePacket packet;
    packet.session_id = "s";
    packet.previous_agent = "a";
    packet.checkpoint_reason = "crash";
    packet.created_at = noon;
    packet.lineage = {"s"};
    CHECK(encode_resume(packet) == R"({
  "session_id": "s",
  "previous_agent": "a",
  "checkpoint_reason": "crash",
  "turn_count": 0,
  "decisions": [],
  "blockers": [],
  "touched_files": [],
  "validation_state": {},
  "v": 1,
  "created_at": "2026-11-16T12:00:00.123Z",
  "objective": null,
  "working_tree": null,
  "last_turn": null,
  "tokens": {"input":null,"output":null,"cache_read":null,"cache_write":null,"reasoning":null,"total":null},
  "cost_usd": null,
  "limit": null,
  "lineage": ["s"]
}
)");
}

TEST_CASE("a full resume packet says where work stands") {
    ResumePacket packet;
    packet.turn_count = 2;
    packet.decisions = {R"([{"id":"d"}])"};
    packet.blockers = {R"([{"id":"b"}])"};
    packet.touched_files = {R"([{"path":"p","status":"M"}])"};
    packet.validation_state = {R"({"tests":{"value":"red"}})"};
    packet.next_task = "go on";
    packet.objective = "o";
    packet.working_tree = Repo{"/w", std::nullopt, "abc"};
    packet.last_turn = ResumePacket::LastTurn{
        2, "interrupted", "turns/002-prompt.md", "turns/002-output.md", "t\n"};
    packet.cost_usd = 2;
    packet.limit = {R"({"kind":"rate"})"};
    const std::string text = encode_resume(packet);
    for (
        const std::string_view line :
        {R"(  "turn_count": 2,)",
         R"(  "decisions": [{"id":"d"}],)",
         R"(  "blockers": [{"id":"b"}],)",
         R"(  "touched_files": [{"path":"p","status":"M"}],)",
         R"(  "validation_state": {"tests":{"value":"red"}},)",
         R"(  "next_task": "go on",)",
         R"(  "objective": "o",)",
         R"(  "working_tree": {"root":"/w","branch":null,"head":"abc","dirty":null},)",
         R"(  "last_turn": {"turn":2,"status":"interrupted","prompt_file":"turns/002-prompt.md","output_file":"turns/002-output.md","output_tail":"t\n"},)",
         R"(  "cost_usd": 2,)",
         R"(  "limit": {"kind":"rate"},)",
         R"(  "lineage": [])"}) {
        CAPTURE(line);
        CHECK(text.find("\n" + std::string(line) + "\n") != std::string::npos);
    }
    packet.dirty = true;
    CHECK(encode_resume(packet).find(R"("head":"abc","dirty":true},)") != std::string::npos);
}

}  // namespace relay::layout
