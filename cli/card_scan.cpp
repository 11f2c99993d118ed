// SPDX-License-Identifier: Apache-2.0
#include "cli/card_scan.hpp"

#include "cli/known_names.hpp"
#include "cli/side_by_side.hpp"
#include "layout/input_file.hpp"
#include "layout/meta_skim.hpp"
#include "layout/session_paths.hpp"

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

namespace relay::cli {

namespace {

using layout::Errc;
using layout::InputDirectory;
using layout::Meta;
using layout::Result;
using layout::Status;

constexpr std::size_t places_a_block =
    1024;  // one question to the index, some milliseconds of work
constexpr std::size_t first_round = 256;

// A piece of a block's bytes.
struct Piece {
    std::size_t begin = 0;
    std::size_t size = 0;
};

// What became of one place that was read.
struct Outcome {
    bool known = false;
    bool wanted = false;
    Piece card;
    Piece document;
};

// Places side by side that one thread looks at.
struct Block {
    std::size_t begin = 0;
    std::vector<Outcome> outcomes;
    std::string bytes;
    std::vector<SkippedSession> skipped;
    std::vector<std::pair<std::size_t, NotedMeta>> notes;  // by place
};

// What one thread needs.
struct Reader {
    layout::MetaSkimmer skimmer;
    std::optional<IndexFile> index;
    bool without_index = false;
};

class Scan {
public:
    Scan(const CardRequest& request, std::vector<SessionPlace> places)
        : request_(request),
          places_(std::move(places)),
          readers_(worker_count(places_.size(), first_round)) {
        for (const std::string& directory : request.sessions_directories) {
            directories_.push_back(
                InputDirectory::open(AT_FDCWD, directory, InputDirectory::Links::follow));
        }
    }

    // Until there are enough, in rounds that grow: most who want few find them among the newest.
    void run() {
        const bool all = request_.sessions_max >= places_.size();
        std::size_t round = all ? places_.size() : first_round;
        std::size_t done = 0;
        while (done < places_.size() && found_ < request_.sessions_max) {
            const std::size_t end = done + std::min(round, places_.size() - done);
            const std::size_t first = blocks_.size();
            for (; done < end; done += std::min(places_a_block, end - done)) {
                Block& block = blocks_.emplace_back();
                block.begin = done;
                block.outcomes.resize(std::min(places_a_block, end - done));
            }
            const std::span<Block> blocks = std::span(blocks_).subspan(first);
            side_by_side(
                blocks.size(),
                std::min(readers_.size(), blocks.size()),
                [&](std::size_t worker, std::size_t at) { look_at(blocks[at], readers_[worker]); });
            round *= 2;
        }
        readers_.clear();  // nobody removes what is open
        if (index_is_damaged_) {
            discard_index(request_.index_directory);
        }
    }

    void collect(CardScan& scan) {
        scan.in_stores = places_.size();
        scan.sessions.reserve(std::min<std::size_t>(found_, request_.sessions_max));
        scan.bytes.reserve(blocks_.size());  // what lies there does not move
        for (Block& block : blocks_) {
            const std::string_view bytes = scan.bytes.emplace_back(std::move(block.bytes));
            for (std::size_t item = 0; item < block.outcomes.size(); ++item) {
                const Outcome& outcome = block.outcomes[item];
                if (outcome.wanted && scan.sessions.size() < request_.sessions_max) {
                    scan.sessions.push_back(
                        {places_[block.begin + item],
                         bytes.substr(outcome.card.begin, outcome.card.size),
                         bytes.substr(outcome.document.begin, outcome.document.size)});
                }
            }
            std::move(block.skipped.begin(), block.skipped.end(), std::back_inserter(scan.skipped));
            for (auto& [at, note] : block.notes) {
                scan.notes.metas[*places_[at].sessions_directory].push_back(std::move(note));
            }
        }
    }

private:
    void look_at(Block& block, Reader& reader) {
        ask_index(block, reader);
        for (std::size_t item = 0; item < block.outcomes.size(); ++item) {
            if (!block.outcomes[item].known) {
                read_meta(block, item, reader);
            }
        }
        found_ += static_cast<std::size_t>(
            std::count_if(block.outcomes.begin(), block.outcomes.end(), [](const Outcome& one) {
                return one.wanted;
            }));
    }

