// SPDX-License-Identifier: Apache-2.0

// The laws of the tree that no compiler knows. Each check first proves on a made-up tree that it bites,
// then looks at the real one.

#include <boost/filesystem.hpp>
#include <doctest/doctest.h>
#include <relay_built_here.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace relay::tests {
namespace {

using Tree = std::map<std::string, std::string>;  // path below the root -> text
using Findings = std::vector<std::string>;

constexpr std::array<std::string_view, 6> rooms{
    "layout", "recorder", "daemon", "delivery", "cli", "tests"};
constexpr std::size_t lines_max = 1300;

bool is_source(std::string_view path) {
    return path.ends_with(".cpp") || path.ends_with(".hpp");
}

std::string_view room_of(std::string_view path) {
    return path.substr(0, path.find('/'));
}

std::string text_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Everything we wrote, without what tests feed on.
const Tree& real_tree() {
    namespace fs = boost::filesystem;
    static const Tree tree = [] {
        Tree found;
        const fs::path root(RELAY_SOURCE_DIR);
        std::vector<std::string> folders(rooms.begin(), rooms.end());
        folders.insert(folders.end(), {"cmake", "docs", "scripts", "systemd", ".ci"});
        for (const std::string& folder : folders) {
            if (!fs::is_directory(root / folder)) {
                continue;
            }
            for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
                const std::string path = entry.path().lexically_relative(root).generic_string();
                if (fs::is_regular_file(entry.path()) && !path.starts_with("tests/data/")) {
                    found.emplace(path, text_of(entry.path().string()));
                }
            }
        }
        for (const auto& entry : fs::directory_iterator(root)) {
            const std::string name = entry.path().filename().string();
            if (name.ends_with(".md") || name == "CMakeLists.txt") {
                found.emplace(name, text_of(entry.path().string()));
            }
        }
        return found;
    }();
    return tree;
}

Tree sources_of(const Tree& tree) {
    Tree sources;
    for (const auto& [path, text] : tree) {
        if (is_source(path)) {
            sources.emplace(path, text);
        }
    }
    return sources;
}

std::string listed(const Findings& findings) {
    std::string text;
    for (const std::string& finding : findings) {
        text += "\n  " + finding;
    }
    return text;
}

#define CHECK_CLEAN(check)                                                                         \
    do {                                                                                           \
        const Findings found = check(real_tree());                                                 \
        CHECK_MESSAGE(found.empty(), listed(found));                                               \
    } while (false)

bool is_word(char character) {
    return std::isalnum(static_cast<unsigned char>(character)) != 0 || character == '_';
}

// -- a reader of C++ that knows just enough: what is code, what is comment, what is a literal

// Where the comment or literal that begins at `at` ends; `at` itself when none begins there.
std::size_t end_of_comment(std::string_view text, std::size_t at) {
    const bool line = text.substr(at, 2) == "//";
    if (!line && text.substr(at, 2) != "/*") {
        return at;
    }
    const std::size_t end = line ? text.find('\n', at) : text.find("*/", at + 2);
    if (end == std::string_view::npos) {
        return text.size();
    }
    return line ? end : end + 2;
}

std::size_t end_of_literal(std::string_view text, std::size_t at) {
    const char quote = text[at];
    // 10'000 holds no character literal.
    if (quote != '"' && (quote != '\'' || (at > 0 && is_word(text[at - 1])))) {
        return at;
    }
    if (quote == '"' && at > 0 && text[at - 1] == 'R') {
        const std::size_t bracket = text.find('(', at);
        const std::string closing = ")" + std::string(text.substr(at + 1, bracket - at - 1)) + "\"";
        const std::size_t end = text.find(closing, at);
        return end == std::string_view::npos ? text.size() : end + closing.size();
    }
    std::size_t end = at + 1;
    while (end < text.size() && text[end] != quote && text[end] != '\n') {
        end += text[end] == '\\' ? 2U : 1U;
    }
    return std::min(end + 1, text.size());
}

enum class Comments { blank, keep };

