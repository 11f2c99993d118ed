// SPDX-License-Identifier: Apache-2.0
#include "cli/session_scrub.hpp"

#include "cli/durable_change.hpp"
#include "cli/human_text.hpp"
#include "layout/documents.hpp"
#include "layout/input_file.hpp"
#include "layout/json_writer.hpp"
#include "layout/session_paths.hpp"
#include "layout/session_reader.hpp"
#include "layout/sha256.hpp"
#include "layout/timeline.hpp"
#include "layout/turn_input.hpp"
#include "layout/zstd_stream.hpp"

#include <nlohmann/json.hpp>

#include <errno.h>
#include <fcntl.h>
#include <re2/re2.h>
#include <stdio.h>
#include <sys/file.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

namespace relay::cli {

namespace {

using layout::Done;
using layout::Errc;
using layout::Error;
using layout::InputDirectory;
using layout::Result;
using layout::Status;
using nlohmann::json;

constexpr std::string_view staging_name = ".scrub.tmp";
constexpr std::string_view ready_name = "ready";
constexpr std::string_view mask_text = "[REDACTED:scrub]";
constexpr std::int64_t file_bytes_max = std::int64_t{2}
                                        << 30;  // a file is in memory while it is looked at
constexpr std::array folders{
    layout::turns_directory, layout::attachments_directory, layout::recovered_directory};

Error refused(std::string sentence) {
    return {Errc::invalid, 0, std::move(sentence)};
}

bool is_document(std::string_view name) {
    return name.ends_with(".json") || name.ends_with(".jsonl");
}

// A file of a session, nowhere else: what stands in a list that we find may have been written by anybody.
bool is_session_file(std::string_view name) {
    const std::size_t slash = name.find('/');
    const std::string_view last = slash == std::string_view::npos ? name : name.substr(slash + 1);
    const bool plain =
        !last.empty() && last.front() != '.' && last.find('/') == std::string_view::npos;
    return plain
           && (slash == std::string_view::npos
               || std::find(folders.begin(), folders.end(), name.substr(0, slash))
                      != folders.end());
}

class Mask {
public:
    explicit Mask(const RE2& pattern) : pattern_(pattern) {}

    // Every match by as many bytes; how many there were.
    [[nodiscard]] std::int64_t hide(std::string& text) const {
        std::int64_t matches = 0;
        re2::StringPiece match;
        for (std::size_t at = 0; at < text.size();) {
            if (!pattern_.Match(
                    re2::StringPiece(text.data(), text.size()),
                    at,
                    text.size(),
                    RE2::UNANCHORED,
                    &match,
                    1)) {
                break;
            }
            const auto begin = static_cast<std::size_t>(match.data() - text.data());
            const std::size_t size = match.size();
            if (size > 0) {
                const std::size_t words = size < mask_text.size() ? 0 : mask_text.size();
                text.replace(begin, words, mask_text.substr(0, words));
                text.replace(begin + words, size - words, size - words, '*');
                ++matches;
            }
            at = begin + std::max<std::size_t>(size, 1);
        }
        return matches;
    }

    // In the strings of JSON text alone, each as it reads; everything between them stays as it is.
    [[nodiscard]] std::int64_t hide_in_json(std::string& text) const {
        std::int64_t matches = 0;
        std::string out;
        std::size_t copied = 0;
        for (std::size_t at = text.find('"'); at != std::string::npos; at = text.find('"', at)) {
            const std::size_t begin = at++;
            while (at < text.size() && text[at] != '"') {
                at += text[at] == '\\' ? std::size_t{2} : std::size_t{1};
            }
            at = std::min(at + 1, text.size());
            const json literal = json::parse(
                text.begin() + static_cast<std::ptrdiff_t>(begin),
                text.begin() + static_cast<std::ptrdiff_t>(at),
                nullptr,
                /*allow_exceptions=*/false);
            if (!literal.is_string()) {
                continue;
            }
            auto value = literal.get<std::string>();
            if (const std::int64_t found = hide(value); found > 0) {
                out.append(text, copied, begin - copied);
                layout::append_json_string(out, value);
                copied = at;
                matches += found;
            }
        }
        if (matches > 0) {
            out.append(text, copied);
            text = std::move(out);
        }
        return matches;
    }

private:
    const RE2& pattern_;
};

std::string compressed(std::string_view content) {
    layout::ZstdWriter writer;
    std::string out;
    writer.add(content, out);
    writer.finish(out);
    return out;
}

// One scrub of one session: first everything is looked at, then staged, then published.
class SessionScrub {
public:
    SessionScrub(std::string directory, const Mask& mask)
        : directory_(std::move(directory)),
          staging_(directory_ + "/" + std::string(staging_name)),
          mask_(mask) {}

