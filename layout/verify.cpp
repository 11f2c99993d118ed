// SPDX-License-Identifier: Apache-2.0
#include "layout/input_file.hpp"
#include "layout/session_paths.hpp"
#include "layout/session_reader.hpp"
#include "layout/sha256.hpp"
#include "layout/turn_input.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

namespace relay::layout {

namespace {

using Kind = InputDirectory::Kind;
using Links = InputDirectory::Links;

// A turn's lists come from its client, event by event; no honest one comes near.
constexpr std::int64_t state_bytes_max = std::int64_t{256} * 1024 * 1024;
constexpr std::size_t piece_bytes = 65536;

// Often enough for a session that is being recorded while it is verified.
constexpr int attempts_max = 3;

enum class Part { prompt, output, stderr_log, state, diff };

struct PartName {
    Part part;
    std::string_view suffix;
    std::string (*file)(std::int64_t turn);
};

constexpr std::array part_names{
    PartName{Part::prompt, "-prompt.md", prompt_file},
    PartName{Part::output, "-output.md", output_file},
    PartName{Part::stderr_log, "-stderr.log", stderr_file},
    PartName{Part::state, "-state.json", state_file},
    PartName{Part::diff, "-diff.patch", diff_file},
};

// Which files of a turn there are.
struct TurnFiles {
    std::array<bool, part_names.size()> present{};
    std::array<bool, part_names.size()> compressed{};
    std::vector<std::string> links;  // those of them that are symbolic links
    [[nodiscard]] bool has(Part part) const { return present[static_cast<std::size_t>(part)]; }
    [[nodiscard]] bool has_compressed(Part part) const {
        return compressed[static_cast<std::size_t>(part)];
    }
};

struct TurnName {
    std::int64_t turn = 0;
    Part part = Part::prompt;
    bool compressed = false;
};

std::optional<TurnName> parse_turn_name(std::string_view name) {
    const std::size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
    TurnName parsed;
    // Seals stay as they are: everything else of a turn is checked against them.
    parsed.compressed =
        name.ends_with(compressed_suffix) && name.find("-state.json") == std::string_view::npos;
    if (parsed.compressed) {
        name.remove_suffix(compressed_suffix.size());
    }
    const auto read = std::from_chars(name.data(), name.data() + digits, parsed.turn);
    if (read.ec != std::errc() || parsed.turn < 1) {
        return std::nullopt;
    }
    for (const PartName& part : part_names) {
        const std::string file = part.file(parsed.turn);
        // The whole name, so that 1-state.json and 0001-state.json do not pass for turn 1.
        if (std::string_view(file).substr(turns_directory.size() + 1) == name) {
            parsed.part = part.part;
            return parsed;
        }
    }
    return std::nullopt;
}

std::string turns_text(std::int64_t first, std::int64_t last) {
    return first == last
               ? "turn " + std::to_string(first) + " is"
               : "turns " + std::to_string(first) + " to " + std::to_string(last) + " are";
}

std::string unreadable(const Error& error) {
    return error.os_errno == ELOOP ? "is a symbolic link, which is not followed"
                                   : "cannot be read: " + error.context;
}

// Looks once over a session directory and collects what it finds.
class Verifier {
public:
    explicit Verifier(InputDirectory& session) : session_(session) {}

    // `name` is the directory's own.
    void verify(const Result<Meta>& meta, std::string_view name);
    // Set when a file is of a format that this program does not know: then nothing else counts.
    [[nodiscard]] const std::optional<Error>& newer() const { return newer_; }
    [[nodiscard]] Verification take() { return std::move(verification_); }

private:
    void damage(std::string file, std::string what);
    void remark(std::string file, std::string what);
    [[nodiscard]] std::string and_recovered(const std::string& file);

    void look_at_session_directory();
    [[nodiscard]] std::map<std::int64_t, TurnFiles> list_turns();
    void
    take_turn_entry(const InputDirectory::Entry& entry, std::map<std::int64_t, TurnFiles>& turns);