// The same text, as long as before, with blanks for comments and for what is between quotes.
std::string code_of(std::string_view text, Comments comments = Comments::blank) {
    std::string code(text);
    const auto blank = [&code](std::size_t from, std::size_t to) {
        for (std::size_t at = from; at < to; ++at) {
            code[at] = code[at] == '\n' ? '\n' : ' ';
        }
    };
    std::size_t at = 0;
    while (at < text.size()) {
        if (const std::size_t end = end_of_comment(text, at); end != at) {
            blank(at, comments == Comments::keep ? at : end);
            at = end;
        } else if (const std::size_t close = end_of_literal(text, at); close != at) {
            blank(at + 1, close > at + 1 ? close - 1 : close);
            at = close;
        } else {
            ++at;
        }
    }
    return code;
}

std::size_t line_of(std::string_view text, std::size_t at) {
    const std::string_view before = text.substr(0, at);
    return 1 + static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
}

std::string place(const std::string& path, std::string_view text, std::size_t at) {
    return path + ":" + std::to_string(line_of(text, at));
}

// Calls `see(word, at)` for every identifier.
template<typename See>
void each_word(std::string_view code, See see) {
    std::size_t at = 0;
    while (at < code.size()) {
        std::size_t end = at;
        while (end < code.size() && is_word(code[end])) {
            ++end;
        }
        if (end > at && std::isdigit(static_cast<unsigned char>(code[at])) == 0) {
            see(code.substr(at, end - at), at);
        }
        at = std::max(end, at + 1);
    }
}

std::string_view without_spaces_at_end(std::string_view text) {
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) {
        text.remove_suffix(1);
    }
    return text;
}

std::string_view last_word(std::string_view text) {
    std::size_t begin = text.size();
    while (begin > 0 && is_word(text[begin - 1])) {
        --begin;
    }
    return text.substr(begin);
}

struct Include {
    std::string name;
    bool quoted = false;
    std::size_t line = 0;
};

std::vector<Include> includes_of(const std::string& text) {
    std::vector<Include> includes;
    const std::string code = code_of(text);
    std::istringstream lines(text);
    std::istringstream code_lines(code);
    std::string line;
    std::string code_line;
    for (std::size_t number = 1; std::getline(lines, line) && std::getline(code_lines, code_line);
         ++number) {
        const std::size_t open = code_line.find_first_of("<\"");
        if (!code_line.starts_with("#include") || open == std::string::npos) {
            continue;
        }
        const bool quoted = line[open] == '"';
        const std::size_t close = line.find(quoted ? '"' : '>', open + 1);
        includes.push_back({line.substr(open + 1, close - open - 1), quoted, number});
    }
    return includes;
}

// -- the checks

Findings includes_against_the_arrow(const Tree& tree) {
    const std::map<std::string_view, std::set<std::string_view>> allowed{
        {"layout", {"layout"}},
        {"recorder", {"layout", "recorder"}},
        {"daemon", {"layout", "recorder", "daemon"}},
        {"delivery", {"layout", "delivery"}},
        {"cli", {"layout", "delivery", "cli"}},
        {"tests", {"layout", "recorder", "daemon", "delivery", "cli", "tests"}},
    };
    Findings findings;
    for (const auto& [path, text] : sources_of(tree)) {
        for (const Include& include : includes_of(text)) {
            if (!include.quoted) {
                continue;
            }
            const bool known = tree.contains(include.name);
            if (!known || !allowed.at(room_of(path)).contains(room_of(include.name))) {
                findings.push_back(
                    path + ":" + std::to_string(include.line) + " includes " + include.name
                    + (known ? "" : ", which is not in the tree"));
            }
        }
    }
    return findings;
}

std::set<std::string> sources_named_in(std::string_view list, const std::string& room) {
    std::set<std::string> named;
    std::istringstream lines{std::string(list)};
    std::string line;
    while (std::getline(lines, line)) {
        std::istringstream words(line.substr(0, line.find('#')));
        std::string word;
        while (words >> word) {
            word.erase(
                std::remove_if(
                    word.begin(), word.end(), [](char c) { return c == ')' || c == '"'; }),
                word.end());
            if (word.ends_with(".cpp")) {
                named.insert(room + "/" + word);
            }
        }
    }
    return named;
}

