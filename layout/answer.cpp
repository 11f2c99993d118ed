// SPDX-License-Identifier: Apache-2.0
#include "layout/answer.hpp"

#include "layout/json_writer.hpp"

#include <array>
#include <charconv>

namespace relay::layout {

namespace {

void append_integer(std::string& out, std::int64_t number) {
    std::array<char, 20> digits{};
    const auto written = std::to_chars(digits.data(), digits.data() + digits.size(), number);
    out.append(digits.data(), written.ptr);
}

void append_id(std::string& out, std::string_view id) {
    if (!id.empty()) {
        out.append(R"(,"id":)").append(id);
    }
}

}  // namespace

void append_ack(std::string& out, const Ack& ack) {
    out.append(R"({"type":"ack")");
    append_id(out, ack.id);
    if (!ack.session.is_zero()) {
        out.append(R"(,"session":")").append(ack.session.text()).append(R"(")");
    }
    if (ack.turn != 0) {
        out.append(R"(,"turn":)");
        append_integer(out, ack.turn);
    }
    if (ack.seq) {
        out.append(R"(,"seq":)");
        append_integer(out, *ack.seq);
    }
    if (ack.duplicate) {
        out.append(R"(,"duplicate":true)");
    }
    if (ack.deferred) {
        out.append(R"(,"deferred":true)");
    }
    if (!ack.fields.empty()) {
        out.append(",").append(ack.fields);
    }
    out.append("}\n");
}

void append_error(std::string& out, const Refusal& refusal) {
    out.append(R"({"type":"error")");
    append_id(out, refusal.id);
    out.append(R"(,"code":")").append(name_of(refusal.code)).append(R"(","message":)");
    append_json_string(out, refusal.message);
    out.append("}\n");
}

}  // namespace relay::layout
