// SPDX-License-Identifier: Apache-2.0
#include "layout/redactor.hpp"

#include "layout/secret_shape.hpp"

#include <re2/re2.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

namespace relay::layout {

namespace {

constexpr std::size_t own_head_bytes_min = 3;
constexpr std::size_t own_head_bytes_max = 64;
constexpr std::size_t own_rules_max = 64;
constexpr std::size_t rule_name_bytes_max = 32;
constexpr std::size_t own_match_bytes_max = Redactor::context_bytes_max;
// A head, half a body and a placeholder.
constexpr std::size_t shape_context_bytes = 256;
constexpr std::string_view own_alphabet = "A-Za-z0-9_~+/=-";
constexpr std::size_t joint_bytes_max = 8;
constexpr std::size_t backslashes_max = 8;

bool is_alnum(char letter) {
    return (letter >= '0' && letter <= '9') || (letter >= 'A' && letter <= 'Z')
           || (letter >= 'a' && letter <= 'z');
}

bool is_one_of(char letter, std::string_view set) {
    return set.find(letter) != std::string_view::npos;
}

class Alphabet {
public:
    explicit Alphabet(std::string_view ranges) : is_pem_(ranges == pem_alphabet) {
        if (is_pem_) {
            ranges = "A-Za-z0-9/+=:,. \t\r\n";
        }
        for (std::size_t at = 0; at < ranges.size(); ++at) {
            const bool is_range = at + 2 < ranges.size() && ranges[at + 1] == '-';
            const auto first = static_cast<unsigned char>(ranges[at]);
            const auto last = static_cast<unsigned char>(ranges[is_range ? at + 2 : at]);
            std::fill(letters_.begin() + first, letters_.begin() + last + 1, true);
            at += is_range ? 2 : 0;
        }
    }

    struct Run {
        std::size_t end = 0;
        bool stalled = false;  // the next byte decides whether the last one belongs to it
    };
    // How far it goes from here on.
    [[nodiscard]] Run run(std::string_view text, std::size_t at) const {
        for (;;) {
            while (at < text.size() && letters_[static_cast<unsigned char>(text[at])]) {
                ++at;
            }
            const std::size_t special = at < text.size() ? special_bytes(text, at) : 0;
            if (special == 0) {
                return {at, false};
            }
            if (at + special > text.size()) {
                return {at, true};
            }
            at += special;
        }
    }

private:
    // Letters of more than one byte: "\n" and the like of a key in a string literal, "\/" of JSON, and the dash before a
    // removed line of a patch. 0: none; more than there is: perhaps one.
    [[nodiscard]] std::size_t special_bytes(std::string_view text, std::size_t at) const {
        if (text[at] == '-' && is_pem_) {
            const bool goes_on = at + 1 < text.size();
            return goes_on ? (text[at + 1] == '-' ? 0 : 1) : 2;
        }
        if (text[at] != '\\') {
            return 0;
        }
        std::size_t next = at;
        while (next < text.size() && text[next] == '\\') {
            ++next;
        }
        if (next - at > backslashes_max) {
            return 0;
        }
        if (next == text.size()) {
            return is_pem_ || letters_['/'] ? next - at + 1 : 0;
        }
        const bool belongs =
            (text[next] == '/' && letters_['/']) || (is_pem_ && is_one_of(text[next], "nrt"));
        return belongs ? next - at + 1 : 0;
    }