Findings sources_and_lists_that_differ(const Tree& tree) {
    Findings findings;
    for (const std::string_view room : rooms) {
        const std::string name(room);
        const auto list = tree.find(name + "/CMakeLists.txt");
        const std::set<std::string> named =
            list == tree.end() ? std::set<std::string>() : sources_named_in(list->second, name);
        for (const std::string& path : named) {
            if (!tree.contains(path)) {
                findings.push_back(path + " is named in CMakeLists.txt and does not exist");
            }
        }
        for (const auto& [path, text] : tree) {
            if (room_of(path) == room && path.ends_with(".cpp") && !named.contains(path)) {
                findings.push_back(path + " is not named in " + name + "/CMakeLists.txt");
            }
        }
    }
    return findings;
}

// System calls that make something durable, change a name or open a file. Whoever makes one beside the
// door decides alone what a power cut leaves behind.
const std::set<std::string_view> disk_calls{
    "copy_file_range", "creat",   "fallocate", "fdatasync", "fopen",           "fsync",
    "ftruncate",       "link",    "linkat",    "mkdir",     "mkdirat",         "mkdtemp",
    "mkostemp",        "mkstemp", "open",      "openat",    "openat2",         "posix_fallocate",
    "pwrite",          "pwritev", "pwritev2",  "rename",    "renameat",        "renameat2",
    "rmdir",           "symlink", "symlinkat", "sync",      "sync_file_range", "syncfs",
    "truncate",        "unlink",  "unlinkat",
};

// Our own members have some of these names too: a call of theirs goes through an object or happens inside
// their class, so these count only behind a bare :: or a library's namespace.
const std::set<std::string_view> also_names_of_ours{"link", "open", "rename", "sync", "truncate"};

const std::set<std::string_view> changing_calls_of_filesystem{
    "copy",
    "copy_directory",
    "copy_file",
    "create_directories",
    "create_symlink",
    "create_directory",
    "permissions",
    "remove",
    "remove_all",
    "rename",
    "resize_file",
};

// Those who may, and why a power cut does not matter there.
const std::map<std::string_view, std::set<std::string_view>> allowed_disk_calls{
    // Read-only.
    {"layout/input_file.hpp", {"openat"}},
    {"layout/git_work_tree.cpp", {"open"}},
    {"layout/settings.cpp", {"open"}},
    {"cli/emit_command.cpp", {"open"}},
    {"cli/state_checkup.cpp", {"open"}},
    // Its own socket file and that one's directory, which mean nothing after a reboot; /dev/null as a
    // spare descriptor.
    {"daemon/listener.cpp", {"create_directories", "open", "unlink"}},
    // /dev/null for missing standard descriptors.
    {"daemon/main.cpp", {"open"}},
    {"cli/main.cpp", {"open"}},
    // The file of a lock, which means nothing after a reboot.
    {"cli/daemon_starter.cpp", {"open"}},
    {"cli/trust_list.cpp", {"open"}},
    // A cache that readers do without when it is missing or torn; a new one is synced before it has its name.
    {"cli/index_file.cpp", {"fsync", "open"}},
    // Small files of the user's directories: whole before they have their name, and synced with it.
    // /dev/null and terminals.
    {"cli/agent_process.cpp", {"open"}},
    {"cli/pump.cpp", {"open"}},
    // Events on their way to the daemon: what a power cut takes is what the agent's own output would lose, too;
    // a file that is left for later is synced.
    {"delivery/spool_file.cpp",
     {"fdatasync", "ftruncate", "mkdir", "open", "pwrite", "pwritev", "rename", "unlink"}},
    {"delivery/spool_delivery.cpp", {"rename"}},
    // A request to a process that lives.
    {"cli/handoff_request.cpp", {"mkdir", "open", "rename", "unlink"}},
    // What people ask for: the trash, compression. Durable, and tested by killing it at every call.
    {"cli/durable_change.cpp",
     {"fsync", "mkdir", "open", "remove_all", "rename", "renameat2", "symlink", "unlink"}},
    // An index and objects of its own in a temporary directory.
    {"cli/git_changes.cpp",
     {"copy_file", "create_directory", "mkdir", "remove", "remove_all", "rename"}},
    // The log of a daemon it starts: made, kept short by a rename, read back.
    {"cli/daemon_process.cpp", {"open", "rename"}},
};

