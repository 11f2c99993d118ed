// SPDX-License-Identifier: Apache-2.0
#include "cli/search_plan.hpp"

#include "cli/index_notes.hpp"
#include "cli/known_names.hpp"
#include "cli/side_by_side.hpp"
#include "layout/input_file.hpp"
#include "layout/session_paths.hpp"

#include <fcntl.h>

#include <algorithm>
#include <optional>
#include <span>

namespace relay::cli {

namespace {

using layout::Errc;
using layout::Error;
using layout::InputDirectory;
using layout::Result;
using layout::Status;
using layout::Ulid;

// More than these are found as fast by looking through everything.
constexpr std::size_t turns_max = 20'000;
constexpr std::size_t sessions_a_thread = 1024;

// What the index says of the sessions of one directory.
struct Knowledge {
    std::vector<TextRow> rows;  // newest first
    TurnsByNumber turns;
};

// Both are sorted, so that each session finds its row by going on from the last.
std::vector<const TextRow*> match_rows(std::span<const Ulid> ids, std::span<const TextRow> rows) {
    std::vector<const TextRow*> matched(ids.size(), nullptr);
    std::size_t row = 0;
    for (std::size_t item = 0; item < ids.size(); ++item) {
        while (row < rows.size() && rows[row].id > ids[item]) {
            ++row;
        }
        if (row < rows.size() && rows[row].id == ids[item]) {
            matched[item] = &rows[row];
        }
    }
    return matched;
}

// Takes away the rows of sessions whose turns/ changed since.
void drop_changed(
    const std::string& sessions_directory,
    std::span<const Ulid> ids,
    std::vector<const TextRow*>& rows) {
    const Result<InputDirectory> directory =
        InputDirectory::open(AT_FDCWD, sessions_directory, InputDirectory::Links::follow);
    const std::string below = "/" + std::string(layout::turns_directory);
    const std::size_t workers = worker_count(ids.size(), sessions_a_thread);
    const std::size_t share = (ids.size() + workers - 1) / workers;
    side_by_side(workers, workers, [&](std::size_t, std::size_t part) {
        const std::size_t end = std::min(ids.size(), (part + 1) * share);
        for (std::size_t item = part * share; item < end; ++item) {
            if (rows[item] != nullptr
                && (!directory.ok()
                    || FileStamp::of(directory.value().descriptor(), ids[item].text() + below)
                           != rows[item]->stamp)) {
                rows[item] = nullptr;
            }
        }
    });
}

std::vector<Ulid> keep_needed(
    const std::string& sessions_directory,
    const std::vector<Ulid>& ids,
    const Knowledge& knowledge,
    SearchPlan& plan) {
    std::vector<const TextRow*> rows = match_rows(ids, knowledge.rows);
    drop_changed(sessions_directory, ids, rows);
    std::vector<Ulid> kept;
    for (std::size_t item = 0; item < ids.size(); ++item) {
        if (rows[item] == nullptr) {
            kept.push_back(ids[item]);
            plan.unknown.emplace_back(sessions_directory, ids[item]);
            continue;
        }
        const auto turns = knowledge.turns.find(rows[item]->number);
        if (turns != knowledge.turns.end()) {
            kept.push_back(ids[item]);
            plan.turns[sessions_directory + "/" + ids[item].text()] = turns->second;
        }
    }
    return kept;
}

class IndexQuestion {
public:
    IndexQuestion(const std::string& index_directory, const std::vector<std::string>& words)
        : index_directory_(index_directory) {
        const std::optional<std::string> query = gram_query(words);
        if (!query || index_directory.empty()) {
            return;
        }
        Result<IndexFile> file = IndexFile::open(index_directory, Database::Access::read);
        if (!file.ok()) {
            give_up(file.error());
            return;
        }
        file_.emplace(std::move(file.value()));
        // One state of the index for this and what follows: a session that is noted anew meanwhile gets a number
        // that these turns do not have.
        if (const Status begun = file_->database().run("BEGIN"); !begun.ok()) {
            give_up(begun.error());
            return;
        }
        const Status asked = SessionIndex(file_->database()).turns_with(*query, turns_max, turns_);
        if (!asked.ok()) {
            give_up(asked.error());
        }
    }

    [[nodiscard]] std::optional<Knowledge> knowledge_of(const std::string& sessions_directory) {
        if (!file_) {
            return std::nullopt;
        }
        Result<std::vector<TextRow>> rows =
            SessionIndex(file_->database()).texts(sessions_directory);
        if (!rows.ok()) {
            give_up(rows.error());
            return std::nullopt;
        }
        return Knowledge{std::move(rows.value()), turns_};
    }

private:
    void give_up(const Error& why) {
        file_.reset();
        if (why.code == Errc::corrupt) {
            discard_index(index_directory_);
        }
    }

    const std::string& index_directory_;
    std::optional<IndexFile> file_;
    TurnsByNumber turns_;
};

}  // namespace

SearchPlan plan_search(
    const std::string& index_directory,
    const std::vector<std::string>& words,
    const std::vector<std::string>& sessions_directories) {
    SearchPlan plan;
    IndexQuestion question(index_directory, words);
    for (const std::string& directory : sessions_directories) {
        Result<std::vector<Ulid>> ids = list_with_index(index_directory, directory);
        if (ids.ok()) {
            plan.in_stores += ids.value().size();
            const std::optional<Knowledge> knowledge = question.knowledge_of(directory);
            if (knowledge) {
                ids = keep_needed(directory, ids.value(), *knowledge, plan);
            }
        }
        plan.sessions.insert_or_assign(directory, std::move(ids));
    }
    return plan;
}

void note_unknown(const std::string& index_directory, const SearchPlan& plan) {
    IndexNotes notes;
    GramCollector collector;
    const std::int64_t now_ns = file_clock_ns();
    const std::size_t count = std::min(plan.unknown.size(), noted_texts_max);
    for (const auto& [directory, id] : std::span(plan.unknown).first(count)) {
        std::optional<NotedText> note = note_text(directory, id, collector, now_ns);
        if (note) {
            notes.texts[directory].push_back(std::move(*note));
        }
    }
    leave_notes(index_directory, notes, IfMissing::leave);
}

}  // namespace relay::cli