    // What an interrupted one left behind: a whole one is finished, a half one goes. True: one was finished.
    [[nodiscard]] Result<bool> finish_earlier() const;
    [[nodiscard]] Status look();
    [[nodiscard]] Status stage() const;
    [[nodiscard]] Status publish() const;

    [[nodiscard]] Scrub take_report() { return std::move(report_); }
    [[nodiscard]] bool found_any() const { return report_.matches > 0; }

private:
    [[nodiscard]] Result<std::vector<std::string>> files() const;
    [[nodiscard]] Status look_at_bytes(const std::string& name);
    [[nodiscard]] Status look_at_document(const std::string& name);
    [[nodiscard]] Status reseal();
    [[nodiscard]] Status rewrite_timeline();
    [[nodiscard]] Status rewrite_meta();
    void count(const std::string& name, std::int64_t matches);
    void renew(layout::FileSeal& seal) const;

    std::string directory_;
    std::string staging_;
    const Mask& mask_;
    layout::Meta meta_;
    std::map<std::string, std::string> fresh_;   // name -> its new content
    std::map<std::string, std::string> hashes_;  // of recorded files, old -> new
    std::string chain_;                          // of the last seal; empty: there is none
    Scrub report_;
};

void SessionScrub::count(const std::string& name, std::int64_t matches) {
    if (matches > 0) {
        report_.files.push_back({name, matches});
        report_.matches += matches;
    }
}

Result<std::vector<std::string>> SessionScrub::files() const {
    std::vector<std::string> names;
    const auto add = [&](const std::string& folder) -> Status {
        Result<InputDirectory> open = InputDirectory::open(
            AT_FDCWD,
            directory_ + (folder.empty() ? "" : "/" + folder),
            InputDirectory::Links::refuse);
        if (!open.ok()) {
            return open.error().code == Errc::not_found ? Status(Done{}) : open.error();
        }
        const Result<std::vector<InputDirectory::Entry>> entries = open.value().entries();
        if (!entries.ok()) {
            return entries.error();
        }
        for (const InputDirectory::Entry& entry : entries.value()) {
            const std::string name = (folder.empty() ? "" : folder + "/") + entry.name;
            if (entry.kind == InputDirectory::Kind::file && is_session_file(name)) {
                names.push_back(name);
            }
        }
        return Done{};
    };
    if (Status added = add(""); !added.ok()) {
        return added.error();
    }
    for (const std::string_view folder : folders) {
        if (Status added = add(std::string(folder)); !added.ok()) {
            return added.error();
        }
    }
    std::sort(names.begin(), names.end());
    return names;
}

Status SessionScrub::look() {
    Result<layout::Meta> meta = layout::read_meta(directory_);
    if (!meta.ok()) {
        return meta.error();
    }
    meta_ = std::move(meta.value());
    if (meta_.status == layout::SessionStatus::active) {
        return Error{
            Errc::busy,
            0,
            "session " + meta_.id.text()
                + " is running; scrub it once it has ended (agent-relay handoff --now stops it)"};
    }
    const Result<std::vector<std::string>> names = files();
    if (!names.ok()) {
        return names.error();
    }
    for (const std::string& name : names.value()) {
        Status looked = is_document(name) ? look_at_document(name) : look_at_bytes(name);
        if (!looked.ok()) {
            return looked;
        }
    }
    if (!found_any()) {
        return Done{};
    }
    if (Status sealed = reseal(); !sealed.ok()) {
        return sealed;
    }
    if (Status written = rewrite_timeline(); !written.ok()) {
        return written;
    }
    return rewrite_meta();
}

Status SessionScrub::look_at_bytes(const std::string& name) {
    const bool is_compressed = name.ends_with(layout::compressed_suffix);
    const std::string path = directory_ + "/" + name;
    const std::string plain =
        is_compressed ? path.substr(0, path.size() - layout::compressed_suffix.size()) : path;
    Result<std::string> content = is_compressed ? layout::read_turn_file(plain, file_bytes_max)
                                                : layout::read_file(path, file_bytes_max);
    if (!content.ok()) {
        return content.error();
    }
    const std::string before = layout::sha256_hex(content.value());
    const std::int64_t matches = mask_.hide(content.value());
    count(name, matches);
    if (matches > 0) {
        hashes_[before] = layout::sha256_hex(content.value());
        fresh_[name] = is_compressed ? compressed(content.value()) : std::move(content.value());
    }
    return Done{};
}

Status SessionScrub::look_at_document(const std::string& name) {
    Result<std::string> text = layout::read_file(directory_ + "/" + name, file_bytes_max);
    if (!text.ok()) {
        return text.error();
    }
    const std::string before = layout::sha256_hex(text.value());
    const std::int64_t matches = mask_.hide_in_json(text.value());
    count(name, matches);
    if (matches > 0) {
        hashes_[before] = layout::sha256_hex(text.value());
        fresh_[name] = std::move(text.value());
    }
    return Done{};
}

void SessionScrub::renew(layout::FileSeal& seal) const {
    const auto found = hashes_.find(seal.sha256);
    if (found != hashes_.end()) {
        seal.sha256 = found->second;
    }
}

// From the first seal on: each is chained to the one before it.
Status SessionScrub::reseal() {
    const Result<std::vector<std::int64_t>> turns = layout::list_turns(directory_);
    if (!turns.ok()) {
        return turns.error();
    }
    std::string chain(layout::chain_origin);
    for (const std::int64_t turn : turns.value()) {
        const std::string name = layout::state_file(turn);
        const auto masked = fresh_.find(name);
        Result<std::string> text = masked != fresh_.end()
                                       ? Result<std::string>(masked->second)
                                       : layout::read_file(directory_ + "/" + name, file_bytes_max);
        if (!text.ok()) {
            if (text.error().code == Errc::not_found) {
                continue;  // a turn without a seal: verify tells of it
            }
            return text.error();
        }
        Result<layout::TurnState> state = layout::decode_turn_state(text.value());
        if (!state.ok() || state.value().turn != turn) {
            return refused(
                "the pattern matches words of the record itself (" + name
                + "), or that file is damaged; make it narrower, or see agent-relay verify");
        }
        renew(state.value().prompt);
        renew(state.value().output);
        if (state.value().stderr_log) {
            renew(*state.value().stderr_log);
        }
        if (state.value().diff) {
            renew(*state.value().diff);
        }
        layout::SealedState sealed = layout::encode_turn_state(state.value(), chain);
        chain = sealed.chain;
        chain_ = sealed.chain;
        fresh_[name] = std::move(sealed.text);
    }
    return Done{};
}

Status SessionScrub::rewrite_timeline() {
    const std::string name(layout::timeline_file);
    Result<std::string> old = layout::read_file(directory_ + "/" + name, file_bytes_max);
    if (!old.ok()) {
        return old.error();
    }
    const auto masked = fresh_.find(name);
    std::string lines = masked == fresh_.end() ? old.value() : masked->second;
    for (const auto& [before, after] : hashes_) {
        for (std::size_t at = lines.find(before); at != std::string::npos;
             at = lines.find(before, at)) {
            lines.replace(at, before.size(), after);
        }
    }
    std::int64_t last = 0;
    for (std::size_t at = 0, end = 0; at < lines.size(); at = end + 1) {
        end = std::min(lines.find('\n', at), lines.size());
        const std::string_view line = std::string_view(lines).substr(at, end - at);
        const json parsed = json::parse(line, nullptr, /*allow_exceptions=*/false);
        const auto seq = parsed.is_object() ? parsed.find("seq") : parsed.end();
        if (!parsed.is_object() || seq == parsed.end() || !seq->is_number_integer()
            || !parsed.contains("type")) {
            return refused(
                "the pattern matches words of the record itself (" + name
                + "), or that file is damaged; make it narrower");
        }
        last = std::max(last, seq->get<std::int64_t>());
    }
    layout::TimelineLine line(lines, last + 1, now(), "recorder.scrub");
    line.object().integer("matches", report_.matches);
    line.object().integer("files", std::ssize(report_.files));
    line.finish();
    fresh_[name] = std::move(lines);
    return Done{};
}

Status SessionScrub::rewrite_meta() {
    const std::string name(layout::meta_file);
    layout::Meta meta = meta_;
    if (const auto masked = fresh_.find(name); masked != fresh_.end()) {
        Result<layout::Meta> read = layout::decode_meta(masked->second);
        if (!read.ok() || read.value().id != meta_.id || read.value().status != meta_.status) {
            return refused(
                "the pattern matches words of the record itself (" + name + "); make it narrower");
        }
        meta = std::move(read.value());
    }
    meta.capture.redactions += report_.matches;
    if (!chain_.empty()) {
        meta.chain = chain_;
    }
    fresh_[name] = layout::encode_meta(meta);
    return Done{};
}

Status SessionScrub::stage() const {
    if (Status made = make_private_directory(staging_); !made.ok()) {
        return made;
    }
    for (const std::string_view folder : folders) {
        if (Status made = make_private_directory(staging_ + "/" + std::string(folder));
            !made.ok()) {
            return made;
        }
    }
    std::string list;
    for (const auto& [name, content] : fresh_) {
        if (Status written = write_atomically(staging_ + "/" + name, content); !written.ok()) {
            return written;
        }
        list += name + "\n";
    }
    return write_atomically(staging_ + "/" + std::string(ready_name), list);
}

Status SessionScrub::publish() const {
    for (const std::string_view folder : folders) {
        for (const std::string& place :
             {directory_ + "/" + std::string(folder), staging_ + "/" + std::string(folder)}) {
            const Result<InputDirectory> real =
                InputDirectory::open(AT_FDCWD, place, InputDirectory::Links::refuse);
            if (!real.ok() && real.error().code != Errc::not_found) {
                return real.error();
            }
        }
    }
    const Result<std::string> list =
        layout::read_file(staging_ + "/" + std::string(ready_name), file_bytes_max);
    if (!list.ok()) {
        return list.error();
    }
    for (std::size_t at = 0, end = 0; at < list.value().size(); at = end + 1) {
        end = std::min(list.value().find('\n', at), list.value().size());
        const std::string name = list.value().substr(at, end - at);
        if (!is_session_file(name)) {
            return Error{
                Errc::unsafe,
                0,
                staging_ + " lists \"" + name + "\", which is no file of a session"};
        }
        if (Status moved = replace_file(staging_ + "/" + name, directory_ + "/" + name);
            !moved.ok()) {
            return moved;
        }
    }
    return remove_tree(staging_);
}

Result<bool> SessionScrub::finish_earlier() const {
    const Result<InputDirectory> left =
        InputDirectory::open(AT_FDCWD, staging_, InputDirectory::Links::refuse);
    if (!left.ok()) {
        return left.error().code == Errc::not_found ? Result<bool>(false) : left.error();
    }
    const Result<std::string> ready =
        layout::read_file(staging_ + "/" + std::string(ready_name), file_bytes_max);
    if (!ready.ok() && ready.error().code != Errc::not_found) {
        return ready.error();
    }
    const Status done = ready.ok() ? publish() : remove_tree(staging_);
    return done.ok() ? Result<bool>(ready.ok()) : done.error();
}

}  // namespace

Result<Scrub>
scrub_session(const std::string& session_directory, const std::string& pattern, bool dry_run) {
    RE2::Options options;
    options.set_log_errors(false);
    const RE2 compiled(pattern, options);
    if (!compiled.ok()) {
        return refused("the pattern is no regular expression of RE2: " + compiled.error());
    }
    if (RE2::FullMatch("", compiled)) {
        return refused("the pattern matches the empty text, which is everywhere");
    }
    Result<InputDirectory> directory =
        InputDirectory::open(AT_FDCWD, session_directory, InputDirectory::Links::refuse);
    Result<InputDirectory> turns = InputDirectory::open(
        AT_FDCWD,
        session_directory + "/" + std::string(layout::turns_directory),
        InputDirectory::Links::refuse);
    if (!directory.ok()) {
        return directory.error();
    }
    // Held until they are closed. The second is the one that compression takes.
    if (::flock(directory.value().descriptor(), LOCK_EX | LOCK_NB) != 0
        || (turns.ok() && ::flock(turns.value().descriptor(), LOCK_EX | LOCK_NB) != 0)) {
        return Error{
            Errc::busy, errno, "somebody else is scrubbing or compressing " + session_directory};
    }
    const Mask mask(compiled);
    SessionScrub scrub(session_directory, mask);
    const Result<bool> earlier = dry_run ? Result<bool>(false) : scrub.finish_earlier();
    if (!earlier.ok()) {
        return earlier.error();
    }
    if (const Status looked = scrub.look(); !looked.ok()) {
        return looked.error();
    }
    if (!dry_run && scrub.found_any()) {
        if (const Status staged = scrub.stage(); !staged.ok()) {
            return staged.error();
        }
        if (const Status published = scrub.publish(); !published.ok()) {
            return published.error();
        }
    }
    Scrub report = scrub.take_report();
    report.finished_earlier = earlier.value();
    return report;
}

}  // namespace relay::cli