// How the word at `at` is used: as a call of the C library or of a file system library.
bool calls_the_system(std::string_view code, std::string_view word, std::size_t at) {
    const std::size_t next = code.find_first_not_of(" \n", at + word.size());
    if (next == std::string_view::npos || code[next] != '(') {
        return false;
    }
    const std::string_view before = without_spaces_at_end(code.substr(0, at));
    if (before.ends_with("::")) {
        const std::string_view scope = last_word(before.substr(0, before.size() - 2));
        if (scope == "filesystem" || scope == "fs") {
            return changing_calls_of_filesystem.contains(word);
        }
        return disk_calls.contains(word) && (scope.empty() || scope == "std" || scope == "return");
    }
    if (!disk_calls.contains(word) || also_names_of_ours.contains(word) || before.ends_with(".")
        || before.ends_with("->")) {
        return false;
    }
    const std::string_view previous = last_word(before);
    return previous.empty()
           || previous == "return";  // a type before it would make it a declaration
}

Findings disk_calls_beside_the_door(const Tree& tree) {
    Findings findings;
    for (const auto& [path, text] : sources_of(tree)) {
        if (room_of(path) == "tests" || path == "recorder/posix_disk.cpp") {
            continue;
        }
        const auto allowed = allowed_disk_calls.find(path);
        const std::string code = code_of(text);
        each_word(code, [&, &path = path, &text = text](std::string_view word, std::size_t at) {
            const bool stream = word == "ofstream" || word == "fstream";
            const bool by_number = word.starts_with("SYS_") && disk_calls.contains(word.substr(4));
            const bool include = code.rfind("#include", at) != std::string::npos
                                 && code.find('\n', code.rfind("#include", at)) > at;
            if (include || !(stream || by_number || calls_the_system(code, word, at))) {
                return;
            }
            if (allowed == allowed_disk_calls.end() || !allowed->second.contains(word)) {
                findings.push_back(place(path, text, at) + " uses " + std::string(word));
            }
        });
    }
    return findings;
}

Findings unused_permissions(const Tree& tree) {
    Findings findings;
    for (const auto& [path, calls] : allowed_disk_calls) {
        const auto file = tree.find(std::string(path));
        const std::string code = file == tree.end() ? "" : code_of(file->second);
        for (const std::string_view call : calls) {
            bool used = false;
            each_word(code, [&, &allowed = call](std::string_view word, std::size_t at) {
                used = used || (word == allowed && calls_the_system(code, word, at));
            });
            if (!used) {
                findings.push_back(std::string(path) + " does not use " + std::string(call));
            }
        }
    }
    return findings;
}

Findings heavy_includes_in_headers(const Tree& tree) {
    Findings findings;
    for (const auto& [path, text] : sources_of(tree)) {
        if (!path.ends_with(".hpp") || room_of(path) == "tests") {
            continue;
        }
        for (const Include& include : includes_of(text)) {
            const std::string_view name = include.name;
            const bool heavy =
                name.starts_with("boost/asio") || name.starts_with("simdjson")
                || name.starts_with("toml++") || name.starts_with("sqlite3")
                || (name.starts_with("nlohmann/") && name != "nlohmann/json_fwd.hpp");
            if (heavy) {
                findings.push_back(
                    path + ":" + std::to_string(include.line) + " includes " + include.name);
            }
        }
    }
    return findings;
}

Findings missing_first_lines(const Tree& tree) {
    constexpr std::string_view licence = "// SPDX-License-Identifier: Apache-2.0\n";
    Findings findings;
    for (const auto& [path, text] : sources_of(tree)) {
        if (!text.starts_with(licence)) {
            findings.push_back(path + " does not begin with the SPDX line");
        }
        if (path.ends_with(".hpp") && text.find("\n#pragma once\n") == std::string::npos) {
            findings.push_back(path + " lacks #pragma once");
        }
    }
    return findings;
}

