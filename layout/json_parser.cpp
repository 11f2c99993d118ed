// SPDX-License-Identifier: Apache-2.0
#include "layout/json_parser.hpp"

#include "layout/json_depth.hpp"
#include "layout/utf8.hpp"

#include <nlohmann/json.hpp>

#include <simdjson.h>

#include <memory>
#include <utility>

namespace relay::layout {

namespace {

namespace dom = simdjson::dom;
// Keeps the order of members, so that what is not ours is written back as it was read.
using Json = nlohmann::ordered_json;

constexpr std::size_t capacity_kept_bytes_max = std::size_t{1024} * 1024;
constexpr std::size_t reason_characters_max = 200;  // the parser repeats what it read last

Error corrupt(std::string context) {
    return {.code = Errc::corrupt, .os_errno = 0, .context = std::move(context)};
}

Error too_deep(std::size_t depth_max) {
    return corrupt("nests deeper than " + std::to_string(depth_max) + " levels");
}

dom::parser& parser_for(std::size_t bytes) {
    thread_local std::unique_ptr<dom::parser> parser;
    if (!parser
        || (bytes <= capacity_kept_bytes_max && parser->capacity() > capacity_kept_bytes_max)) {
        parser = std::make_unique<dom::parser>();
    }
    return *parser;
}

bool parse(std::string_view text, dom::element& into) {
    return parser_for(text.size()).parse(text.data(), text.size()).get(into) == simdjson::SUCCESS;
}

// What the quick parser refuses: it knows no integer beyond 64 bits, and has no words for the user.
Result<std::string> parse_slowly(std::string_view text, std::size_t depth_max) {
    if (json_depth(text) > depth_max) {
        return too_deep(depth_max);
    }
    try {
        return Json::parse(text).dump(-1, ' ', false, Json::error_handler_t::replace);
    } catch (const Json::exception& exception) {
        // It begins with "[json.exception.parse_error.101] ", which helps nobody.
        const std::string_view reason = exception.what();
        const std::size_t bracket = reason.find("] ");
        return corrupt(
            "is no JSON: "
            + one_line(
                bracket == std::string_view::npos ? reason : reason.substr(bracket + 2),
                reason_characters_max));
    }
}

}  // namespace

Result<dom::object> parse_json_object(std::string_view text, std::size_t depth_max) {
    if (depth_max < simdjson::DEFAULT_MAX_DEPTH && json_depth(text) > depth_max) {
        return too_deep(depth_max);
    }
    dom::element root;
    if (!parse(text, root)) {
        const Result<std::string> normal = parse_slowly(text, depth_max);
        if (!normal.ok()) {
            return normal.error();
        }
        if (!parse(normal.value(), root)) {
            return too_deep(depth_max);
        }
    }
    dom::object object;
    if (root.get(object) != simdjson::SUCCESS) {
        return corrupt("is JSON, but no object");
    }
    return object;
}

std::optional<dom::element> find_member(dom::object object, std::string_view key) {
    std::optional<dom::element> found;
    for (auto member = object.begin(); member != object.end(); ++member) {
        if (member.key_equals(key)) {
            found = member.value();
        }
    }
    return found;
}

std::string compact_json(dom::element value) {
    dom::array items;
    if (value.get(items) == simdjson::SUCCESS && items.size() == 0) {
        return "[]";
    }
    return simdjson::minify(value);
}

}  // namespace relay::layout
