// SPDX-License-Identifier: Apache-2.0
#include "layout/session_paths.hpp"
#include "layout/session_reader.hpp"
#include "layout/sha256.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/written_session.hpp"

#include <doctest/doctest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace relay::layout {

namespace {

constexpr std::string_view session_text = "01J9X3M7K5VBHQEN6T2F4D8RPZ";

// A session of sealed turns on a real directory, to be damaged by a test.
class SealedSession {
public:
    explicit SealedSession(std::int64_t last, std::int64_t first = 1)
        : path_(directory_.path() + "/" + std::string(session_text)) {
        REQUIRE(::mkdir(path_.c_str(), 0700) == 0);
        REQUIRE(::mkdir((path_ + "/turns").c_str(), 0700) == 0);
        meta_.id = *Ulid::parse(session_text);
        for (std::int64_t turn = first; turn <= last; ++turn) {
            seal(turn);
        }
        write_meta();
    }

    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] std::string at(std::string_view file) const {
        return path_ + "/" + std::string(file);
    }
    [[nodiscard]] Meta& meta() { return meta_; }

    void write(std::string_view file, std::string_view content) const {
        std::ofstream(at(file), std::ios::binary) << content;
    }
    [[nodiscard]] std::string read(std::string_view file) const {
        return read_file(at(file), 1 << 20).value();
    }
    void remove(std::string_view file) const { REQUIRE(::unlink(at(file).c_str()) == 0); }
    void write_meta() const { write(meta_file, encode_meta(meta_)); }

    [[nodiscard]] Verification verify() const {
        Result<Verification> verification = verify_session(path_);
        REQUIRE(verification.ok());
        return std::move(verification.value());
    }

private:
    [[nodiscard]] FileSeal sealed_file(const std::string& file, const std::string& content) const {
        write(file, content);
        return {static_cast<std::int64_t>(content.size()), sha256_hex(content)};
    }

    void seal(std::int64_t turn) {
        TurnState state;
        state.turn = turn;
        state.status = "completed";
        state.prompt = sealed_file(prompt_file(turn), "prompt " + std::to_string(turn));
        // The second output is more than one piece of the streaming read.
        state.output = sealed_file(output_file(turn), std::string(turn == 2 ? 150000 : 10, 'o'));
        if (turn == 2) {
            state.stderr_log = sealed_file(stderr_file(turn), "stderr");
            state.diff = sealed_file(diff_file(turn), "diff");
        }
        const SealedState sealed =
            encode_turn_state(state, meta_.chain ? *meta_.chain : std::string(chain_origin));
        write(state_file(turn), sealed.text);
        meta_.chain = sealed.chain;
        ++meta_.turn_count;
    }

    tests::TemporaryDirectory directory_;
    std::string path_;
    Meta meta_;
};

bool says(const std::vector<Finding>& findings, std::string_view file, std::string_view part) {
    for (const Finding& finding : findings) {
        if (finding.file == file && finding.what.find(part) != std::string::npos) {
            return true;
        }
    }
    return false;
}

std::string all(const std::vector<Finding>& findings) {
    std::string text;
    for (const Finding& finding : findings) {
        text += finding.file + ": " + finding.what + "\n";
    }
    return text;
}

std::string replaced(std::string text, std::string_view what, std::string_view with) {
    const std::size_t at = text.find(what);
    REQUIRE(at != std::string::npos);
    return text.replace(at, what.size(), with);
}

}  // namespace

TEST_CASE("a session as it was sealed verifies without damage or remark") {
    for (const std::int64_t turns : {0, 1, 3}) {
        CAPTURE(turns);
        const SealedSession session(turns);
        const Verification verification = session.verify();
        CHECK(verification.turns == turns);
        CHECK(verification.open_turns == 0);
        CHECK_MESSAGE(verification.damage.empty(), all(verification.damage));
        CHECK_MESSAGE(verification.remarks.empty(), all(verification.remarks));
    }
    const SealedSession session(1);
    CHECK(verify_session(session.path() + "//").value().damage.empty());
}

TEST_CASE("a session without a turns directory has no turns") {
    SealedSession session(0);
    REQUIRE(::rmdir(session.at("turns").c_str()) == 0);
    CHECK(session.verify().damage.empty());
    session.meta().turn_count = 1;
    session.write_meta();
    CHECK(says(session.verify().damage, "meta.json", "counts 1 sealed turns, but there are 0"));
}