    void verify_turns(const std::map<std::int64_t, TurnFiles>& turns);
    void verify_sealed(std::int64_t turn, const TurnFiles& files);
    void verify_chain(std::int64_t turn, const std::string& text);
    void verify_part(
        const std::string& file,
        const std::optional<FileSeal>& seal,
        const TurnFiles& files,
        Part part);
    void verify_bytes(const std::string& file, const FileSeal& seal);
    void verify_meta(const Meta& meta, std::string_view name);

    InputDirectory& session_;
    std::optional<InputDirectory> turns_;
    Verification verification_;
    std::optional<Error> newer_;
    // The chain value that the next turn builds on; none when the turn before could not be read.
    std::optional<std::string> chain_ = std::string(chain_origin);
};

void Verifier::damage(std::string file, std::string what) {
    verification_.damage.push_back({std::move(file), std::move(what)});
}

void Verifier::remark(std::string file, std::string what) {
    verification_.remarks.push_back({std::move(file), std::move(what)});
}

// A file's name without the directory that is already open.
std::string in_turns(const std::string& file) {
    return file.substr(turns_directory.size() + 1);
}

std::string Verifier::and_recovered(const std::string& file) {
    const Result<InputDirectory> recovered = InputDirectory::open(
        session_.descriptor(), std::string(recovered_directory), Links::refuse);
    if (!recovered.ok()) {
        return {};
    }
    const std::string kept = recovered_file(file);
    const std::string name = kept.substr(recovered_directory.size() + 1);
    if (!InputFile::open(recovered.value().descriptor(), name).ok()) {
        return {};
    }
    return "; the recorder's own version is " + kept;
}

void Verifier::look_at_session_directory() {
    const Result<std::vector<InputDirectory::Entry>> entries = session_.entries();
    if (!entries.ok()) {
        damage(".", "cannot be read: " + entries.error().context);
        return;
    }
    for (const InputDirectory::Entry& entry : entries.value()) {
        if (is_temporary_name(entry.name)) {
            remark(
                entry.name, "is a temporary file that a replacement in progress or a crash left");
        } else if (entry.name == recovered_directory) {
            remark(
                entry.name,
                "holds the recorder's own version of files that were changed while it wrote them");
        } else if (
            entry.kind == Kind::link
            && (entry.name == timeline_file || entry.name == resume_file
                || entry.name == attachments_directory)) {
            damage(entry.name, "is a symbolic link, which the recorder never makes");
        }
    }
}

void Verifier::take_turn_entry(
    const InputDirectory::Entry& entry, std::map<std::int64_t, TurnFiles>& turns) {
    const std::string file = std::string(turns_directory) + "/" + entry.name;
    if (is_temporary_name(entry.name)) {
        remark(file, "is a temporary file that a replacement in progress or a crash left");
        return;
    }
    const std::optional<TurnName> name = parse_turn_name(entry.name);
    if (!name) {
        remark(file, "is no file of the recorder");
        return;
    }
    TurnFiles& files = turns[name->turn];
    (name->compressed ? files.compressed : files.present)[static_cast<std::size_t>(name->part)] =
        true;
    if (entry.kind == Kind::link) {
        files.links.push_back(file);
    }
}

std::map<std::int64_t, TurnFiles> Verifier::list_turns() {
    std::map<std::int64_t, TurnFiles> turns;
    const std::string name(turns_directory);
    Result<InputDirectory> directory =
        InputDirectory::open(session_.descriptor(), name, Links::refuse);
    if (!directory.ok()) {
        // Without turns there is nothing to miss; meta.json says whether there should be some.
        if (directory.error().os_errno != ENOENT) {
            damage(name, unreadable(directory.error()));
        }
        return turns;
    }
    turns_.emplace(std::move(directory.value()));
    const Result<std::vector<InputDirectory::Entry>> entries = turns_->entries();
    if (!entries.ok()) {
        damage(name, "cannot be read: " + entries.error().context);
        return turns;
    }
    for (const InputDirectory::Entry& entry : entries.value()) {
        take_turn_entry(entry, turns);
    }
    return turns;
}

void Verifier::verify_turns(const std::map<std::int64_t, TurnFiles>& turns) {
    std::int64_t previous = 0;
    for (const auto& [turn, files] : turns) {
        if (turn != previous + 1) {
            damage(
                state_file(previous + 1),
                turns_text(previous + 1, turn - 1) + " missing although turn "
                    + std::to_string(turn) + " exists");
            chain_.reset();
        }
        if (files.has(Part::state)) {
            verify_sealed(turn, files);
        } else if (turn == turns.rbegin()->first) {
            ++verification_.open_turns;
            for (const std::string& link : files.links) {
                damage(link, "is a symbolic link, which the recorder never makes");
            }
        } else {
            damage(state_file(turn), "is missing: only the last turn may be without its seal");
            chain_.reset();
        }
        previous = turn;
    }
}

void Verifier::verify_sealed(std::int64_t turn, const TurnFiles& files) {
    ++verification_.turns;
    const std::string name = state_file(turn);
    Result<InputFile> file = InputFile::open(turns_->descriptor(), in_turns(name));
    const Result<std::string> text =
        file.ok() ? read_rest(file.value(), name, state_bytes_max) : file.error();
    if (!text.ok()) {
        damage(name, unreadable(text.error()));
        chain_.reset();
        return;
    }
    verify_chain(turn, text.value());
    const Result<TurnState> state = decode_turn_state(text.value());
    if (!state.ok()) {
        damage(name, state.error().context);
        if (state.error().code == Errc::invalid) {
            newer_ = Error{Errc::invalid, 0, name + ": " + state.error().context};
        }
        return;
    }
    if (state.value().turn != turn) {
        damage(name, "speaks of turn " + std::to_string(state.value().turn));
    }
    verify_part(prompt_file(turn), state.value().prompt, files, Part::prompt);
    verify_part(output_file(turn), state.value().output, files, Part::output);
    verify_part(stderr_file(turn), state.value().stderr_log, files, Part::stderr_log);
    verify_part(diff_file(turn), state.value().diff, files, Part::diff);
}

void Verifier::verify_chain(std::int64_t turn, const std::string& text) {
    const std::string name = state_file(turn);
    const Result<ChainCheck> check = check_chain(text, chain_.value_or(std::string()));
    if (!check.ok()) {
        damage(name, check.error().context);
        chain_.reset();
        return;
    }
    if (!chain_) {
        remark(name, "has a chain that cannot be checked, for the turn before it is not readable");
    } else if (check.value().stated != check.value().computed) {
        damage(
            name,
            "states the chain " + check.value().stated + ", but its content after "
                + (turn == 1 ? "the origin" : "turn " + std::to_string(turn - 1)) + " gives "
                + check.value().computed + ": this file or the one before it was changed");
    }
    chain_ = check.value().stated;
}

void Verifier::verify_part(
    const std::string& file,
    const std::optional<FileSeal>& seal,
    const TurnFiles& files,
    Part part) {
    const bool present = files.has(part) || files.has_compressed(part);
    if (files.has(part) && files.has_compressed(part)) {
        remark(
            compressed_file(file),
            "stands beside the file it was made of, which is the one that counts; a compression "
            "was "
            "interrupted");
    }
    if (seal && present) {
        verify_bytes(file, *seal);
    } else if (seal) {
        damage(file, "is missing although the seal names it" + and_recovered(file));
    } else if (present) {
        damage(file, "exists although the seal names no such file" + and_recovered(file));
    }
}

void Verifier::verify_bytes(const std::string& file, const FileSeal& seal) {
    Result<TurnInput> opened = TurnInput::open(turns_->descriptor(), in_turns(file));
    if (!opened.ok()) {
        damage(file, unreadable(opened.error()) + and_recovered(file));
        return;
    }
    Sha256 hash;
    std::int64_t bytes = 0;
    std::array<char, piece_bytes> piece{};
    for (;;) {
        const Result<std::size_t> got = opened.value().read(piece.data(), piece.size());
        if (!got.ok()) {
            damage(
                opened.value().compressed() ? compressed_file(file) : file,
                "cannot be read: " + got.error().context);
            return;
        }
        if (got.value() == 0) {
            break;
        }
        hash.update({piece.data(), got.value()});
        bytes += static_cast<std::int64_t>(got.value());
    }
    if (bytes != seal.bytes) {
        damage(
            file,
            "has " + std::to_string(bytes) + " bytes, but was sealed with "
                + std::to_string(seal.bytes) + and_recovered(file));
    } else if (const std::string found = hash.hex(); found != seal.sha256) {
        damage(
            file,
            "has the SHA-256 " + found + ", but was sealed with " + seal.sha256
                + and_recovered(file));
    }
}

void Verifier::verify_meta(const Meta& meta, std::string_view name) {
    const std::string file(meta_file);
    // A copy may have any name, but not that of another session.
    if (const std::optional<Ulid> named = Ulid::parse(name); named && *named != meta.id) {
        damage(
            file, "is of the session " + meta.id.text() + ", not of the one its directory names");
    }
    if (meta.turn_count != verification_.turns) {
        damage(
            file,
            "counts " + std::to_string(meta.turn_count) + " sealed turns, but there are "
                + std::to_string(verification_.turns));
    }
    const std::string expected = verification_.turns == 0 ? "" : chain_.value_or("");
    // When the last seal itself could not be read there is nothing to compare with.
    const bool comparable = verification_.turns == 0 || chain_.has_value();
    if (comparable && meta.chain.value_or("") != expected) {
        damage(
            file,
            "states the chain " + meta.chain.value_or("null") + ", but the last sealed turn has "
                + (expected.empty() ? "none" : expected));
    }
}

void Verifier::verify(const Result<Meta>& meta, std::string_view name) {
    look_at_session_directory();
    const std::map<std::int64_t, TurnFiles> turns = list_turns();
    verify_turns(turns);
    if (meta.ok()) {
        verify_meta(meta.value(), name);
    } else {
        const std::string named = std::string(meta_file) + ": ";
        Error error = meta.error();
        const std::size_t at = error.context.find(named);
        error.context.erase(0, at == std::string::npos ? 0 : at + named.size());
        damage(std::string(meta_file), unreadable(error));
    }
}

std::string_view last_component(std::string_view path) {
    while (path.ends_with('/')) {
        path.remove_suffix(1);
    }
    return path.substr(path.rfind('/') + 1);
}

// Whether the recorder has written on since `before` was read.
bool has_moved_on(const Result<Meta>& before, const std::string& session_directory) {
    const Result<Meta> after = read_meta(session_directory);
    return before.ok() && after.ok()
           && (before.value().turn_count != after.value().turn_count
               || before.value().chain != after.value().chain);
}

}  // namespace

Result<Verification> verify_session(const std::string& session_directory) {
    Verification verification;
    for (int attempt = 1; attempt <= attempts_max; ++attempt) {
        Result<InputDirectory> session =
            InputDirectory::open(AT_FDCWD, session_directory, Links::follow);
        if (!session.ok()) {
            return session.error();
        }
        const Result<Meta> meta = read_meta(session_directory);
        if (!meta.ok()
            && (meta.error().code == Errc::not_found || meta.error().code == Errc::invalid)) {
            return meta.error();
        }
        Verifier verifier(session.value());
        verifier.verify(meta, last_component(session_directory));
        if (verifier.newer()) {
            return *verifier.newer();
        }
        verification = verifier.take();
        if (verification.damage.empty() || !has_moved_on(meta, session_directory)) {
            break;
        }
    }
    return verification;
}

}  // namespace relay::layout
