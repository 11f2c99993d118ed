// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/literal_scan.hpp"
#include "layout/result.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace relay::layout {

// Replaces secrets by [REDACTED:rule]. What is replaced is the body of a secret; its head ("ghp_", "Bearer ") is public and stays. So
// text that ends in a head can be written at once, and only the first few bytes of a body have to wait for what follows.
//
// What follows a piece of a stream is judged by the last bytes that were written before it, and by nothing else: a head at
// the end of them makes the next bytes a body, a head with a placeholder makes them the rest of one. Whoever has the file has
// the state, so a restart forgets nothing; and what was redacted once is not changed by a second time.
//
// Immutable once made; any number of threads.
class Redactor {
public:
    // The built-in shapes and rules of the user's own, each "name=pattern": a name of a-z, 0-9 and -, a pattern of RE2 that
    // begins with at least three fixed bytes, which are its head. Its match is hidden to the end of the word. "!name" leaves
    // out a built-in one. Errc::invalid with a sentence about the rule.
    [[nodiscard]] static Result<std::shared_ptr<const Redactor>>
    create(std::span<const std::string> rules = {});

    ~Redactor();
    Redactor(const Redactor&) = delete;
    Redactor& operator=(const Redactor&) = delete;

    // How many of the bytes before a piece matter at most. A match of a rule of the user's own is no longer than this.
    static constexpr std::size_t context_bytes_max = 1024;

    // What is known of the time after a piece.
    enum class Rest {
        unknown,  // more may come at any moment
        waited,   // more may come, but the piece is not to wait for it any longer
        none,     // the text ends here
    };
    enum class Verdict {
        clean,      // nothing of it is secret: write it as it is
        changed,    // `out` is to be written instead
        undecided,  // ends inside what may be a secret, and the rest is unknown: wait
    };

    struct Piece {
        std::string_view written{};  // the end of what stands before it
        std::string_view text{};
        std::string_view after{};  // what is known to follow it
        Rest rest = Rest::none;
    };

    // Judges a piece of a stream. A body of which less than the required length has come by Rest::waited is
    // hidden when half of that is there, and written otherwise; the bytes that complete it later are hidden. Adds the number of placeholders to `count`.
    [[nodiscard]] Verdict judge(const Piece& piece, std::string& out, std::int64_t& count) const;

    // A text that is whole; false when there is nothing to hide in it.
    [[nodiscard]] bool redact(std::string& text, std::int64_t& count) const;
    // The same in JSON text, which stays valid.
    [[nodiscard]] bool redact_json(std::string& json, std::int64_t& count) const;

private:
    struct Rule;  // what follows a head
    struct Hit {  // a head in the text
        std::size_t begin = 0;
        std::size_t end = 0;
        const Rule* rule = nullptr;
    };
    struct Mark {  // a body, or the rest of one
        std::size_t begin = 0;
        std::size_t end = 0;
        const Rule* rule = nullptr;
        bool has_placeholder = false;
    };
    struct Judged {  // a head with what follows it
        std::optional<Mark> mark;
        bool waits = false;  // what comes next may change the answer
    };
    struct Text;  // a piece with what is around it
    enum class Form { text, json };

    Redactor();
    [[nodiscard]] static Result<std::unique_ptr<Rule>> own_rule(const std::string& text);
    [[nodiscard]] Verdict judge(Text text, Form form, std::string& out, std::int64_t& count) const;
    [[nodiscard]] static Judged judge_own(const Text& text, const Hit& hit, Form form);
    [[nodiscard]] static Judged judge_shape(const Text& text, const Hit& hit);
    // False: undecided.
    [[nodiscard]] static bool
    find_marks(const Text& text, const std::vector<Hit>& hits, Form form, std::vector<Mark>& marks);
    static void
    write(const Text& text, const std::vector<Mark>& marks, std::string& out, std::int64_t& count);

    std::vector<std::unique_ptr<const Rule>> rules_;
    struct Head {
        const Rule* rule = nullptr;
        std::size_t bytes = 0;
    };
    std::vector<Head> heads_;  // in the order of the scan's literals
    std::unique_ptr<const LiteralScan> scan_;
    std::size_t context_bytes_;  // enough for the rules there are
};

}  // namespace relay::layout
