// SPDX-License-Identifier: Apache-2.0
#include "layout/session_paths.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

namespace layout = relay::layout;

TEST_CASE("the files of a turn carry its number with three digits or more") {
    CHECK(layout::prompt_file(1) == "turns/001-prompt.md");
    CHECK(layout::output_file(42) == "turns/042-output.md");
    CHECK(layout::stderr_file(999) == "turns/999-stderr.log");
    CHECK(layout::state_file(1'000) == "turns/1000-state.json");
    CHECK(layout::diff_file(123'456) == "turns/123456-diff.patch");
}

TEST_CASE("our version of a file the user changed keeps its name under recovered") {
    CHECK(layout::recovered_file("turns/001-output.md") == "recovered/001-output.md");
    CHECK(layout::recovered_file("events.jsonl") == "recovered/events.jsonl");
}

TEST_CASE("a temporary file is hidden and stands beside its target") {
    CHECK(layout::temporary_file("meta.json") == ".meta.json.tmp");
    CHECK(layout::temporary_file("turns/001-state.json") == "turns/.001-state.json.tmp");
    CHECK(layout::is_temporary_name(".meta.json.tmp"));
    CHECK(layout::is_temporary_name(".a.tmp"));
}

TEST_CASE("names that are not ours to sweep are no temporary names") {
    for (const char* name :
         {"", ".", "..", ".tmp", "..tmp", "meta.json", "meta.json.tmp", ".meta.json"}) {
        CAPTURE(name);
        CHECK_FALSE(layout::is_temporary_name(name));
    }
}

TEST_CASE("a harmless attachment name becomes a file under attachments") {
    for (const char* name :
         {"a", "screenshot 1.png", "a.tar.gz", "\xc3\xbc.txt", "-rf", "a\u00a0b"}) {
        CAPTURE(name);
        const auto file = layout::attachment_file(name);
        REQUIRE(file.ok());
        CHECK(file.value() == "attachments/" + std::string{name});
    }
    CHECK(layout::attachment_file(std::string(255, 'a')).ok());
}

TEST_CASE("an attachment name that could lead elsewhere or hide is refused with the reason") {
    struct Example {
        std::string_view name;
        const char* reason;
    };
    const std::string long_name(256, 'a');
    for (const Example& example : {
             Example{"", "empty"},
             Example{long_name, "255"},
             Example{"a\xff", "UTF-8"},
             Example{"a\xc2", "UTF-8"},
             Example{".", "dot"},
             Example{"..", "dot"},
             Example{".ssh", "dot"},
             Example{"a/b", "slash"},
             Example{"/a", "slash"},
             Example{"a\\b", "slash"},
             Example{"a\nb", "control"},
             Example{"a\x7f", "control"},
             Example{"a\xc2\x85", "control"},
             Example{std::string_view{"a\0b", 3}, "control"},
         }) {
        CAPTURE(example.name);
        const auto file = layout::attachment_file(example.name);
        REQUIRE_FALSE(file.ok());
        CHECK(file.error().code == layout::Errc::invalid);
        CHECK(file.error().context.find(example.reason) != std::string::npos);
    }
}
