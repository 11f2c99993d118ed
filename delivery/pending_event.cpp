// SPDX-License-Identifier: Apache-2.0
#include "delivery/pending_event.hpp"

#include "layout/base64.hpp"
#include "layout/json_writer.hpp"
#include "layout/utf8.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

namespace relay::delivery {

namespace {

constexpr std::string_view output_members = R"({"type":"turn.output"})";
constexpr std::string_view error_members = R"({"type":"turn.stderr"})";

}  // namespace

std::string_view stream_members(AgentStream stream) {
    return stream == AgentStream::output ? output_members : error_members;
}

PendingEvent stream_event(AgentStream stream, std::string_view bytes) {
    return {std::string(stream_members(stream)), std::string(bytes), true};
}

std::string event_type(const PendingEvent& event) {
    const auto members = nlohmann::json::parse(event.members, nullptr, /*allow_exceptions=*/false);
    const auto type = members.find("type");
    return type != members.end() && type->is_string() ? type->get<std::string>() : "";
}

bool needs_open_turn(const PendingEvent& event) {
    constexpr std::array<std::string_view, 4> types{
        "turn.output", "turn.stderr", "turn.tool", "turn.end"};
    return std::find(types.begin(), types.end(), event_type(event)) != types.end();
}

std::string wire_line(const PendingEvent& event, std::string_view session, std::int64_t seq) {
    const std::string number = std::to_string(seq);
    std::string line;
    line.reserve(event.size() + event.bytes.size() / 8 + 128);
    line.append(event.members, 0, event.members.size() - 1);
    line.append(R"(,"session":")").append(session).append(R"(","seq":)").append(number);
    line.append(R"(,"id":)").append(number);
    if (event.is_stream && layout::is_utf8(event.bytes)) {
        line += R"(,"text":)";
        layout::append_json_string(line, event.bytes);
    } else if (event.is_stream) {
        line.append(R"(,"data":")").append(layout::encode_base64(event.bytes)).append("\"");
    }
    line += "}\n";
    return line;
}

}  // namespace relay::delivery