    std::array<bool, 256> letters_{};
    bool is_pem_;
};

// Whether a word may begin here: the byte before it is no letter or digit, or belongs to an escape.
bool begins_word(std::string_view text, std::size_t at) {
    if (at == 0 || !is_alnum(text[at - 1])) {
        return true;
    }
    const auto back = [text, at](std::size_t bytes) {
        return bytes <= at ? text[at - bytes] : '\0';
    };
    if (back(2) == '\\' && is_one_of(back(1), "nrtbfv")) {
        return true;
    }
    if (back(3) == '%') {
        return true;
    }
    // The colours of a terminal: ESC [ 3 1 m, also where ESC is spelled out.
    std::size_t bytes = 2;
    while (bytes < 16
           && (is_one_of(back(bytes), ";:") || (back(bytes) >= '0' && back(bytes) <= '9'))) {
        ++bytes;
    }
    if (back(1) != 'm' || back(bytes) != '[') {
        return false;
    }
    const char before = back(bytes + 1);
    const char two_before = back(bytes + 2);
    return before == '\x1b' || (two_before == '1' && (before == 'b' || before == 'B'))
           || (two_before == '3' && before == '3') || (two_before == '\\' && before == 'e');
}

// The end of quotes, blanks and a colon or equals sign; none when there is no such sign.
std::optional<std::size_t> skip_joint(std::string_view text, std::size_t at) {
    bool assigns = false;
    const std::size_t end = std::min(text.size(), at + joint_bytes_max);
    for (; at < end && is_one_of(text[at], " \t\"'\\:=>"); ++at) {
        assigns = assigns || text[at] == ':' || text[at] == '=';
    }
    return assigns ? std::optional(at) : std::nullopt;
}

Error bad_rule(std::string_view rule, const std::string& why) {
    return {Errc::invalid, 0, "the rule \"" + std::string(rule) + "\" " + why};
}

bool is_rule_name(std::string_view name) {
    return !name.empty() && name.size() <= rule_name_bytes_max
           && std::all_of(name.begin(), name.end(), [](char letter) {
                  return letter == '-' || (is_alnum(letter) && !(letter >= 'A' && letter <= 'Z'));
              });
}

// The bytes with which every match begins.
std::string fixed_head(const RE2& pattern) {
    std::string least;
    std::string most;
    if (!pattern.PossibleMatchRange(&least, &most, static_cast<int>(own_head_bytes_max))) {
        return {};
    }
    const auto differs = std::mismatch(least.begin(), least.end(), most.begin(), most.end());
    return {least.begin(), differs.first};
}

}  // namespace

struct Redactor::Rule {
    std::string placeholder;
    std::string head;  // of a rule of the user's own
    Alphabet alphabet{""};
    std::size_t body_bytes_min = 0;
    bool is_assigned = false;
    bool heads_begin_words = false;
    std::unique_ptr<const RE2> pattern;  // of a rule of the user's own, head and all
};

struct Redactor::Text {
    std::string_view all;
    std::size_t begin = 0;  // of the piece
    std::size_t end = 0;
    bool is_cut = false;  // something stood before `all`
    Rest rest = Rest::none;
};

Redactor::Redactor() : context_bytes_(shape_context_bytes) {
}

Redactor::~Redactor() = default;

Result<std::unique_ptr<Redactor::Rule>> Redactor::own_rule(const std::string& text) {
    const std::size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    if (equals == std::string::npos || !is_rule_name(name)) {
        return bad_rule(text, "is no name=pattern with a name of at most 32 of a-z, 0-9 and -");
    }
    RE2::Options options;
    options.set_log_errors(false);
    options.set_longest_match(true);
    options.set_encoding(RE2::Options::EncodingLatin1);
    auto rule = std::make_unique<Rule>();
    rule->placeholder = "[REDACTED:" + name + "]";
    rule->alphabet = Alphabet(own_alphabet);
    rule->pattern = std::make_unique<RE2>(text.substr(equals + 1), options);
    if (!rule->pattern->ok()) {
        return bad_rule(text, "is no regular expression of RE2: " + rule->pattern->error());
    }
    rule->head = fixed_head(*rule->pattern);
    if (rule->head.size() < own_head_bytes_min) {
        return bad_rule(
            text,
            "begins with fewer than three fixed characters, by which a secret would be known "
            "before it is whole");
    }
    return rule;
}

Result<std::shared_ptr<const Redactor>> Redactor::create(std::span<const std::string> rules) {
    if (rules.size() > own_rules_max) {
        return Error{Errc::invalid, 0, "more than " + std::to_string(own_rules_max) + " rules"};
    }
    std::set<std::string_view> left_out;
    std::vector<std::unique_ptr<Rule>> own;
    for (const std::string& text : rules) {
        if (text.starts_with('!')) {
            const std::string_view name = std::string_view(text).substr(1);
            const auto shapes = secret_shapes();
            if (std::none_of(shapes.begin(), shapes.end(), [name](const SecretShape& shape) {
                    return shape.name == name;
                })) {
                return bad_rule(text, "leaves out a rule that is not built in");
            }
            left_out.insert(name);
            continue;
        }
        auto rule = own_rule(text);
        if (!rule.ok()) {
            return rule.error();
        }
        own.push_back(std::move(rule.value()));
    }

    std::shared_ptr<Redactor> made(new Redactor);
    std::vector<std::string_view> literals;
    for (const SecretShape& shape : secret_shapes()) {
        if (left_out.contains(shape.name)) {
            continue;
        }
        auto rule = std::make_unique<Rule>();
        rule->placeholder = "[REDACTED:" + std::string(shape.name) + "]";
        rule->alphabet = Alphabet(shape.alphabet);
        rule->body_bytes_min = shape.body_bytes_min;
        rule->is_assigned = shape.is_assigned;
        rule->heads_begin_words = is_alnum(shape.heads.front());
        for (std::string_view rest = shape.heads; !rest.empty();) {
            const std::string_view head = rest.substr(0, rest.find('|'));
            rest.remove_prefix(std::min(rest.size(), head.size() + 1));
            literals.push_back(head);
            made->heads_.push_back({rule.get(), head.size()});
        }
        made->rules_.push_back(std::move(rule));
    }
    if (!own.empty()) {
        made->context_bytes_ = own_match_bytes_max;
    }
    for (std::unique_ptr<Rule>& rule : own) {
        literals.push_back(rule->head);
        made->heads_.push_back({rule.get(), rule->head.size()});
        made->rules_.push_back(std::move(rule));
    }
    made->scan_ = std::make_unique<LiteralScan>(literals);
    return std::shared_ptr<const Redactor>(std::move(made));
}

Redactor::Verdict Redactor::judge(const Piece& piece, std::string& out, std::int64_t& count) const {
    Text text;
    text.rest = piece.rest;
    if (piece.written.empty() && piece.after.empty()) {
        text.all = piece.text;
        text.end = piece.text.size();
        return judge(text, Form::text, out, count);
    }
    const std::size_t before = std::min(piece.written.size(), context_bytes_);
    std::string all;
    all.reserve(before + piece.text.size() + std::min(piece.after.size(), context_bytes_));
    all.append(piece.written.substr(piece.written.size() - before));
    all.append(piece.text).append(piece.after.substr(0, context_bytes_));
    text.is_cut = piece.written.size() > context_bytes_;
    text.all = all;
    text.begin = before;
    text.end = before + piece.text.size();
    return judge(text, Form::text, out, count);
}

Redactor::Verdict
Redactor::judge(Text text, Form form, std::string& out, std::int64_t& count) const {
    std::vector<Hit> hits;
    scan_->scan(text.all, [this, &hits](std::uint16_t literal, std::size_t begin) {
        const Head& head = heads_[literal];
        hits.push_back({begin, begin + head.bytes, head.rule});
    });
    if (hits.empty()) {
        return Verdict::clean;
    }
    std::vector<Mark> marks;
    if (!find_marks(text, hits, form, marks)) {
        return Verdict::undecided;
    }
    std::erase_if(marks, [&text](const Mark& mark) {
        return mark.end <= text.begin || mark.begin >= text.end || mark.begin == mark.end;
    });
    if (marks.empty()) {
        return Verdict::clean;
    }
    write(text, marks, out, count);
    return Verdict::changed;
}

// A match of the user's own pattern at a head, to the end of its word: so the rest of a word whose beginning is hidden already is
// known to be hidden too. Whether a match is whole is unknown as long as it ends with the text.
Redactor::Judged Redactor::judge_own(const Text& text, const Hit& hit, Form form) {
    const std::string_view all = text.all;
    const Rule& rule = *hit.rule;
    const std::size_t limit = std::min(all.size(), hit.begin + own_match_bytes_max);
    re2::StringPiece match;
    const bool matches = rule.pattern->Match(
        re2::StringPiece(all.data(), limit), hit.begin, limit, RE2::ANCHOR_START, &match, 1);
    const std::size_t place = matches ? hit.end : rule.alphabet.run(all, hit.end).end;
    const bool continues = all.substr(place).starts_with(rule.placeholder);
    const std::size_t begin = continues ? place + rule.placeholder.size() : hit.end;
    std::size_t end = std::max(begin, matches ? hit.begin + match.size() : begin);
    if (form == Form::json) {
        end = std::min(end, std::max(begin, all.find_first_of("\"\\", hit.end)));
    }
    bool stalled = false;
    if (matches || continues) {
        const Alphabet::Run word = rule.alphabet.run(all, end);
        end = word.end;
        stalled = word.stalled;
    }
    const bool may_grow = limit == all.size() && (matches ? end == limit : !continues)
                          && all.find('\n', hit.begin) == std::string_view::npos;
    Judged judged;
    judged.waits = (may_grow || stalled) && hit.end < text.end;
    if (end > begin) {
        judged.mark = Mark{begin, end, &rule, continues};
    }
    return judged;
}

Redactor::Judged Redactor::judge_shape(const Text& text, const Hit& hit) {
    const std::string_view all = text.all;
    const Rule& rule = *hit.rule;
    const std::optional<std::size_t> body =
        rule.is_assigned ? skip_joint(all, hit.end) : std::optional(hit.end);
    if (!body || (rule.heads_begin_words && !begins_word(all, hit.begin))) {
        return {};
    }
    Alphabet::Run run = rule.alphabet.run(all, *body);
    const bool continues =
        run.end - *body < rule.body_bytes_min && all.substr(run.end).starts_with(rule.placeholder);
    const std::size_t begin = continues ? run.end + rule.placeholder.size() : *body;
    if (continues) {
        run = rule.alphabet.run(all, begin);
    }
    const std::size_t bytes = run.end - begin;
    const bool is_open = run.stalled || run.end == all.size();
    const bool is_short = !continues && bytes < rule.body_bytes_min;
    Judged judged;
    judged.waits = is_open && (run.stalled || (is_short && bytes > 0)) && begin < text.end;
    const bool is_likely = is_open && text.rest == Rest::waited && 2 * bytes >= rule.body_bytes_min;
    if (!is_short || is_likely) {
        judged.mark = Mark{begin, run.end, &rule, continues};
    }
    return judged;
}

bool Redactor::find_marks(
    const Text& text, const std::vector<Hit>& hits, Form form, std::vector<Mark>& marks) {
    std::size_t covered = 0;
    for (const Hit& hit : hits) {
        // What stood before a head at the very beginning is not known.
        if (hit.begin < covered || (text.is_cut && hit.begin == 0)) {
            continue;
        }
        const Judged judged =
            hit.rule->pattern ? judge_own(text, hit, form) : judge_shape(text, hit);
        if (judged.waits && text.rest == Rest::unknown && text.begin < text.end) {
            return false;
        }
        if (judged.mark) {
            covered = judged.mark->end;
            marks.push_back(*judged.mark);
        }
    }
    return true;
}

void Redactor::write(
    const Text& text, const std::vector<Mark>& marks, std::string& out, std::int64_t& count) {
    std::size_t at = text.begin;
    for (const Mark& mark : marks) {
        const std::size_t begin = std::max(mark.begin, text.begin);
        out.append(text.all.substr(at, begin - at));
        if (!mark.has_placeholder) {
            out.append(mark.rule->placeholder);
            ++count;
        }
        at = std::min(mark.end, text.end);
    }
    out.append(text.all.substr(at, text.end - at));
}

bool Redactor::redact(std::string& text, std::int64_t& count) const {
    Text whole;
    whole.all = text;
    whole.end = text.size();
    std::string out;
    if (judge(whole, Form::text, out, count) != Verdict::changed) {
        return false;
    }
    text = std::move(out);
    return true;
}

bool Redactor::redact_json(std::string& json, std::int64_t& count) const {
    Text whole;
    whole.all = json;
    whole.end = json.size();
    std::string out;
    if (judge(whole, Form::json, out, count) != Verdict::changed) {
        return false;
    }
    json = std::move(out);
    return true;
}

}  // namespace relay::layout
