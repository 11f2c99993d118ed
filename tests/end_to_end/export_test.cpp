// SPDX-License-Identifier: Apache-2.0
#include "tests/end_to_end/relay_home.hpp"
#include "tests/support/written_session.hpp"

#include <doctest/doctest.h>

#include <sys/stat.h>

#include <sstream>
#include <string>
#include <vector>

namespace relay::tests {
namespace {

bool says(const std::string& text, const std::string& words) {
    return text.find(words) != std::string::npos;
}

// A session that would like to be more than text.
const std::string evil =
    "</pre><script>alert(1)</script>\n````\n# no heading\n\x1b]0;title\x07<img src=x onerror=y>\n";

class Exporting {
public:
    Exporting() {
        layout::Meta meta = example_meta(1);
        meta.name = "<b>bold</b> & *stars*";
        path = write_session(
            home.root() + "/relay/state/sessions",
            meta,
            {{"ask <this>", evil, "warned\n"},
             {"second", "plain\n"},
             {"third", "runs", {}, false}});
    }

    [[nodiscard]] ProgramEnd run(const std::string& arguments) const {
        return home.shell("agent-relay export " + arguments);
    }

    RelayHome home;
    std::string path;
};

TEST_CASE("a session exported to Markdown keeps what was recorded in its fences") {
    const Exporting session;
    const ProgramEnd end = session.run("@latest --format md");
    CHECK_MESSAGE(end.status == 0, end.err);
    CHECK(end.out.starts_with("# \\<b\\>bold\\</b\\> \\& \\*stars\\*\n\n- Session: "));
    CHECK(says(end.out, "\n## Turn 1\n\n### Prompt\n\n```text\nask <this>\n```\n"));
    // Longer than the four within.
    CHECK(says(
        end.out,
        "\n`````text\n</pre><script>alert(1)</script>\n````\n# no heading\n\\x1b]0;title"));
    CHECK(says(end.out, "\n### Standard error\n\n```text\nwarned\n```\n"));
    CHECK(says(end.out, "\n## Turn 3\n"));
    CHECK(says(end.out, "\nit runs\n"));
    CHECK(end.out.find('\x1b') == std::string::npos);
    const ProgramEnd second = session.run("@latest:2 --format md");
    CHECK(says(second.out, "## Turn 2"));
    CHECK_FALSE(says(second.out, "## Turn 1"));
}

TEST_CASE("a session exported to HTML is one page in which all that was recorded is text") {
    const Exporting session;
    const ProgramEnd end = session.run("@latest --format html --out page.html");
    CHECK_MESSAGE(end.status == 0, end.err);
    CHECK(end.out.empty());
    const std::string page = read_text(session.home.work() + "/page.html");
    CHECK(mode_of(session.home.work() + "/page.html") == 0600);
    CHECK(page.starts_with("<!DOCTYPE html>\n"));
    CHECK(page.ends_with("</html>\n"));
    CHECK(says(page, "default-src 'none'"));
    CHECK(says(page, "&lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt;"));
    CHECK(says(page, "<h1>&lt;b&gt;bold&lt;/b&gt; &amp; *stars*</h1>"));
    for (const char* const wrong :
         {"<script", "<img", "onerror=y>", "<b>", "http://", "https://", "\x1b"}) {
        CAPTURE(wrong);
        CHECK_FALSE(says(page, wrong));
    }
    // Every tag that opens is one of ours.
    for (std::size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at + 1)) {
        const std::size_t end_of_name = page.find_first_of(" >", at);
        const std::string tag = page.substr(at + 1, end_of_name - at - 1);
        const std::string known =
            " !DOCTYPE html head meta style title body h1 h2 h3 table tr th td pre p ul li ";
        CHECK_MESSAGE(says(known, " " + (tag.starts_with("/") ? tag.substr(1) : tag) + " "), tag);
    }
}

TEST_CASE("a session exported to JSON lines holds its documents its events and its turns") {
    const Exporting session;
    const ProgramEnd end = session.run("@latest --format jsonl");
    CHECK_MESSAGE(end.status == 0, end.err);
    std::vector<Json> lines;
    std::istringstream stream(end.out);
    for (std::string line; std::getline(stream, line);) {
        lines.push_back(Json::parse(line));
    }
    CHECK(lines.front()["type"] == "session");
    CHECK(lines.front()["meta"] == Json::parse(read_text(session.path + "/meta.json")));
    CHECK(lines[1]["type"] == "session.start");
    std::string output;
    std::vector<Json> turns;
    for (const Json& line : lines) {
        if (line["type"] == "turn.output" && line["turn"] == 1) {
            output += line["text"].get<std::string>();
        } else if (line["type"] == "turn") {
            turns.push_back(line);
        }
    }
    CHECK(output == evil);
    REQUIRE(turns.size() == 3);
    CHECK(turns[0]["output"] == evil);
    CHECK(turns[0]["state"]["status"] == "completed");
    CHECK(turns[2]["state"].is_null());
    // Compressed, it is the same.
    compress_file(session.path + "/turns/001-output.md");
    CHECK(session.run("@latest --format jsonl").out == end.out);
}

TEST_CASE("an export that cannot be is refused and a damaged one is told") {
    const Exporting session;
    CHECK(session.run("@latest").status == 2);
    CHECK(says(
        session.run("@latest --format pdf").err, "--format is md, html or jsonl, got \"pdf\""));
    CHECK(session.run("nobody --format md").status == 3);
    CHECK(session.run("@latest:9 --format md").status == 3);
    CHECK(session.run("@latest --format md --out nowhere/x.md").status == 1);
    // What is no file is not replaced by one.
    CHECK(session.home.shell("mkfifo pipe; agent-relay export --format md --out pipe").status == 1);
    struct stat pipe {};
    CHECK((::lstat((session.home.work() + "/pipe").c_str(), &pipe) == 0 && S_ISFIFO(pipe.st_mode)));
    write_text(session.path + "/turns/001-state.json", "{");
    const ProgramEnd damaged = session.run("@latest --format md");
    CHECK(damaged.status == 5);
    CHECK(says(damaged.err, "is damaged: turns/001-state.json"));
    CHECK(says(damaged.out, "## Turn 3"));
    write_text(session.path + "/meta.json", "{");
    CHECK(session.run(example_meta(1).id.text() + " --format md").status == 5);
}

}  // namespace
}  // namespace relay::tests
