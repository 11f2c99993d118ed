// SPDX-License-Identifier: Apache-2.0
#include "cli/session_scan.hpp"

#include "cli/known_names.hpp"
#include "cli/side_by_side.hpp"
#include "layout/input_file.hpp"
#include "layout/meta_skim.hpp"
#include "layout/session_paths.hpp"
#include "layout/session_reader.hpp"

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

namespace relay::cli {

namespace {

using layout::Errc;
using layout::Error;
using layout::InputDirectory;
using layout::Meta;
using layout::Result;
using layout::Status;
using layout::Ulid;

constexpr std::size_t sessions_a_thread = 64;  // about a millisecond of work
constexpr std::size_t block_places = 256;      // one question to the index
constexpr std::size_t skipped_named_max = 20;

struct Place {
    Ulid id;
    const std::string* sessions_directory = nullptr;
    [[nodiscard]] std::string directory() const { return *sessions_directory + "/" + id.text(); }
};

std::vector<Place> find_places(const ScanRequest& request, std::vector<SkippedSession>& skipped) {
    std::vector<Place> places;
    for (const std::string& directory : request.sessions_directories) {
        const Result<std::vector<Ulid>> ids =
            request.list ? request.list(directory)
                         : list_with_index(request.index_directory, directory);
        if (!ids.ok()) {
            skipped.push_back({directory, ids.error()});
            continue;
        }
        places.reserve(places.size() + ids.value().size());
        for (const Ulid& id : ids.value()) {
            if (!request.wanted_id || request.wanted_id(id)) {
                places.push_back({id, &directory});
            }
        }
    }
    if (request.sessions_directories.size() > 1) {
        std::stable_sort(places.begin(), places.end(), [](const Place& left, const Place& right) {
            return left.id > right.id;
        });
    }
    return places;
}

// What became of one place: read and wanted, read and not wanted, or skipped.
struct Outcome {
    bool known = false;                       // the index had it
    std::unique_ptr<ScannedSession> session;  // large, and few of many are wanted
    std::optional<Error> why;
    std::optional<NotedMeta> note;
};

// What one thread needs.
struct Reader {
    layout::MetaSkimmer skimmer;
    std::optional<IndexFile> index;
    bool without_index = false;
};

class Scan {
public:
    Scan(const ScanRequest& request, std::vector<Place> places)
        : request_(request),
          places_(std::move(places)),
          readers_(worker_count(places_.size(), sessions_a_thread)) {}

    // Until there are enough, in rounds that grow: most who want few find them among the newest.
    void run() {
        std::size_t found = 0;
        std::size_t round = block_places;
        while (done_ < places_.size() && found < request_.sessions_max) {
            const std::size_t begin = done_;
            const bool all = request_.sessions_max >= places_.size();
            done_ += std::min(all ? places_.size() : round, places_.size() - done_);
            outcomes_.resize(done_);
            look_at_all(begin, done_);
            found += static_cast<std::size_t>(std::count_if(
                outcomes_.begin() + static_cast<std::ptrdiff_t>(begin),
                outcomes_.begin() + static_cast<std::ptrdiff_t>(done_),
                [](const Outcome& one) { return one.session != nullptr; }));
            round *= 2;
        }
        readers_.clear();  // nobody removes what is open
        if (index_is_damaged_) {
            discard_index(request_.index_directory);
        }
    }

    void collect(SessionScan& scan) {
        scan.in_stores = places_.size();
        scan.sessions.reserve(std::min(done_, request_.sessions_max));
        for (std::size_t item = 0; item < done_; ++item) {
            Outcome& outcome = outcomes_[item];
            if (outcome.session && scan.sessions.size() < request_.sessions_max) {
                scan.sessions.push_back(std::move(*outcome.session));
            } else if (outcome.why) {
                scan.skipped.push_back({places_[item].directory(), std::move(*outcome.why)});
            }
            if (outcome.note) {
                scan.notes.metas[*places_[item].sessions_directory].push_back(
                    std::move(*outcome.note));
            }
        }
    }

private:
    void look_at_all(std::size_t begin, std::size_t end) {
        const std::size_t step = request_.index_directory.empty() ? 1 : block_places;
        const std::size_t blocks = (end - begin + step - 1) / step;
        const std::size_t workers = std::min(readers_.size(), blocks);
        side_by_side(blocks, workers, [&](std::size_t worker, std::size_t block) {
            const std::size_t from = begin + block * step;
            const std::size_t to = std::min(end, from + step);
            Reader& reader = readers_[worker];
            ask_index(from, to, reader);
            for (std::size_t item = from; item < to; ++item) {
                if (!outcomes_[item].known) {
                    read_meta(places_[item], reader, outcomes_[item]);
                }
            }
        });
    }

