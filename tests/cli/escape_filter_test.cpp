// SPDX-License-Identifier: Apache-2.0
#include "cli/escape_filter.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

using relay::cli::EscapeFilter;

namespace {

std::string filtered(std::string_view bytes, EscapeFilter::Source source) {
    EscapeFilter whole(source);
    std::string text;
    whole.filter(bytes, text);
    // In pieces it comes to the same.
    EscapeFilter pieces(source);
    std::string pieced;
    for (const char byte : bytes) {
        pieces.filter(std::string_view(&byte, 1), pieced);
    }
    CHECK(pieced == text);
    return text;
}

std::string from_pipe(std::string_view bytes) {
    return filtered(bytes, EscapeFilter::Source::pipe);
}

std::string from_terminal(std::string_view bytes) {
    return filtered(bytes, EscapeFilter::Source::terminal);
}

}  // namespace

TEST_CASE("escape sequences are taken out of a stream and text is not") {
    CHECK(from_pipe("\x1b[1;31mred\x1b[0m and\x1b[K plain\n") == "red and plain\n");
    CHECK(from_pipe("\x1b]0;a title\a after") == " after");
    CHECK(from_pipe("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\!") == "link!");
    CHECK(from_pipe("\x1bPq#0;2;0\x1b\\sixel") == "sixel");
    CHECK(
        from_pipe("\x1b(Bcharset\x1b=keys\x1b"
                  "7\x1b"
                  "8")
        == "charsetkeys");
    CHECK(from_pipe("\x1b[?25lhidden\x1b[?25h") == "hidden");
    CHECK(from_pipe("\x1b[31\nline") == "\nline");  // cut off by a line's end
    CHECK(from_pipe("\x1b]0;never ends\nline\n") == "\nline\n");
    CHECK(from_pipe("a\rb\r\n\t\b\a") == "a\rb\r\n\t\b\a");  // no escape: nothing changes
    CHECK(from_pipe("\x1b\x1b[1mtwice") == "twice");
    CHECK(
        from_pipe("gr\xc3\xbc\xc3\x9f"
                  "e \xff")
        == "gr\xc3\xbc\xc3\x9f"
           "e \xff");
    CHECK(from_pipe("[31m no escape") == "[31m no escape");
}

TEST_CASE("what a terminal shows becomes lines") {
    CHECK(from_terminal("one\r\ntwo\r\n") == "one\ntwo\n");
    CHECK(from_terminal("10%\r50%\r100%\r\n") == "10%\n50%\n100%\n");
    CHECK(from_terminal("a\r\r\nb") == "a\nb");
    CHECK(from_terminal("bell\a back\b") == "bell back");
    CHECK(from_terminal("$ \x1b[?1049h\x1b[2Jan editor\x1b[?1049l$ exit\r\n") == "$ $ exit\n");
}

TEST_CASE("bytes without escapes pass without being looked at one by one") {
    EscapeFilter filter(EscapeFilter::Source::pipe);
    CHECK(filter.leaves_alone("plain\r\n"));
    CHECK_FALSE(filter.leaves_alone("\x1b[0m"));
    std::string text;
    filter.filter("\x1b[", text);
    CHECK_FALSE(filter.leaves_alone("0m"));  // the rest of a sequence
    CHECK_FALSE(EscapeFilter(EscapeFilter::Source::terminal).leaves_alone("x"));
}