TEST_CASE("turns are verified in the order of their numbers and not of their names") {
    // 1000 sorts before 999 by name; a thousand whole turns would only take longer.
    const SealedSession session(1000, 999);
    const Verification verification = session.verify();
    CHECK(verification.turns == 2);
    CHECK(verification.damage.size() == 1);
    CHECK(says(verification.damage, state_file(1), "turns 1 to 998 are missing although turn 999"));
    CHECK(verification.remarks.size() == 1);
    CHECK(says(verification.remarks, state_file(999), "cannot be checked"));
}

TEST_CASE("every change of a sealed file is found and named") {
    const std::vector<std::string> files{
        prompt_file(2), output_file(2), stderr_file(2), diff_file(2)};
    for (const std::string& file : files) {
        CAPTURE(file);
        const SealedSession session(3);
        const std::string content = session.read(file);

        std::string flipped = content;
        flipped.back() = '#';
        session.write(file, flipped);
        Verification verification = session.verify();
        CHECK(verification.damage.size() == 1);
        CHECK(says(verification.damage, file, "has the SHA-256 " + sha256_hex(flipped)));

        session.write(file, content + "x");
        verification = session.verify();
        CHECK(verification.damage.size() == 1);
        CHECK(says(
            verification.damage, file, "but was sealed with " + std::to_string(content.size())));

        session.remove(file);
        verification = session.verify();
        CHECK(verification.damage.size() == 1);
        CHECK(says(verification.damage, file, "is missing although the seal names it"));
    }
}

TEST_CASE("a file that the seal does not name is damage") {
    const SealedSession session(1);
    session.write(stderr_file(1), "");
    const Verification verification = session.verify();
    CHECK(verification.damage.size() == 1);
    CHECK(says(verification.damage, stderr_file(1), "names no such file"));
}

TEST_CASE("the recorder's own version of a damaged file is pointed at") {
    const SealedSession session(1);
    session.write(output_file(1), "mine");
    REQUIRE(::mkdir(session.at("recovered").c_str(), 0700) == 0);
    CHECK_FALSE(says(session.verify().damage, output_file(1), "recovered/"));
    session.write("recovered/001-output.md", "theirs");
    const Verification verification = session.verify();
    CHECK(says(
        verification.damage,
        output_file(1),
        "; the recorder's own version is recovered/001-output.md"));
    CHECK(says(verification.remarks, "recovered", "recorder's own version"));
    session.remove(output_file(1));
    CHECK(says(session.verify().damage, output_file(1), "recovered/001-output.md"));
}

TEST_CASE("a changed state breaks its own chain and only that") {
    const SealedSession session(3);
    session.write(
        state_file(2), replaced(session.read(state_file(2)), "\"completed\"", "\"failed\""));
    const Verification verification = session.verify();
    CHECK(verification.damage.size() == 1);
    CHECK(says(verification.damage, state_file(2), "content after turn 1 gives"));
    CHECK(verification.turns == 3);
}

TEST_CASE("a state that was changed and chained anew breaks the chain of the next") {
    const SealedSession session(3);
    TurnState state = decode_turn_state(session.read(state_file(1))).value();
    state.status = "failed";
    session.write(state_file(1), encode_turn_state(state, chain_origin).text);
    const Verification verification = session.verify();
    CHECK(verification.damage.size() == 1);
    CHECK(says(verification.damage, state_file(2), "this file or the one before it was changed"));
}

TEST_CASE("a last state that was chained anew disagrees with meta") {
    const SealedSession session(1);
    TurnState state = decode_turn_state(session.read(state_file(1))).value();
    state.status = "failed";
    session.write(state_file(1), encode_turn_state(state, chain_origin).text);
    const Verification verification = session.verify();
    CHECK(verification.damage.size() == 1);
    CHECK(says(verification.damage, "meta.json", "states the chain"));
}

TEST_CASE("a state that cannot be read is one damage and leaves the next chain unchecked") {
    for (const std::string_view text : {"", "{}", "not json"}) {
        CAPTURE(text);
        const SealedSession session(3);
        session.write(state_file(2), text);
        const Verification verification = session.verify();
        CHECK(says(verification.damage, state_file(2), ""));
        CHECK_FALSE(says(verification.damage, state_file(3), ""));
        CHECK(says(verification.remarks, state_file(3), "cannot be checked"));
        CHECK_FALSE(says(verification.damage, "meta.json", ""));
    }
}

TEST_CASE("a state that speaks of another turn is damage") {
    const SealedSession session(1);
    session.write(
        state_file(1), replaced(session.read(state_file(1)), "\"turn\": 1", "\"turn\": 5"));
    CHECK(says(session.verify().damage, state_file(1), "speaks of turn 5"));
}