    // Leaves to the files what it does not know for sure.
    void ask_index(Block& block, Reader& reader) {
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
        for (std::size_t at = 0; at < directories_.size() && asked.ok(); ++at) {
            asked = ask_index_of(at, block, reader);
        }
        if (!asked.ok()) {
            reader.index.reset();
            reader.without_index = true;
            if (asked.error().code == Errc::corrupt) {
                index_is_damaged_ = true;
            }
        }
    }

    Status ask_index_of(std::size_t store, Block& block, Reader& reader) {
        if (!directories_[store].ok()) {
            return layout::Done{};
        }
        const std::string& directory = request_.sessions_directories[store];
        const int sessions = directories_[store].value().descriptor();
        const std::span<const SessionPlace> places =
            std::span(places_).subspan(block.begin, block.outcomes.size());
        std::size_t item = 0;
        return SessionIndex(reader.index->database())
            .metas(
                directory,
                places.front().id,
                places.back().id,
                request_.documents == Documents::yes,
                [&](const MetaRow& row) {
                    while (item < places.size()
                           && (places[item].id > row.id
                               || (places[item].id == row.id
                                   && places[item].sessions_directory != &directory))) {
                        ++item;
                    }
                    if (item < places.size() && places[item].id == row.id
                        && (request_.documents == Documents::no || !row.document.empty())
                        && FileStamp::of(
                               sessions, row.id.text() + "/" + std::string(layout::meta_file))
                               == row.stamp) {
                        take(block, item, row.card, row.document);
                    }
                });
    }

    void read_meta(Block& block, std::size_t item, Reader& reader) {
        const SessionPlace& place = places_[block.begin + item];
        const std::string directory = place.directory();
        std::optional<FileStamp> stamp;
        if (!request_.index_directory.empty() && noted_ < noted_metas_max) {
            stamp = FileStamp::of(AT_FDCWD, directory + "/" + std::string(layout::meta_file));
        }
        std::string text;
        const Result<Meta> meta = reader.skimmer.skim_session(directory, text);
        if (!meta.ok()) {
            block.skipped.push_back({directory, meta.error()});
            return;
        }
        if (meta.value().id != place.id) {
            block.skipped.push_back(
                {directory,
                 {Errc::corrupt, 0, "meta.json is that of session " + meta.value().id.text()}});
            return;
        }
        if (stamp && noted_++ < noted_metas_max) {
            if (auto note = note_meta(meta.value(), *stamp, text, began_ns_)) {
                block.notes.emplace_back(block.begin + item, std::move(*note));
            }
        }
        take(
            block,
            item,
            encode_card(meta.value()),
            request_.documents == Documents::yes ? layout::minified_json(text) : "");
    }

    void
    take(Block& block, std::size_t item, std::string_view bytes, std::string_view document) const {
        const std::optional<SessionCard> card = decode_card(bytes);
        Outcome& outcome = block.outcomes[item];
        outcome.known = card.has_value();
        outcome.wanted = card && (!request_.wanted || request_.wanted(*card));
        if (outcome.wanted) {
            outcome.card = {block.bytes.size(), bytes.size()};
            block.bytes += bytes;
            outcome.document = {block.bytes.size(), document.size()};
            block.bytes += document;
        }
    }

    const CardRequest& request_;
    const std::vector<SessionPlace> places_;  // newest first, as the rows of an index
    std::vector<Result<InputDirectory>> directories_;
    std::vector<Block> blocks_;
    std::vector<Reader> readers_;
    const std::int64_t began_ns_ = file_clock_ns();
    std::atomic<std::size_t> found_{0};
    std::atomic<std::size_t> noted_{0};
    std::atomic<bool> index_is_damaged_{false};
};

}  // namespace

CardScan scan_cards(const CardRequest& request) {
    CardScan scan;
    Scan cards(
        request,
        find_places(
            request.sessions_directories,
            [&request](const std::string& directory) {
                return list_with_index(request.index_directory, directory);
            },
            scan.skipped));
    cards.run();
    cards.collect(scan);
    return scan;
}

}  // namespace relay::cli