Findings unfit_test_names(const Tree& tree) {
    Findings findings;
    std::map<std::string, std::string> first;
    for (const auto& [path, text] : sources_of(tree)) {
        const std::string code = code_of(text);
        each_word(code, [&, &path = path, &text = text](std::string_view word, std::size_t at) {
            const std::size_t open = code.find_first_not_of(" \n", at + word.size());
            if (!word.starts_with("TEST_CASE") || open == std::string::npos || code[open] != '(') {
                return;
            }
            const std::size_t quote = code.find('"', open);
            const std::size_t close = code.find('"', quote + 1);
            if (quote == std::string::npos || close == std::string::npos) {
                return;
            }
            const std::string name = text.substr(quote + 1, close - quote - 1);
            const std::string here = place(path, text, at);
            if (const auto [known, fresh] = first.emplace(name, here); !fresh) {
                findings.push_back(here + " has the name of " + known->second + ": " + name);
            }
            // ctest and doctest's filters read these as something else.
            if (name.find_first_of(",[]\\*;") != std::string::npos) {
                findings.push_back(here + " has a name with , [ ] ; * or a backslash: " + name);
            }
        });
    }
    return findings;
}

Findings unfinished_work(const Tree& tree) {
    const std::set<std::string_view> markers{
        "TO"
        "DO",
        "FIX"
        "ME",
        "XX"
        "X"};
    Findings findings;
    for (const auto& [path, text] : tree) {
        const std::string words = is_source(path) ? code_of(text, Comments::keep) : text;
        each_word(words, [&, &path = path, &text = text](std::string_view word, std::size_t at) {
            if (markers.contains(word)) {
                findings.push_back(place(path, text, at) + " says " + std::string(word));
            }
        });
    }
    return findings;
}

Findings long_files(const Tree& tree) {
    Findings findings;
    for (const auto& [path, text] : sources_of(tree)) {
        const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
        if (lines > lines_max) {
            findings.push_back(path + " has " + std::to_string(lines) + " lines");
        }
    }
    return findings;
}

TEST_CASE("the tree test tells code from comments and literals") {
    CHECK(code_of("a // b\nc") == "a     \nc");
    CHECK(code_of("a /* b\n */ c") == "a     \n    c");
    CHECK(code_of(R"(f("x\"y", '"', 10'000) // z)") == R"(f("    ", ' ', 10'000)     )");
    CHECK(code_of("R\"x(a\"b)x\" c") == "R\"       \" c");
    CHECK(code_of("\"// no comment\" d") == "\"             \" d");
    CHECK(real_tree().size() > 100);
}

TEST_CASE("includes between rooms point down the arrow") {
    const Tree wrong{
        {"layout/a.hpp", "#include \"recorder/b.hpp\"\n"},
        {"recorder/b.hpp", "#include \"layout/a.hpp\"\n#include \"daemon/c.hpp\"\n"},
        {"daemon/c.hpp", "#include \"recorder/b.hpp\"\n#include \"cli/d.hpp\"\n"},
        {"cli/d.hpp", "// #include \"recorder/b.hpp\"\n#include \"recorder/b.hpp\"\n"},
        {"tests/e.hpp", "#include \"cli/d.hpp\"\n#include \"daemon/absent.hpp\"\n"},
    };
    CHECK(includes_against_the_arrow(wrong).size() == 5);
    CHECK_CLEAN(includes_against_the_arrow);
}

TEST_CASE("every source is named in the list of its room and every name has its source") {
    const Tree wrong{
        {"cli/CMakeLists.txt", "relay_room(cli SOURCES a.cpp absent.cpp)\n# commented.cpp\n"},
        {"cli/a.cpp", ""},
        {"cli/commented.cpp", ""},
        {"tests/CMakeLists.txt", "add_executable(x\n  sub/b.cpp)\n"},
        {"tests/sub/b.cpp", ""},
        {"tests/sub/forgotten.cpp", ""},
    };
    CHECK(sources_and_lists_that_differ(wrong).size() == 3);
    CHECK_CLEAN(sources_and_lists_that_differ);
}