TEST_CASE("only the last turn may be open") {
    SealedSession session(2);
    session.write(prompt_file(3), "p");
    session.write(output_file(3), "half");
    Verification verification = session.verify();
    CHECK(verification.turns == 2);
    CHECK(verification.open_turns == 1);
    CHECK_MESSAGE(verification.damage.empty(), all(verification.damage));

    session.write(prompt_file(4), "p");
    verification = session.verify();
    CHECK(verification.open_turns == 1);
    CHECK(verification.damage.size() == 1);
    CHECK(says(verification.damage, state_file(3), "only the last turn may be without its seal"));
}

TEST_CASE("a removed seal in the middle is damage") {
    const SealedSession session(3);
    session.remove(state_file(2));
    const Verification verification = session.verify();
    CHECK(says(verification.damage, state_file(2), "is missing"));
    CHECK(says(verification.damage, "meta.json", "counts 3 sealed turns, but there are 2"));
    CHECK(verification.open_turns == 0);
}

TEST_CASE("missing turns are reported as one range however wide") {
    const SealedSession session(1);
    session.write("turns/9223372036854775807-prompt.md", "");
    session.write("turns/99999999999999999999-prompt.md", "");
    const Verification verification = session.verify();
    CHECK(verification.damage.size() == 1);
    CHECK(says(
        verification.damage,
        state_file(2),
        "turns 2 to 9223372036854775806 are missing although turn 9223372036854775807 exists"));
    CHECK(verification.open_turns == 1);
    CHECK(says(
        verification.remarks, "turns/99999999999999999999-prompt.md", "no file of the recorder"));

    const SealedSession other(3);
    for (const std::string& file :
         {prompt_file(2), output_file(2), stderr_file(2), diff_file(2), state_file(2)}) {
        other.remove(file);
    }
    CHECK(says(other.verify().damage, state_file(2), "turn 2 is missing although turn 3 exists"));
}

TEST_CASE("meta has to agree with the seals") {
    SealedSession session(2);
    const std::string chain = *session.meta().chain;
    session.meta().turn_count = 1;
    session.write_meta();
    CHECK(says(session.verify().damage, "meta.json", "counts 1 sealed turns, but there are 2"));
    session.meta().turn_count = 2;
    session.meta().chain.reset();
    session.write_meta();
    CHECK(says(session.verify().damage, "meta.json", "states the chain null"));
    session.meta().chain = chain;
    session.meta().id = *Ulid::parse("01J9X3M7K5VBHQEN6T2F4D8RPY");
    session.write_meta();
    CHECK(says(session.verify().damage, "meta.json", "01J9X3M7K5VBHQEN6T2F4D8RPY"));

    SealedSession empty(0);
    empty.meta().chain = chain;
    empty.write_meta();
    CHECK(says(empty.verify().damage, "meta.json", "but the last sealed turn has none"));
}

TEST_CASE("a corrupt meta is damage and the turns are verified all the same") {
    const SealedSession session(2);
    session.write(meta_file, "{");
    session.write(output_file(1), "x");
    const Verification verification = session.verify();
    CHECK(verification.turns == 2);
    CHECK(says(verification.damage, "meta.json", "no JSON"));
    CHECK(says(verification.damage, output_file(1), "sealed with"));
}

TEST_CASE("temporary and foreign files of a session are remarks") {
    const SealedSession session(1);
    session.write(".meta.json.tmp", "");
    session.write("turns/.002-state.json.tmp", "");
    session.write("turns/1-state.json", "");
    session.write("turns/0001-state.json", "");
    session.write("turns/000-state.json", "");
    session.write("turns/001-notes.txt", "");
    session.write("turns/notes", "");
    const Verification verification = session.verify();
    CHECK_MESSAGE(verification.damage.empty(), all(verification.damage));
    CHECK(verification.turns == 1);
    CHECK(verification.open_turns == 0);
    CHECK(says(verification.remarks, ".meta.json.tmp", "temporary"));
    CHECK(says(verification.remarks, "turns/.002-state.json.tmp", "temporary"));
    CHECK(says(verification.remarks, "turns/1-state.json", "no file of the recorder"));
    CHECK(says(verification.remarks, "turns/0001-state.json", "no file of the recorder"));
    CHECK(verification.remarks.size() == 7);
}

