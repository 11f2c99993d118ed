// SPDX-License-Identifier: Apache-2.0
#include "layout/answer.hpp"

#include <doctest/doctest.h>

#include <string>

namespace relay::layout {

TEST_CASE("an ack leaves out what it has nothing to say about") {
    std::string out = "before\n";
    append_ack(out, {});
    CHECK(out == "before\n{\"type\":\"ack\"}\n");
}

TEST_CASE("an ack says all it knows in the order of the protocol") {
    Ack ack;
    ack.id = R"("a")";
    ack.session = *Ulid::parse("01J9X3M7K5VBHQEN6T2F4D8RPZ");
    ack.turn = 3;
    ack.seq = 0;
    ack.duplicate = true;
    ack.deferred = true;
    ack.fields = R"("slug":"s","path":"/p")";
    std::string out;
    append_ack(out, ack);
    CHECK(
        out
        == R"({"type":"ack","id":"a","session":"01J9X3M7K5VBHQEN6T2F4D8RPZ","turn":3,"seq":0,)"
           R"("duplicate":true,"deferred":true,"slug":"s","path":"/p"})"
           "\n");
}

TEST_CASE("an error names its code and escapes its message") {
    std::string out;
    append_error(out, {WireError::unknown_session, "no \"x\"\n", "7"});
    append_error(out, {WireError::bad_json, "", ""});
    CHECK(
        out
        == "{\"type\":\"error\",\"id\":7,\"code\":\"unknown_session\",\"message\":\"no "
           "\\\"x\\\"\\n\"}\n"
           "{\"type\":\"error\",\"code\":\"bad_json\",\"message\":\"\"}\n");
}

}  // namespace relay::layout