    // Leaves to the files what it does not know for sure.
    void ask_index(std::size_t begin, std::size_t end, Reader& reader) {
        if (reader.without_index || request_.index_directory.empty()) {
            return;
        }
        Status asked = layout::Done{};
        if (!reader.index) {
            Result<IndexFile> index =
                IndexFile::open(request_.index_directory, Database::Access::read);
            if (index.ok()) {
                reader.index.emplace(std::move(index.value()));
            } else {
                asked = index.error();
            }
        }
        for (const std::string& directory : request_.sessions_directories) {
            asked = asked.ok() ? ask_index_of(directory, begin, end, reader) : asked;
        }
        if (!asked.ok()) {
            reader.index.reset();
            reader.without_index = true;
            if (asked.error().code == Errc::corrupt) {
                index_is_damaged_ = true;
            }
        }
    }

    Status
    ask_index_of(const std::string& directory, std::size_t begin, std::size_t end, Reader& reader) {
        const Result<InputDirectory> open =
            InputDirectory::open(AT_FDCWD, directory, InputDirectory::Links::follow);
        if (!open.ok()) {
            return layout::Done{};
        }
        const int sessions = open.value().descriptor();
        std::size_t item = begin;
        return SessionIndex(reader.index->database())
            .metas(
                directory,
                places_[begin].id,
                places_[end - 1].id,
                [&](const Ulid& id, const FileStamp& stamp, std::string_view document) {
                    while (item < end
                           && (places_[item].id > id
                               || (places_[item].id == id
                                   && places_[item].sessions_directory != &directory))) {
                        ++item;
                    }
                    if (item < end && places_[item].id == id
                        && FileStamp::of(sessions, id.text() + "/" + std::string(layout::meta_file))
                               == stamp) {
                        take_row(item, document, reader);
                    }
                });
    }

    void take_row(std::size_t item, std::string_view document, Reader& reader) {
        const Place& place = places_[item];
        Outcome& outcome = outcomes_[item];
        Result<Meta> meta = reader.skimmer.skim(document);
        if (!meta.ok() || meta.value().id != place.id) {
            return;
        }
        outcome.known = true;
        take_if_wanted(place, std::move(meta.value()), std::string(document), outcome);
    }

    void read_meta(const Place& place, Reader& reader, Outcome& outcome) {
        const std::string directory = place.directory();
        std::optional<FileStamp> stamp;
        if (!request_.index_directory.empty() && noted_ < noted_metas_max) {
            stamp = FileStamp::of(AT_FDCWD, directory + "/" + std::string(layout::meta_file));
        }
        std::string text;
        Result<Meta> meta = reader.skimmer.skim_session(directory, text);
        if (!meta.ok()) {
            outcome.why = meta.error();
            return;
        }
        if (meta.value().id != place.id) {
            outcome.why =
                Error{Errc::corrupt, 0, "meta.json is that of session " + meta.value().id.text()};
            return;
        }
        if (stamp && noted_++ < noted_metas_max) {
            outcome.note = note_meta(place.id, *stamp, text, began_ns_);
        }
        take_if_wanted(place, std::move(meta.value()), std::move(text), outcome);
    }

    void take_if_wanted(const Place& place, Meta meta, std::string text, Outcome& outcome) const {
        if (request_.wanted && !request_.wanted(meta)) {
            return;
        }
        outcome.session = std::make_unique<ScannedSession>(
            ScannedSession{std::move(meta), place.directory(), {}});
        if (request_.keep_text == KeepText::yes) {
            outcome.session->text = std::move(text);
        }
    }

    const ScanRequest& request_;
    const std::vector<Place> places_;  // newest first, as the rows of an index
    std::vector<Outcome> outcomes_;
    std::vector<Reader> readers_;
    std::size_t done_ = 0;
    const std::int64_t began_ns_ = file_clock_ns();
    std::atomic<std::size_t> noted_{0};
    std::atomic<bool> index_is_damaged_{false};
};

}  // namespace

SessionScan scan_sessions(const ScanRequest& request) {
    SessionScan scan;
    Scan sessions(request, find_places(request, scan.skipped));
    sessions.run();
    sessions.collect(scan);
    return scan;
}

void name_skipped(std::span<const SkippedSession> skipped, const Surroundings& surroundings) {
    for (const SkippedSession& session :
         skipped.first(std::min(skipped.size(), skipped_named_max))) {
        static_cast<void>(complain(
            surroundings,
            ExitCode::ok,
            "skipped \"" + session.directory + "\": " + session.why.context
                + "; see agent-relay verify \"" + session.directory + "\""));
    }
    if (skipped.size() > skipped_named_max) {
        static_cast<void>(complain(
            surroundings,
            ExitCode::ok,
            "skipped " + std::to_string(skipped.size() - skipped_named_max)
                + " more sessions; see agent-relay verify"));
    }
}

}  // namespace relay::cli