TEST_CASE("a symbolic link in a session is damage and never followed") {
    const std::vector<std::string> files{
        prompt_file(2), output_file(2), state_file(2), std::string(meta_file)};
    for (const std::string& file : files) {
        CAPTURE(file);
        const SealedSession session(2);
        // The target has the very bytes that were sealed.
        REQUIRE(::rename(session.at(file).c_str(), (session.path() + ".elsewhere").c_str()) == 0);
        REQUIRE(::symlink((session.path() + ".elsewhere").c_str(), session.at(file).c_str()) == 0);
        CHECK(says(session.verify().damage, file, "is a symbolic link, which is not followed"));
    }
    const SealedSession session(1);
    REQUIRE(::symlink("001-output.md", session.at(output_file(2)).c_str()) == 0);
    REQUIRE(::symlink("meta.json", session.at(timeline_file).c_str()) == 0);
    const Verification verification = session.verify();
    CHECK(verification.open_turns == 1);
    CHECK(says(verification.damage, output_file(2), "is a symbolic link"));
    CHECK(says(verification.damage, timeline_file, "is a symbolic link"));
}

TEST_CASE("a turns directory that is a link is damage") {
    const SealedSession session(1);
    REQUIRE(::rename(session.at("turns").c_str(), session.at("real").c_str()) == 0);
    REQUIRE(::symlink("real", session.at("turns").c_str()) == 0);
    const Verification verification = session.verify();
    CHECK(verification.turns == 0);
    CHECK(says(verification.damage, "turns", "is a symbolic link, which is not followed"));
}

TEST_CASE("a session may be verified through a link to its directory") {
    const SealedSession session(1);
    const std::string latest = session.path() + ".latest";
    REQUIRE(::symlink(session.path().c_str(), latest.c_str()) == 0);
    const Result<Verification> verification = verify_session(latest);
    REQUIRE(verification.ok());
    CHECK(verification.value().damage.empty());
    CHECK(verification.value().turns == 1);
}

TEST_CASE("a pipe in place of a sealed file is damage and not waited for") {
    const SealedSession session(1);
    session.remove(output_file(1));
    REQUIRE(::mkfifo(session.at(output_file(1)).c_str(), 0600) == 0);
    CHECK(says(session.verify().damage, output_file(1), "no regular file"));
}

TEST_CASE("what is no session or a newer one is not verified") {
    const tests::TemporaryDirectory directory;
    CHECK(verify_session(directory.path()).error().code == Errc::not_found);
    CHECK(verify_session(directory.path() + "/none").error().code == Errc::not_found);

    const SealedSession newer(1);
    newer.write(meta_file, R"({"v":2})");
    CHECK(verify_session(newer.path()).error().code == Errc::invalid);

    const SealedSession newer_state(1);
    newer_state.write(
        state_file(1), replaced(newer_state.read(state_file(1)), "\"v\": 1", "\"v\": 2"));
    const Result<Verification> refused = verify_session(newer_state.path());
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == Errc::invalid);
    CHECK(refused.error().context.find("version 2") != std::string::npos);
}

TEST_CASE("compressed turns verify against the hashes of what was recorded") {
    const SealedSession session(3);
    for (const std::string& file :
         {prompt_file(1), output_file(2), stderr_file(2), diff_file(2), output_file(3)}) {
        tests::compress_file(session.at(file));
    }
    const Verification verification = session.verify();
    CHECK_MESSAGE(verification.damage.empty(), all(verification.damage));
    CHECK_MESSAGE(verification.remarks.empty(), all(verification.remarks));
    CHECK(verification.turns == 3);
}

TEST_CASE("damage of a compressed turn is found and named") {
    const SealedSession session(2);
    tests::compress_file(session.at(output_file(2)));
    session.write(output_file(1), "other");
    tests::compress_file(session.at(output_file(1)));
    Verification verification = session.verify();
    CHECK(verification.damage.size() == 1);
    CHECK(says(verification.damage, output_file(1), "was sealed with"));
    // Cut off, then no zstd at all, then gone.
    const std::string name = compressed_file(output_file(2));
    const std::string compressed = session.read(name);
    session.write(name, compressed.substr(0, compressed.size() - 3));
    CHECK(says(session.verify().damage, name, "cannot be decompressed"));
    session.write(name, "nothing");
    CHECK(says(session.verify().damage, name, "cannot be decompressed"));
    session.remove(name);
    CHECK(says(session.verify().damage, output_file(2), "is missing"));
}

TEST_CASE("a turn's file in both forms is sound and remarked") {
    const SealedSession session(1);
    const std::string prompt = session.read(prompt_file(1));
    tests::compress_file(session.at(prompt_file(1)));
    session.write(prompt_file(1), prompt);
    const Verification verification = session.verify();
    CHECK(verification.damage.empty());
    CHECK(says(verification.remarks, compressed_file(prompt_file(1)), "interrupted"));
    // Seals are never compressed.
    session.write(compressed_file(state_file(1)), "x");
    CHECK(
        says(session.verify().remarks, compressed_file(state_file(1)), "no file of the recorder"));
}

}  // namespace relay::layout