TEST_CASE("only the door to the disk makes files durable or changes names") {
    const Tree wrong{
        {"recorder/a.cpp",
         "void f() { ::rename(a, b); if (fsync(fd) != 0) { return ::unlink(c); } }\n"
         "int g() { return fdatasync(fd) + std::rename(a, b); }\n"
         "void h() { boost::filesystem::remove_all(p); std::ofstream out(p); }\n"
         "long i() { return ::syscall(SYS_openat2, d); }\n"},
        {"layout/input_file.hpp", "int f() { return ::openat(d, n, 0) + ::pwrite(f, b, n, o); }\n"},
    };
    CHECK(disk_calls_beside_the_door(wrong).size() == 9);
    const Tree right{
        {"recorder/a.cpp",
         "// ::rename(a, b)\nconst char* text = \"fsync(fd)\";\n#include <fstream>\n"
         "Status Directory::rename(A a) { return directory->rename(a); }\n"
         "struct S { virtual Status unlink(A a) = 0; };\n"
         "void f() { files.rename(a); auto g = open(session); fs::exists(p); }\n"},
        {"recorder/posix_disk.cpp", "int f() { return ::fsync(fd); }\n"},
        {"tests/a.cpp", "int f() { return ::fsync(fd); }\n"},
    };
    CHECK_MESSAGE(
        disk_calls_beside_the_door(right).empty(), listed(disk_calls_beside_the_door(right)));
    CHECK_CLEAN(disk_calls_beside_the_door);
}

TEST_CASE("nobody is allowed a system call that they do not make") {
    CHECK(!unused_permissions({{"daemon/main.cpp", "// ::open(x)\n"}}).empty());
    CHECK_CLEAN(unused_permissions);
}

TEST_CASE("headers do not pass heavy packages on") {
    const Tree wrong{
        {"layout/a.hpp", "#include <simdjson.h>\n#include <nlohmann/json_fwd.hpp>\n"},
        {"daemon/b.hpp", "#include <boost/asio/io_context.hpp>\n#include <toml++/toml.h>\n"},
        {"cli/c.hpp", "#include <nlohmann/json.hpp>\n"},
        {"cli/c.cpp", "#include <nlohmann/json.hpp>\n"},
    };
    CHECK(heavy_includes_in_headers(wrong).size() == 4);
    CHECK_CLEAN(heavy_includes_in_headers);
}

TEST_CASE("every source names its licence first and every header guards itself") {
    const Tree wrong{
        {"cli/a.cpp", "\n// SPDX-License-Identifier: Apache-2.0\n"},
        {"cli/b.hpp", "// SPDX-License-Identifier: Apache-2.0\n// #pragma once\n"},
    };
    CHECK(missing_first_lines(wrong).size() == 2);
    CHECK_CLEAN(missing_first_lines);
}

TEST_CASE("no two tests have one name") {
    const Tree wrong{
        {"tests/a.cpp", "TEST_CASE(\"one\") {\n}\n// TEST_CASE(\"two\")\n"},
        {"tests/b.cpp", "TEST_CASE(\n    \"one\") {\n}\nTEST_CASE(\"two\") {\n}\n"},
        {"tests/c.cpp", "TEST_CASE(\"three, four\") {\n}\n"},
    };
    CHECK(unfit_test_names(wrong).size() == 2);
    CHECK_CLEAN(unfit_test_names);
}

TEST_CASE("nothing in the tree waits to be finished") {
    const Tree wrong{
        {"cli/a.cpp",
         "// TO"
         "DO: later\nint FIX"
         "ME_not = 0;\n"},
        {"docs/b.md",
         "XX"
         "X\nXXXX\n"}};
    CHECK(unfinished_work(wrong).size() == 2);
    CHECK(unfinished_work({{"cli/a.cpp",
                            "f(\"XX"
                            "X\");\n"}})
              .empty());
    CHECK_CLEAN(unfinished_work);
}

TEST_CASE("no source is longer than a reader bears") {
    CHECK(long_files({{"cli/a.cpp", std::string(lines_max + 1, '\n')}}).size() == 1);
    CHECK(long_files({{"cli/a.cpp", std::string(lines_max, '\n')}}).empty());
    CHECK_CLEAN(long_files);
}

}  // namespace
}  // namespace relay::tests
